/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fabric/faulty/state.h"
#include "fabric/op.h"

static void append(struct prs_faulty_list *list, struct prs_faulty_op *queued)
{
    queued->next = NULL;
    queued->previous = list->last;
    if (list->last != NULL) {
        list->last->next = queued;
    } else {
        list->first = queued;
    }
    list->last = queued;
}

static void unlink(struct prs_faulty_list *list, struct prs_faulty_op *queued)
{
    *(queued->previous != NULL ? &queued->previous->next : &list->first) = queued->next;
    *(queued->next != NULL ? &queued->next->previous : &list->last) = queued->previous;
}

static void free_list(const struct prs_faulty_list *list)
{
    struct prs_faulty_op *next;
    for (struct prs_faulty_op *queued = list->first; queued != NULL; queued = next) {
        next = queued->next;
        free(queued);
    }
}

static uint64_t random_jitter(struct prs_faulty_endpoint *self)
{
    return (uint64_t)(prs_rng_unit(&self->rng) * (double)self->fabric->config.jitter_ns);
}

/* ---- life ---- */

enum perseus_status prs_faulty_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out)
{
    struct prs_faulty_fabric *owner = (struct prs_faulty_fabric *)fabric;
    struct prs_faulty_endpoint *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(owner->log, PERSEUS_OUT_OF_MEMORY, "no memory for a faulty endpoint");
    }
    enum perseus_status status = owner->inside->ops->endpoint_open(owner->inside, &self->inside);
    if (status != PERSEUS_OK) {
        free(self);
        return status;
    }
    self->base.ops = fabric->ops;
    self->base.fabric = fabric;
    self->fabric = owner;
    struct prs_rng seeds = prs_rng_seeded(owner->config.seed + owner->endpoints++);
    self->rng = prs_rng_seeded(prs_rng_next(&seeds));
    *out = &self->base;
    return PERSEUS_OK;
}

void prs_faulty_endpoint_close(struct prs_endpoint *endpoint)
{
    if (endpoint == NULL) {
        return;
    }
    struct prs_faulty_endpoint *self = (struct prs_faulty_endpoint *)endpoint;
    self->inside->ops->endpoint_close(self->inside);
    for (uint32_t i = 0; i < self->n_peers; i++) {
        free(self->peers[i]);
    }
    free(self->peers);
    free_list(&self->open);
    free_list(&self->done);
    free_list(&self->free);
    free(self);
}

enum perseus_status prs_faulty_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                                size_t *bytes)
{
    struct prs_endpoint *inside = ((struct prs_faulty_endpoint *)endpoint)->inside;
    return inside->ops->endpoint_address(inside, out, bytes);
}

/* FNV-1a. */
static uint64_t hash_of(const unsigned char *bytes, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

/* With fail_permanent, an address that failed once stays dead. */
static bool is_dead(const struct prs_faulty_endpoint *self, uint64_t address_hash)
{
    for (uint32_t i = 0; self->fabric->config.fail_permanent && i < self->n_peers; i++) {
        if (self->peers[i]->is_failed && self->peers[i]->address_hash == address_hash) {
            return true;
        }
    }
    return false;
}

enum perseus_status prs_faulty_connect(struct prs_endpoint *endpoint, const void *address,
                                       size_t bytes, uint32_t *out_peer)
{
    struct prs_faulty_endpoint *self = (struct prs_faulty_endpoint *)endpoint;
    const struct prs_log *log = self->fabric->log;
    uint64_t address_hash = hash_of(address, bytes);
    if (is_dead(self, address_hash)) {
        return prs_fail(log, PERSEUS_PEER_LOST,
                        "injected failure: this address is dead for good (fail_permanent)");
    }
    if (self->n_peers == self->peers_room) {
        uint32_t room = self->peers_room == 0 ? 8 : 2 * self->peers_room;
        struct prs_faulty_peer **peers = realloc(self->peers, room * sizeof(void *));
        if (peers == NULL) {
            return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for peer %u", self->n_peers);
        }
        self->peers = peers;
        self->peers_room = room;
    }
    uint32_t lanes = self->base.fabric->caps.lanes_max;
    struct prs_faulty_peer *peer = calloc(1, sizeof *peer + lanes * sizeof peer->lanes[0]);
    if (peer == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for peer %u", self->n_peers);
    }
    uint32_t number;
    enum perseus_status status = self->inside->ops->connect(self->inside, address, bytes, &number);
    if (status != PERSEUS_OK) {
        free(peer);
        return status;
    }
    peer->address_hash = address_hash;
    self->peers[self->n_peers++] = peer; /* both number peers in the order of connects */
    *out_peer = number;
    return PERSEUS_OK;
}

enum perseus_status prs_faulty_import(struct prs_endpoint *endpoint, uint32_t peer,
                                      const void *blob, size_t bytes, struct prs_remote **out)
{
    struct prs_endpoint *inside = ((struct prs_faulty_endpoint *)endpoint)->inside;
    return inside->ops->remote_import(inside, peer, blob, bytes, out);
}

/* ---- on the way to the target ---- */

/* The link model: a peer's link sends one operation after the other, at bytes_per_second; then it
 * flies for the latency and some jitter. */
static uint64_t arrival_ns(struct prs_faulty_endpoint *self, const struct prs_op *op)
{
    const struct prs_faulty_config *config = &self->fabric->config;
    struct prs_faulty_peer *peer = self->peers[op->peer];
    uint64_t bytes = op->kind == PRS_OP_PUT || op->kind == PRS_OP_GET ? op->bytes : 8;
    uint64_t now_ns = prs_clock_now_ns(&self->fabric->clock);
    if (peer->link_free_ns < now_ns) {
        peer->link_free_ns = now_ns;
    }
    if (config->bytes_per_second > 0) {
        peer->link_free_ns += (uint64_t)((double)bytes * 1e9 / (double)config->bytes_per_second);
    }
    return peer->link_free_ns + config->latency_ns + random_jitter(self);
}

/* A free operation of which nothing is true yet, or NULL if there is no room. */
static struct prs_faulty_op *take_free(struct prs_faulty_endpoint *self)
{
    if (self->n_ops == PRS_FAULTY_INFLIGHT) {
        return NULL;
    }
    struct prs_faulty_op *queued = self->free.first;
    if (queued != NULL) {
        unlink(&self->free, queued);
    } else {
        queued = malloc(sizeof *queued);
    }
    if (queued != NULL) {
        queued->is_inside = queued->is_doomed = queued->is_told = false;
    }
    return queued;
}

/* What may complete early does so before anything of it is at the target, as far as its bytes can
 * be kept here: the completion comes back apart from the operation. */
static void complete_early(struct prs_faulty_endpoint *self, struct prs_faulty_op *queued)
{
    struct prs_op *op = &queued->op;
    struct prs_faulty_op *early =
        op->bytes <= self->base.fabric->caps.inline_bytes ? take_free(self) : NULL;
    if (early == NULL) {
        return;
    }
    if ((op->flags & PRS_OP_INLINE) == 0 && op->bytes > 0) {
        memcpy(queued->copied, op->local->base + op->local_offset, op->bytes);
    }
    op->flags |= PRS_OP_INLINE;
    queued->is_told = true;
    early->op = *op;
    early->status = PERSEUS_OK;
    early->due_ns = prs_clock_now_ns(&self->fabric->clock) + random_jitter(self);
    self->n_ops++;
    append(&self->done, early);
}

/* What the adversary answers a post instead of taking it: AGAIN by chance or while the peer is
 * busy, as while it connects, or a refusal for good. */
static enum perseus_status refusal(struct prs_faulty_endpoint *self, const struct prs_op *op)
{
    const struct prs_faulty_config *config = &self->fabric->config;
    struct prs_faulty_peer *peer = self->peers[op->peer];
    if (op->peer + UINT64_C(1) == config->busy_peer) {
        uint64_t now_ns = prs_clock_now_ns(&self->fabric->clock);
        if (peer->busy_until_ns == 0) {
            peer->busy_until_ns = now_ns + config->busy_ns;
        }
        if (now_ns < peer->busy_until_ns) {
            return PERSEUS_AGAIN;
        }
    }
    if (prs_rng_unit(&self->rng) < config->again_probability) {
        return PERSEUS_AGAIN;
    }
    if (++self->attempts == config->refuse_nth) {
        return prs_fail(self->fabric->log, PERSEUS_LIMIT,
                        "injected refusal of the operation to peer %u (refuse_nth)", op->peer);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_faulty_post(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    struct prs_faulty_endpoint *self = (struct prs_faulty_endpoint *)endpoint;
    const struct prs_faulty_config *config = &self->fabric->config;
    if (op->peer >= self->n_peers) {
        return prs_fail(self->fabric->log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected",
                        op->peer);
    }
    enum perseus_status status = prs_op_check(endpoint, op, self->fabric->log);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_faulty_peer *peer = self->peers[op->peer];
    if (peer->is_lost) {
        return PERSEUS_PEER_LOST;
    }
    status = refusal(self, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_faulty_op *queued = take_free(self);
    if (queued == NULL) {
        return PERSEUS_AGAIN;
    }
    queued->op = *op;
    if (op->flags & PRS_OP_INLINE && op->bytes > 0) {
        memcpy(queued->copied, op->inline_source, op->bytes);
    }
    queued->number = ++self->posted;
    queued->is_doomed =
        queued->number == config->fail_nth || prs_rng_unit(&self->rng) < config->error_probability;
    queued->due_ns = arrival_ns(self, op);
    if ((op->flags & PRS_OP_MORE) == 0) {
        self->rung = self->posted;
    }
    self->has_broken_lane |= prs_faulty_is_broken(self, op); /* the caller does not know yet */
    self->n_ops++;
    append(&self->open, queued);
    if (op->flags & PRS_OP_EARLY && (op->flags & PRS_OP_UNTRACKED) == 0) {
        complete_early(self, queued);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_faulty_flush(struct prs_endpoint *endpoint)
{
    struct prs_faulty_endpoint *self = (struct prs_faulty_endpoint *)endpoint;
    self->rung = self->posted;
    return PERSEUS_OK;
}

/* ---- on the way back ---- */

static void recycle(struct prs_faulty_endpoint *self, struct prs_faulty_op *queued)
{
    self->n_ops--;
    append(&self->free, queued);
}

/* Its lane with an operation that failed; all of them where a fence flag reaches beyond it: such a
 * flag behind it must not come through. */
static void break_lane(struct prs_faulty_endpoint *self, const struct prs_op *op)
{
    const struct prs_caps *caps = &self->base.fabric->caps;
    struct prs_faulty_peer *peer = self->peers[op->peer];
    bool alone = caps->fence_scope == PRS_FENCE_NONE || caps->fence_scope == PRS_FENCE_LANE;
    peer->is_failed = true;
    for (uint32_t lane = 0; lane < caps->lanes_max; lane++) {
        peer->lanes[lane].is_broken |= !alone || lane == op->lane;
    }
    self->has_broken_lane = true;
}

void prs_faulty_finish(struct prs_faulty_endpoint *self, struct prs_faulty_op *queued,
                       enum perseus_status status, uint64_t now_ns)
{
    unlink(&self->open, queued);
    if (status != PERSEUS_OK) {
        break_lane(self, &queued->op);
    }
    if (queued->is_told || (status == PERSEUS_OK && (queued->op.flags & PRS_OP_UNTRACKED))) {
        recycle(self, queued);
        return;
    }
    queued->status = status;
    queued->due_ns = now_ns + self->fabric->config.latency_ns + random_jitter(self);
    append(&self->done, queued);
}

/* What was on its way in a lane when it broke does not arrive: a signal must not come through whose
 * put did not. */
static void fail_held(struct prs_faulty_endpoint *self, uint64_t now_ns)
{
    struct prs_faulty_op *next;
    for (struct prs_faulty_op *queued = self->open.first; queued != NULL; queued = next) {
        next = queued->next;
        if (!queued->is_inside && prs_faulty_is_broken(self, &queued->op)) {
            prs_faulty_finish(self, queued, PERSEUS_PEER_LOST, now_ns);
        }
    }
    self->has_broken_lane = false;
}

/* Polls the inside into `events`; its completions end there, target events stay. */
static enum perseus_status poll_inside(struct prs_faulty_endpoint *self, uint64_t now_ns,
                                       struct prs_event *events, uint32_t n, uint32_t *filled)
{
    uint32_t got = 0, kept = 0;
    enum perseus_status status = self->inside->ops->poll(self->inside, events, n, &got);
    if (status != PERSEUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < got; i++) {
        if (events[i].kind == PRS_EVENT_COMPLETION) {
            struct prs_faulty_op *queued = (struct prs_faulty_op *)(uintptr_t)events[i].cookie;
            prs_faulty_finish(self, queued, events[i].status, now_ns);
        } else {
            events[kept++] = events[i];
        }
    }
    *filled = kept;
    return PERSEUS_OK;
}

/* Reports completions that have come back. The contract orders none of them, so a shuffling
 * decorator does not either. */
static uint32_t report(struct prs_faulty_endpoint *self, uint64_t now_ns, struct prs_event *events,
                       uint32_t n)
{
    uint32_t filled = 0;
    struct prs_faulty_op *next;
    for (struct prs_faulty_op *queued = self->done.first; queued != NULL && filled < n;
         queued = next) {
        next = queued->next;
        if (queued->due_ns > now_ns ||
            (self->fabric->config.reorder && prs_rng_below(&self->rng, 2) == 0)) {
            continue;
        }
        events[filled++] = (struct prs_event){.kind = PRS_EVENT_COMPLETION,
                                              .status = queued->status,
                                              .peer = queued->op.peer,
                                              .cookie = queued->op.cookie};
        if (queued->status != PERSEUS_OK) {
            self->peers[queued->op.peer]->is_lost = true;
            self->has_broken_lane = true; /* now all are */
        }
        unlink(&self->done, queued);
        recycle(self, queued);
    }
    return filled;
}

enum perseus_status prs_faulty_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                    uint32_t n, uint32_t *out_n)
{
    struct prs_faulty_endpoint *self = (struct prs_faulty_endpoint *)endpoint;
    uint64_t now_ns = prs_clock_now_ns(&self->fabric->clock);
    uint32_t reported = 0, kept = 0;
    self->reports_first = !self->reports_first;
    if (self->reports_first) {
        reported = report(self, now_ns, events, n);
    }
    enum perseus_status status = poll_inside(self, now_ns, events + reported, n - reported, &kept);
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_faulty_release(self, now_ns);
    if (self->has_broken_lane) {
        fail_held(self, now_ns);
    }
    if (self->needs_flush) {
        status = self->inside->ops->flush(self->inside);
        if (status != PERSEUS_OK && status != PERSEUS_AGAIN) {
            return status;
        }
        self->needs_flush = status == PERSEUS_AGAIN; /* then the next poll rings again */
    }
    if (!self->reports_first) {
        reported += report(self, now_ns, events + reported + kept, n - reported - kept);
    }
    *out_n = reported + kept;
    return PERSEUS_OK;
}

/* ---- sleeping ---- */

int prs_faulty_wait_fd(struct prs_endpoint *endpoint)
{
    struct prs_endpoint *inside = ((struct prs_faulty_endpoint *)endpoint)->inside;
    return inside->ops->wait_fd(inside);
}

/* Time until the first of a list that waits for time; what is inside waits for the inside. One that
 * is due and still here waits for others of its kind, or for luck: it is looked at again soon. */
static uint64_t next_due_ns(const struct prs_faulty_op *first, bool is_done, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (const struct prs_faulty_op *queued = first; queued != NULL; queued = queued->next) {
        if (queued->is_inside && !is_done) {
            continue;
        }
        uint64_t left_ns = queued->due_ns > now_ns ? queued->due_ns - now_ns : 0;
        left_ns = left_ns > PRS_FAULTY_RETRY_NS ? left_ns : PRS_FAULTY_RETRY_NS;
        next_ns = left_ns < next_ns ? left_ns : next_ns;
    }
    return next_ns;
}

enum perseus_status prs_faulty_arm(struct prs_endpoint *endpoint, uint64_t *out_limit_ns)
{
    struct prs_faulty_endpoint *self = (struct prs_faulty_endpoint *)endpoint;
    if (self->needs_flush || self->has_broken_lane) {
        return PERSEUS_AGAIN;
    }
    enum perseus_status status = self->inside->ops->arm(self->inside, out_limit_ns);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint64_t now_ns = prs_clock_now_ns(&self->fabric->clock);
    uint64_t due_ns[] = {next_due_ns(self->open.first, false, now_ns),
                         next_due_ns(self->done.first, true, now_ns)};
    for (int i = 0; i < 2; i++) {
        *out_limit_ns = due_ns[i] < *out_limit_ns ? due_ns[i] : *out_limit_ns;
    }
    return PERSEUS_OK;
}
