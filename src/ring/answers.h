/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring/answers.h: completion slots for producers that share no atomics with the proxy, a GPU's.
 *
 * layout.h says how a ticket is made. This is the proxy's side: it answers, and nothing else. A
 * ticket that nobody holds does no harm beyond its slot: who waits there looks for its own ticket.
 */
#ifndef PRS_RING_ANSWERS_H
#define PRS_RING_ANSWERS_H

#include <stdbool.h>

#include <perseus/status.h>

#include <perseus/device/layout.h>

struct prs_answers;

/* `slots`: memory of `count` (1 to PRS_ANSWERS_MAX) answers that the producers read too; kept, set
 * to "nothing answered yet". */
enum perseus_status prs_answers_create(struct prs_answer *slots, uint32_t count,
                                       struct prs_answers **out);
void prs_answers_destroy(struct prs_answers *answers); /* NULL allowed */

/* The proxy alone calls these. */
bool prs_answers_valid(const struct prs_answers *answers, uint32_t ticket);
void prs_answer_give(struct prs_answers *answers, uint32_t ticket, enum perseus_status status,
                     uint64_t result);

#endif
