/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pmix_start.h: PMIx_Init without its setenv.
 *
 * Where the runtime names a security mode, PMIx_Init adds PMIX_MCA_psec to the environment of the
 * process, whose other threads may be reading it: setenv frees the array that getenv walks. It adds
 * nothing that is there already. So for the time of the call `environ` is a copy that has the
 * variable, and then what it was.
 */
#ifndef PRS_BOOTSTRAP_PMIX_START_H
#define PRS_BOOTSTRAP_PMIX_START_H

#include <pmix.h>

pmix_status_t prs_pmix_start(pmix_proc_t *out_self);

#endif
