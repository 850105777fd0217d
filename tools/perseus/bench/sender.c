/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/sender.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

struct seat { /* of a transfer in its signal group */
    uint32_t group, member;
};

struct cta {
    struct prs_bench_sender *sender;
    uint32_t index;
    pthread_t thread;
    enum perseus_status status; /* of its share of the round; read when none is busy */
};

struct prs_bench_sender {
    struct perseus_pe *pe;
    struct prs_bench_areas areas;
    uint32_t transfers_max, group_size;
    const struct prs_bench_exchange *exchange;

    struct perseus_signal_group **groups[2]; /* by is_vector; n_groups of each */
    uint32_t n_groups;
    struct seat *seats;                          /* by transfer */
    struct perseus_signal_group_member *members; /* of the group being made */
    const struct prs_bench_transfer **by_target; /* transfers in the order of their targets */

    struct cta *ctas;
    uint32_t n_ctas, n_threads; /* threads started: all CTAs but the caller */
    pthread_mutex_t mutex;      /* turn, n_busy, is_ending */
    pthread_cond_t changed;
    uint64_t turn;   /* grows with every round */
    uint32_t n_busy; /* threads that have not finished this turn */
    bool is_ending;
    enum prs_bench_protocol protocol; /* like round, changes only between turns */
    uint64_t round;
};

static const struct prs_bench_protocol_info infos[PRS_BENCH_PROTOCOL_COUNT] = {
    [PRS_BENCH_PUT_ONLY] = {"put-only", "put-only", false, false, false},
    [PRS_BENCH_PUT_ONLY_SIGNALS] = {"put-only+signals", "put-only+signals", false, true, false},
    [PRS_BENCH_COUPLED] = {"coupled", "coupled", false, true, true},
    [PRS_BENCH_DECOUPLED] = {"decoupled", "decoupled", false, true, true},
    [PRS_BENCH_DECOUPLED_VECTOR] = {"decoupled", "vector decoupled", true, true, true},
    [PRS_BENCH_COLLECTIVE] = {"collective", "collective", false, false, false},
};

const struct prs_bench_protocol_info *prs_bench_protocol_info(enum prs_bench_protocol protocol)
{
    return &infos[protocol];
}

/* ---- one transfer ---- */

static enum perseus_status submit_put(const struct prs_bench_sender *sender,
                                      const struct prs_bench_transfer *transfer)
{
    if (transfer->bytes == 0) {
        return PERSEUS_OK;
    }
    return perseus_put_nbi(sender->pe, sender->areas.payload + transfer->offset,
                           sender->areas.source + prs_bench_window(transfer, sender->round),
                           transfer->bytes, (int)transfer->target);
}

/* The bare message is a put of 8 bytes, whatever a signal costs on this fabric. */
static enum perseus_status submit_put_and_bare_signal(const struct prs_bench_sender *sender,
                                                      const struct prs_bench_transfer *transfer)
{
    enum perseus_status status = submit_put(sender, transfer);
    if (status != PERSEUS_OK) {
        return status;
    }
    return perseus_put_nbi(sender->pe, sender->areas.signals + transfer->slot, sender->areas.round,
                           sizeof(uint64_t), (int)transfer->target);
}

static enum perseus_status submit_put_signal(const struct prs_bench_sender *sender,
                                             const struct prs_bench_transfer *transfer)
{
    return perseus_put_signal_nbi(sender->pe, sender->areas.payload + transfer->offset,
                                  sender->areas.source + prs_bench_window(transfer, sender->round),
                                  transfer->bytes, sender->areas.signals + transfer->slot,
                                  sender->round, PERSEUS_SIGNAL_SET, (int)transfer->target);
}

static enum perseus_status submit_group_put(const struct prs_bench_sender *sender,
                                            const struct prs_bench_transfer *transfer)
{
    bool is_vector = infos[sender->protocol].is_vector;
    struct seat seat = sender->seats[transfer->index];
    enum perseus_status status;
    do {
        status = perseus_signal_group_put(sender->groups[is_vector][seat.group], seat.member,
                                          sender->areas.payload + transfer->offset,
                                          sender->areas.source +
                                              prs_bench_window(transfer, sender->round),
                                          transfer->bytes, sender->round);
    } while (status == PERSEUS_AGAIN && sched_yield() == 0);
    return status;
}

static enum perseus_status (*const submit[PRS_BENCH_PROTOCOL_COUNT])(
    const struct prs_bench_sender *, const struct prs_bench_transfer *) = {
    [PRS_BENCH_PUT_ONLY] = submit_put,
    [PRS_BENCH_PUT_ONLY_SIGNALS] = submit_put_and_bare_signal,
    [PRS_BENCH_COUPLED] = submit_put_signal,
    [PRS_BENCH_DECOUPLED] = submit_group_put,
    [PRS_BENCH_DECOUPLED_VECTOR] = submit_group_put,
    [PRS_BENCH_COLLECTIVE] = submit_put,
};

/* ---- one round ---- */

static enum perseus_status submit_share(const struct prs_bench_sender *sender, uint32_t cta)
{
    for (uint32_t i = cta; i < sender->exchange->n_outgoing; i += sender->n_ctas) {
        enum perseus_status status =
            submit[sender->protocol](sender, &sender->exchange->outgoing[i]);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    return PERSEUS_OK;
}

/* Waits for a turn after `seen`; false: the end. */
static bool await_turn(struct prs_bench_sender *sender, uint64_t seen)
{
    pthread_mutex_lock(&sender->mutex);
    while (sender->turn == seen && !sender->is_ending) {
        pthread_cond_wait(&sender->changed, &sender->mutex);
    }
    bool is_ending = sender->is_ending;
    pthread_mutex_unlock(&sender->mutex);
    return !is_ending;
}

static void *cta_main(void *argument)
{
    struct cta *cta = argument;
    struct prs_bench_sender *sender = cta->sender;
    for (uint64_t turn = 0; await_turn(sender, turn); turn++) {
        cta->status = submit_share(sender, cta->index);
        pthread_mutex_lock(&sender->mutex);
        sender->n_busy--;
        pthread_cond_broadcast(&sender->changed);
        pthread_mutex_unlock(&sender->mutex);
    }
    return NULL;
}

static void begin_turn(struct prs_bench_sender *sender)
{
    pthread_mutex_lock(&sender->mutex);
    sender->turn++;
    sender->n_busy = sender->n_threads;
    pthread_cond_broadcast(&sender->changed);
    pthread_mutex_unlock(&sender->mutex);
}

static void end_turn(struct prs_bench_sender *sender)
{
    pthread_mutex_lock(&sender->mutex);
    while (sender->n_busy > 0) {
        pthread_cond_wait(&sender->changed, &sender->mutex);
    }
    pthread_mutex_unlock(&sender->mutex);
}

enum perseus_status prs_bench_sender_submit(struct prs_bench_sender *sender,
                                            enum prs_bench_protocol protocol, uint64_t round)
{
    sender->protocol = protocol;
    sender->round = round;
    *sender->areas.round = round; /* the round before has ended: nothing reads it now */
    begin_turn(sender);
    enum perseus_status status = submit_share(sender, 0);
    end_turn(sender);
    for (uint32_t i = 1; i < sender->n_ctas && status == PERSEUS_OK; i++) {
        status = sender->ctas[i].status;
    }
    return status;
}

/* ---- signal groups ---- */

static void destroy_groups(struct prs_bench_sender *sender)
{
    for (uint32_t i = 0; i < sender->n_groups; i++) {
        perseus_signal_group_destroy(sender->groups[false][i]);
        perseus_signal_group_destroy(sender->groups[true][i]);
        sender->groups[false][i] = NULL;
        sender->groups[true][i] = NULL;
    }
    sender->n_groups = 0;
}

static int compare_targets(const void *a, const void *b)
{
    const struct prs_bench_transfer *x = *(const struct prs_bench_transfer *const *)a;
    const struct prs_bench_transfer *y = *(const struct prs_bench_transfer *const *)b;
    if (x->target != y->target) {
        return x->target < y->target ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool is_group_full(const struct prs_bench_sender *sender, uint32_t n_members,
                          const struct prs_bench_transfer *next)
{
    if (sender->group_size == PRS_BENCH_GROUP_TARGET) {
        return (uint32_t)sender->members[0].target != next->target;
    }
    return n_members == sender->group_size;
}

static enum perseus_status create_group(struct prs_bench_sender *sender, uint32_t n_members)
{
    uint32_t index = sender->n_groups++;
    struct perseus_signal_group_attr attr = {
        .members = sender->members,
        .n_members = n_members,
        .op = PERSEUS_SIGNAL_SET,
    };
    enum perseus_status status =
        perseus_signal_group_create(sender->pe, &attr, &sender->groups[false][index]);
    if (status != PERSEUS_OK) {
        return status;
    }
    attr.vector = true;
    return perseus_signal_group_create(sender->pe, &attr, &sender->groups[true][index]);
}

enum perseus_status prs_bench_sender_set(struct prs_bench_sender *sender,
                                         const struct prs_bench_exchange *exchange)
{
    destroy_groups(sender);
    sender->exchange = exchange;
    uint32_t n = exchange->n_outgoing, n_members = 0;
    for (uint32_t i = 0; i < n; i++) {
        sender->by_target[i] = &exchange->outgoing[i];
    }
    qsort(sender->by_target, n, sizeof *sender->by_target, compare_targets);
    for (uint32_t i = 0; i < n; i++) {
        const struct prs_bench_transfer *transfer = sender->by_target[i];
        if (n_members > 0 && is_group_full(sender, n_members, transfer)) {
            enum perseus_status status = create_group(sender, n_members);
            if (status != PERSEUS_OK) {
                return status;
            }
            n_members = 0;
        }
        sender->seats[transfer->index] = (struct seat){sender->n_groups, n_members};
        sender->members[n_members++] = (struct perseus_signal_group_member){
            .target = (int)transfer->target,
            .signal = sender->areas.signals + transfer->slot,
        };
    }
    return n_members > 0 ? create_group(sender, n_members) : PERSEUS_OK;
}

/* ---- life ---- */

static enum perseus_status start_ctas(struct prs_bench_sender *sender)
{
    for (uint32_t i = 1; i < sender->n_ctas; i++) {
        struct cta *cta = &sender->ctas[i];
        *cta = (struct cta){.sender = sender, .index = i};
        if (pthread_create(&cta->thread, NULL, cta_main, cta) != 0) {
            return PERSEUS_OUT_OF_MEMORY;
        }
        sender->n_threads++;
    }
    return PERSEUS_OK;
}

static void stop_ctas(struct prs_bench_sender *sender)
{
    pthread_mutex_lock(&sender->mutex);
    sender->is_ending = true;
    pthread_cond_broadcast(&sender->changed);
    pthread_mutex_unlock(&sender->mutex);
    for (uint32_t i = 1; i <= sender->n_threads; i++) {
        pthread_join(sender->ctas[i].thread, NULL);
    }
}

enum perseus_status prs_bench_sender_create(struct perseus_pe *pe,
                                            const struct prs_bench_areas *areas,
                                            uint32_t transfers_max, uint32_t group_size,
                                            uint32_t ctas, struct prs_bench_sender **out)
{
    struct prs_bench_sender *sender = calloc(1, sizeof *sender);
    if (sender == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    pthread_mutex_init(&sender->mutex, NULL); /* with default attributes, both cannot fail */
    pthread_cond_init(&sender->changed, NULL);
    sender->pe = pe;
    sender->areas = *areas;
    sender->transfers_max = transfers_max;
    sender->group_size = group_size;
    sender->n_ctas = ctas;
    sender->groups[false] = calloc(transfers_max, sizeof(struct perseus_signal_group *));
    sender->groups[true] = calloc(transfers_max, sizeof(struct perseus_signal_group *));
    sender->seats = calloc(transfers_max, sizeof *sender->seats);
    sender->members = calloc(transfers_max, sizeof *sender->members);
    sender->by_target = calloc(transfers_max, sizeof *sender->by_target);
    sender->ctas = calloc(ctas, sizeof *sender->ctas);
    enum perseus_status status = PERSEUS_OUT_OF_MEMORY;
    if (sender->groups[false] != NULL && sender->groups[true] != NULL && sender->seats != NULL &&
        sender->members != NULL && sender->by_target != NULL && sender->ctas != NULL) {
        status = start_ctas(sender);
    }
    if (status != PERSEUS_OK) {
        prs_bench_sender_destroy(sender);
        return status;
    }
    *out = sender;
    return PERSEUS_OK;
}

void prs_bench_sender_destroy(struct prs_bench_sender *sender)
{
    if (sender == NULL) {
        return;
    }
    stop_ctas(sender);
    if (sender->groups[false] != NULL && sender->groups[true] != NULL) {
        destroy_groups(sender);
    }
    free(sender->groups[false]);
    free(sender->groups[true]);
    free(sender->seats);
    free(sender->members);
    free(sender->by_target);
    free(sender->ctas);
    pthread_cond_destroy(&sender->changed);
    pthread_mutex_destroy(&sender->mutex);
    free(sender);
}
