/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fabric/loopback/loopback.h"
#include "fabric/word.h"

#define PRS_WORDWISE_BYTES_MAX 1024

/* Short aligned messages are words that other threads may be watching (a vector of signals). */
static bool is_wordwise(const unsigned char *target, uint64_t bytes)
{
    return ((uintptr_t)target | bytes) % 8 == 0 && bytes <= PRS_WORDWISE_BYTES_MAX;
}

static void copy_in(unsigned char *target, const unsigned char *source, uint64_t bytes)
{
    if (!is_wordwise(target, bytes)) {
        memmove(target, source, bytes); /* a PE may put onto itself */
        return;
    }
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t word;
        memcpy(&word, source + at, 8);
        /* Release pairs with the target's acquire loads: who sees this word sees those before. */
        __atomic_store_n((uint64_t *)(void *)(target + at), word, __ATOMIC_RELEASE);
    }
}

static void get(unsigned char *local, const unsigned char *target, uint64_t bytes)
{
    if (!is_wordwise(target, bytes)) {
        memmove(local, target, bytes);
        return;
    }
    for (uint64_t at = 0; at < bytes; at += 8) {
        /* Acquire pairs with the release stores and atomics of whoever writes these words. */
        uint64_t word =
            __atomic_load_n((const uint64_t *)(const void *)(target + at), __ATOMIC_ACQUIRE);
        memcpy(local + at, &word, 8);
    }
}

/* What a NIC does whose atomics are not the CPU's: atomic among initiators (the caller holds the
 * port's words), and a CPU's write between the two steps is lost. */
static uint64_t apply_incoherent(uint64_t *word, const struct prs_op *op)
{
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
    /* Release pairs with the waiter's acquire load. */
    __atomic_store_n(word, prs_word_result(op->atomic, old, op->value, op->compare),
                     __ATOMIC_RELEASE);
    return old;
}

void prs_loopback_move(const struct prs_loopback_op *queued, unsigned char *target,
                       bool is_coherent)
{
    const struct prs_op *op = &queued->op;
    uint64_t *word = (uint64_t *)(void *)target; /* aligned where it is used as one: see post */
    uint64_t old;
    switch ((enum prs_op_kind)op->kind) {
    case PRS_OP_PUT:
        copy_in(target, op->flags & PRS_OP_INLINE ? queued->copied : queued->local, op->bytes);
        break;
    case PRS_OP_GET:
        get(queued->local, target, op->bytes);
        break;
    case PRS_OP_SIGNAL_SET:
        /* Release pairs with the waiter's acquire load: it sees every earlier put. */
        __atomic_store_n(word, op->value, __ATOMIC_RELEASE);
        break;
    case PRS_OP_ATOMIC:
    case PRS_OP_ATOMIC_FETCH:
        old = is_coherent ? prs_word_apply(word, op->atomic, op->value, op->compare)
                          : apply_incoherent(word, op);
        if (op->kind == PRS_OP_ATOMIC_FETCH) {
            memcpy(queued->local, &old, 8);
        }
        break;
    case PRS_OP_KIND_COUNT:
        break; /* refused by post */
    }
}
