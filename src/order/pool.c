/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "order/engine.h"

/* ---- life ---- */

static uint32_t or_default(uint32_t asked, uint32_t otherwise)
{
    return asked == 0 ? otherwise : asked;
}

struct prs_order_pools prs_pools_defaults(const struct prs_order_pools *sizes)
{
    return (struct prs_order_pools){.operations = or_default(sizes->operations, 4096),
                                    .tokens = or_default(sizes->tokens, 1024),
                                    .quiets = or_default(sizes->quiets, 64),
                                    .stages = or_default(sizes->stages, 256),
                                    .replies = or_default(sizes->replies, PRS_REPLIES_MAX)};
}

/* A count of arrived puts has 16 bits (prs_mail_in). */
#define OPERATIONS_MAX 32767u

enum perseus_status prs_pools_create(struct prs_pools *pools, const struct prs_order_pools *sizes,
                                     const struct prs_log *log)
{
    if (sizes->operations < 2 || sizes->operations > OPERATIONS_MAX ||
        sizes->replies > PRS_REPLIES_MAX) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%u operations and %u replies may be open at once: use 2 to %u, and at "
                        "most %u",
                        sizes->operations, sizes->replies, OPERATIONS_MAX, PRS_REPLIES_MAX);
    }
    pools->pendings = calloc(sizes->operations, sizeof *pools->pendings);
    pools->tokens = calloc(sizes->tokens, sizeof *pools->tokens);
    pools->stage_next = calloc(sizes->stages, sizeof *pools->stage_next);
    pools->reply_next = calloc(sizes->replies, sizeof *pools->reply_next);
    if (pools->pendings == NULL || pools->tokens == NULL || pools->stage_next == NULL ||
        pools->reply_next == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for %u open operations",
                        sizes->operations);
    }
    pools->pending_free = (struct prs_free_list){.first = PRS_NONE, .count = sizes->operations};
    pools->token_free = (struct prs_free_list){.first = PRS_NONE, .count = sizes->tokens};
    pools->stage_free = (struct prs_free_list){.first = PRS_NONE, .count = sizes->stages};
    pools->reply_free = (struct prs_free_list){.first = PRS_NONE, .count = sizes->replies};
    return PERSEUS_OK;
}

void prs_pools_destroy(struct prs_pools *pools)
{
    free(pools->pendings);
    free(pools->tokens);
    free(pools->stage_next);
    free(pools->reply_next);
}

/* The last one given back, or one never taken. The caller reads the next of the list: `first` is
 * PRS_NONE when the index is a fresh one. */
static uint32_t take_fresh(struct prs_free_list *list)
{
    return list->used < list->count ? list->used++ : PRS_NONE;
}

static uint32_t take_slot(struct prs_free_list *list, const uint32_t *next)
{
    uint32_t index = list->first;
    if (index == PRS_NONE) {
        return take_fresh(list);
    }
    list->first = next[index];
    return index;
}

static void give_back_slot(struct prs_free_list *list, uint32_t *next, uint32_t index)
{
    if (index != PRS_NONE) {
        next[index] = list->first;
        list->first = index;
    }
}

/* ---- tokens ---- */

uint32_t prs_token_take(struct prs_orderer *orderer, uint32_t token)
{
    struct prs_pools *pools = &orderer->pools;
    uint32_t index = pools->token_free.first;
    if (index != PRS_NONE) {
        pools->token_free.first = pools->tokens[index].next;
    } else {
        index = take_fresh(&pools->token_free);
    }
    if (index != PRS_NONE) {
        pools->tokens[index] = (struct prs_order_token){.token = token};
    }
    return index;
}

void prs_token_give_back(struct prs_orderer *orderer, uint32_t index)
{
    if (index != PRS_NONE) {
        orderer->pools.tokens[index].next = orderer->pools.token_free.first;
        orderer->pools.token_free.first = index;
    }
}

static void token_part_done(struct prs_orderer *orderer, uint32_t index, enum perseus_status status,
                            uint64_t result)
{
    struct prs_order_token *token = &orderer->pools.tokens[index];
    if (token->status == PERSEUS_OK) {
        token->status = status;
        token->result = result;
    }
    if (--token->open > 0) {
        return;
    }
    struct prs_order_token done = *token;
    prs_token_give_back(orderer, index);
    if (orderer->config.complete != NULL) {
        orderer->config.complete(orderer->config.context, done.token, done.status, done.result);
    }
}

/* ---- open operations ---- */

uint32_t prs_pending_index(const struct prs_orderer *orderer, const struct prs_pending *pending)
{
    return (uint32_t)(pending - orderer->pools.pendings);
}

struct prs_pending *prs_pending_at(struct prs_orderer *orderer, uint64_t index)
{
    struct prs_pools *pools = &orderer->pools;
    bool taken = index < pools->pending_free.used && pools->pendings[index].peer != NULL;
    return taken ? &pools->pendings[index] : NULL;
}

struct prs_pending *prs_pending_take(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                     uint32_t token)
{
    struct prs_pools *pools = &orderer->pools;
    uint32_t index = pools->pending_free.first;
    if (index != PRS_NONE) {
        pools->pending_free.first = pools->pendings[index].next;
    } else {
        index = take_fresh(&pools->pending_free);
    }
    if (index == PRS_NONE) {
        return NULL;
    }
    struct prs_pending *pending = &pools->pendings[index];
    *pending = (struct prs_pending){.peer = peer,
                                    .op = {.peer = peer->fabric_peer, .cookie = index},
                                    .after = peer->fence_after,
                                    .token = token,
                                    .stage = PRS_NONE,
                                    .reply = PRS_NONE,
                                    .next = PRS_NONE,
                                    .waits = PRS_WAIT_POST};
    return pending;
}

struct prs_pending *prs_pending_take_staged(struct prs_orderer *orderer,
                                            struct prs_order_peer *peer, uint32_t token)
{
    struct prs_pending *pending = prs_pending_take(orderer, peer, token);
    if (pending == NULL) {
        return NULL;
    }
    if (!prs_stage_take(orderer, pending)) {
        prs_pending_give_back(orderer, pending);
        return NULL;
    }
    return pending;
}

void prs_pending_open(struct prs_orderer *orderer, struct prs_pending *pending)
{
    struct prs_counters *counters = &pending->peer->counters;
    prs_epochs_add(&pending->peer->epochs, &pending->of_peer);
    prs_epochs_add(&orderer->epochs, &pending->of_endpoint);
    pending->opened = true;
    if (pending->token != PRS_NONE) {
        orderer->pools.tokens[pending->token].open++;
    }
    prs_count(&counters->in_flight, 1);
    if (atomic_load_explicit(&counters->in_flight_max, memory_order_relaxed) <
        pending->peer->epochs.open) {
        prs_count(&counters->in_flight_max, 1);
    }
}

static void close_epochs(struct prs_orderer *orderer, struct prs_pending *pending)
{
    if (pending->opened) {
        pending->opened = false;
        prs_epochs_remove(&pending->peer->epochs, &pending->of_peer);
        prs_epochs_remove(&orderer->epochs, &pending->of_endpoint);
        prs_count(&pending->peer->counters.in_flight, UINT64_MAX); /* minus one */
        prs_order_wake(orderer, pending->peer);
    }
}

/* Frees the slot and what hangs on it; leaves the token alone. */
static void release(struct prs_orderer *orderer, struct prs_pending *pending)
{
    struct prs_pools *pools = &orderer->pools;
    if (pending->native_atomic) {
        pending->peer->native_atomics_open--;
    }
    close_epochs(orderer, pending);
    give_back_slot(&pools->stage_free, pools->stage_next, pending->stage);
    give_back_slot(&pools->reply_free, pools->reply_next, pending->reply);
    pending->peer = NULL;
    pending->next = pools->pending_free.first;
    pools->pending_free.first = prs_pending_index(orderer, pending);
}

void prs_pending_give_back(struct prs_orderer *orderer, struct prs_pending *pending)
{
    if (pending->opened && pending->token != PRS_NONE) {
        orderer->pools.tokens[pending->token].open--;
    }
    release(orderer, pending);
}

static uint64_t result_of(struct prs_orderer *orderer, const struct prs_pending *pending)
{
    if (pending->result_in_stage) {
        return *(const uint64_t *)prs_stage_memory(orderer, pending->stage);
    }
    if (pending->reply != PRS_NONE) {
        const struct prs_reply *replies =
            (const void *)(orderer->control + orderer->layout.replies);
        return replies[pending->reply].value;
    }
    return 0;
}

void prs_pending_clear(struct prs_orderer *orderer, struct prs_pending *pending, uint8_t waits,
                       enum perseus_status status)
{
    if (pending->status == PERSEUS_OK) {
        pending->status = (uint8_t)status;
    }
    pending->waits &= (uint8_t)~waits;
    if (pending->waits != 0) {
        return;
    }
    bool told = pending->told;
    enum perseus_status final = (enum perseus_status)pending->status;
    uint64_t result = final == PERSEUS_OK ? result_of(orderer, pending) : 0;
    uint32_t token = pending->token;
    release(orderer, pending);
    if (!told && token != PRS_NONE) {
        token_part_done(orderer, token, final, result);
    }
}

void prs_pending_give_up(struct prs_orderer *orderer, struct prs_pending *pending,
                         enum perseus_status status)
{
    if ((pending->waits & PRS_WAIT_LOCAL) == 0 || pending->told) {
        prs_pending_clear(orderer, pending, (uint8_t)~PRS_WAIT_LOCAL, status);
        return;
    }
    pending->waits = PRS_WAIT_LOCAL;
    pending->told = true;
    close_epochs(orderer, pending);
    if (pending->token != PRS_NONE) {
        token_part_done(orderer, pending->token, status, 0);
    }
}

/* ---- staging and reply slots ---- */

void *prs_stage_memory(struct prs_orderer *orderer, uint32_t stage)
{
    return orderer->control + orderer->layout.staging + (size_t)stage * PRS_STAGE_BYTES;
}

bool prs_stage_take(struct prs_orderer *orderer, struct prs_pending *pending)
{
    pending->stage = take_slot(&orderer->pools.stage_free, orderer->pools.stage_next);
    return pending->stage != PRS_NONE;
}

bool prs_reply_take(struct prs_orderer *orderer, struct prs_pending *pending)
{
    pending->reply = take_slot(&orderer->pools.reply_free, orderer->pools.reply_next);
    return pending->reply != PRS_NONE;
}
