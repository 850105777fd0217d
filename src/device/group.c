/* SPDX-License-Identifier: Apache-2.0 */
/* group.c: signal groups in the GPU's memory. */
#include <stdlib.h>
#include <string.h>

#include "base/export.h"
#include "device/device.h"

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

static enum perseus_status check(const struct perseus_device *device,
                                 const struct perseus_device_group_attr *attr)
{
    bool is_valid =
        attr->n_members > 0 && (attr->op == PERSEUS_SIGNAL_SET || attr->op == PERSEUS_SIGNAL_ADD);
    for (uint32_t i = 0; i < attr->n_members && is_valid; i++) {
        is_valid =
            attr->targets[i] >= 0 && attr->targets[i] < device->attr.n_pes &&
            attr->signals[i] % 8 == 0 && attr->signals[i] < device->attr.heap_bytes &&
            /* the leader is one thread, which puts signals into the ring only */
            (device->attr.pes_per_node == 0 || attr->targets[i] / device->attr.pes_per_node !=
                                                   device->attr.my_pe / device->attr.pes_per_node);
    }
    return is_valid
               ? PERSEUS_OK
               : prs_fail(&device->log, PERSEUS_INVALID_ARGUMENT,
                          "a signal group needs members, each with a PE of another node and an "
                          "aligned word of the heap");
}

/* The group as the GPU will see it, at `memory`; *image is a copy of it here. */
static void draw(unsigned char *image, unsigned char *memory, const struct place *places,
                 const struct perseus_device_group_attr *attr, uint64_t vector_max)
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
        members[i] = (struct perseus_device_member){
            .target = places[i].target, .is_next = is_next, .signal = places[i].signal};
    }
    *group = (struct perseus_device_group){.n = n,
                                           .op = attr->op,
                                           .rounds = (void *)(memory + rounds_at),
                                           .values = (void *)(memory + values_at),
                                           .members = (void *)(memory + members_at)};
}

static enum perseus_status keep(struct perseus_device *device, unsigned char *image, size_t bytes,
                                const struct place *places,
                                const struct perseus_device_group_attr *attr,
                                struct perseus_device_group **out)
{
    struct prs_device_groups *entry = calloc(1, sizeof *entry);
    void *before = NULL, *memory = NULL;
    if (entry == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    enum perseus_status status = prs_gpu_enter(&device->side.gpu, &before);
    if (status == PERSEUS_OK) {
        status = prs_gpu_alloc(&device->side.gpu, bytes, &memory);
        prs_gpu_leave(&device->side.gpu, before);
    }
    if (status != PERSEUS_OK) {
        free(entry);
        return status;
    }
    entry->memory = memory;
    entry->next = device->groups;
    device->groups = entry;
    uint64_t ring_max = (uint64_t)(device->attr.ring_slots / 2) * PRS_DESC_VALUES_MAX;
    uint64_t order_max = prs_orderer_vector_max(device->link.orderer);
    draw(image, memory, places, attr, order_max < ring_max ? order_max : ring_max);
    status = prs_gpu_side_copy(&device->side, memory, image, bytes);
    *out = memory;
    return status;
}

PRS_PUBLIC enum perseus_status
perseus_device_group_create(struct perseus_device *device,
                            const struct perseus_device_group_attr *attr, uint32_t *out_numbers,
                            struct perseus_device_group **out)
{
    enum perseus_status status = check(device, attr);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint32_t n = attr->n_members;
    size_t bytes =
        sizeof(struct perseus_device_group) +
        n * (2 * sizeof(uint64_t) + sizeof(struct perseus_device_member) + sizeof(uint32_t));
    struct place *places = calloc(n, sizeof *places);
    unsigned char *image = calloc(1, bytes);
    struct perseus_device_group *group = NULL;
    status = PERSEUS_OUT_OF_MEMORY;
    if (places != NULL && image != NULL) {
        for (uint32_t i = 0; i < n; i++) {
            places[i] = (struct place){(uint32_t)attr->targets[i], i, attr->signals[i]};
        }
        qsort(places, n, sizeof *places, compare_places);
        status = keep(device, image, bytes, places, attr, &group);
    }
    for (uint32_t i = 0; i < n && status == PERSEUS_OK; i++) {
        out_numbers[places[i].number] = i;
    }
    if (status == PERSEUS_OK) {
        *out = group;
    }
    free(places);
    free(image);
    return status;
}

void prs_device_groups_free(struct perseus_device *device)
{
    void *before = NULL;
    if (device->groups == NULL || prs_gpu_enter(&device->side.gpu, &before) != PERSEUS_OK) {
        return;
    }
    while (device->groups != NULL) {
        struct prs_device_groups *entry = device->groups;
        device->groups = entry->next;
        prs_gpu_free(&device->side.gpu, entry->memory);
        free(entry);
    }
    prs_gpu_leave(&device->side.gpu, before);
}
