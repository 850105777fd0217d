/* Computing tiles that have arrived, and answering them. */
#include <string.h>
#include <time.h>

#include "moe/layer.h"

enum { PRS_BATCH_MAX = 64 }; /* tiles computed together, with relaxed */

/* Where a tile's rows lie, and where its results go. */
struct prs_tile_place {
    struct prs_task task;
    uint32_t rows;
    void *in, *out;
};

/* Results overwrite the rows, unless the source shares memory: then they go straight home. */
static struct prs_tile_place prs_tile_find(const struct perseus_moe *moe,
                                           const struct prs_task *task)
{
    const struct prs_round *round = &moe->rounds[task->half];
    const struct prs_pair *pair = prs_moe_pair(moe, round, task->source, task->expert);
    uint32_t skipped = task->tile * moe->plan.config.tile_tokens;
    struct prs_tile_place place = {
        .task = *task,
        .rows = prs_moe_tile_rows(&moe->plan, pair->rows, task->tile),
        .in = prs_moe_arrival_row(moe, task->half, task->source, pair->place + skipped),
    };
    place.out =
        prs_moe_is_direct(moe, task->source)
            ? perseus_ptr(moe->pe, prs_moe_outgoing_row(moe, task->half, pair->base + skipped),
                          (int)task->source)
            : place.in;
    return place;
}

static uint64_t prs_tile_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct prs_expert_time prs_expert_time_begin(const struct perseus_moe *moe)
{
    return (struct prs_expert_time){prs_clock_now_ns(&moe->clock), prs_tile_cpu_ns()};
}

void prs_expert_time_end(const struct perseus_moe *moe, struct prs_round *round,
                         struct prs_expert_time time)
{
    /* Relaxed: sums for reports, complete when the round's last count is. */
    atomic_fetch_add_explicit(&round->expert_ns, prs_clock_now_ns(&moe->clock) - time.begin_ns,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&round->expert_cpu_ns, prs_tile_cpu_ns() - time.begin_cpu_ns,
                              memory_order_relaxed);
}

static enum perseus_status prs_tile_run(struct prs_worker *worker, uint32_t expert, uint32_t rows,
                                        const void *in, void *out)
{
    const struct perseus_moe *moe = worker->moe;
    enum perseus_moe_dtype wire = moe->plan.config.wire_dtype;
    if (moe->plan.config.communication_only) {
        if (in != out) {
            memcpy(out, in, rows * moe->plan.row_bytes);
        }
        return PERSEUS_OK;
    }
    return prs_expert_run(&worker->bench, &moe->experts[expert], rows, in, wire, out, wire);
}

/* Several tiles of one expert as one product: gathered, computed, and spread again. */
static enum perseus_status prs_tile_run_batch(struct prs_worker *worker,
                                              const struct prs_tile_place *places, uint32_t count)
{
    const struct prs_moe_plan *plan = &worker->moe->plan;
    unsigned char *batch = worker->batch;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(batch + rows * plan->row_bytes, places[i].in, places[i].rows * plan->row_bytes);
        rows += places[i].rows;
    }
    enum perseus_status status = prs_tile_run(worker, places[0].task.expert, rows, batch, batch);
    for (uint32_t i = 0; i < count && status == PERSEUS_OK; i++) {
        memcpy(places[i].out, batch, places[i].rows * plan->row_bytes);
        batch += places[i].rows * plan->row_bytes;
    }
    return status;
}

/* With relaxed, more waiting tiles of the same expert, as long as all fit in one tile's rows. */
static uint32_t prs_tile_gather(struct prs_worker *worker, const struct prs_task *task,
                                struct prs_tile_place *places)
{
    struct perseus_moe *moe = worker->moe;
    places[0] = prs_tile_find(moe, task);
    uint32_t room = moe->plan.config.tile_tokens - places[0].rows, count = 1;
    if (!moe->plan.config.relaxed || moe->plan.config.communication_only || room == 0) {
        return count;
    }
    struct prs_task others[PRS_BATCH_MAX - 1];
    uint32_t taken = prs_scheduler_take_tiles(moe->scheduler, task->half, task->expert, others,
                                              room < PRS_BATCH_MAX - 1 ? room : PRS_BATCH_MAX - 1);
    for (uint32_t i = 0; i < taken; i++) {
        struct prs_tile_place place = prs_tile_find(moe, &others[i]);
        if (place.rows <= room) {
            room -= place.rows;
            places[count++] = place;
        } else {
            prs_scheduler_push(moe->scheduler, &others[i],
                               !prs_moe_is_direct(moe, others[i].source));
        }
    }
    return count;
}

static enum perseus_status prs_tile_answer(struct perseus_moe *moe, struct prs_round *round,
                                           const struct prs_task *task)
{
    uint64_t never = 0;
    /* Relaxed: a time for reports. */
    atomic_compare_exchange_strong_explicit(&round->first_answer_ns, &never,
                                            prs_clock_now_ns(&moe->clock), memory_order_relaxed,
                                            memory_order_relaxed);
    bool is_last;
    enum perseus_status status =
        prs_protocol_answer(moe, round, task->source, task->expert, task->tile, &is_last);
    prs_moe_note_progress(moe);
    return status == PERSEUS_OK && is_last ? prs_moe_pair_answered(moe, round) : status;
}

enum perseus_status prs_moe_tile(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    struct prs_tile_place places[PRS_BATCH_MAX];
    uint32_t count = prs_tile_gather(worker, task, places);
    struct prs_expert_time time = prs_expert_time_begin(moe);
    enum perseus_status status =
        count == 1 ? prs_tile_run(worker, task->expert, places[0].rows, places[0].in, places[0].out)
                   : prs_tile_run_batch(worker, places, count);
    prs_expert_time_end(moe, round, time);
    for (uint32_t i = 0; i < count && status == PERSEUS_OK; i++) {
        status = prs_tile_answer(moe, round, &places[i].task);
    }
    return status;
}

enum perseus_status prs_moe_pair_answered(struct perseus_moe *moe, struct prs_round *round)
{
    /* Acquire and release: with each other, so that the last one's bulk transfer sends what all
     * have computed. */
    if (atomic_fetch_sub_explicit(&round->pairs_left, 1, memory_order_acq_rel) != 1) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_protocol_end_answers(moe, round);
    prs_round_ended_one(moe, round);
    return status;
}
