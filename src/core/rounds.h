/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rounds.h: the counting behind signal groups (paper section 4.1, algorithm 1), and nothing else:
 * n members arrive, the last one of a round leads, and rounds re-arm themselves.
 *
 * Why two sets of counters are enough: a member starts round r+1 after its own arrival in round r,
 * but round r+1 cannot become complete before the leader of round r, a member too, is back from
 * leading. So at most two rounds are open, one of each parity, and at most one is being led. A
 * member that would start round r+2 before round r was signaled is told AGAIN.
 *
 * Members may arrive from different threads; one member from one thread at a time.
 */
#ifndef PRS_CORE_ROUNDS_H
#define PRS_CORE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include <perseus/status.h>

struct prs_rounds;

enum perseus_status prs_rounds_create(uint32_t n_members, struct prs_rounds **out);
void prs_rounds_destroy(struct prs_rounds *rounds); /* NULL allowed */

/* Whether `member` may work on its next round; false is AGAIN. */
bool prs_rounds_may_enter(const struct prs_rounds *rounds, uint32_t member);
/* After a may_enter that was true. Whether the caller is the last arriver: then it leads. What
 * every member did before its arrival happens before this returns true. */
bool prs_rounds_arrive(struct prs_rounds *rounds, uint32_t member, uint64_t value);
/* The leader: the values of the round's arrivals, by member; until finish. */
const uint64_t *prs_rounds_values(const struct prs_rounds *rounds);
/* The leader, once the round is signaled. */
void prs_rounds_finish(struct prs_rounds *rounds);

#endif
