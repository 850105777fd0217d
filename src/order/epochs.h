/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/epochs.h: the open operations of one peer, or of a whole endpoint, by epoch.
 *
 * Open operations stand in a list in the order in which they were opened, so the epochs along it
 * never fall, and the first one tells which epochs have passed. Nothing is counted: that is what
 * makes it right when completions come back in any order, and it needs no room beyond the
 * operations themselves, however many epochs are open.
 */
#ifndef PRS_ORDER_EPOCHS_H
#define PRS_ORDER_EPOCHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prs_epoch_member { /* inside an open operation */
    struct prs_epoch_member *before, *behind;
    uint64_t epoch;
};

struct prs_epochs {
    uint64_t current;   /* new operations belong to it; from 1, 64 bits never wrap */
    uint64_t last_used; /* the newest epoch that had an operation, completed or not; 0: none */
    struct prs_epoch_member *oldest, *newest;
    uint32_t open;
};

static inline void prs_epochs_init(struct prs_epochs *epochs)
{
    *epochs = (struct prs_epochs){.current = 1};
}

/* Whether every operation of the epochs below `after` has completed. Always true for 0 and 1. */
static inline bool prs_epochs_passed(const struct prs_epochs *epochs, uint64_t after)
{
    return epochs->oldest == NULL || epochs->oldest->epoch >= after;
}

/* Ends the current epoch; what comes next is told from what came before by `after` the result.
 * Ending an epoch without operations costs nothing. */
uint64_t prs_epochs_end(struct prs_epochs *epochs);

/* Opens an operation in the current epoch. */
void prs_epochs_add(struct prs_epochs *epochs, struct prs_epoch_member *member);
/* It has completed. */
void prs_epochs_remove(struct prs_epochs *epochs, struct prs_epoch_member *member);

#endif
