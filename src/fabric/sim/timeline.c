/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wheel of wheels: slot d of level l holds what is due at a time that agrees with `base` above
 * digit l, in base 64, and has d there. Time only moves forward, so the first slot of the lowest
 * level in use holds what is due next; once that level is not the lowest of all, `base` moves to
 * the slot's begin and its entries to lower levels. An entry moves as often as it has digits in
 * which it differs from the time it was added at, whatever the length of the queue.
 *
 * Entries of one time share every slot they pass and keep their order there.
 */
#include "fabric/sim/timeline.h"

#include <assert.h>
#include <stdlib.h>

#define DIGIT_BITS  6u
#define SLOTS       (1u << DIGIT_BITS)
#define LEVELS      ((64 + DIGIT_BITS - 1) / DIGIT_BITS)
#define BLOCK_FIRST 256u
#define BLOCK_MAX   65536u

struct entry {
    struct entry *next;
    uint64_t at_ns;
    prs_happen_fn happen;
    void *context;
};

struct slot {
    struct entry *first, *last;
};

/* Entries that were allocated together. */
struct block {
    struct block *next;
    struct entry entries[];
};

struct prs_timeline {
    uint64_t now_ns, happened;
    uint64_t base; /* at most now_ns, while something happens */
    uint32_t levels_used;
    uint64_t slots_used[LEVELS];
    struct slot slots[LEVELS][SLOTS];
    struct entry *free;
    struct block *blocks;
    uint32_t reserved, room;
};

enum perseus_status prs_timeline_create(struct prs_timeline **out)
{
    *out = calloc(1, sizeof **out);
    return *out == NULL ? PERSEUS_OUT_OF_MEMORY : PERSEUS_OK;
}

void prs_timeline_destroy(struct prs_timeline *timeline)
{
    while (timeline != NULL && timeline->blocks != NULL) {
        struct block *block = timeline->blocks;
        timeline->blocks = block->next;
        free(block);
    }
    free(timeline);
}

enum perseus_status prs_timeline_reserve(struct prs_timeline *timeline, uint32_t n)
{
    if (n > UINT32_MAX / 2 - timeline->reserved) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    while (timeline->room < timeline->reserved + n) {
        uint32_t count = timeline->room < BLOCK_FIRST ? BLOCK_FIRST
                         : timeline->room < BLOCK_MAX ? timeline->room
                                                      : BLOCK_MAX;
        struct block *block = malloc(sizeof *block + count * sizeof block->entries[0]);
        if (block == NULL) {
            return PERSEUS_OUT_OF_MEMORY;
        }
        block->next = timeline->blocks;
        timeline->blocks = block;
        timeline->room += count;
        for (uint32_t i = 0; i < count; i++) {
            block->entries[i].next = timeline->free;
            timeline->free = &block->entries[i];
        }
    }
    timeline->reserved += n;
    return PERSEUS_OK;
}

void prs_timeline_give_back(struct prs_timeline *timeline, uint32_t n)
{
    timeline->reserved -= n;
}

static void insert(struct prs_timeline *timeline, struct entry *entry)
{
    uint64_t differs = entry->at_ns ^ timeline->base;
    uint32_t level = differs == 0 ? 0 : (63 - (uint32_t)__builtin_clzll(differs)) / DIGIT_BITS;
    uint32_t digit = (uint32_t)(entry->at_ns >> (level * DIGIT_BITS)) % SLOTS;
    struct slot *slot = &timeline->slots[level][digit];
    entry->next = NULL;
    if (slot->first == NULL) {
        slot->first = entry;
        timeline->slots_used[level] |= 1ull << digit;
        timeline->levels_used |= 1u << level;
    } else {
        slot->last->next = entry;
    }
    slot->last = entry;
}

void prs_timeline_add(struct prs_timeline *timeline, uint64_t at_ns, prs_happen_fn happen,
                      void *context)
{
    struct entry *entry = timeline->free;
    assert(entry != NULL); /* the caller has reserved */
    timeline->free = entry->next;
    *entry = (struct entry){.at_ns = at_ns > timeline->now_ns ? at_ns : timeline->now_ns,
                            .happen = happen,
                            .context = context};
    insert(timeline, entry);
}

uint64_t prs_timeline_now_ns(const struct prs_timeline *timeline)
{
    return timeline->now_ns;
}

uint64_t prs_timeline_count(const struct prs_timeline *timeline)
{
    return timeline->happened;
}

/* The level of what is due first, with the first of its slots; that begins at *out_begin_ns. */
static uint32_t first_slot(const struct prs_timeline *timeline, uint32_t *out_digit,
                           uint64_t *out_begin_ns)
{
    uint32_t level = (uint32_t)__builtin_ctz(timeline->levels_used);
    uint32_t digit = (uint32_t)__builtin_ctzll(timeline->slots_used[level]);
    uint32_t above = (level + 1) * DIGIT_BITS;
    uint64_t same = above < 64 ? timeline->base >> above << above : 0;
    *out_digit = digit;
    *out_begin_ns = same | (uint64_t)digit << (level * DIGIT_BITS);
    return level;
}

static struct entry *empty(struct prs_timeline *timeline, uint32_t level, uint32_t digit)
{
    struct slot *slot = &timeline->slots[level][digit];
    struct entry *first = slot->first;
    slot->first = NULL;
    timeline->slots_used[level] &= ~(1ull << digit);
    if (timeline->slots_used[level] == 0) {
        timeline->levels_used &= ~(1u << level);
    }
    return first;
}

/* Takes what is due first, unless that is later than until_ns. `base` does not pass until_ns: what
 * is added next may be due from there on. */
static struct entry *take_first(struct prs_timeline *timeline, uint64_t until_ns)
{
    while (timeline->levels_used != 0) {
        uint32_t digit;
        uint64_t begin_ns;
        uint32_t level = first_slot(timeline, &digit, &begin_ns);
        if (begin_ns > until_ns) {
            return NULL;
        }
        if (level == 0) {
            struct slot *slot = &timeline->slots[0][digit];
            struct entry *entry = slot->first;
            if (entry->next == NULL) {
                return empty(timeline, 0, digit);
            }
            slot->first = entry->next;
            return entry;
        }
        struct slot *slot = &timeline->slots[level][digit];
        if (slot->first == slot->last && slot->first->at_ns > until_ns) {
            return NULL;
        }
        struct entry *entry = empty(timeline, level, digit);
        timeline->base = begin_ns;
        if (entry->next == NULL) {
            return entry;
        }
        while (entry != NULL) {
            struct entry *next = entry->next;
            insert(timeline, entry);
            entry = next;
        }
    }
    return NULL;
}

static bool step_until(struct prs_timeline *timeline, uint64_t until_ns)
{
    struct entry *entry = take_first(timeline, until_ns);
    if (entry == NULL) {
        return false;
    }
    struct entry first = *entry;
    entry->next = timeline->free;
    timeline->free = entry;
    timeline->now_ns = first.at_ns;
    timeline->happened++;
    first.happen(first.context);
    return true;
}

bool prs_timeline_step(struct prs_timeline *timeline)
{
    return step_until(timeline, UINT64_MAX);
}

void prs_timeline_run_until(struct prs_timeline *timeline, uint64_t until_ns)
{
    while (step_until(timeline, until_ns)) {
    }
    if (until_ns > timeline->now_ns) {
        timeline->now_ns = until_ns;
    }
}
