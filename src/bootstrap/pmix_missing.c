/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for pmix.c where PMIx was not there when Perseus was built. */
#include "bootstrap/bootstrap.h"

enum perseus_status prs_bootstrap_open_pmix(uint32_t timeout_ms, const struct prs_log *log,
                                            struct prs_bootstrap **out)
{
    (void)timeout_ms;
    (void)out;
    return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                    "started by mpirun or srun (PMIx), but this build has no PMIx: install "
                    "libpmix-dev and build again, or start with perseus run");
}
