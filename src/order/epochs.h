/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/epochs.h: how many operations of each epoch are still open, in a bounded window of epochs.
 *
 * The same object serves one peer (fences, deferred, drains) and the whole endpoint (quiet).
 * Counting per epoch, not in total, is what makes it right when completions come back in any order.
 */
#ifndef PRS_ORDER_EPOCHS_H
#define PRS_ORDER_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#define PRS_EPOCHS_OPEN_MAX 512 /* power of two */

struct prs_epochs {
    uint64_t current; /* new operations belong to it */
    uint64_t oldest;  /* every epoch below it has completed; oldest <= current */
    uint32_t open;    /* operations in all epochs */
    bool used;        /* the current epoch had an operation, completed or not */
    uint16_t count[PRS_EPOCHS_OPEN_MAX];
};

/* Epoch numbers start at 1, so that "after epoch 0" is always true. 64 bits never wrap. */
static inline void prs_epochs_init(struct prs_epochs *epochs)
{
    *epochs = (struct prs_epochs){.current = 1, .oldest = 1};
}

/* Whether every operation of the epochs below `after` has completed. */
static inline bool prs_epochs_passed(const struct prs_epochs *epochs, uint64_t after)
{
    return epochs->oldest >= after;
}

static inline bool prs_epochs_can_end(const struct prs_epochs *epochs)
{
    return epochs->current - epochs->oldest < PRS_EPOCHS_OPEN_MAX - 1;
}

/* Ends the current epoch; what comes next is told from what came before by `after` the result.
 * Ending an epoch without operations costs nothing. Needs prs_epochs_can_end. */
uint64_t prs_epochs_end(struct prs_epochs *epochs);

/* Opens an operation in the current epoch and returns that epoch. */
uint64_t prs_epochs_add(struct prs_epochs *epochs);
/* Closes an operation of `epoch`. */
void prs_epochs_done(struct prs_epochs *epochs, uint64_t epoch);

#endif
