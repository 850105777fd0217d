/* SPDX-License-Identifier: Apache-2.0 */
#include "order/immediate.h"

#define KIND_BITS      3u
#define EPOCH_BITS     7u
#define REPLY_BITS     8u
#define VALUE_BITS_MAX 24u
#define SLOT_BITS_MAX  32u

static uint64_t low_mask(uint32_t bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

bool prs_immediate_layout(uint32_t bits, uint32_t n_peers, struct prs_immediate_layout *out)
{
    uint32_t rank_bits = 1;
    while (low_mask(rank_bits) + 1 < n_peers) {
        rank_bits++;
    }
    if (bits < KIND_BITS + rank_bits + REPLY_BITS) {
        return false;
    }
    uint32_t used = KIND_BITS + rank_bits + EPOCH_BITS + 1; /* 1: the op */
    uint32_t free_bits = bits > used ? bits - used : 0;
    uint32_t value_bits = free_bits / 2 < VALUE_BITS_MAX ? free_bits / 2 : VALUE_BITS_MAX;
    uint32_t slot_bits = free_bits - value_bits;
    out->rank_bits = rank_bits;
    out->value_bits = value_bits;
    out->slot_bits = slot_bits < SLOT_BITS_MAX ? slot_bits : SLOT_BITS_MAX;
    return true;
}

bool prs_immediate_fits(const struct prs_immediate_layout *layout, uint64_t value, uint64_t slot)
{
    return layout->slot_bits > 0 && value <= low_mask(layout->value_bits) &&
           slot <= low_mask(layout->slot_bits);
}

uint64_t prs_immediate_encode(const struct prs_immediate_layout *layout,
                              const struct prs_immediate *what)
{
    uint32_t at = KIND_BITS + layout->rank_bits;
    uint64_t bits = (uint64_t)what->kind | (uint64_t)what->sender << KIND_BITS;
    bits |= (uint64_t)what->epoch << at;
    if (what->kind == PRS_IMMEDIATE_SIGNAL) {
        at += EPOCH_BITS;
        bits |= (uint64_t)(what->op == PERSEUS_SIGNAL_ADD) << at;
        bits |= what->value << (at + 1);
        bits |= what->slot << (at + 1 + layout->value_bits);
    }
    return bits;
}

uint64_t prs_immediate_with_epoch(const struct prs_immediate_layout *layout, uint64_t bits,
                                  uint32_t epoch)
{
    return bits | (uint64_t)(epoch % PRS_IMMEDIATE_EPOCHS) << (KIND_BITS + layout->rank_bits);
}

bool prs_immediate_decode(const struct prs_immediate_layout *layout, uint64_t bits,
                          struct prs_immediate *out)
{
    uint32_t at = KIND_BITS + layout->rank_bits;
    out->kind = (enum prs_immediate_kind)(bits & low_mask(KIND_BITS));
    out->sender = (uint32_t)(bits >> KIND_BITS & low_mask(layout->rank_bits));
    out->epoch = (uint32_t)(bits >> at &
                            low_mask(out->kind == PRS_IMMEDIATE_REPLY ? REPLY_BITS : EPOCH_BITS));
    at += EPOCH_BITS;
    out->op = bits >> at & 1 ? PERSEUS_SIGNAL_ADD : PERSEUS_SIGNAL_SET;
    out->value = bits >> (at + 1) & low_mask(layout->value_bits);
    out->slot = layout->slot_bits == 0
                    ? 0
                    : bits >> (at + 1 + layout->value_bits) & low_mask(layout->slot_bits);
    return out->kind >= PRS_IMMEDIATE_PUT && out->kind <= PRS_IMMEDIATE_SIGNAL;
}
