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

/* The group as the GPU will see it, at `memory`; *image is a copy of it here. */
static void draw(unsigned char *image, unsigned char *memory, const struct place *places,
                 const struct perseus_device_group_attr *attr, uint64_t heap_offset,
                 uint64_t vector_max)
{
    struct perseus_device_group *group = (struct perseus_device_group *)(void *)image;
    uint32_t n = attr->n_members;
    size_t values_at = sizeof *group, members_at = values_at + 2 * n * sizeof(uint64_t);
    size_t rounds_at = members_at + n * sizeof(struct perseus_device_member);
    struct perseus_device_member *members = (void *)(image + members_at);
    uint64_t run = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool is_next = attr->vector && attr->op == PERSEUS_SIGNAL_SET && i > 0 &&
                       places[i].target == places[i - 1].target &&
                       places[i].signal == places[i - 1].signal + sizeof(uint64_t) &&
                       run < vector_max;
        run = is_next ? run + 1 : 1;
        members[i] = (struct perseus_device_member){.target = places[i].target,
                                                    .is_next = is_next,
                                                    .signal = heap_offset + places[i].signal};
    }
    *group = (struct perseus_device_group){.n = n,
                                           .op = attr->op,
                                           .rounds = (void *)(memory + rounds_at),
                                           .values = (void *)(memory + values_at),
                                           .members = (void *)(memory + members_at)};
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
    uint32_t n = attr->n_members, ring_max = side->config.slots / 2 * PRS_DESC_VALUES_MAX;
    size_t bytes =
        sizeof(struct perseus_device_group) +
        n * (2 * sizeof(uint64_t) + sizeof(struct perseus_device_member) + sizeof(uint32_t));
    struct place *places = calloc(n, sizeof *places);
    unsigned char *image = calloc(1, bytes);
    void *memory = NULL;
    status = places != NULL && image != NULL ? keep(side, bytes, &memory) : PERSEUS_OUT_OF_MEMORY;
    if (status == PERSEUS_OK) {
        sort(attr, places);
        draw(image, memory, places, attr, side->config.heap_offset,
             vector_max < ring_max ? vector_max : ring_max);
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
