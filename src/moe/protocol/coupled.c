/* SPDX-License-Identifier: Apache-2.0 */
/* Every transfer is a put with signal: the paper's vanilla. */
#include "moe/layer.h"

const struct prs_moe_protocol prs_moe_coupled = {
    .in_flight_max = PRS_MOE_HALVES,
    .send = prs_protocol_put_signal,
};
