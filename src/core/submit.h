/* SPDX-License-Identifier: Apache-2.0 */
/* submit.h: the caller's side of the channel: push with back-pressure, and wait for completion. For
 * PEs with a channel. */
#ifndef PRS_CORE_SUBMIT_H
#define PRS_CORE_SUBMIT_H

#include "core/pe.h"

/* All n descriptors in one piece, or none. A full ring blocks up to the PE's timeout. */
enum perseus_status prs_submit(struct perseus_pe *pe, const struct prs_desc *descs, uint32_t n);
/* With a ticket: returns when the request is complete. `what` names it in messages. After TIMEOUT
 * the request may still take effect until the next quiet. *out_result may be NULL. */
enum perseus_status prs_submit_and_wait(struct perseus_pe *pe, struct prs_desc desc,
                                        const char *what, uint64_t *out_result);

/* A PUT, GET or PUT_SIGNAL without ticket, in as many pieces as the fabric's longest message asks
 * for; blocking ones return when it is complete, and `what` names them in messages. */
enum perseus_status prs_submit_transfer(struct perseus_pe *pe, struct prs_desc desc,
                                        const char *what, bool is_blocking);
/* What was submitted before to `peer`, or to PRS_DESC_ALL_PEERS, comes before what is submitted
 * after. Local targets need none: what is done to them is done, and their signals are stored with
 * release. */
enum perseus_status prs_submit_fence(struct perseus_pe *pe, uint32_t peer);
/* Completes everything submitted before to `peer`, or to PRS_DESC_ALL_PEERS. */
enum perseus_status prs_submit_quiet(struct perseus_pe *pe, uint32_t peer, const char *what);

#endif
