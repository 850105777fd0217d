/* bootstrap/hub.h: the launcher's side of the local bootstrap: one socket pair per rank, a star.
 * Used by `perseus run`, which forks the PEs, and by tests that run PEs as threads. */
#ifndef PRS_BOOTSTRAP_HUB_H
#define PRS_BOOTSTRAP_HUB_H

#include "bootstrap/bootstrap.h"

struct prs_hub;

enum perseus_status prs_hub_create(int size, const struct prs_log *log, struct prs_hub **out);
void prs_hub_destroy(struct prs_hub *hub); /* NULL allowed */
/* The PE's end of rank's socket pair; the caller owns it afterwards (close-on-exec is set). */
int prs_hub_take_fd(struct prs_hub *hub, int rank);
/* Serves for at most timeout_ms; returns OK when there is nothing left to serve (all PEs closed),
 * AGAIN when the time is over. A PE that closed without saying goodbye is told to the others. */
enum perseus_status prs_hub_serve(struct prs_hub *hub, uint32_t timeout_ms);
/* Tells every remaining PE that `rank` died (the launcher saw its exit). */
void prs_hub_report_death(struct prs_hub *hub, int rank);

#endif
