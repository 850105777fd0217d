/* SPDX-License-Identifier: Apache-2.0 */
#include "staging/stage_ring.h"

void prs_marks_add(struct prs_marks *marks, uint64_t end, uint64_t ticket, uint64_t recorded)
{
    if (marks->count > 0) {
        struct prs_mark *last = &marks->marks[(marks->first + marks->count - 1) % PRS_MARKS];
        /* One event will cover both; with a full list, waiting for the later copy is merely
         * late. */
        if (ticket <= last->ticket || last->ticket > recorded || marks->count == PRS_MARKS) {
            last->end = end;
            last->ticket = ticket > last->ticket ? ticket : last->ticket;
            return;
        }
    }
    marks->marks[(marks->first + marks->count) % PRS_MARKS] = (struct prs_mark){end, ticket};
    marks->count++;
}

bool prs_marks_pass(struct prs_marks *marks, uint64_t done, uint64_t *position)
{
    bool moved = false;
    while (marks->count > 0 && marks->marks[marks->first].ticket <= done) {
        *position = marks->marks[marks->first].end;
        marks->first = (marks->first + 1) % PRS_MARKS;
        marks->count--;
        moved = true;
    }
    return moved;
}

bool prs_slot_is_sound(const struct prs_slot *slot, uint64_t position, uint64_t ring_bytes)
{
    uint64_t rest = ring_bytes - position % ring_bytes;
    if (slot->span == 0 || slot->span % PRS_SLOT_ALIGN != 0 || slot->span > rest) {
        return false;
    }
    switch (slot->kind) {
    case PRS_SLOT_PADDING:
        return slot->span == rest;
    case PRS_SLOT_PUT:
        return slot->span == prs_slot_span(slot->bytes);
    case PRS_SLOT_VALUE:
        return slot->bytes <= sizeof slot->value;
    case PRS_SLOT_ATOMIC:
    case PRS_SLOT_FETCH:
        return slot->word_bytes == 2 || slot->word_bytes == 4 || slot->word_bytes == 8;
    case PRS_SLOT_GET:
        return slot->bytes > 0;
    case PRS_SLOT_BULK:
        return slot->span == sizeof *slot;
    }
    return false;
}
