/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: the tests of one provider as a program: `test PROVIDER`. Skips (77) where libfabric
 * does not have it. */
#ifndef PRS_TESTS_LIBFABRIC_PROGRAM_H
#define PRS_TESTS_LIBFABRIC_PROGRAM_H

#include <stdbool.h>

/* The provider under test. */
const char *program_provider(void);

/* Whether to go on; otherwise main returns *out_code. */
bool program_start(int argc, char **argv, int *out_code);

/* A cmocka group teardown that fails if this process has left a file in /dev/shm. */
int program_check_leftovers(void **state);

/* How many of /dev/shm's files process `pid` made (0: any process). */
int program_count_files(long pid);

#endif
