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

/* Whether `order` (enum prs_order_bits) keeps `later` behind `earlier` on one (peer, lane) without
 * a flag. Atomics ride in the ordered stream only if PUT_ATOMIC is granted; gets never do. */
bool prs_order_kept(uint32_t order, enum prs_op_kind earlier, enum prs_op_kind later);

#endif
