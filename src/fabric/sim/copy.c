/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: what an operation does to memory. One thread drives all, so plain copies do; words are
 * stored as others may read them with acquire. */
#include <string.h>

#include "fabric/sim/internal.h"
#include "fabric/word.h"

/* How many of `bytes` from `offset` are backed. */
static uint64_t backed(const struct prs_sim_region *region, uint64_t offset, uint64_t bytes)
{
    uint64_t left = offset < region->backed ? region->backed - offset : 0;
    return bytes < left ? bytes : left;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void put(struct prs_sim_op *op, unsigned char *target, uint64_t room)
{
    bool is_inline = (op->flags & PRS_OP_INLINE) != 0;
    const unsigned char *source = is_inline ? op->copied : op->local;
    uint64_t bytes = least(room, is_inline ? op->bytes : op->local_bytes);
    if (bytes > 0) {
        memmove(target, source, bytes); /* a PE may put onto itself */
    }
}

static void get(struct prs_sim_op *op, const unsigned char *target, uint64_t room)
{
    uint64_t bytes = least(room, op->local_bytes);
    if (bytes > 0) {
        memmove(op->local, target, bytes);
    }
}

static void apply(struct prs_sim_op *op, unsigned char *target)
{
    uint64_t old = prs_word_apply((uint64_t *)(void *)target, op->atomic, op->value, op->compare);
    if (op->kind == PRS_OP_ATOMIC_FETCH && op->local_bytes >= sizeof old) {
        memcpy(op->local, &old, sizeof old);
    }
}

void prs_sim_move(struct prs_sim_op *op, struct prs_sim_region *target)
{
    bool is_word = op->kind != PRS_OP_PUT && op->kind != PRS_OP_GET;
    uint64_t wanted = is_word ? 8 : op->bytes;
    uint64_t room = backed(target, op->remote_offset, wanted);
    if (room == 0 || (is_word && room < wanted)) {
        return;
    }
    unsigned char *at = target->base.base + op->remote_offset;
    switch ((enum prs_op_kind)op->kind) {
    case PRS_OP_PUT:
        put(op, at, room);
        break;
    case PRS_OP_GET:
        get(op, at, room);
        return;
    case PRS_OP_SIGNAL_SET:
        /* Release pairs with the waiter's acquire load: it sees every earlier put. */
        __atomic_store_n((uint64_t *)(void *)at, op->value, __ATOMIC_RELEASE);
        break;
    case PRS_OP_ATOMIC:
    case PRS_OP_ATOMIC_FETCH:
        apply(op, at);
        break;
    case PRS_OP_KIND_COUNT:
        return; /* refused by post */
    }
    if (target->written != NULL) {
        target->written(target->context, op->remote_offset, room);
    }
}
