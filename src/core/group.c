/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.c: signal groups. Members put without a signal and arrive (rounds.h counts); the last
 * arriver of a round submits one fence and then every member's signal.
 *
 * Members are kept sorted by target and address, so that contiguous signals of one target are
 * neighbours and can go as one vector.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/export.h"
#include "core/address.h"
#include "core/rounds.h"
#include "core/signal.h"
#include "core/submit.h"

#define NO_FENCE (PRS_DESC_ALL_PEERS - 1) /* every member is local */

struct prs_group_member {
    uint64_t signal; /* heap offset */
    int target;
    uint32_t number; /* as the caller counts */
};

/* Signals that go as one message. */
struct prs_group_run {
    uint32_t first, count; /* of the sorted members */
};

struct perseus_signal_group {
    struct perseus_pe *pe;
    uint32_t n_members, n_runs;
    enum perseus_signal_op op;
    uint32_t fence_peer; /* whom a round's fence is for */
    _Atomic enum perseus_status broken;
    struct prs_rounds *rounds; /* counts sorted members, so that a run's values are adjacent */
    struct prs_group_member *members; /* sorted */
    uint32_t *place;                  /* of the caller's members among the sorted */
    struct prs_group_run *runs;
};

/* ---- making one ---- */

static int compare_members(const void *a, const void *b)
{
    const struct prs_group_member *x = a, *y = b;
    if (x->target != y->target) {
        return x->target < y->target ? -1 : 1;
    }
    if (x->signal != y->signal) {
        return x->signal < y->signal ? -1 : 1;
    }
    return x->number < y->number ? -1 : 1;
}

static enum perseus_status take_members(struct perseus_signal_group *group,
                                        const struct perseus_signal_group_attr *attr)
{
    for (uint32_t i = 0; i < attr->n_members; i++) {
        struct prs_group_member *member = &group->members[i];
        *member = (struct prs_group_member){.target = attr->members[i].target, .number = i};
        enum perseus_status status = prs_check_target(group->pe, member->target, NULL);
        if (status == PERSEUS_OK) {
            status = prs_find_word(group->pe, "a member's signal", attr->members[i].signal,
                                   &member->signal);
        }
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    qsort(group->members, attr->n_members, sizeof *group->members, compare_members);
    for (uint32_t i = 0; i < attr->n_members; i++) {
        group->place[group->members[i].number] = i;
    }
    return PERSEUS_OK;
}

static void find_runs(struct perseus_signal_group *group, bool join)
{
    for (uint32_t i = 0; i < group->n_members; i++) {
        const struct prs_group_member *member = &group->members[i];
        if (join && i > 0 && member->target == member[-1].target &&
            member->signal == member[-1].signal + sizeof(uint64_t)) {
            group->runs[group->n_runs - 1].count++;
        } else {
            group->runs[group->n_runs++] = (struct prs_group_run){.first = i, .count = 1};
        }
    }
}

/* One peer's fence is enough when it is the only one that is not local. */
static void find_fence(struct perseus_signal_group *group)
{
    group->fence_peer = NO_FENCE;
    for (uint32_t i = 0; i < group->n_members; i++) {
        int target = group->members[i].target;
        if (prs_local_heap(group->pe, target) == NULL) {
            bool is_first = group->fence_peer == NO_FENCE;
            bool is_same = group->fence_peer == (uint32_t)target;
            group->fence_peer = is_first || is_same ? (uint32_t)target : PRS_DESC_ALL_PEERS;
        }
    }
}

static enum perseus_status check_attr(const struct perseus_pe *pe,
                                      const struct perseus_signal_group_attr *attr)
{
    if (attr->n_members == 0 || attr->members == NULL) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "a signal group needs at least one member");
    }
    enum perseus_status status = prs_signal_check_op(pe, attr->op);
    if (status == PERSEUS_OK && attr->vector && attr->op != PERSEUS_SIGNAL_SET) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "only SET signals can go as a vector; create the group with op SET or "
                        "without vector");
    }
    return status;
}

PRS_PUBLIC enum perseus_status
perseus_signal_group_create(struct perseus_pe *pe, const struct perseus_signal_group_attr *attr,
                            struct perseus_signal_group **out)
{
    enum perseus_status status = check_attr(pe, attr);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct perseus_signal_group *group = calloc(1, sizeof *group);
    if (group != NULL) {
        group->pe = pe;
        group->op = attr->op;
        group->n_members = attr->n_members;
        group->members = calloc(attr->n_members, sizeof *group->members);
        group->place = calloc(attr->n_members, sizeof *group->place);
        group->runs = calloc(attr->n_members, sizeof *group->runs);
    }
    if (group == NULL || group->members == NULL || group->place == NULL || group->runs == NULL ||
        prs_rounds_create(attr->n_members, &group->rounds) != PERSEUS_OK) {
        perseus_signal_group_destroy(group);
        return prs_fail(prs_pe_log(pe), PERSEUS_OUT_OF_MEMORY,
                        "no memory for a signal group of %u members", attr->n_members);
    }
    status = take_members(group, attr);
    if (status != PERSEUS_OK) {
        perseus_signal_group_destroy(group);
        return status;
    }
    find_runs(group, attr->vector);
    find_fence(group);
    *out = group;
    return PERSEUS_OK;
}

PRS_PUBLIC void perseus_signal_group_destroy(struct perseus_signal_group *group)
{
    if (group == NULL) {
        return;
    }
    prs_rounds_destroy(group->rounds);
    free(group->members);
    free(group->place);
    free(group->runs);
    free(group);
}

/* ---- rounds ---- */

static enum perseus_status signal_members(struct perseus_signal_group *group)
{
    enum perseus_status status = PERSEUS_OK;
    if (group->fence_peer != NO_FENCE) {
        status = prs_submit_fence(group->pe, group->fence_peer);
    }
    const uint64_t *values = prs_rounds_values(group->rounds);
    for (uint32_t i = 0; i < group->n_runs && status == PERSEUS_OK; i++) {
        const struct prs_group_run *run = &group->runs[i];
        const struct prs_group_member *member = &group->members[run->first];
        status = run->count == 1
                     ? prs_signal_post(group->pe, member->signal, values[run->first], group->op,
                                       member->target)
                     : prs_signal_post_vector(group->pe, member->signal, &values[run->first],
                                              run->count, member->target);
    }
    return status;
}

/* A leader that cannot submit its signals has waited out the deadline of a full ring, or its job is
 * broken. Some signals may be out, so the round can be neither finished nor begun again. */
static enum perseus_status lead_round(struct perseus_signal_group *group)
{
    enum perseus_status status = signal_members(group);
    if (status == PERSEUS_OK) {
        prs_rounds_finish(group->rounds);
    } else {
        /* Relaxed: it tells nothing but itself. */
        atomic_store_explicit(&group->broken, status, memory_order_relaxed);
    }
    return status;
}

/* The member's place, when it may work on its next round. */
static enum perseus_status enter_round(struct perseus_signal_group *group, uint32_t member,
                                       uint32_t *out_place)
{
    struct perseus_pe *pe = group->pe;
    if (member >= group->n_members) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "there is no member %u in a signal group of %u", member, group->n_members);
    }
    enum perseus_status broken = atomic_load_explicit(&group->broken, memory_order_relaxed);
    if (broken != PERSEUS_OK) {
        return prs_report_adopt(&pe->report, broken,
                                "PE %d: this signal group lost a round (%s); destroy it", pe->rank,
                                perseus_status_string(broken));
    }
    if (!prs_rounds_may_enter(group->rounds, group->place[member])) {
        return PERSEUS_AGAIN;
    }
    *out_place = group->place[member];
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_signal_group_put_more(struct perseus_signal_group *group,
                                                             uint32_t member, void *dst,
                                                             const void *src, size_t bytes)
{
    uint32_t place = 0;
    enum perseus_status status = enter_round(group, member, &place);
    return status == PERSEUS_OK
               ? perseus_put_nbi(group->pe, dst, src, bytes, group->members[place].target)
               : status;
}

PRS_PUBLIC enum perseus_status perseus_signal_group_put(struct perseus_signal_group *group,
                                                        uint32_t member, void *dst, const void *src,
                                                        size_t bytes, uint64_t value)
{
    enum perseus_status status = perseus_signal_group_put_more(group, member, dst, src, bytes);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool leads = prs_rounds_arrive(group->rounds, group->place[member], value);
    return leads ? lead_round(group) : PERSEUS_OK;
}
