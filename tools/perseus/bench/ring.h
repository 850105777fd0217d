/* SPDX-License-Identifier: Apache-2.0 */
/* bench/ring.h: the insides of `perseus bench ring`: two queues behind one set of calls, and one
 * timed run of producers and a consumer through either. */
#ifndef PRS_TOOLS_BENCH_RING_H
#define PRS_TOOLS_BENCH_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/ring.h"

#define PRS_RING_PRODUCERS_MAX 64

/* Called for every descriptor that comes out, in order. */
typedef void (*prs_ring_visit_fn)(void *context, const struct prs_desc *desc);

struct prs_ring_queue_ops {
    const char *name;
    void *(*create)(uint32_t slots); /* NULL when out of memory */
    void (*destroy)(void *queue);
    bool (*push)(void *queue, const struct prs_desc *desc); /* false: full */
    /* Takes out up to `batch` descriptors; returns how many. */
    uint32_t (*take)(void *queue, uint32_t batch, prs_ring_visit_fn visit, void *context);
};

/* The channel ring, used as the proxy uses it. */
extern const struct prs_ring_queue_ops prs_ring_queue_channel;
/* What one would write first: an array and a mutex, one lock per push and per take. */
extern const struct prs_ring_queue_ops prs_ring_queue_mutex;

struct prs_ring_run {
    const struct prs_ring_queue_ops *ops;
    uint32_t slots, producers, batch;
    double seconds;
};

struct prs_ring_outcome {
    double rate;     /* descriptors per second */
    uint64_t errors; /* lost, doubled, or out of their producer's order */
};

/* False after a message on stderr: no memory or no threads. */
bool prs_ring_run(const struct prs_ring_run *run, struct prs_ring_outcome *out);

#endif
