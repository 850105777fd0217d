/* SPDX-License-Identifier: Apache-2.0 */
/* providers.h: libfabric's providers that every machine has, and that promises are tested on. */
#ifndef TESTS_SUPPORT_PROVIDERS_H
#define TESTS_SUPPORT_PROVIDERS_H

#ifdef PERSEUS_HAVE_LIBFABRIC
static const char *const test_providers[] = {"tcp", "net", "sockets", "shm"};
#define TEST_PROVIDERS (sizeof test_providers / sizeof test_providers[0])
#else
static const char *const test_providers[] = {NULL};
#define TEST_PROVIDERS ((size_t)0)
#endif

#endif
