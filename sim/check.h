/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h: an adversary for the production engine. A seed makes a cluster that does everything the
 * capability allows and nobody likes (orders, delays, refusals, short rings, leaders that are
 * preempted) and a program for each PE; whatever becomes visible is checked at once.
 *
 * Checked: a signal is never visible before its puts, each signal exactly once, a SET of growing
 * values never regresses, everything ends, and a source may be overwritten after quiet.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim/platform.h"

struct prs_mode;

#define SIM_CHECK_PES   8
#define SIM_CHECK_STEPS 24 /* of a PE */

enum sim_check_kind {
    SIM_CHECK_PUT_SIGNAL,
    SIM_CHECK_GROUP,   /* puts; then, when the leader runs, a fence and their signals */
    SIM_CHECK_VECTOR,  /* the same, its signals as one */
    SIM_CHECK_COUNTER, /* a fence, and a SET of a growing value */
    SIM_CHECK_KINDS
};

struct sim_check_step {
    uint8_t kind, target, members;
    bool adds;        /* its signals are ADDs, where the fabric can carry them: others SETs */
    bool is_left_out; /* by the search for a smaller schedule */
    uint32_t delay_ns, preempted_ns;
};

struct sim_check {
    enum perseus_ordering ordering;
    const struct prs_mode *mode; /* NULL: the ordering's own */
    bool ordered, fence;         /* what the fabric grants, on each lane */
    uint32_t immediate_bits;
    uint32_t lanes; /* to a peer; 0: one */
    uint64_t seed;
    const struct prs_log *log;
    struct sim_check_step steps[SIM_CHECK_PES][SIM_CHECK_STEPS];
    char why[160]; /* after a failure */
    uint64_t operations;
    uint64_t seen[SIM_CHECK_KINDS]; /* signals and counters that became visible, in order */
};

/* Every mode, on the fabrics that can keep it, on one lane and on several. */
extern const struct sim_check sim_check_cases[];
extern const uint32_t sim_check_cases_count;

/* The steps of a seed. */
void sim_check_plan(struct sim_check *check);
/* Runs what is not left out. NULL: all is well; else what is broken, in check->why. */
const char *sim_check_run(struct sim_check *check);
/* After a failure: leaves out every step without which it still fails. Returns how many
 * are left. */
uint32_t sim_check_shrink(struct sim_check *check);

#endif
