/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/op.h"

static bool is_atomic(enum prs_op_kind kind)
{
    return kind == PRS_OP_ATOMIC || kind == PRS_OP_ATOMIC_FETCH;
}

bool prs_op_is_word(const struct prs_op *op)
{
    return op->kind == PRS_OP_SIGNAL_SET || is_atomic(op->kind);
}

/* These three return what is wrong, or NULL. */
static const char *flags_wrong(const struct prs_caps *caps, const struct prs_op *op)
{
    if ((op->flags & ~(PRS_OP_MORE | PRS_OP_UNTRACKED)) == 0) {
        return NULL;
    }
    if (op->flags & PRS_OP_FENCE && caps->fence_scope == PRS_FENCE_NONE) {
        return "the fence flag is not granted";
    }
    if (op->flags & (PRS_OP_INLINE | PRS_OP_IMMEDIATE) && op->kind != PRS_OP_PUT) {
        return "only a put can be inline or carry an immediate";
    }
    if (op->flags & PRS_OP_INLINE &&
        (op->bytes > caps->inline_bytes || (op->inline_source == NULL && op->bytes > 0))) {
        return "the inline source is missing or larger than inline_bytes";
    }
    if (op->flags & PRS_OP_EARLY && (op->kind != PRS_OP_PUT || !caps->completes_early)) {
        return "only a put can complete early, and only where that is granted";
    }
    if (op->flags & PRS_OP_IMMEDIATE &&
        (caps->immediate_bits == 0 ||
         (caps->immediate_bits < 64 && op->immediate >> caps->immediate_bits != 0))) {
        return "the immediate is wider than immediate_bits";
    }
    return NULL;
}

static const char *atomic_wrong(const struct prs_caps *caps, const struct prs_op *op)
{
    uint32_t granted = op->kind == PRS_OP_ATOMIC ? caps->atomics : caps->atomics_fetch;
    if (op->atomic > PERSEUS_ATOMIC_COMPARE_SWAP || (granted >> op->atomic & 1) == 0) {
        return "this atomic is not granted";
    }
    return NULL;
}

static const char *place_wrong(const struct prs_caps *caps, const struct prs_op *op, uint64_t bytes)
{
    if (bytes > caps->message_bytes_max) {
        return "more bytes than message_bytes_max";
    }
    if (bytes == 0 && (op->kind != PRS_OP_PUT || (op->flags & PRS_OP_IMMEDIATE) == 0)) {
        return "nothing to move";
    }
    if (op->remote == NULL || op->remote->peer != op->peer) {
        return "the remote region is not one of this peer";
    }
    if (!prs_op_fits(op->remote_offset, bytes, op->remote->bytes)) {
        return "it leaves the remote region";
    }
    bool has_local = (op->kind == PRS_OP_PUT && (op->flags & PRS_OP_INLINE) == 0 && bytes > 0) ||
                     op->kind == PRS_OP_GET || op->kind == PRS_OP_ATOMIC_FETCH;
    if (has_local &&
        (op->local == NULL || !prs_op_fits(op->local_offset, bytes, op->local->bytes))) {
        return "it leaves the local region, or there is none";
    }
    return NULL;
}

static const char *op_wrong(const struct prs_caps *caps, const struct prs_op *op)
{
    if (op->kind >= PRS_OP_KIND_COUNT) {
        return "unknown kind";
    }
    if (op->lane >= caps->lanes_max) {
        return "no such lane";
    }
    const char *wrong = flags_wrong(caps, op);
    if (wrong == NULL && is_atomic(op->kind)) {
        wrong = atomic_wrong(caps, op);
    }
    if (wrong != NULL) {
        return wrong;
    }
    bool is_word = prs_op_is_word(op);
    if (is_word && op->remote_offset % 8 != 0) {
        return "a word must be 8-byte aligned";
    }
    return place_wrong(caps, op, is_word ? 8 : op->bytes);
}

/* Apart, so that the check itself needs no room for a message: every operation takes it. */
static __attribute__((noinline)) enum perseus_status refuse(const struct prs_caps *caps,
                                                            const struct prs_op *op,
                                                            const char *wrong,
                                                            const struct prs_log *log)
{
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                    "%s refused an operation of kind %u to peer %u: %s (%llu bytes at remote "
                    "offset %llu, flags %u, lane %u); the caller must stay within the fabric's "
                    "caps and regions",
                    caps->provider, op->kind, op->peer, wrong, (unsigned long long)op->bytes,
                    (unsigned long long)op->remote_offset, op->flags, op->lane);
}

enum perseus_status prs_op_check(const struct prs_endpoint *endpoint, const struct prs_op *op,
                                 const struct prs_log *log)
{
    const struct prs_caps *caps = &endpoint->fabric->caps;
    const char *wrong = op_wrong(caps, op);
    return wrong == NULL ? PERSEUS_OK : refuse(caps, op, wrong, log);
}

enum perseus_status prs_op_check_word(const struct prs_op *op, bool is_region_aligned,
                                      const struct prs_log *log)
{
    if (is_region_aligned || !prs_op_is_word(op)) {
        return PERSEUS_OK;
    }
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                    "words need a region that begins on an 8-byte boundary, and this one of "
                    "peer %u does not",
                    op->peer);
}

bool prs_order_kept(uint32_t order, enum prs_op_kind earlier, enum prs_op_kind later)
{
    if (earlier == PRS_OP_GET || later == PRS_OP_GET || (is_atomic(earlier) && !is_atomic(later))) {
        return false;
    }
    uint32_t needed = is_atomic(later) ? PRS_ORDER_PUT_ATOMIC : 0;
    if (earlier != PRS_OP_PUT) {
        needed |= PRS_ORDER_SET_SET;
    } else if (later == PRS_OP_PUT) {
        needed |= PRS_ORDER_PUT_PUT;
    } else if (later == PRS_OP_SIGNAL_SET) {
        needed |= PRS_ORDER_PUT_SET;
    }
    return (order & needed) == needed;
}
