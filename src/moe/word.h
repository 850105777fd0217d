/* SPDX-License-Identifier: Apache-2.0 */
/*
 * word.h: what a signal word of the layer says, in 64 bits.
 *
 *   tag    6  which forward: 1 + forward % 63; 0 is no word. The watcher takes every word out of
 *             its slot, and the next one is only sent behind the answer: so a slot never holds an
 *             old word, but one that a provider has stored twice (watch.c), and another tag than
 *             the forward's is another program's.
 *   whole  1  this signal stands for all tiles of the expert, not for its own only
 *   rows  17  rows for the expert in this forward, over all tiles
 *   base  20  dispatch: the first of these rows at the source; the answer goes back there
 *   place 20  dispatch: the first of these rows in the source's room at the destination
 */
#ifndef PRS_MOE_WORD_H
#define PRS_MOE_WORD_H

#include <perseus/moe.h>

#define PRS_MOE_WORD_TAGS 63
#define PRS_MOE_WORD_NONE 0 /* the tag of an empty slot */

struct prs_moe_word {
    uint32_t tag;
    bool whole;
    uint32_t rows, base, place;
};

static inline uint32_t prs_moe_word_tag(uint64_t forward)
{
    return (uint32_t)(forward % PRS_MOE_WORD_TAGS) + 1;
}

static inline uint64_t prs_moe_word_pack(struct prs_moe_word word)
{
    return (uint64_t)word.tag << 58 | (uint64_t)word.whole << 57 | (uint64_t)word.rows << 40 |
           (uint64_t)word.base << 20 | word.place;
}

static inline struct prs_moe_word prs_moe_word_unpack(uint64_t bits)
{
    return (struct prs_moe_word){.tag = (uint32_t)(bits >> 58),
                                 .whole = (bits >> 57 & 1) != 0,
                                 .rows = (uint32_t)(bits >> 40) & 0x1ffff,
                                 .base = (uint32_t)(bits >> 20) & 0xfffff,
                                 .place = (uint32_t)bits & 0xfffff};
}

#endif
