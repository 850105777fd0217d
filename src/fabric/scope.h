/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h: whether PEs can mean the same by an address (prs_caps.scope). */
#ifndef PRS_FABRIC_SCOPE_H
#define PRS_FABRIC_SCOPE_H

#include "base/log.h"

/* OK if PE 0's scope and that of `pe` are equal; else INVALID_ARGUMENT, with what to do. `provider`
 * need not end within its 64 bytes. */
enum perseus_status prs_scope_check(uint64_t first, uint64_t other, int pe, const char *provider,
                                    const struct prs_log *log);

#endif
