/* SPDX-License-Identifier: Apache-2.0 */
#include "route/sequence.h"

#define BIT(class) (1u << (class))
#define PUTS       (BIT(PRS_CLASS_PUT) | BIT(PRS_CLASS_FLAG))
#define SETS       (BIT(PRS_CLASS_SET) | BIT(PRS_CLASS_SIGNALED))
#define EVERYTHING (BIT(PRS_CLASS_COUNT) - 1)

static const uint32_t natural_order = PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_SET | PRS_ORDER_SET_SET;

bool prs_sequence_is_natural(enum perseus_ordering mode, const struct prs_caps *caps, bool records)
{
    return mode == PERSEUS_ORDERING_FIFO && !records &&
           (caps->order & natural_order) == natural_order;
}

/* A 64-bit Bloom filter: neighbouring words, as signal arrays are, never collide. */
static uint64_t word_bit(uint64_t word)
{
    return UINT64_C(1) << (word / 8 % 64);
}

void prs_sequence_rules_init(struct prs_sequence_rules *rules, enum perseus_ordering mode,
                             const struct prs_caps *caps, bool records, bool host_fences)
{
    bool set_set = (caps->order & PRS_ORDER_SET_SET) != 0;
    bool set_put = set_set && !records;
    *rules = (struct prs_sequence_rules){.words_kept = false};
    if (host_fences) {
        for (int class = 0; class < PRS_CLASS_COUNT; class ++) {
            rules->kept[class] = EVERYTHING;
        }
        return;
    }
    rules->words_kept = true; /* by the rules for whole classes below */
    /* Bulk data is ordered against flags, not against other bulk data, unless the fabric does
     * so. */
    rules->kept[PRS_CLASS_PUT] = BIT(PRS_CLASS_PUT) | BIT(PRS_CLASS_SIGNALED) |
                                 (caps->order & PRS_ORDER_PUT_PUT ? PUTS : 0u) |
                                 (set_put ? SETS : 0u);
    rules->kept[PRS_CLASS_SIGNALED] = rules->kept[PRS_CLASS_PUT];
    rules->kept[PRS_CLASS_SET] = set_set || records ? BIT(PRS_CLASS_SET) : 0;
    if (prs_sequence_is_natural(mode, caps, records)) {
        rules->kept[PRS_CLASS_FLAG] = PUTS | SETS;
        rules->kept[PRS_CLASS_SET] = PUTS | SETS;
    }
}

bool prs_sequence_needs_fence(const struct prs_sequence_rules *rules,
                              const struct prs_sequence *sequence, enum prs_class what,
                              uint64_t word)
{
    if ((sequence->open & ~rules->kept[what]) != 0) {
        return true;
    }
    bool on_word = what == PRS_CLASS_SET || what == PRS_CLASS_ATOMIC;
    return on_word && !rules->words_kept && (sequence->words & word_bit(word)) != 0;
}

void prs_sequence_add(struct prs_sequence *sequence, enum prs_class what, uint64_t word)
{
    sequence->open |= (uint8_t)BIT(what);
    if (what != PRS_CLASS_PUT && what != PRS_CLASS_FLAG) {
        sequence->words |= word_bit(word);
    }
}
