/* SPDX-License-Identifier: Apache-2.0 */
/* skip.h: how a test program says that what it needs is not here. */
#ifndef TESTS_SUPPORT_SKIP_H
#define TESTS_SUPPORT_SKIP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return it from main: ctest counts it as a skip, or as a failure where PERSEUS_NO_SKIP=1. */
static inline int test_skip(const char *why)
{
    const char *no_skip = getenv("PERSEUS_NO_SKIP");
    fprintf(stderr, "skipped: %s\n", why);
    return no_skip != NULL && strcmp(no_skip, "1") == 0 ? 1 : 77;
}

#endif
