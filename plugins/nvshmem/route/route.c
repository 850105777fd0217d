/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric/word.h"

#define PROGRESS_BUDGET 64
#define IDLE_PER_CHECK  256 /* rounds without work between looks at the clock */
#define IDLE_PER_YIELD  32

/* ---- life ---- */

enum perseus_status prs_route_init(struct prs_route *route, const struct prs_route_config *config)
{
    *route = (struct prs_route){
        .log = config->log,
        .side = config->side,
        .timeout_ns = config->timeout_ns,
        .clock = prs_clock_monotonic(),
        .companion = config->companion,
    };
    pthread_mutex_init(&route->lock, NULL);
    for (uint32_t i = 0; i < PRS_ROUTE_TOKENS; i++) {
        route->tokens[i].next = i + 1;
    }
    /* A lost peer is told by the ordering engine, which knows its PE; the fabric, which numbers
     * connections, adds the cause for who asks for more. */
    enum perseus_status status =
        prs_link_open(&route->link, config->settings, PERSEUS_LOG_INFO, config->log);
    return status == PERSEUS_OK ? prs_link_resolve(&route->link, config->settings) : status;
}

bool prs_route_has_records(const struct prs_route *route, const struct prs_link_settings *settings)
{
    return route->link.ordering == PERSEUS_ORDERING_COUNTED ||
           (route->link.fabric->caps.signals_tear && settings->whole_signals);
}

static void completed(void *context, uint32_t index, enum perseus_status status, uint64_t result);

enum perseus_status prs_route_start(struct prs_route *route,
                                    const struct prs_link_settings *settings, uint32_t self,
                                    uint32_t n_pes, const unsigned char *secret, bool host_fences)
{
    bool records = prs_route_has_records(route, settings);
    prs_sequence_rules_init(&route->rules, route->link.ordering, &route->link.fabric->caps, records,
                            host_fences);
    /* The words of one message may be seen in any order where the fabric writes them, so the host
     * must be trusted to say where a fence stands between them. Vanilla sends every SET by
     * itself. */
    route->runs = route->link.ordering != PERSEUS_ORDERING_DRAIN && (host_fences || records);
    route->peers = calloc(n_pes, sizeof *route->peers);
    if (route->peers == NULL) {
        return prs_fail(route->log, PERSEUS_OUT_OF_MEMORY, "no memory for %u PEs", n_pes);
    }
    route->n_pes = n_pes;
    const struct prs_link_end end = {
        .self = self,
        .n_peers = n_pes,
        .stream = (uint64_t)self * PRS_SIDE_COUNT + route->side,
        .secret = secret,
        .complete = completed,
        .context = route,
    };
    return prs_link_start(&route->link, settings, &end);
}

void prs_route_finish(struct prs_route *route)
{
    if (route->log == NULL) {
        return;
    }
    for (uint32_t pe = 0; pe < route->n_pes; pe++) {
        for (uint32_t i = 0; i < route->peers[pe].remotes_count; i++) {
            prs_window_remote_close(route->peers[pe].remotes[i]);
        }
        free(route->peers[pe].remotes);
    }
    free(route->peers);
    prs_link_stop(&route->link);
    prs_link_close(&route->link);
    pthread_mutex_destroy(&route->lock);
    *route = (struct prs_route){.log = NULL};
}

void prs_route_lock(struct prs_route *route)
{
    if (pthread_mutex_trylock(&route->lock) == 0) {
        return;
    }
    /* The count is a hint to yield; the mutex orders everything else. */
    atomic_fetch_add_explicit(&route->waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(&route->lock);
    atomic_fetch_sub_explicit(&route->waiting, 1, memory_order_relaxed);
}

void prs_route_unlock(struct prs_route *route)
{
    pthread_mutex_unlock(&route->lock);
}

/* ---- the engine's callbacks ---- */

void prs_route_token_give_back(struct prs_route *route, uint32_t index)
{
    route->tokens[index].next = route->token_free;
    route->token_free = index;
}

static void completed(void *context, uint32_t index, enum perseus_status status, uint64_t result)
{
    struct prs_route *route = context;
    if (index >= PRS_ROUTE_TOKENS) {
        if (route->hooks.told != NULL) {
            route->hooks.told(route->hooks.context, index - PRS_ROUTE_TOKENS);
        }
        return;
    }
    struct prs_token *token = &route->tokens[index];
    token->done = true;
    token->status = status;
    if (token->result != NULL) {
        if (status == PERSEUS_OK) {
            prs_word_apply_sized(token->result, token->result_bytes, PERSEUS_ATOMIC_SET, result, 0);
        }
        prs_route_token_give_back(route, index);
    }
}

/* ---- waiting ---- */

/* Changes whenever an operation of this route's own leaves or completes. */
static uint64_t movement(const struct prs_route *route)
{
    struct perseus_stats stats;
    prs_orderer_stats(route->link.orderer, PRS_ORDER_ALL_PEERS, &stats);
    uint64_t more = route->hooks.moved != NULL ? route->hooks.moved(route->hooks.context) : 0;
    return stats.puts + stats.gets + stats.signal_messages + stats.atomics - stats.in_flight + more;
}

static enum perseus_status check_deadline(struct prs_route *route, struct prs_patience *patience,
                                          const char *what, uint32_t pe)
{
    uint64_t now_ns = prs_clock_now_ns(&route->clock), moved = movement(route);
    if (patience->since_ns == 0 || moved != patience->moved) {
        *patience = (struct prs_patience){.since_ns = now_ns, .moved = moved};
        return PERSEUS_OK;
    }
    if (now_ns - patience->since_ns < route->timeout_ns) {
        return PERSEUS_OK;
    }
    char peer[32] = "every PE";
    if (pe != PRS_ORDER_ALL_PEERS) {
        snprintf(peer, sizeof peer, "PE %u", pe);
    }
    return prs_fail(route->log, PERSEUS_TIMEOUT,
                    "%s toward %s: nothing has moved for %llu ms. See whether that PE is alive, or "
                    "raise PERSEUS_TIMEOUT_MS",
                    what, peer, (unsigned long long)(route->timeout_ns / 1000000));
}

enum perseus_status prs_route_progress(struct prs_route *route, bool *out_did)
{
    *out_did = false;
    prs_route_flush_run(route);
    enum perseus_status status = prs_orderer_flush(route->link.orderer);
    if (status == PERSEUS_OK || status == PERSEUS_AGAIN) {
        status = prs_orderer_progress(route->link.orderer, PROGRESS_BUDGET, out_did);
    }
    if (status == PERSEUS_OK && route->hooks.pump != NULL) {
        bool did;
        status = route->hooks.pump(route->hooks.context, &did);
        *out_did |= did;
    }
    return status == PERSEUS_AGAIN ? PERSEUS_OK : status;
}

enum perseus_status prs_route_turn(struct prs_route *route, struct prs_patience *patience,
                                   const char *what, uint32_t pe)
{
    bool did = false;
    enum perseus_status status = prs_route_progress(route, &did);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_route *other = route->companion;
    if (pthread_mutex_trylock(&other->lock) == 0) {
        bool other_did;
        status = prs_route_progress(other, &other_did);
        prs_route_unlock(other);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    if (atomic_load_explicit(&route->waiting, memory_order_relaxed) > 0) {
        prs_route_unlock(route);
        sched_yield();
        prs_route_lock(route);
    }
    if (did) {
        patience->idle = 0;
        return PERSEUS_OK;
    }
    patience->idle++;
    if (patience->idle % IDLE_PER_YIELD == 0) {
        sched_yield();
    }
    return patience->idle % IDLE_PER_CHECK == 0 ? check_deadline(route, patience, what, pe)
                                                : PERSEUS_OK;
}

/* ---- tokens ---- */

static enum perseus_status take_token(struct prs_route *route, void *result, uint32_t bytes,
                                      uint32_t *out)
{
    struct prs_patience patience = {0};
    while (route->token_free == PRS_ROUTE_TOKENS) {
        enum perseus_status status =
            prs_route_turn(route, &patience, "room for a fetch", PRS_ORDER_ALL_PEERS);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    *out = route->token_free;
    struct prs_token *token = &route->tokens[*out];
    route->token_free = token->next;
    *token = (struct prs_token){.result = result, .result_bytes = bytes};
    return PERSEUS_OK;
}

enum perseus_status prs_route_fetch_token(struct prs_route *route, void *result, uint32_t bytes,
                                          uint32_t *out_token)
{
    return take_token(route, result, bytes, out_token);
}

static enum perseus_status await_token(struct prs_route *route, uint32_t index, const char *what,
                                       uint32_t pe)
{
    struct prs_patience patience = {0};
    struct prs_token *token = &route->tokens[index];
    while (!token->done) {
        enum perseus_status status = prs_route_turn(route, &patience, what, pe);
        if (status != PERSEUS_OK) {
            return status; /* the token stays taken: the engine may still complete it */
        }
    }
    prs_route_token_give_back(route, index);
    return token->status;
}

/* ---- peers ---- */

enum perseus_status prs_route_remote(struct prs_route *route, uint32_t pe,
                                     const struct prs_handle *handle,
                                     struct prs_window_remote **out)
{
    struct prs_route_peer *peer = &route->peers[pe];
    if (handle->number >= peer->remotes_count) {
        uint32_t count = handle->number + 16;
        struct prs_window_remote **remotes = realloc(peer->remotes, count * sizeof *remotes);
        if (remotes == NULL) {
            return prs_fail(route->log, PERSEUS_OUT_OF_MEMORY, "no memory for chunk %u of PE %u",
                            handle->number, pe);
        }
        for (uint32_t i = peer->remotes_count; i < count; i++) {
            remotes[i] = NULL;
        }
        peer->remotes = remotes;
        peer->remotes_count = count;
    }
    if (peer->remotes[handle->number] == NULL) {
        enum perseus_status status =
            prs_window_import(route->link.orderer, pe, prs_handle_blob(handle, route->side),
                              handle->blob_bytes[route->side], &peer->remotes[handle->number]);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    *out = peer->remotes[handle->number];
    return PERSEUS_OK;
}

/* Until the engine has taken it. */
static enum perseus_status insist(struct prs_route *route, const struct prs_request *request)
{
    struct prs_patience patience = {0};
    enum perseus_status status;
    while ((status = prs_orderer_submit(route->link.orderer, request)) == PERSEUS_AGAIN) {
        status = prs_route_turn(route, &patience, "posting", request->peer);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    return status;
}

/* ---- runs ---- */

enum perseus_status prs_route_flush_run(struct prs_route *route)
{
    if (route->run.count == 0) {
        return PERSEUS_OK;
    }
    const struct prs_request request = prs_run_request(&route->run);
    enum perseus_status status = prs_orderer_submit(route->link.orderer, &request);
    if (status == PERSEUS_AGAIN) {
        return status;
    }
    route->run.count = 0;
    if (route->run.status == PERSEUS_OK) {
        route->run.status = status;
    }
    return PERSEUS_OK;
}

static enum perseus_status end_run(struct prs_route *route)
{
    struct prs_patience patience = {0};
    enum perseus_status status;
    while ((status = prs_route_flush_run(route)) == PERSEUS_AGAIN) {
        status = prs_route_turn(route, &patience, "posting", route->run.peer);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    return status;
}

static void note(struct prs_route *route, uint32_t peer, enum prs_class what, uint64_t word)
{
    prs_sequence_add(&route->peers[peer].sequence, what, word);
    route->peers[peer].unsettled = true;
    atomic_fetch_add_explicit(&route->submitted, 1, memory_order_relaxed);
}

enum perseus_status prs_route_set(struct prs_route *route, const struct prs_request *request,
                                  uint64_t word)
{
    const struct prs_sequence *sequence = &route->peers[request->peer].sequence;
    if (!route->runs) {
        return prs_route_submit(route, request, PRS_CLASS_SET, word);
    }
    bool fence = prs_sequence_needs_fence(&route->rules, sequence, PRS_CLASS_SET, word);
    if (fence ||
        !prs_run_continues(&route->run, request, prs_orderer_vector_max(route->link.orderer))) {
        enum perseus_status status = end_run(route);
        if (status == PERSEUS_OK && fence) {
            status = prs_route_fence(route, request->peer);
        }
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    prs_run_add(&route->run, request);
    note(route, request->peer, PRS_CLASS_SET, word);
    return PERSEUS_OK;
}

/* ---- work ---- */

enum perseus_status prs_route_fence(struct prs_route *route, uint32_t pe)
{
    /* Vanilla: a fence is a drain of the whole endpoint, waited for on the spot. */
    if (route->link.ordering == PERSEUS_ORDERING_DRAIN) {
        return prs_route_quiet(route, PRS_ORDER_ALL_PEERS);
    }
    struct prs_patience patience = {0};
    enum perseus_status status = end_run(route);
    if (status == PERSEUS_OK) {
        status = prs_orderer_fence(route->link.orderer, pe);
    }
    while (status == PERSEUS_AGAIN) {
        status = prs_route_turn(route, &patience, "fence", pe);
        if (status == PERSEUS_OK) {
            status = prs_orderer_fence(route->link.orderer, pe);
        }
    }
    if (status == PERSEUS_OK) {
        prs_sequence_fenced(&route->peers[pe].sequence);
    }
    return status;
}

enum perseus_status prs_route_submit(struct prs_route *route, const struct prs_request *request,
                                     enum prs_class what, uint64_t word)
{
    const struct prs_sequence *sequence = &route->peers[request->peer].sequence;
    enum perseus_status status = end_run(route);
    if (status == PERSEUS_OK && prs_sequence_needs_fence(&route->rules, sequence, what, word)) {
        status = prs_route_fence(route, request->peer);
    }
    if (status == PERSEUS_OK) {
        status = insist(route, request);
    }
    if (status == PERSEUS_OK) {
        note(route, request->peer, what, word);
    }
    return status;
}

enum perseus_status prs_route_perform(struct prs_route *route, struct prs_request *request,
                                      enum prs_class what)
{
    enum perseus_status status = take_token(route, NULL, 0, &request->token);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_route_submit(route, request, what, 0);
    if (status != PERSEUS_OK) {
        prs_route_token_give_back(route, request->token);
        return status;
    }
    return await_token(route, request->token, "a blocking transfer", request->peer);
}

enum perseus_status prs_route_quiet(struct prs_route *route, uint32_t pe)
{
    uint32_t token;
    enum perseus_status status = take_token(route, NULL, 0, &token);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_patience patience = {0};
    status = end_run(route);
    if (status == PERSEUS_OK) {
        status = prs_orderer_quiet(route->link.orderer, pe, token);
    }
    while (status == PERSEUS_AGAIN) {
        status = prs_route_turn(route, &patience, "quiet", pe);
        if (status == PERSEUS_OK) {
            status = prs_orderer_quiet(route->link.orderer, pe, token);
        }
    }
    if (status != PERSEUS_OK) {
        prs_route_token_give_back(route, token);
        return status;
    }
    status = await_token(route, token, "quiet", pe);
    if (status == PERSEUS_OK) {
        status = route->run.status;
    }
    route->run.status = PERSEUS_OK;
    if (status == PERSEUS_OK) {
        uint32_t first = pe == PRS_ORDER_ALL_PEERS ? 0 : pe;
        uint32_t end = pe == PRS_ORDER_ALL_PEERS ? route->n_pes : pe + 1;
        for (uint32_t i = first; i < end; i++) {
            route->peers[i].unsettled = route->peers[i].passed = false;
            prs_sequence_fenced(&route->peers[i].sequence);
        }
    }
    return status;
}
