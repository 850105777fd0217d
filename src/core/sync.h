/* SPDX-License-Identifier: Apache-2.0 */
/* sync.h: the fence as other files need it. */
#ifndef PRS_CORE_SYNC_H
#define PRS_CORE_SYNC_H

#include "core/pe.h"

/* The fence of perseus_fence_pe and, with PRS_DESC_ALL_PEERS, of perseus_fence. Local targets need
 * none: what is done to them is done, and their signals are stored with release. */
enum perseus_status prs_fence_post(struct perseus_pe *pe, uint32_t peer);

#endif
