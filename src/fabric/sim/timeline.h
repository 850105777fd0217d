/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h: virtual time as a queue of things to happen. What is due at the same nanosecond
 * happens in the order it was added, so a run depends on nothing but its inputs. One thread.
 *
 * Room is reserved first, by whoever may have something in the queue, so that adding cannot fail
 * half-way through an event.
 */
#ifndef PRS_FABRIC_SIM_TIMELINE_H
#define PRS_FABRIC_SIM_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include <perseus/status.h>

struct prs_timeline;

typedef void (*prs_happen_fn)(void *context);

enum perseus_status prs_timeline_create(struct prs_timeline **out);
void prs_timeline_destroy(struct prs_timeline *timeline); /* NULL allowed; drops what is queued */

/* Room for n more at one time; OUT_OF_MEMORY: nothing changed. */
enum perseus_status prs_timeline_reserve(struct prs_timeline *timeline, uint32_t n);
void prs_timeline_give_back(struct prs_timeline *timeline, uint32_t n);

/* Calls happen(context) when the time is at_ns; a time that has passed means now, after all that is
 * queued for now. */
void prs_timeline_add(struct prs_timeline *timeline, uint64_t at_ns, prs_happen_fn happen,
                      void *context);

uint64_t prs_timeline_now_ns(const struct prs_timeline *timeline);
/* The next thing happens; false: there is none. Costs the same for any length of the queue. */
bool prs_timeline_step(struct prs_timeline *timeline);
/* All that is due by until_ns happens, and the time becomes until_ns if that is later. */
void prs_timeline_run_until(struct prs_timeline *timeline, uint64_t until_ns);
/* Things that have happened so far. */
uint64_t prs_timeline_count(const struct prs_timeline *timeline);

#endif
