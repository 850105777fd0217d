/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: what a PE was asked to be: the caller's attributes, then the environment, then the
 * defaults, all checked. */
#ifndef PRS_CORE_JOB_SETTINGS_H
#define PRS_CORE_JOB_SETTINGS_H

#include "link/settings.h"
#include "proxy/thread.h"

#define PRS_HEAP_BYTES_MAX ((uint64_t)1 << 46) /* what an address space has room for */

#define PRS_STEPS_AUTO UINT32_MAX /* decided by prs_backoff_decide */

enum prs_pin { PRS_PIN_NONE, PRS_PIN_CPU, PRS_PIN_NUMA };

/* Texts belong to the caller's attributes or the environment: valid during init only. */
struct prs_settings {
    struct prs_link_settings link;
    size_t heap_bytes; /* whole pages */
    uint32_t ring_slots;
    uint32_t timeout_ms;
    uint32_t pes_per_node;
    struct prs_backoff backoff; /* backoff.cpu counts with PRS_PIN_CPU; steps may be AUTO */
    enum prs_pin pin;
};

/* `attr` may be NULL: the environment alone. */
enum perseus_status prs_settings_read(const struct perseus_attr *attr, const struct prs_log *log,
                                      struct prs_settings *out);

/* Fills steps that are AUTO: a proxy spins only where `pes` PEs have a CPU each and one for each
 * proxy among the `cpus` that they share; elsewhere it would spin in place of those that it waits
 * for. */
void prs_backoff_decide(struct prs_backoff *backoff, int pes, uint32_t cpus);

#endif
