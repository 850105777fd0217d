/* SPDX-License-Identifier: Apache-2.0 */
/* last_error.h: the calling thread's last error of a call that has no PE to keep it (a start that
 * failed, a unique id that could not be made). Like dlerror: thread-local, because there is no
 * context that it could belong to. */
#ifndef PRS_BASE_LAST_ERROR_H
#define PRS_BASE_LAST_ERROR_H

#include "base/log.h"

/* "" if there was none. Valid until the thread's next one. */
const char *prs_last_error(void);
void prs_last_error_set(const char *text);
/* A log that keeps the last error so, and nothing else. */
struct prs_log prs_last_error_log(void);

#endif
