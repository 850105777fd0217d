/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/thread.h: the thread that loops prs_proxy_step, with a back-off that behaves on a laptop:
 * spin, then yield, then sleep. */
#ifndef PRS_PROXY_THREAD_H
#define PRS_PROXY_THREAD_H

#include "proxy/proxy.h"

struct prs_proxy_thread;

/* sleep_us: 0, the thread never sleeps. Where the fabric wakes sleepers (caps.wakes) a sleep lasts
 * until something comes, or sleep_max_us, or with nothing in flight a hundred times as long. */
struct prs_backoff {
    uint32_t spin_steps, yield_steps;
    uint32_t sleep_us;     /* a sleep while work is in flight, and the first one of an idle proxy */
    uint32_t sleep_max_us; /* an idle proxy's sleeps double up to it; below sleep_us: they do not */
    int cpu;               /* pin to it, -1: do not pin */
};

enum perseus_status prs_proxy_thread_start(struct prs_proxy *proxy,
                                           const struct prs_backoff *backoff,
                                           const struct prs_log *log,
                                           struct prs_proxy_thread **out);
/* Stops after the current step and joins. NULL allowed. */
void prs_proxy_thread_stop(struct prs_proxy_thread *thread);
/* Producers call it after a push, so that a sleeping proxy wakes at once. Cheap when it does not
 * sleep. */
void prs_proxy_thread_wake(struct prs_proxy_thread *thread);
/*
 * Waiting for what the proxy brings: an arrival, a completion, room in the ring. Any thread, as
 *
 *     for (;;) {
 *         turn = prs_proxy_thread_expect(thread);
 *         if (it is there) break;
 *         prs_proxy_thread_await(thread, turn, limit_ns);
 *     }
 *
 * await returns once the proxy may have brought something after expect, or at the limit. What other
 * PEs of this node write themselves it does not tell; hence the limit.
 */
uint32_t prs_proxy_thread_expect(struct prs_proxy_thread *thread);
void prs_proxy_thread_await(struct prs_proxy_thread *thread, uint32_t turn, uint64_t limit_ns);
/* The error that ended the loop, or OK while it runs. */
enum perseus_status prs_proxy_thread_status(const struct prs_proxy_thread *thread);

#endif
