/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/answers.h"

#include <stdlib.h>

struct prs_answers {
    struct prs_answer *slots;
    uint32_t count;
};

enum perseus_status prs_answers_create(struct prs_answer *slots, uint32_t count,
                                       struct prs_answers **out)
{
    if (count == 0 || count > PRS_ANSWERS_MAX) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    struct prs_answers *answers = malloc(sizeof *answers);
    if (answers == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    *answers = (struct prs_answers){.slots = slots, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = (struct prs_answer){.ticket = PRS_DESC_NO_TICKET};
    }
    *out = answers;
    return PERSEUS_OK;
}

void prs_answers_destroy(struct prs_answers *answers)
{
    free(answers);
}

bool prs_answers_valid(const struct prs_answers *answers, uint32_t ticket)
{
    return ticket < PRS_DESC_TICKET_END && prs_answer_slot(ticket) < answers->count;
}

void prs_answer_give(struct prs_answers *answers, uint32_t ticket, enum perseus_status status,
                     uint64_t result)
{
    struct prs_answer *answer = &answers->slots[prs_answer_slot(ticket)];
    answer->status = status;
    answer->result = result;
    /* Release: with the acquire of the producer that waits for its ticket (perseus/device.cuh). */
    __atomic_store_n(&answer->ticket, ticket, __ATOMIC_RELEASE);
}
