/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: what every back end asks of an operation before it takes it, and what a granted order
 * means for a pair of operations. */
#ifndef PRS_FABRIC_OP_H
#define PRS_FABRIC_OP_H

#include "fabric/fabric.h"

static inline bool prs_op_fits(uint64_t offset, uint64_t bytes, uint64_t room)
{
    return offset <= room && bytes <= room - offset;
}

/* Whether it is what almost all are, and right: a put from a region, or a SIGNAL_SET, without flags
 * that need a grant. prs_op_check, which knows all kinds, costs several times as much. */
static inline bool prs_op_is_plain(const struct prs_caps *caps, const struct prs_op *op)
{
    uint64_t bytes = op->kind == PRS_OP_PUT ? op->bytes : 8;
    bool is_put = op->kind == PRS_OP_PUT && op->local != NULL &&
                  prs_op_fits(op->local_offset, bytes, op->local->bytes);
    bool is_set = op->kind == PRS_OP_SIGNAL_SET && op->remote_offset % 8 == 0;
    return (is_put || is_set) && (op->flags & ~(PRS_OP_MORE | PRS_OP_UNTRACKED)) == 0 &&
           op->lane < caps->lanes_max && bytes > 0 && bytes <= caps->message_bytes_max &&
           op->remote != NULL && op->remote->peer == op->peer &&
           prs_op_fits(op->remote_offset, bytes, op->remote->bytes);
}

/* INVALID_ARGUMENT, with a message, for an operation that the fabric's caps do not allow or that
 * leaves its regions. The peer's number is the back end's to check; a decorator calls it with its
 * own endpoint. */
enum perseus_status prs_op_check(const struct prs_endpoint *endpoint, const struct prs_op *op,
                                 const struct prs_log *log);

/* What else is asked of an operation on a word: that its region begins on an 8-byte boundary. */
enum perseus_status prs_op_check_word(const struct prs_op *op, bool is_region_aligned,
                                      const struct prs_log *log);
bool prs_op_is_word(const struct prs_op *op); /* neither put nor get */

/* Whether `order` (enum prs_order_bits) keeps `later` behind `earlier` on one (peer, lane) without
 * a flag. A bit promises what it says and no more: atomics stay behind earlier signals and atomics
 * if both PUT_ATOMIC and SET_SET are granted, but no bit holds a write behind an atomic, or orders
 * a get. */
bool prs_order_kept(uint32_t order, enum prs_op_kind earlier, enum prs_op_kind later);

#endif
