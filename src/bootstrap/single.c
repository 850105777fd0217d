/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/wire.h"

static enum perseus_status prs_single_allgather(struct prs_bootstrap *bootstrap, const void *send,
                                                void *recv, size_t bytes)
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

static enum perseus_status prs_single_health(struct prs_bootstrap *bootstrap, int *out_rank)
{
    (void)bootstrap;
    (void)out_rank;
    return PERSEUS_OK;
}

static void prs_single_close(struct prs_bootstrap *bootstrap)
{
    free(bootstrap);
}

static const struct prs_bootstrap_ops prs_single_ops = {
    .name = "single",
    .allgather = prs_single_allgather,
    .health = prs_single_health,
    .close = prs_single_close,
    .abandon = prs_single_close,
};

enum perseus_status prs_bootstrap_open_single(struct prs_bootstrap **out)
{
    struct prs_bootstrap *bootstrap = malloc(sizeof *bootstrap);
    if (bootstrap == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    *bootstrap = (struct prs_bootstrap){.ops = &prs_single_ops, .rank = 0, .size = 1};
    *out = bootstrap;
    return PERSEUS_OK;
}
