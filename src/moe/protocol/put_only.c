/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads without signals; one quiet when all are out; then the signals, which need no order. */
#include "moe/layer.h"

static enum perseus_status end(struct perseus_moe *moe, struct prs_round *round,
                               enum prs_moe_way way)
{
    enum perseus_status status = perseus_quiet(moe->pe);
    if (status != PERSEUS_OK) { /* quiet does not know whose delivery is missing */
        char text[PRS_ROUND_TEXT_BYTES];
        prs_round_describe(moe, text);
        return prs_fail(prs_moe_log(moe), status, "%s, and not all that was put is delivered",
                        text);
    }
    return prs_bulk_signal(moe, round, way);
}

const struct prs_moe_protocol prs_moe_put_only = {
    .in_flight_max = PRS_MOE_HALVES,
    .send = prs_protocol_put,
    .end = end,
};

static enum perseus_status end_unordered(struct perseus_moe *moe, struct prs_round *round,
                                         enum prs_moe_way way)
{
    return prs_bulk_signal(moe, round, way);
}

const struct prs_moe_protocol prs_moe_put_only_unordered = {
    .in_flight_max = 1,
    .send = prs_protocol_put,
    .end = end_unordered,
};
