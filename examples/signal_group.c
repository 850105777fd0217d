/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal group: several threads put tiles to the next PE; the last one of a round submits one
 * fence and then every tile's signal, as one message because the signals lie side by side. Without
 * the group each tile would have a fence of its own.
 *
 *     perseus run -n 2 -- signal_group
 *     perseus run -n 4 --pes-per-node 1 -- signal_group     through the proxy and the fabric
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include <perseus/perseus.h>

enum { TILES = 8, TILE_WORDS = 256, ROUNDS = 10, WAIT_MS = 10000 };

/* Symmetric. */
struct exchange {
    uint64_t arrived[TILES]; /* the number of the round that has arrived */
    uint64_t incoming[TILES][TILE_WORDS], outgoing[TILES][TILE_WORDS];
};

struct worker {
    struct perseus_signal_group *group;
    struct exchange *exchange;
    uint64_t round;
    uint32_t tile;
    pthread_t thread;
    enum perseus_status status;
};

static void print_message(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    fprintf(stderr, "%s\n", text);
}

/* One tile of one round: compute it, put it, arrive. */
static void *work(void *context)
{
    struct worker *worker = context;
    uint64_t *source = worker->exchange->outgoing[worker->tile];
    for (int i = 0; i < TILE_WORDS; i++) {
        source[i] = worker->round * 1000 + worker->tile;
    }
    do { /* AGAIN: the round before the last is not signaled yet */
        worker->status = perseus_signal_group_put(worker->group, worker->tile,
                                                  worker->exchange->incoming[worker->tile], source,
                                                  TILE_WORDS * sizeof *source, worker->round);
    } while (worker->status == PERSEUS_AGAIN && sched_yield() == 0);
    return NULL;
}

static enum perseus_status send_round(struct perseus_signal_group *group, struct exchange *exchange,
                                      uint64_t round)
{
    struct worker workers[TILES];
    enum perseus_status status = PERSEUS_OK;
    uint32_t started = 0;
    while (started < TILES) {
        struct worker *worker = &workers[started];
        *worker =
            (struct worker){.group = group, .exchange = exchange, .round = round, .tile = started};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            status = PERSEUS_LIMIT;
            break;
        }
        started++;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        status = status == PERSEUS_OK ? workers[i].status : status;
    }
    return status;
}

static enum perseus_status receive_round(struct perseus_pe *pe, const struct exchange *exchange,
                                         uint64_t round)
{
    for (uint64_t tile = 0; tile < TILES; tile++) {
        enum perseus_status status = perseus_signal_wait_until(
            pe, &exchange->arrived[tile], PERSEUS_CMP_GE, round, WAIT_MS, NULL);
        if (status != PERSEUS_OK) {
            return status;
        }
        if (exchange->incoming[tile][TILE_WORDS - 1] != round * 1000 + tile) {
            fprintf(stderr, "PE %d: tile %d came after its signal\n", perseus_my_pe(pe), (int)tile);
            return PERSEUS_INTERNAL;
        }
    }
    return PERSEUS_OK;
}

static enum perseus_status run_rounds(struct perseus_pe *pe, struct perseus_signal_group *group,
                                      struct exchange *exchange)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint64_t round = 1; round <= ROUNDS && status == PERSEUS_OK; round++) {
        status = send_round(group, exchange, round);
        if (status == PERSEUS_OK) {
            status = receive_round(pe, exchange, round);
        }
        if (status == PERSEUS_OK) {
            status = perseus_barrier_all(pe); /* the next round writes the same tiles */
        }
    }
    return status;
}

static enum perseus_status run(struct perseus_pe *pe)
{
    int next = (perseus_my_pe(pe) + 1) % perseus_n_pes(pe);
    struct perseus_signal_group_member members[TILES];
    struct perseus_signal_group *group = NULL;
    struct perseus_stats stats;
    void *memory = NULL;
    enum perseus_status status = perseus_malloc(pe, sizeof(struct exchange), &memory);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct exchange *exchange = memory;
    for (int i = 0; i < TILES; i++) {
        members[i] = (struct perseus_signal_group_member){next, &exchange->arrived[i]};
    }
    const struct perseus_signal_group_attr attr = {
        .members = members, .n_members = TILES, .op = PERSEUS_SIGNAL_SET, .vector = true};
    status = perseus_signal_group_create(pe, &attr, &group);
    if (status == PERSEUS_OK) {
        status = run_rounds(pe, group, exchange);
    }
    perseus_signal_group_destroy(group);
    if (status == PERSEUS_OK) {
        status = perseus_stats(pe, next, &stats);
    }
    if (status == PERSEUS_OK) {
        printf("PE %d sent %d tiles to PE %d: %llu puts, %llu fences, %llu signal messages, %llu "
               "node-local operations\n",
               perseus_my_pe(pe), TILES * ROUNDS, next, (unsigned long long)stats.puts,
               (unsigned long long)stats.fences, (unsigned long long)stats.signal_messages,
               (unsigned long long)stats.local_ops);
    }
    return status;
}

int main(void)
{
    const struct perseus_attr attr = {.log = print_message, .log_level = PERSEUS_LOG_WARN};
    struct perseus_pe *pe = NULL;
    if (perseus_init_attr(&attr, &pe) != PERSEUS_OK) {
        return 1;
    }
    if (run(pe) != PERSEUS_OK) {
        perseus_abort(pe);
        return 1;
    }
    return perseus_finalize(pe) == PERSEUS_OK ? 0 : 1;
}
