/* SPDX-License-Identifier: Apache-2.0 */
/* ears.h: for tests of what the transport says: catches stderr, of child processes too. */
#ifndef EARS_H
#define EARS_H

#include "host.h"

#define FILE_3 "nvshmem_transport_libfabric.so.3"
#define FILE_4 "nvshmem_transport_libfabric.so.4"

struct ears {
    int saved, file;
};

void ears_open(struct ears *ears);
/* The number of the transport's lines among what was heard since; the text goes to `out`. */
int ears_close(struct ears *ears, char *out, size_t bytes);
int ears_count(const char *text, const char *words);

/* Runs a job that must not fail; returns and stores what ears_close does. */
int ears_run(const struct host_spec *spec, char *text, size_t bytes);
/* A body for it. */
void ears_nothing(struct host_pe *pe, void *argument);
/* No variable of Perseus or NVSHMEM, and the fabric libfabric. */
void ears_clean_environment(void);

#endif
