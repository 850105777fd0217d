/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/groups.h"

#include <stdlib.h>

#include "moe/layer.h"

/* If no size was asked for. Signals wait for their whole group: one of many experts saves fences,
 * but keeps the receiver idle until the last of them is through. */
#define EXPERTS_MAX 8

struct prs_groups {
    struct perseus_signal_group **groups;
    uint32_t n_groups;
    /* [PE and index] as slot_of counts; group NULL: a PE that shares memory */
    struct prs_membership *places[PRS_MOE_HALVES][PRS_MOE_WAYS];
};

/* The group that is being collected. */
struct collection {
    const struct perseus_moe *moe;
    struct prs_groups *groups;
    struct perseus_signal_group_member *members;
    struct prs_membership **places;
    uint32_t n_members, n_max;
    bool ends_with_pe;
};

static size_t slot_of(const struct perseus_moe *moe, enum prs_moe_way way, uint32_t pe,
                      uint32_t index)
{
    return way == PRS_MOE_DISPATCH ? prs_moe_first_expert(&moe->plan, pe) + index
                                   : (size_t)pe * moe->hosted + index;
}

const struct prs_membership *prs_groups_place(const struct perseus_moe *moe, uint32_t half,
                                              const struct prs_moe_transfer *pair)
{
    return &moe->mode.groups
                ->places[half][pair->way][slot_of(moe, pair->way, pair->pe, pair->index)];
}

static enum perseus_status close_group(struct collection *collection)
{
    if (collection->n_members == 0) {
        return PERSEUS_OK;
    }
    const struct perseus_signal_group_attr attr = {
        .members = collection->members,
        .n_members = collection->n_members,
        .op = PERSEUS_SIGNAL_SET,
        .vector = collection->moe->plan.config.vector_signals,
    };
    struct perseus_signal_group *group;
    enum perseus_status status = perseus_signal_group_create(collection->moe->pe, &attr, &group);
    if (status != PERSEUS_OK) {
        return status;
    }
    collection->groups->groups[collection->groups->n_groups++] = group;
    for (uint32_t i = 0; i < collection->n_members; i++) {
        *collection->places[i] = (struct prs_membership){.group = group, .member = i};
    }
    collection->n_members = 0;
    return PERSEUS_OK;
}

static enum perseus_status add_pair(struct collection *collection, uint32_t pe, uint64_t *signal,
                                    struct prs_membership *place)
{
    bool is_full = collection->n_members == collection->n_max;
    bool is_other = collection->ends_with_pe && collection->n_members > 0 &&
                    collection->members[0].target != (int)pe;
    if (is_full || is_other) {
        enum perseus_status status = close_group(collection);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    collection->members[collection->n_members] =
        (struct perseus_signal_group_member){.target = (int)pe, .signal = signal};
    collection->places[collection->n_members++] = place;
    return PERSEUS_OK;
}

static enum perseus_status add_pairs(struct collection *collection, uint32_t half,
                                     enum prs_moe_way way)
{
    const struct perseus_moe *moe = collection->moe;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t pe = 0; pe < moe->plan.n_pes && status == PERSEUS_OK; pe++) {
        uint32_t n = way == PRS_MOE_DISPATCH ? prs_moe_hosted(&moe->plan, pe) : moe->hosted;
        for (uint32_t i = 0; i < n && status == PERSEUS_OK && !prs_moe_is_direct(moe, pe); i++) {
            status = add_pair(collection, pe, prs_moe_signal(moe, half, way, i),
                              &collection->groups->places[half][way][slot_of(moe, way, pe, i)]);
        }
    }
    return status == PERSEUS_OK ? close_group(collection) : status;
}

static enum perseus_status collect(struct collection *collection, uint32_t group_experts)
{
    bool by_pe = group_experts == PERSEUS_MOE_GROUP_PE;
    collection->n_max = group_experts == 0 ? EXPERTS_MAX : by_pe ? UINT32_MAX : group_experts;
    collection->ends_with_pe = group_experts == 0 || by_pe;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t half = 0; half < PRS_MOE_HALVES && status == PERSEUS_OK; half++) {
        status = add_pairs(collection, half, PRS_MOE_DISPATCH);
        if (status == PERSEUS_OK) {
            status = add_pairs(collection, half, PRS_MOE_ANSWERS);
        }
    }
    return status;
}

enum perseus_status prs_groups_create(const struct perseus_moe *moe, uint32_t group_experts,
                                      struct prs_groups **out)
{
    size_t experts = moe->plan.config.experts, pairs = (size_t)moe->plan.n_pes * moe->hosted;
    size_t members_max = experts > pairs ? experts : pairs;
    struct prs_groups *groups = calloc(1, sizeof *groups);
    struct collection collection = {.moe = moe, .groups = groups};
    collection.members = calloc(members_max, sizeof *collection.members);
    collection.places = calloc(members_max, sizeof *collection.places);
    bool is_complete = groups != NULL && collection.members != NULL && collection.places != NULL;
    if (is_complete) {
        groups->groups = calloc(PRS_MOE_HALVES * (experts + pairs), sizeof *groups->groups);
        is_complete = groups->groups != NULL;
    }
    for (uint32_t half = 0; is_complete && half < PRS_MOE_HALVES; half++) {
        struct prs_membership **places = groups->places[half];
        places[PRS_MOE_DISPATCH] = calloc(experts, sizeof **places);
        places[PRS_MOE_ANSWERS] = calloc(pairs + 1, sizeof **places);
        is_complete = places[PRS_MOE_DISPATCH] != NULL && places[PRS_MOE_ANSWERS] != NULL;
    }
    enum perseus_status status =
        is_complete ? collect(&collection, group_experts)
                    : prs_fail(prs_moe_log(moe), PERSEUS_OUT_OF_MEMORY,
                               "moe: no memory for signal groups of %zu experts", experts);
    free(collection.members);
    free(collection.places);
    if (status != PERSEUS_OK) {
        prs_groups_destroy(groups);
        return status;
    }
    *out = groups;
    return PERSEUS_OK;
}

void prs_groups_destroy(struct prs_groups *groups)
{
    if (groups == NULL) {
        return;
    }
    for (uint32_t i = 0; i < groups->n_groups; i++) {
        perseus_signal_group_destroy(groups->groups[i]);
    }
    for (uint32_t half = 0; half < PRS_MOE_HALVES; half++) {
        free(groups->places[half][PRS_MOE_DISPATCH]);
        free(groups->places[half][PRS_MOE_ANSWERS]);
    }
    free(groups->groups);
    free(groups);
}
