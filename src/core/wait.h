/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.h: how the library waits: look, spin, then yield, then sleep, until a deadline, and never
 * longer than the job lives. Every 10 ms it asks whether the proxy and the peers are well.
 *
 *     struct prs_wait wait = prs_wait_begin(pe, timeout_ms);
 *     for (status = PERSEUS_OK; !condition; status = prs_wait_step(&wait)) {
 *         if (status != PERSEUS_OK) return prs_wait_fail(&wait, status, "...");
 *     }
 * So the condition is looked at once more after the deadline.
 */
#ifndef PRS_CORE_WAIT_H
#define PRS_CORE_WAIT_H

#include "core/pe.h"

struct prs_wait {
    struct perseus_pe *pe;
    uint32_t timeout_ms;
    uint64_t begin_ns, deadline_ns, next_check_ns;
    uint32_t steps;
    bool is_expecting; /* what the proxy brings after `turn` */
    uint32_t turn;
    int lost_pe; /* with PEER_LOST, -1 if unknown */
};

struct prs_wait prs_wait_begin(struct perseus_pe *pe, uint32_t timeout_ms);
/* Pauses a little. TIMEOUT, PEER_LOST, or the error that ended the proxy: give up. */
enum perseus_status prs_wait_step(struct prs_wait *wait);
/* Logs why the wait for `what` ended and returns `status`. */
enum perseus_status prs_wait_fail(const struct prs_wait *wait, enum perseus_status status,
                                  const char *what, ...) __attribute__((format(printf, 3, 4)));

#endif
