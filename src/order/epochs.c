/* SPDX-License-Identifier: Apache-2.0 */
#include "order/epochs.h"

uint64_t prs_epochs_end(struct prs_epochs *epochs)
{
    if (epochs->last_used == epochs->current) {
        epochs->current++;
    }
    return epochs->current;
}

void prs_epochs_add(struct prs_epochs *epochs, struct prs_epoch_member *member)
{
    *member = (struct prs_epoch_member){.before = epochs->newest, .epoch = epochs->current};
    if (epochs->newest != NULL) {
        epochs->newest->behind = member;
    } else {
        epochs->oldest = member;
    }
    epochs->newest = member;
    epochs->last_used = epochs->current;
    epochs->open++;
}

void prs_epochs_remove(struct prs_epochs *epochs, struct prs_epoch_member *member)
{
    if (member->before != NULL) {
        member->before->behind = member->behind;
    } else {
        epochs->oldest = member->behind;
    }
    if (member->behind != NULL) {
        member->behind->before = member->before;
    } else {
        epochs->newest = member->before;
    }
    epochs->open--;
}
