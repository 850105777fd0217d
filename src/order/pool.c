/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: the fixed pools of the engine: open operations, jobs, staging slots, reply slots. */
#include "order/engine.h"

void prs_order_pools_init(struct prs_orderer *orderer)
{
    orderer->pending_free = PRS_NONE;
    orderer->job_free = PRS_NONE;
    for (uint32_t i = 0; i < PRS_STAGE_SLOTS; i++) {
        orderer->stage_next[i] = i + 1 < PRS_STAGE_SLOTS ? i + 1 : PRS_NONE;
    }
    for (uint32_t i = 0; i < PRS_IMMEDIATE_REPLIES; i++) {
        orderer->reply_next[i] = i + 1 < PRS_IMMEDIATE_REPLIES ? i + 1 : PRS_NONE;
    }
}

/* ---- jobs ---- */

uint32_t prs_job_take(struct prs_orderer *orderer, uint32_t token)
{
    uint32_t job = orderer->job_free;
    if (job != PRS_NONE) {
        orderer->job_free = orderer->jobs[job].next;
    } else if (orderer->jobs_used < PRS_JOBS_MAX) {
        job = orderer->jobs_used++;
    } else {
        return PRS_NONE;
    }
    orderer->jobs[job] = (struct prs_job){.token = token};
    return job;
}

void prs_job_give_back(struct prs_orderer *orderer, uint32_t job)
{
    if (job != PRS_NONE) {
        orderer->jobs[job].next = orderer->job_free;
        orderer->job_free = job;
    }
}

static void job_part_done(struct prs_orderer *orderer, uint32_t index, enum perseus_status status,
                          uint64_t result)
{
    struct prs_job *job = &orderer->jobs[index];
    if (job->status == PERSEUS_OK) {
        job->status = status;
        job->result = result;
    }
    if (--job->open > 0) {
        return;
    }
    struct prs_job done = *job;
    prs_job_give_back(orderer, index);
    if (done.token != PRS_ORDER_NO_TOKEN && orderer->config.complete != NULL) {
        orderer->config.complete(orderer->config.context, done.token, done.status, done.result);
    }
}

/* ---- open operations ---- */

uint32_t prs_pending_take(struct prs_orderer *orderer, struct prs_order_peer *peer, uint32_t job)
{
    uint32_t index = orderer->pending_free;
    if (index != PRS_NONE) {
        orderer->pending_free = orderer->pendings[index].next;
    } else if (orderer->pendings_used < PRS_PENDING_MAX) {
        index = orderer->pendings_used++;
    } else {
        return PRS_NONE;
    }
    struct prs_pending *pending = &orderer->pendings[index];
    *pending = (struct prs_pending){
        .peer = peer, .job = job, .stage = PRS_NONE, .reply = PRS_NONE, .waits = PRS_WAIT_LOCAL};
    return index;
}

void prs_pending_open(struct prs_orderer *orderer, uint32_t index)
{
    struct prs_pending *pending = &orderer->pendings[index];
    struct prs_counters *counters = &pending->peer->counters;
    pending->epoch = prs_epochs_add(&pending->peer->epochs);
    pending->endpoint_epoch = prs_epochs_add(&orderer->epochs);
    pending->opened = true;
    if (pending->job != PRS_NONE) {
        orderer->jobs[pending->job].open++;
    }
    prs_count(&counters->in_flight, 1);
    if (atomic_load_explicit(&counters->in_flight_max, memory_order_relaxed) <
        pending->peer->epochs.open) {
        prs_count(&counters->in_flight_max, 1);
    }
}

/* Frees the slot and what hangs on it; leaves the job alone. */
static void pending_release(struct prs_orderer *orderer, uint32_t index)
{
    struct prs_pending *pending = &orderer->pendings[index];
    if (pending->opened) {
        prs_epochs_done(&pending->peer->epochs, pending->epoch);
        prs_epochs_done(&orderer->epochs, pending->endpoint_epoch);
        prs_count(&pending->peer->counters.in_flight, UINT64_MAX); /* minus one */
    }
    if (pending->native_atomic) {
        pending->peer->native_atomics_open--;
    }
    prs_stage_give_back(orderer, pending->stage);
    prs_reply_give_back(orderer, pending->reply);
    pending->peer = NULL;
    pending->next = orderer->pending_free;
    orderer->pending_free = index;
}

void prs_pending_give_back(struct prs_orderer *orderer, uint32_t index)
{
    if (index == PRS_NONE) {
        return;
    }
    struct prs_pending *pending = &orderer->pendings[index];
    if (pending->opened && pending->job != PRS_NONE) {
        orderer->jobs[pending->job].open--;
    }
    pending_release(orderer, index);
}

static uint64_t pending_result(struct prs_orderer *orderer, const struct prs_pending *pending)
{
    if (pending->result_in_stage) {
        return *(const uint64_t *)prs_stage_memory(orderer, pending->stage);
    }
    if (pending->reply != PRS_NONE) {
        const uint64_t *replies =
            (const uint64_t *)(void *)(orderer->control + orderer->control_layout.replies);
        return replies[pending->reply];
    }
    return 0;
}

void prs_pending_clear(struct prs_orderer *orderer, uint32_t index, uint8_t wait,
                       enum perseus_status status)
{
    struct prs_pending *pending = &orderer->pendings[index];
    if (pending->status == PERSEUS_OK) {
        pending->status = (uint8_t)status;
    }
    pending->waits &= (uint8_t)~wait;
    if (pending->waits != 0) {
        return;
    }
    enum perseus_status final = (enum perseus_status)pending->status;
    if (final != PERSEUS_OK && orderer->quiet_status == PERSEUS_OK && !pending->system) {
        orderer->quiet_status = final;
    }
    uint64_t result = final == PERSEUS_OK ? pending_result(orderer, pending) : 0;
    uint32_t job = pending->job;
    pending_release(orderer, index);
    if (job != PRS_NONE) {
        job_part_done(orderer, job, final, result);
    }
}

/* ---- staging and reply slots ---- */

uint32_t prs_stage_take(struct prs_orderer *orderer)
{
    uint32_t stage = orderer->stage_free;
    if (stage != PRS_NONE) {
        orderer->stage_free = orderer->stage_next[stage];
    }
    return stage;
}

void prs_stage_give_back(struct prs_orderer *orderer, uint32_t stage)
{
    if (stage != PRS_NONE) {
        orderer->stage_next[stage] = orderer->stage_free;
        orderer->stage_free = stage;
    }
}

void *prs_stage_memory(struct prs_orderer *orderer, uint32_t stage)
{
    return orderer->control + orderer->control_layout.staging + (size_t)stage * PRS_STAGE_BYTES;
}

uint32_t prs_reply_take(struct prs_orderer *orderer)
{
    uint32_t reply = orderer->reply_free;
    if (reply != PRS_NONE) {
        orderer->reply_free = orderer->reply_next[reply];
    }
    return reply;
}

void prs_reply_give_back(struct prs_orderer *orderer, uint32_t reply)
{
    if (reply != PRS_NONE) {
        orderer->reply_next[reply] = orderer->reply_free;
        orderer->reply_free = reply;
    }
}
