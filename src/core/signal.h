/* SPDX-License-Identifier: Apache-2.0 */
/* signal.h: signal words from checked arguments, for the public calls, signal groups and the
 * barrier. */
#ifndef PRS_CORE_SIGNAL_H
#define PRS_CORE_SIGNAL_H

#include "core/pe.h"

/* `offset` is the word's in the target's heap; the target is valid. Nonblocking, unordered. */
enum perseus_status prs_signal_post(struct perseus_pe *pe, uint64_t offset, uint64_t value,
                                    enum perseus_signal_op op, int target);
/* SETs `count` words from `offset` on. */
enum perseus_status prs_signal_post_vector(struct perseus_pe *pe, uint64_t offset,
                                           const uint64_t *values, size_t count, int target);
enum perseus_status prs_signal_check_op(const struct perseus_pe *pe, enum perseus_signal_op op);

#endif
