/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pes.h: a job whose PEs are threads of the test, joined by a hub as `perseus run` joins processes.
 * Every PE runs the same body; bodies use CHECK, not cmocka's assertions.
 *
 *     struct pes pes;
 *     pes_init(&pes, 2, &attr);
 *     pes_run(&pes, body, &context);
 *     pes_finish(&pes);
 */
#ifndef TESTS_CORE_PES_H
#define TESTS_CORE_PES_H

#include "core/messages.h"
#include "core/pe.h"

#define PES_MAX 16

struct pes;
typedef void (*pes_body)(struct pes *pes, struct perseus_pe *pe, void *context);

struct pes {
    int size;
    struct perseus_attr attr[PES_MAX]; /* change one before run to give a PE its own */
    enum perseus_status opened[PES_MAX], finalized[PES_MAX];
    bool aborted[PES_MAX]; /* a body sets it after perseus_abort: no finalize then */
    struct messages messages[PES_MAX];
    pthread_barrier_t gate; /* a meeting point of bodies that does not touch Perseus */
};

/* `attr` for every PE, with the job's own messages. */
void pes_init(struct pes *pes, int size, const struct perseus_attr *attr);
/* Opens every PE, runs the body where that went well, finalizes. Says OK for opened and finalized
 * unless the PE had another status. */
void pes_run(struct pes *pes, pes_body body, void *context);
/* pes_run, and every PE was opened and finalized with OK. */
void pes_run_well(struct pes *pes, pes_body body, void *context);
void pes_finish(struct pes *pes);

/* Everything at once for the usual case. */
void pes_with(int size, const struct perseus_attr *attr, pes_body body, void *context);

/* The same in every ordering mode. With a seed other than 0 the fabric reorders and refuses what it
 * may, and grants no order but in fifo, which stands on it. */
void pes_with_every_mode(int size, const struct perseus_attr *attr, unsigned seed, pes_body body,
                         void *context);

/* All bodies meet here. */
void pes_meet(struct pes *pes);

/* The attributes of a small job over loopback: pes_per_node k, 0 for one node. */
struct perseus_attr pes_attr(int pes_per_node);

#endif
