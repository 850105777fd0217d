/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap/hub.h: the launcher's side of the local bootstrap: one socket pair per rank, a star.
 * Used by `perseus run`, which forks the PEs, by tests that run PEs as threads, and, with a
 * listening socket besides, by rank 0 of a tcp job. One thread at a time. */
#ifndef PRS_BOOTSTRAP_HUB_H
#define PRS_BOOTSTRAP_HUB_H

#include "bootstrap/bootstrap.h"

struct prs_hub;

enum perseus_status prs_hub_create(int size, const struct prs_log *log, struct prs_hub **out);
/* The hub of a tcp job, in the process of rank 0: every other rank comes through `listen_fd` (owned
 * on success) and proves `secret` (PRS_PROOF_SECRET_BYTES). It closes the listening socket when all
 * have joined, and ends when rank 0 is gone; what it still owes to others then gets linger_ms. */
enum perseus_status prs_hub_create_host(int size, int listen_fd, const unsigned char *secret,
                                        uint32_t linger_ms, const struct prs_log *log,
                                        struct prs_hub **out);
void prs_hub_destroy(struct prs_hub *hub); /* NULL allowed */
/* Makes rank's socket pair and returns the PE's end; the caller owns it (close-on-exec is set).
 * Once per rank. -1 after a message when there are no descriptors left. */
int prs_hub_take_fd(struct prs_hub *hub, int rank);
/* Serves for at most timeout_ms; returns OK when there is nothing left to serve (all PEs closed),
 * AGAIN when the time is over. A PE that closed without saying goodbye is told to the others. */
enum perseus_status prs_hub_serve(struct prs_hub *hub, uint32_t timeout_ms);
/* Tells every remaining PE that `rank` died (the launcher saw its exit). */
void prs_hub_report_death(struct prs_hub *hub, int rank);
/* The rank whose loss ended the job, or -1: the cause, when others have ended in consequence. */
int prs_hub_first_lost(const struct prs_hub *hub);

#endif
