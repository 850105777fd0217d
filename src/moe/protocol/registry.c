/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/protocol.h"

#include "base/export.h"
#include "moe/layer.h"

const struct prs_moe_protocol *prs_moe_protocol_find(enum perseus_moe_protocol protocol)
{
    static const struct prs_moe_protocol *const protocols[PERSEUS_MOE_PROTOCOL_COUNT] = {
        [PERSEUS_MOE_COUPLED] = &prs_moe_coupled,
        [PERSEUS_MOE_DECOUPLED] = &prs_moe_decoupled,
        [PERSEUS_MOE_PUT_ONLY] = &prs_moe_put_only,
        [PERSEUS_MOE_COLLECTIVE] = &prs_moe_collective,
    };
    return protocols[protocol];
}

PRS_PUBLIC const char *perseus_moe_protocol_name(enum perseus_moe_protocol protocol)
{
    static const char *const names[PERSEUS_MOE_PROTOCOL_COUNT] = {
#define PRS_MOE_PROTOCOL_NAME(name, value, text) [value] = text,
        PERSEUS_MOE_PROTOCOL_MAP(PRS_MOE_PROTOCOL_NAME)
#undef PRS_MOE_PROTOCOL_NAME
    };
    return (unsigned)protocol < PERSEUS_MOE_PROTOCOL_COUNT ? names[protocol] : "unknown protocol";
}

enum perseus_status prs_protocol_put(struct perseus_moe *moe, const struct prs_round *round,
                                     const struct prs_moe_transfer *transfer)
{
    (void)round;
    return perseus_put_nbi(moe->pe, transfer->dst, transfer->src, transfer->bytes,
                           (int)transfer->pe);
}

enum perseus_status prs_protocol_put_signal(struct perseus_moe *moe, const struct prs_round *round,
                                            const struct prs_moe_transfer *transfer)
{
    (void)round;
    return perseus_put_signal_nbi(moe->pe, transfer->dst, transfer->src, transfer->bytes,
                                  transfer->signal, prs_moe_word_pack(transfer->word),
                                  PERSEUS_SIGNAL_SET, (int)transfer->pe);
}
