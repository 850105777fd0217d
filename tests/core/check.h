/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: an assertion for threads that are not cmocka's, and that must not return: says where and
 * what, and ends the test program. */
#ifndef TESTS_CORE_CHECK_H
#define TESTS_CORE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _Exit(1);                                                               \
        }                                                                           \
    } while (0)

/* For statuses: says what came instead. */
#define CHECK_STATUS(call, expected)                                          \
    do {                                                                      \
        enum perseus_status check_got = (call);                               \
        if (check_got != (expected)) {                                        \
            fprintf(stderr, "%s:%d: %s gave %s\n", __FILE__, __LINE__, #call, \
                    perseus_status_name(check_got));                          \
            _Exit(1);                                                         \
        }                                                                     \
    } while (0)
#define CHECK_OK(call) CHECK_STATUS(call, PERSEUS_OK)

#endif
