/* SPDX-License-Identifier: Apache-2.0 */
#include "order/epochs.h"

static void epochs_advance_oldest(struct prs_epochs *epochs)
{
    while (epochs->oldest != epochs->current &&
           epochs->count[epochs->oldest % PRS_EPOCHS_OPEN_MAX] == 0) {
        epochs->oldest++;
    }
}

uint64_t prs_epochs_end(struct prs_epochs *epochs)
{
    if (epochs->used) {
        epochs->current++;
        epochs->count[epochs->current % PRS_EPOCHS_OPEN_MAX] = 0;
        epochs->used = false;
        epochs_advance_oldest(epochs);
    }
    return epochs->current;
}

uint64_t prs_epochs_add(struct prs_epochs *epochs)
{
    epochs->count[epochs->current % PRS_EPOCHS_OPEN_MAX]++;
    epochs->open++;
    epochs->used = true;
    return epochs->current;
}

void prs_epochs_done(struct prs_epochs *epochs, uint64_t epoch)
{
    epochs->count[epoch % PRS_EPOCHS_OPEN_MAX]--;
    epochs->open--;
    epochs_advance_oldest(epochs);
}
