/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/fake_orderer.h"

#include <string.h>
#include <sys/eventfd.h>

static void fake_take_token(struct prs_orderer *orderer, uint32_t token)
{
    if (token == PRS_ORDER_NO_TOKEN) {
        return;
    }
    if (orderer->completes_at_once) {
        orderer->complete(orderer->context, token, orderer->completion, orderer->result);
    } else {
        orderer->tokens[orderer->n_tokens++] = token;
    }
}

static enum perseus_status fake_answer(struct prs_orderer *orderer, enum perseus_status answer,
                                       const struct fake_call *call)
{
    bool room = orderer->n_tokens < FAKE_TOKENS_MAX;
    enum perseus_status status = answer == PERSEUS_OK && !room ? PERSEUS_AGAIN : answer;
    if (status != PERSEUS_OK) {
        orderer->refused++;
        return status;
    }
    orderer->calls[orderer->n_calls++ % FAKE_CALLS_MAX] = *call;
    fake_take_token(orderer, call->token);
    return PERSEUS_OK;
}

enum perseus_status prs_orderer_submit(struct prs_orderer *orderer,
                                       const struct prs_request *request)
{
    struct fake_call call = {
        .kind = FAKE_SUBMIT, .peer = request->peer, .token = request->token, .request = *request};
    if (request->kind == PRS_REQUEST_SIGNAL_VECTOR) {
        memcpy(call.values, request->values, request->bytes);
    }
    enum perseus_status answer = orderer->answer[request->peer];
    if (orderer->agains_left > 0) {
        orderer->agains_left--;
        answer = PERSEUS_AGAIN;
    }
    return fake_answer(orderer, answer, &call);
}

void prs_orderer_refuse(struct prs_orderer *orderer, uint32_t peer, enum perseus_status why)
{
    orderer->refusals++;
    orderer->refused_peer = peer;
    orderer->refusal = why;
}

enum perseus_status prs_orderer_fence(struct prs_orderer *orderer, uint32_t peer)
{
    struct fake_call call = {.kind = FAKE_FENCE, .peer = peer, .token = PRS_ORDER_NO_TOKEN};
    return fake_answer(orderer, orderer->fence_answer, &call);
}

enum perseus_status prs_orderer_quiet(struct prs_orderer *orderer, uint32_t peer, uint32_t token)
{
    struct fake_call call = {.kind = FAKE_QUIET, .peer = peer, .token = token};
    return fake_answer(orderer, orderer->quiet_answer, &call);
}

enum perseus_status prs_orderer_flush(struct prs_orderer *orderer)
{
    orderer->flushes++;
    return orderer->flush_answer;
}

enum perseus_status prs_orderer_progress(struct prs_orderer *orderer, uint32_t budget,
                                         bool *out_did)
{
    atomic_fetch_add_explicit(&orderer->progresses, 1, memory_order_relaxed);
    orderer->budget = budget;
    for (volatile uint32_t i = 0; i < orderer->progress_spins; i++) {
    }
    if (orderer->progress_answer != PERSEUS_OK) {
        return orderer->progress_answer;
    }
    *out_did = orderer->n_tokens > 0;
    atomic_store(&orderer->arrived, atomic_load(&orderer->arrivals)); /* plain bytes: not told */
    for (uint32_t i = 0; i < orderer->n_tokens; i++) {
        orderer->complete(orderer->context, orderer->tokens[i], orderer->completion,
                          orderer->result);
    }
    orderer->n_tokens = 0;
    return PERSEUS_OK;
}

uint32_t prs_orderer_vector_max(const struct prs_orderer *orderer)
{
    return orderer->vector_max;
}

bool prs_orderer_is_idle(const struct prs_orderer *orderer)
{
    return atomic_load_explicit(&orderer->idle, memory_order_relaxed);
}

int prs_orderer_wait_fd(const struct prs_orderer *orderer)
{
    return orderer->wait_fd;
}

bool prs_orderer_bytes_are_silent(const struct prs_orderer *orderer)
{
    return orderer->bytes_are_silent;
}

static void fake_interrupt(struct prs_orderer *orderer)
{
    if (orderer->in_arm != NULL) {
        orderer->in_arm(orderer->in_arm_context);
    }
}

enum perseus_status prs_orderer_arm(struct prs_orderer *orderer, uint64_t *out_limit_ns)
{
    eventfd_t told;
    bool late = orderer->arms_too_late;
    *out_limit_ns = UINT64_MAX;
    if (!late) {
        eventfd_read(orderer->wait_fd, &told);
    }
    fake_interrupt(orderer);
    /* Sequentially consistent, like everything here that has no other comment. */
    bool is_there = atomic_load(&orderer->arrivals) != atomic_load(&orderer->arrived);
    fake_interrupt(orderer);
    if (late) {
        eventfd_read(orderer->wait_fd, &told);
    }
    return is_there ? PERSEUS_AGAIN : PERSEUS_OK;
}
