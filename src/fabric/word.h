/* SPDX-License-Identifier: Apache-2.0 */
/* word.h: what the atomic operations do to a word of 8 bytes, or of 2 or 4. */
#ifndef PRS_FABRIC_WORD_H
#define PRS_FABRIC_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include <perseus/perseus.h>

#include "fabric/float_add.h"

/* Sums of floats, behind the codes of enum perseus_atomic: the target's CPU applies them as it does
 * what else no fabric grants. The API has none; NVSHMEM's programs do. */
enum prs_float_atomic {
    PRS_ATOMIC_ADD_HALF = PERSEUS_ATOMIC_COMPARE_SWAP + 1, /* 2 bytes */
    PRS_ATOMIC_ADD_FLOAT,                                  /* 4 */
    PRS_ATOMIC_ADD_DOUBLE                                  /* 8 */
};

/* The word's new value. */
static inline uint64_t prs_word_result(enum perseus_atomic op, uint64_t old, uint64_t operand,
                                       uint64_t compare)
{
    switch ((int)op) {
    case PERSEUS_ATOMIC_SET:
        return operand;
    case PERSEUS_ATOMIC_ADD:
        return old + operand;
    case PERSEUS_ATOMIC_AND:
        return old & operand;
    case PERSEUS_ATOMIC_OR:
        return old | operand;
    case PERSEUS_ATOMIC_XOR:
        return old ^ operand;
    case PERSEUS_ATOMIC_COMPARE_SWAP:
        return old == compare ? operand : old;
    case PRS_ATOMIC_ADD_HALF:
        return prs_add_halves(old, operand);
    case PRS_ATOMIC_ADD_FLOAT:
        return prs_add_floats(old, operand);
    case PRS_ATOMIC_ADD_DOUBLE:
        return prs_add_doubles(old, operand);
    }
    return old;
}

/* Applies it to an aligned word, atomic with every C11 atomic on that word; returns the value
 * before. Sequentially consistent: it pairs with the waiters' acquire loads and with the other
 * writers of the word. */
static inline uint64_t prs_word_apply(uint64_t *word, enum perseus_atomic op, uint64_t operand,
                                      uint64_t compare)
{
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &old, prs_word_result(op, old, operand, compare),
                                        true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        /* `old` is now what another writer left */
    }
    return old;
}

static inline bool prs_word_bytes_valid(uint64_t bytes)
{
    return bytes == 2 || bytes == 4 || bytes == 8;
}

/* Whether `op` is one that a word of `bytes` can have. */
static inline bool prs_word_op_fits(uint32_t op, uint64_t bytes)
{
    return op <= PERSEUS_ATOMIC_COMPARE_SWAP || (op == PRS_ATOMIC_ADD_HALF && bytes == 2) ||
           (op == PRS_ATOMIC_ADD_FLOAT && bytes == 4) ||
           (op == PRS_ATOMIC_ADD_DOUBLE && bytes == 8);
}

/* The same for a word of 2, 4 or 8 bytes; operand and compare count by their low bytes. */
static inline uint64_t prs_word_apply_sized(void *word, uint32_t bytes, enum perseus_atomic op,
                                            uint64_t operand, uint64_t compare)
{
    if (bytes == 8) {
        return prs_word_apply(word, op, operand, compare);
    }
    if (bytes == 4) {
        uint32_t *half = word, old = __atomic_load_n(half, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(
            half, &old, (uint32_t)prs_word_result(op, old, operand, (uint32_t)compare), true,
            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
            /* as above */
        }
        return old;
    }
    uint16_t *quarter = word, old = __atomic_load_n(quarter, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(
        quarter, &old, (uint16_t)prs_word_result(op, old, operand, (uint16_t)compare), true,
        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        /* as above */
    }
    return old;
}

#endif
