/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/staged/ring.h"

#define PAYLOAD_MAX (UINT64_C(256) * 1024)

uint64_t prs_staged_payload_max(uint64_t ring_bytes)
{
    uint64_t quarter = ring_bytes / 4 - sizeof(struct prs_staged_slot);
    uint64_t most = quarter < PAYLOAD_MAX ? quarter : PAYLOAD_MAX;
    return most > PRS_SLOT_ALIGN ? most : PRS_SLOT_ALIGN;
}

bool prs_staged_is_sound(const struct prs_staged_slot *slot, uint64_t position, uint64_t readable,
                         uint64_t ring_bytes)
{
    uint64_t rest = ring_bytes - position % ring_bytes;
    if (slot->position != position || slot->span < sizeof *slot ||
        slot->span % PRS_SLOT_ALIGN != 0 || slot->span > rest || slot->span > readable) {
        return false;
    }
    uint64_t room = slot->span - sizeof *slot;
    switch ((enum prs_staged_kind)slot->kind) {
    case PRS_STAGED_PADDING:
        return slot->span == rest;
    case PRS_STAGED_HELLO:
    case PRS_STAGED_PUT:
        return slot->bytes <= room;
    case PRS_STAGED_ANSWER:
        return slot->bytes > 0 && slot->bytes <= room;
    case PRS_STAGED_SET:
        return slot->offset % sizeof(uint64_t) == 0;
    case PRS_STAGED_GET:
        return slot->bytes > 0;
    }
    return false;
}

uint64_t prs_staged_read_count(const struct prs_staged_count *count, uint64_t known)
{
    /* Acquire pairs with the fabric's release of what a put writes: the slots below are readable.
     * The complement is stored last, so it is loaded first. */
    uint64_t inverse = atomic_load_explicit(&count->inverse, memory_order_acquire);
    uint64_t value = atomic_load_explicit(&count->value, memory_order_acquire);
    return value == ~inverse && value > known ? value : known;
}
