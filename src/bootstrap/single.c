/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/wire.h"

static enum perseus_status allgather(struct prs_bootstrap *bootstrap, const void *send, void *recv,
                                     size_t bytes)
{
    (void)bootstrap;
    if (bytes > PRS_WIRE_GATHER_BYTES) {
        return PERSEUS_LIMIT;
    }
    if (bytes > 0) {
        memcpy(recv, send, bytes);
    }
    return PERSEUS_OK;
}

static enum perseus_status health(struct prs_bootstrap *bootstrap, int *out_rank)
{
    (void)bootstrap;
    (void)out_rank;
    return PERSEUS_OK;
}

static void leave(struct prs_bootstrap *bootstrap)
{
    free(bootstrap);
}

static const struct prs_bootstrap_ops single_ops = {
    .name = "single",
    .allgather = allgather,
    .health = health,
    .close = leave,
    .abandon = leave,
};

enum perseus_status prs_bootstrap_open_single(struct prs_bootstrap **out)
{
    struct prs_bootstrap *bootstrap = malloc(sizeof *bootstrap);
    if (bootstrap == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    *bootstrap = (struct prs_bootstrap){.ops = &single_ops, .rank = 0, .size = 1};
    *out = bootstrap;
    return PERSEUS_OK;
}
