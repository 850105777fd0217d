/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap/star.h: the hub's protocol as a state machine: no sockets, no clock, no thread.
 *
 * The hub (or a fuzzer) owns the connections. It adds one, reads into the place prs_star_input
 * names, writes what prs_star_output names, and tells what happened. After any call, slots with
 * something to do are in the list that prs_star_next_dirty empties.
 *
 * A rank joins once (bootstrap/proof.h), gathers in rounds, and leaves with BYE. The first failure
 * of the job (a rank is lost, missing past a deadline, or calls with other bytes) is told to every
 * member and ends gathering for good. Strangers (connections that have not proven the secret) are
 * at most PRS_STAR_STRANGERS, hold a fixed amount of memory, and live at most PRS_STAR_HELLO_MS.
 *
 * Memory: O(size) and the contributions of one round, at most two rounds while one is sent.
 */
#ifndef PRS_BOOTSTRAP_STAR_H
#define PRS_BOOTSTRAP_STAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

enum { PRS_STAR_STRANGERS = 64, PRS_STAR_HELLO_MS = 5000, PRS_STAR_STRANGER = -1 };

struct prs_star;

/* secret: PRS_PROOF_SECRET_BYTES bytes, copied. */
enum perseus_status prs_star_create(int size, const unsigned char *secret,
                                    const struct prs_log *log, struct prs_star **out);
void prs_star_destroy(struct prs_star *star); /* NULL allowed */
/* Slots are numbers below this. */
int prs_star_slots(const struct prs_star *star);

/* A new connection: of a rank that its socket proves, once per rank and before any stranger, or
 * PRS_STAR_STRANGER. `name` is for messages and copied. Drops the oldest stranger if there are too
 * many. The dirty list must be empty. */
int prs_star_add(struct prs_star *star, int rank, const char *name);
/* The connection ended or failed; the slot may be used again. */
void prs_star_closed(struct prs_star *star, int slot);

/* Where to read what comes in on the slot; returns how many bytes at most (never 0). */
size_t prs_star_input(struct prs_star *star, int slot, unsigned char **out_at);
void prs_star_received(struct prs_star *star, int slot, size_t n);
/* What to write; returns how many bytes, 0: nothing now. */
size_t prs_star_output(struct prs_star *star, int slot, const unsigned char **out_at);
void prs_star_sent(struct prs_star *star, int slot, size_t n);
/* Write what is left of the output, read no more, then close. */
bool prs_star_closing(const struct prs_star *star, int slot);

/* Sets the time and acts on deadlines that have passed. Returns the next one, or UINT64_MAX. */
uint64_t prs_star_tick(struct prs_star *star, uint64_t now_ns);
/* A slot with new output or newly closing, or -1. */
int prs_star_next_dirty(struct prs_star *star);

/* The rank died, as its launcher knows. */
void prs_star_report_death(struct prs_star *star, int rank);
/* Says BYE to every member and closes. */
void prs_star_finish(struct prs_star *star);

/* Gathering has ended for good, see above. */
bool prs_star_has_failed(const struct prs_star *star);
/* The rank whose loss that was, or -1. */
int prs_star_first_lost(const struct prs_star *star);
/* Some output is not written yet. */
bool prs_star_owes(const struct prs_star *star);
/* Every rank has joined at some time: nobody else is welcome. */
bool prs_star_is_complete(const struct prs_star *star);
/* The rank is gone, with BYE or without. */
bool prs_star_is_gone(const struct prs_star *star, int rank);
/* Every rank is gone. */
bool prs_star_is_over(const struct prs_star *star);

#endif
