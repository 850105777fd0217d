/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel by kernel, as frameworks do it: nothing is sent before all is staged, nobody looks before
 * all has arrived. */
#include "moe/layer.h"

static enum perseus_status send_later(struct perseus_moe *moe, const struct prs_round *round,
                                      const struct prs_moe_transfer *transfer)
{
    (void)moe, (void)round, (void)transfer;
    return PERSEUS_OK;
}

/* Puts and signals in any order, as nobody may look before the barrier, which completes them. */
static enum perseus_status end_unordered(struct perseus_moe *moe, struct prs_round *round,
                                         enum prs_moe_way way)
{
    enum perseus_status status = prs_bulk_put(moe, round, way);
    return status == PERSEUS_OK ? prs_bulk_signal(moe, round, way) : status;
}

static enum perseus_status end(struct perseus_moe *moe, struct prs_round *round,
                               enum prs_moe_way way)
{
    enum perseus_status status = end_unordered(moe, round, way);
    if (status == PERSEUS_OK) {
        status = perseus_barrier_all(moe->pe);
    }
    /* Release: with the acquire of the watcher. */
    atomic_store_explicit(&round->open[way], true, memory_order_release);
    return status;
}

const struct prs_moe_protocol prs_moe_collective = {
    .treats_all_alike = true,
    .opens_doors = true,
    .in_flight_max = 1,
    .send = send_later,
    .end = end,
};

const struct prs_moe_protocol prs_moe_collective_unordered = {
    .in_flight_max = 1,
    .send = send_later,
    .end = end_unordered,
};
