/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: what every back end asks of an operation before it takes it, and what a granted order
 * means for a pair of operations. */
#ifndef PRS_FABRIC_OP_H
#define PRS_FABRIC_OP_H

#include "fabric/fabric.h"

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
