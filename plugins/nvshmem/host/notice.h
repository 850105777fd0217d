/* SPDX-License-Identifier: Apache-2.0 */
/* notice.h: this transport's log, under the rules NVSHMEM's users know: errors and warnings to
 * stderr, more with NVSHMEM_DEBUG=INFO or TRACE. */
#ifndef PRS_NVSHMEM_NOTICE_H
#define PRS_NVSHMEM_NOTICE_H

#include "base/log.h"

struct prs_log prs_notice_log(void);

/* One warning that names every variable set by the user which has no effect here, if any. */
void prs_notice_environment(const struct prs_log *log);

#endif
