/* SPDX-License-Identifier: Apache-2.0 */
/* group.c: signal groups in the GPU's memory. */
#include <stdlib.h>
#include <string.h>

#include "gpu/side.h"

struct place {
    uint32_t target;
    uint32_t number; /* as the caller counts */
    uint64_t signal;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->target != y->target) {
        return x->target < y->target ? -1 : 1;
    }
    if (x->signal != y->signal) {
        return x->signal < y->signal ? -1 : 1;
    }
    return x->number < y->number ? -1 : 1;
}

static enum perseus_status check(const struct prs_gpu_side *side,
                                 const struct perseus_device_group_attr *attr)
{
    bool is_valid =
        attr->n_members > 0 && (attr->op == PERSEUS_SIGNAL_SET || attr->op == PERSEUS_SIGNAL_ADD);
    uint64_t heap_bytes = side->config.heap_bytes - side->config.heap_offset;
    for (uint32_t i = 0; i < attr->n_members && is_valid; i++) {
        is_valid = attr->targets[i] >= 0 && attr->targets[i] < side->config.n_pes &&
                   attr->signals[i] % 8 == 0 && attr->signals[i] < heap_bytes;
    }
    return is_valid ? PERSEUS_OK
                    : prs_fail(side->config.log, PERSEUS_INVALID_ARGUMENT,
                               "a signal group needs members, each with a PE of the job and an "
                               "aligned word of the heap");
}

/* ---- the descriptors of a round ---- */

struct parts {
    struct perseus_device_part *part;
    uint32_t n, piece, piece_max; /* the piece at hand begins at `piece` */
};

/* A fence, a signal, or a vector with its values, which must lie in one piece. */
static void add(struct parts *parts, uint32_t member, uint32_t n)
{
    uint32_t values = n > 1 ? (n + PRS_DESC_VALUES_MAX - 1) / PRS_DESC_VALUES_MAX : 0;
    if (parts->n + 1 + values - parts->piece > parts->piece_max) {
        parts->piece = parts->n;
    }
    parts->part[parts->n++] = (struct perseus_device_part){.member = member, .n = n};
    for (uint32_t i = 0; i < values; i++) {
        uint32_t done = i * PRS_DESC_VALUES_MAX;
        parts->part[parts->n++] =
            (struct perseus_device_part){.member = member, .first = 1 + done, .n = n - done};
    }
    for (uint32_t i = parts->piece; i < parts->n; i++) {
        parts->part[i].piece_end = parts->n;
    }
}

static uint32_t describe(const struct place *places, const struct perseus_device_group_attr *attr,
                         uint64_t vector_max, uint32_t slots, struct perseus_device_part *out)
{
    struct parts parts = {.part = out, .piece_max = slots / 2};
    add(&parts, PERSEUS_DEVICE_PART_FENCE, 0);
    for (uint32_t at = 0; at < attr->n_members;) {
        uint32_t n = 1;
        while (attr->vector && attr->op == PERSEUS_SIGNAL_SET && at + n < attr->n_members &&
               n < vector_max && places[at + n].target == places[at].target &&
               places[at + n].signal == places[at].signal + n * sizeof(uint64_t)) {
            n++;
        }
        add(&parts, at, n);
        at += n;
    }
    return parts.n;
}

/* ---- in the GPU's memory ---- */

/* Where the arrays of a group of `n` lie behind it. */
struct layout {
    size_t values, members, parts, rounds, bytes;
};

static struct layout lay_out(uint32_t n)
{
    struct layout at = {.values = sizeof(struct perseus_device_group)};
    at.members = at.values + 2 * n * sizeof(uint64_t);
    at.parts = at.members + n * sizeof(struct perseus_device_member);
    at.rounds = at.parts + (1 + 2 * (size_t)n) * sizeof(struct perseus_device_part);
    at.bytes = at.rounds + n * sizeof(uint32_t);
    return at;
}

/* The group as the GPU will see it, at `memory`; *image is a copy of it here. */
static void draw(const struct prs_gpu_side *side, unsigned char *image, unsigned char *memory,
                 const struct place *places, const struct perseus_device_group_attr *attr,
                 uint64_t vector_max)
{
    struct perseus_device_group *group = (struct perseus_device_group *)(void *)image;
    struct layout at = lay_out(attr->n_members);
    struct perseus_device_member *members = (void *)(image + at.members);
    for (uint32_t i = 0; i < attr->n_members; i++) {
        members[i] = (struct perseus_device_member){
            .target = places[i].target, .signal = side->config.heap_offset + places[i].signal};
    }
    *group = (struct perseus_device_group){.n = attr->n_members,
                                           .op = attr->op,
                                           .rounds = (void *)(memory + at.rounds),
                                           .values = (void *)(memory + at.values),
                                           .members = (void *)(memory + at.members),
                                           .parts = (void *)(memory + at.parts)};
    group->n_parts =
        describe(places, attr, vector_max, side->config.slots, (void *)(image + at.parts));
}

static enum perseus_status keep(struct prs_gpu_side *side, size_t bytes, void **out)
{
    struct prs_gpu_group_memory *entry = calloc(1, sizeof *entry);
    void *before = NULL;
    if (entry == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    enum perseus_status status = prs_gpu_enter(&side->gpu, &before);
    if (status == PERSEUS_OK) {
        status = prs_gpu_alloc(&side->gpu, bytes, &entry->memory);
        prs_gpu_leave(&side->gpu, before);
    }
    if (status != PERSEUS_OK) {
        free(entry);
        return status;
    }
    entry->next = side->groups;
    side->groups = entry;
    *out = entry->memory;
    return PERSEUS_OK;
}

static void sort(const struct perseus_device_group_attr *attr, struct place *out)
{
    for (uint32_t i = 0; i < attr->n_members; i++) {
        out[i] = (struct place){(uint32_t)attr->targets[i], i, attr->signals[i]};
    }
    qsort(out, attr->n_members, sizeof *out, compare_places);
}

enum perseus_status prs_gpu_group_create(struct prs_gpu_side *side,
                                         const struct perseus_device_group_attr *attr,
                                         uint32_t vector_max, uint32_t *out_numbers,
                                         struct perseus_device_group **out)
{
    enum perseus_status status = check(side, attr);
    if (status != PERSEUS_OK) {
        return status;
    }
    /* A vector and its values are one piece, of at most half the ring. */
    uint32_t n = attr->n_members, ring_max = (side->config.slots / 2 - 1) * PRS_DESC_VALUES_MAX;
    size_t bytes = lay_out(n).bytes;
    struct place *places = calloc(n, sizeof *places);
    unsigned char *image = calloc(1, bytes);
    void *memory = NULL;
    status = places != NULL && image != NULL ? keep(side, bytes, &memory) : PERSEUS_OUT_OF_MEMORY;
    if (status == PERSEUS_OK) {
        sort(attr, places);
        draw(side, image, memory, places, attr, vector_max < ring_max ? vector_max : ring_max);
        status = prs_gpu_side_copy(side, memory, image, bytes);
    }
    for (uint32_t i = 0; i < n && status == PERSEUS_OK; i++) {
        out_numbers[places[i].number] = i;
    }
    if (status == PERSEUS_OK) {
        *out = memory;
    }
    free(places);
    free(image);
    return status;
}

void prs_gpu_groups_free(struct prs_gpu_side *side)
{
    while (side->groups != NULL) {
        struct prs_gpu_group_memory *entry = side->groups;
        side->groups = entry->next;
        prs_gpu_free(&side->gpu, entry->memory);
        free(entry);
    }
}
