/* SPDX-License-Identifier: Apache-2.0 */
#include "ears.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int ears_count(const char *text, const char *words)
{
    int times = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        times++;
    }
    return times;
}

void ears_open(struct ears *ears)
{
    fflush(stderr);
    ears->saved = dup(2);
    ears->file = memfd_create("stderr", 0);
    fcntl(ears->file, F_SETFL, O_APPEND); /* several processes write */
    dup2(ears->file, 2);
}

int ears_close(struct ears *ears, char *out, size_t bytes)
{
    fflush(stderr);
    dup2(ears->saved, 2);
    close(ears->saved);
    ssize_t got = pread(ears->file, out, bytes - 1, 0);
    out[got > 0 ? got : 0] = '\0';
    close(ears->file);
    return ears_count(out, "perseus nvshmem:");
}

void ears_clean_environment(void)
{
    static const char *const names[] = {
        "PERSEUS_PROVIDER",           "PERSEUS_ORDERING", "PERSEUS_ADVERSARY", "PERSEUS_TIMEOUT_MS",
        "NVSHMEM_LIBFABRIC_PROVIDER", "NVSHMEM_DEBUG",    "NVSHMEM_QP_DEPTH",  "NVSHMEM_HCA_LIST"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    setenv("PERSEUS_FABRIC", "libfabric", 1);
}

int ears_run(const struct host_spec *spec, char *text, size_t bytes)
{
    struct ears ears;
    ears_open(&ears);
    int failures = host_run(spec);
    int lines = ears_close(&ears, text, bytes);
    if (failures != 0) {
        print_error("%s", text);
    }
    assert_int_equal(failures, 0);
    return lines;
}

void ears_nothing(struct host_pe *pe, void *argument)
{
    (void)pe;
    (void)argument;
}
