/* SPDX-License-Identifier: Apache-2.0 */
/* caps.h: what a provider granted, in Perseus's words. Pure: a fi_info in, a prs_caps out. */
#ifndef PRS_LIBFABRIC_PROVIDER_CAPS_H
#define PRS_LIBFABRIC_PROVIDER_CAPS_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>

#include "fabric/fabric.h"

/* Room for an inline source, a signal's value or an atomic's operands. One way for all providers:
 * FI_INJECT would do the same copy, with a limit that differs from provider to provider (for writes
 * also from inject_size), and is not everywhere allowed together with a completion level. Those
 * that put small writes into the work request do so without the flag. */
#define PRS_LF_SLOT_BYTES 256

/* Everything but the atomics. */
void prs_lf_caps_fill(const struct fi_info *info, struct prs_caps *out);

/* Asks the domain for each atomic; FI_ATOMIC in the caps promises none (net grants it and then
 * refuses every operation). */
void prs_lf_caps_atomics(const struct fi_info *info, struct fid_domain *domain,
                         struct prs_caps *caps);

/* libfabric's operation for an enum perseus_atomic. */
enum fi_op prs_lf_atomic_op(uint8_t atomic);

#endif
