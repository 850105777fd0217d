/* SPDX-License-Identifier: Apache-2.0 */
#include "order/immediate.h"

#include <sodium/crypto_shorthash.h>
#include <string.h>

#define KIND_BITS    2u
#define NUMBER_BITS  7u
#define CODE_BITS    8u
#define VALUE_BITS   10u
#define SLOT_BITS    10u
#define RIDING_BITS  (1u + VALUE_BITS + SLOT_BITS)
#define TAG_BITS_MAX 48u

_Static_assert(1u << NUMBER_BITS == PRS_NUMBERS, "numbers fit their bits");
_Static_assert(crypto_shorthash_KEYBYTES == PRS_SECRET_BYTES, "a secret is a key");
_Static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "a tag comes from one word");

static uint64_t low_mask(uint32_t bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static uint32_t body_bits(enum prs_immediate_kind kind)
{
    switch (kind) {
    case PRS_IMMEDIATE_ANSWER:
        return CODE_BITS;
    case PRS_IMMEDIATE_RIDING:
        return RIDING_BITS;
    case PRS_IMMEDIATE_PUT:
    case PRS_IMMEDIATE_RECORD:
        break;
    }
    return 0;
}

/* How many bits stand below the tag. */
static uint32_t claim_bits(const struct prs_immediate_layout *layout, enum prs_immediate_kind kind)
{
    return KIND_BITS + layout->rank_bits + NUMBER_BITS + body_bits(kind);
}

bool prs_immediate_layout(uint32_t bits, uint32_t n_peers, struct prs_immediate_layout *out)
{
    uint32_t rank_bits = 1;
    while (low_mask(rank_bits) + 1 < n_peers) {
        rank_bits++;
    }
    *out = (struct prs_immediate_layout){.bits = bits, .rank_bits = rank_bits};
    out->rides = bits >= claim_bits(out, PRS_IMMEDIATE_RIDING) + PRS_TAG_BITS_MIN;
    return bits >= claim_bits(out, PRS_IMMEDIATE_ANSWER);
}

static uint64_t tag_of(const struct prs_immediate_layout *layout, const unsigned char *secret,
                       uint32_t target, uint64_t number, uint64_t claim, uint32_t at)
{
    uint32_t bits = layout->bits - at < TAG_BITS_MAX ? layout->bits - at : TAG_BITS_MAX;
    const uint64_t message[3] = {claim, number, target};
    unsigned char hash[crypto_shorthash_BYTES];
    crypto_shorthash(hash, (const unsigned char *)message, sizeof message, secret);
    uint64_t word;
    memcpy(&word, hash, sizeof word);
    return bits == 0 ? 0 : (word & low_mask(bits)) << at;
}

uint64_t prs_immediate_encode(const struct prs_immediate_layout *layout,
                              const unsigned char *secret, uint32_t target,
                              const struct prs_immediate *what)
{
    uint32_t at = KIND_BITS + layout->rank_bits;
    uint64_t claim = (uint64_t)what->kind | (uint64_t)what->sender << KIND_BITS;
    claim |= what->number % PRS_NUMBERS << at;
    at += NUMBER_BITS;
    if (what->kind == PRS_IMMEDIATE_ANSWER) {
        claim |= (uint64_t)what->code << at;
    } else if (what->kind == PRS_IMMEDIATE_RIDING) {
        claim |= (uint64_t)(what->op == PERSEUS_SIGNAL_ADD) << at;
        claim |= what->value << (at + 1);
        claim |= what->slot << (at + 1 + VALUE_BITS);
    }
    at += body_bits(what->kind);
    return claim | tag_of(layout, secret, target, what->number, claim, at);
}

void prs_immediate_decode(const struct prs_immediate_layout *layout, uint64_t bits,
                          struct prs_immediate *out)
{
    uint32_t at = KIND_BITS + layout->rank_bits;
    *out = (struct prs_immediate){.kind = (enum prs_immediate_kind)(bits & low_mask(KIND_BITS)),
                                  .sender =
                                      (uint32_t)(bits >> KIND_BITS & low_mask(layout->rank_bits)),
                                  .number = bits >> at & low_mask(NUMBER_BITS)};
    at += NUMBER_BITS;
    if (out->kind == PRS_IMMEDIATE_ANSWER) {
        out->code = (uint32_t)(bits >> at & low_mask(CODE_BITS));
    } else if (out->kind == PRS_IMMEDIATE_RIDING) {
        out->op = bits >> at & 1 ? PERSEUS_SIGNAL_ADD : PERSEUS_SIGNAL_SET;
        out->value = bits >> (at + 1) & low_mask(VALUE_BITS);
        out->slot = bits >> (at + 1 + VALUE_BITS) & low_mask(SLOT_BITS);
    }
}

bool prs_immediate_is_genuine(const struct prs_immediate_layout *layout,
                              const unsigned char *secret, uint32_t target, uint64_t number,
                              uint64_t bits)
{
    enum prs_immediate_kind kind = (enum prs_immediate_kind)(bits & low_mask(KIND_BITS));
    if (kind == PRS_IMMEDIATE_RIDING && !layout->rides) {
        return false;
    }
    uint32_t at = claim_bits(layout, kind);
    uint64_t claim = bits & low_mask(at);
    return bits == (claim | tag_of(layout, secret, target, number, claim, at));
}

/* ---- riding signals ---- */

/* Slots on both sides of the base ride: words are written upwards and downwards alike. */
static uint64_t first_slot(const struct prs_riding_base *base)
{
    uint64_t half = UINT64_C(1) << (SLOT_BITS - 1);
    return base->slot < half ? 0 : base->slot - half;
}

bool prs_riding_fits(const struct prs_riding_base *base, uint64_t value, uint64_t slot)
{
    return value - base->value <= low_mask(VALUE_BITS) &&
           slot - first_slot(base) <= low_mask(SLOT_BITS);
}

void prs_riding_encode(const struct prs_riding_base *base, uint64_t value, uint64_t slot,
                       struct prs_immediate *out)
{
    out->value = value - base->value;
    out->slot = slot - first_slot(base);
}

void prs_riding_decode(const struct prs_riding_base *base, const struct prs_immediate *what,
                       uint64_t *out_value, uint64_t *out_slot)
{
    *out_value = base->value + what->value;
    *out_slot = first_slot(base) + what->slot;
}
