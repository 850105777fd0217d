/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handlers.h: the program's signal handlers, kept while libfabric does what may replace them.
 *
 * Seen to: loading it (the constructor of libinfinipath takes six signals, a crash then ends with
 * exit code 1), and opening an endpoint of shm (which would clean up behind a killed process; shm.h
 * does that without signals).
 */
#ifndef PRS_LIBFABRIC_PROVIDER_HANDLERS_H
#define PRS_LIBFABRIC_PROVIDER_HANDLERS_H

#include <signal.h>
#include <stdbool.h>

struct prs_lf_handlers {
    struct sigaction action[_NSIG];
    bool is_known[_NSIG]; /* the C library keeps two for itself */
};

/* From here to give_back of the same thread, one at a time in the process; do not nest. */
void prs_lf_handlers_keep(struct prs_lf_handlers *out);
void prs_lf_handlers_give_back(const struct prs_lf_handlers *kept);

#endif
