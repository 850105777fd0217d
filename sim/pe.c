/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order/engine.h"

#define TICKETS   64
#define NO_PIECES (1u << 31) /* bytes: a stock library's puts are not cut */

/* Descriptors of CTAs that wait for room in the ring, oldest first. */
struct waiting {
    struct prs_desc *descs;
    uint32_t first, count, room;
};

struct sim_pe {
    struct sim_pe_config config;
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint; /* the orderer's, once there is one */
    struct prs_orderer *orderer;
    struct prs_ring *ring;
    struct prs_tickets *tickets;
    struct prs_sources *sources;
    struct prs_proxy *proxy;
    uint64_t *words;
    struct prs_window *heap;
    struct prs_window_remote **remotes; /* by rank, imported on first use */
    const unsigned char *windows;
    struct waiting waiting;
    bool has_place;    /* on the timeline */
    bool is_scheduled; /* its next step is on the timeline */
    uint64_t idle_ns;  /* when the first of the polls that find nothing begins */
    uint64_t ring_full;
    bool has_asked;         /* about every PE, in the drain that is going on */
    uint32_t fences_to_ask; /* taken during it: they ask when it is over */
    enum perseus_status status;
};

/* ---- the proxy's life ---- */

static void step(void *context);

static void schedule(struct sim_pe *pe, uint64_t at_ns)
{
    pe->is_scheduled = true;
    prs_timeline_add(pe->config.timeline, at_ns, step, pe);
}

/* Something can move a proxy that had nothing to do: at its next poll it does. */
static void wake(void *context)
{
    struct sim_pe *pe = context;
    if (pe->is_scheduled || pe->status != PERSEUS_OK) {
        return;
    }
    uint64_t now_ns = prs_timeline_now_ns(pe->config.timeline);
    uint64_t period_ns = (uint64_t)(pe->config.platform->fabric.step_ns + 0.5);
    uint64_t at_ns = pe->idle_ns;
    if (now_ns > at_ns) {
        uint64_t polls = period_ns > 0 ? (now_ns - at_ns + period_ns - 1) / period_ns : 0;
        at_ns = period_ns > 0 ? at_ns + polls * period_ns : now_ns;
    }
    schedule(pe, at_ns);
}

/* Waiting descriptors that now find room. All of one submission, or none: a vector and its values
 * are one. */
static bool refill(struct sim_pe *pe)
{
    struct waiting *waiting = &pe->waiting;
    bool did = false;
    while (waiting->count > 0) {
        const struct prs_desc *first = &waiting->descs[waiting->first];
        uint32_t n = 1;
        while (n < waiting->count && first[n].kind == PRS_DESC_VALUES) {
            n++;
        }
        if (prs_ring_push_many(pe->ring, first, n) != PERSEUS_OK) {
            break;
        }
        waiting->first += n;
        waiting->count -= n;
        did = true;
    }
    if (waiting->count == 0) {
        waiting->first = 0;
    }
    return did;
}

/* Whether the next step finds nothing to do, unless something happens before it. */
static bool is_at_rest(const struct sim_pe *pe)
{
    const struct prs_orderer *orderer = pe->orderer;
    return pe->waiting.count == 0 && prs_ring_is_empty(pe->ring) &&
           !prs_sim_endpoint_has_events(pe->endpoint) && orderer->ready.first == NULL &&
           orderer->mail_work.first == NULL && orderer->unproven.first == NULL &&
           !orderer->stall.active;
}

/* Before a step that ends a drain: what goes out behind the fence does so after all answers. */
static void ask_after_drain(struct sim_pe *pe)
{
    if (!pe->orderer->stall.active) {
        pe->has_asked = false;
    } else if (!pe->has_asked && prs_sim_endpoint_is_told(pe->endpoint)) {
        pe->has_asked = true;
        prs_sim_endpoint_spend(pe->endpoint, (1 + pe->fences_to_ask) * sim_pe_sweep_ns(pe));
        pe->fences_to_ask = 0;
    }
}

/* After a step: the fence that it took, if it began no drain. */
static void ask_for_fence(struct sim_pe *pe, uint64_t head_before, bool was_draining)
{
    bool is_fence = pe->ring->head->head > head_before &&
                    prs_ring_slot(pe->ring, head_before)->desc.kind == PRS_DESC_FENCE;
    if (!is_fence || !pe->orderer->mode->stalls) {
        return;
    }
    if (!pe->orderer->stall.active) {
        prs_sim_endpoint_spend(pe->endpoint, sim_pe_sweep_ns(pe));
    } else if (was_draining) {
        pe->fences_to_ask++;
    }
}

static void step(void *context)
{
    struct sim_pe *pe = context;
    bool did = false;
    uint64_t head = pe->ring->head->head;
    bool was_draining = pe->orderer->stall.active;
    pe->is_scheduled = false;
    ask_after_drain(pe);
    pe->status = prs_proxy_step(pe->proxy, &did);
    if (pe->status != PERSEUS_OK) {
        return;
    }
    ask_for_fence(pe, head, was_draining);
    did |= refill(pe);
    uint64_t free_ns = prs_sim_endpoint_free_ns(pe->endpoint);
    if (did && !is_at_rest(pe)) {
        schedule(pe, free_ns);
    } else {
        pe->idle_ns = free_ns;
    }
}

static enum perseus_status wait_for_room(struct sim_pe *pe, const struct prs_desc *descs,
                                         uint32_t n)
{
    struct waiting *waiting = &pe->waiting;
    uint32_t used = waiting->first + waiting->count;
    if (used + n > waiting->room) {
        uint32_t room = 2 * (used + n);
        struct prs_desc *moved = realloc(waiting->descs, room * sizeof *moved);
        if (moved == NULL) {
            return prs_fail(pe->config.log, PERSEUS_OUT_OF_MEMORY,
                            "no memory for descriptors that wait for room in the ring");
        }
        waiting->descs = moved;
        waiting->room = room;
    }
    memcpy(&waiting->descs[used], descs, n * sizeof *descs);
    waiting->count += n;
    pe->ring_full += n;
    return PERSEUS_OK;
}

enum perseus_status sim_pe_submit(struct sim_pe *pe, const struct prs_desc *descs, uint32_t n)
{
    enum perseus_status status =
        pe->waiting.count > 0 ? PERSEUS_AGAIN : prs_ring_push_many(pe->ring, descs, n);
    if (status == PERSEUS_AGAIN) {
        status = wait_for_room(pe, descs, n);
    }
    wake(pe);
    return status;
}

/* ---- what the proxy and the orderer ask ---- */

static struct prs_region *local_window(void *context, uint16_t window)
{
    const struct sim_pe *pe = context;
    return window == 0 ? prs_window_region(pe->heap) : NULL;
}

static enum perseus_status remote_window(void *context, uint32_t peer,
                                         struct prs_window_remote **out)
{
    struct sim_pe *pe = context;
    if (peer >= pe->config.n_pes || pe->windows == NULL) {
        return prs_fail(pe->config.log, PERSEUS_INVALID_ARGUMENT, "PE %u does not exist", peer);
    }
    enum perseus_status status = PERSEUS_OK;
    if (pe->remotes[peer] == NULL) {
        const unsigned char *entry = pe->windows + (size_t)peer * SIM_WINDOWS_STRIDE;
        uint32_t bytes;
        memcpy(&bytes, entry, sizeof bytes);
        status =
            prs_window_import(pe->orderer, peer, entry + sizeof bytes, bytes, &pe->remotes[peer]);
    }
    *out = pe->remotes[peer];
    return status;
}

static void complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct sim_pe *pe = context;
    prs_sources_complete(pe->sources, token, status, result);
    if (pe->config.completed != NULL) {
        pe->config.completed(pe->config.context);
    }
}

/* A record applied by this PE's own proxy: the word changes now. */
static uint64_t apply(void *context, struct prs_window *window, uint64_t offset,
                      enum perseus_atomic op, uint64_t operand, uint64_t compare, uint32_t bytes)
{
    struct sim_pe *pe = context;
    (void)window;
    uint64_t *word = &pe->words[offset / 8];
    uint64_t old = *word, mask = bytes >= 8 ? UINT64_MAX : (1ull << (8 * bytes)) - 1;
    uint64_t value = op == PERSEUS_ATOMIC_SET   ? operand
                     : op == PERSEUS_ATOMIC_ADD ? old + operand
                     : op == PERSEUS_ATOMIC_AND ? (old & operand)
                     : op == PERSEUS_ATOMIC_OR  ? (old | operand)
                     : op == PERSEUS_ATOMIC_XOR ? (old ^ operand)
                     : old == compare           ? operand
                                                : old;
    *word = (old & ~mask) | (value & mask);
    if (pe->config.written != NULL) {
        pe->config.written(pe->config.context, offset, 8);
    }
    return old & mask;
}

static uint64_t cpu_clock(void *context)
{
    return prs_sim_endpoint_free_ns(((struct sim_pe *)context)->endpoint);
}

/* ---- building ---- */

static enum perseus_status build_orderer(struct sim_pe *pe)
{
    const struct sim_pe_config *config = &pe->config;
    struct prs_fabric_config fabric = {.log = config->log};
    enum perseus_status status = PERSEUS_OK;
    if (config->beside != NULL) {
        pe->fabric = config->beside->fabric;
    } else {
        status = prs_sim_fabric_open(config->net, &fabric, &pe->fabric);
    }
    if (status == PERSEUS_OK) {
        status = pe->fabric->ops->endpoint_open(pe->fabric, &pe->endpoint);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_orderer_config orderer = {.endpoint = pe->endpoint,
                                         .ordering = config->ordering,
                                         .self = config->rank,
                                         .n_peers = config->n_pes,
                                         .piece_bytes =
                                             config->stock ? NO_PIECES : config->piece_bytes,
                                         .immediate_signal = true,
                                         .complete = complete,
                                         .apply = apply,
                                         .context = pe,
                                         .log = config->log,
                                         .clock = {.now_ns = cpu_clock, .context = pe}};
    status = config->mode != NULL
                 ? prs_orderer_create_with_mode(&orderer, config->mode, &pe->orderer)
                 : prs_orderer_create(&orderer, &pe->orderer);
    if (status != PERSEUS_OK) {
        pe->fabric->ops->endpoint_close(pe->endpoint);
        pe->orderer = NULL;
        return status;
    }
    prs_sim_endpoint_on_ready(pe->endpoint, wake, pe);
    return PERSEUS_OK;
}

static enum perseus_status build_heap(struct sim_pe *pe)
{
    const struct sim_pe_config *config = &pe->config;
    pe->words = config->beside != NULL ? config->beside->words : calloc(1, config->words_bytes);
    pe->remotes = calloc(config->n_pes, sizeof *pe->remotes);
    if (pe->words == NULL || pe->remotes == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for PE %u", config->rank);
    }
    enum perseus_status status =
        prs_window_create(pe->orderer, pe->words, config->heap_bytes, PRS_MEMORY_HOST, &pe->heap);
    if (status == PERSEUS_OK) {
        struct prs_region *region = prs_window_region(pe->heap);
        prs_sim_region_set_backed(region, config->words_bytes);
        if (config->written != NULL && config->beside == NULL) {
            prs_sim_region_on_written(region, config->written, config->context);
        }
    }
    return status;
}

static enum perseus_status build_proxy(struct sim_pe *pe)
{
    const struct sim_pe_config *config = &pe->config;
    enum perseus_status status = prs_ring_create(config->ring_slots, &pe->ring);
    if (status == PERSEUS_OK) {
        status = prs_tickets_create(TICKETS, &pe->tickets);
    }
    if (status == PERSEUS_OK) {
        status = prs_sources_create(pe->ring, pe->tickets, &pe->sources);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_proxy_config proxy = {.sources = pe->sources,
                                     .orderer = pe->orderer,
                                     .batch = config->stock ? 1 : config->platform->batch,
                                     .context = pe,
                                     .local = local_window,
                                     .remote = remote_window,
                                     .log = config->log};
    return prs_proxy_create(&proxy, &pe->proxy);
}

/* What a further channel sends must need nothing that arrives at the first one. */
static bool is_answered(enum perseus_ordering ordering)
{
    return ordering != PERSEUS_ORDERING_DRAIN && ordering != PERSEUS_ORDERING_DRAIN_PEER &&
           ordering != PERSEUS_ORDERING_NIC_FENCE;
}

enum perseus_status sim_pe_create(const struct sim_pe_config *config, struct sim_pe **out)
{
    if (config->beside != NULL && is_answered(config->ordering)) {
        return prs_fail(config->log, PERSEUS_NOT_SUPPORTED,
                        "several proxy channels: ordering %s is for one; take drain, drain-peer or "
                        "nic-fence",
                        perseus_ordering_name(config->ordering));
    }
    struct sim_pe *pe = calloc(1, sizeof *pe);
    if (pe == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for PE %u", config->rank);
    }
    pe->config = *config;
    enum perseus_status status = prs_timeline_reserve(config->timeline, 1);
    pe->has_place = status == PERSEUS_OK;
    if (status == PERSEUS_OK) {
        status = build_orderer(pe);
    }
    if (status == PERSEUS_OK) {
        status = build_heap(pe);
    }
    if (status == PERSEUS_OK) {
        status = build_proxy(pe);
    }
    if (status != PERSEUS_OK) {
        sim_pe_destroy(pe);
        return status;
    }
    *out = pe;
    return PERSEUS_OK;
}

void sim_pe_destroy(struct sim_pe *pe)
{
    if (pe == NULL) {
        return;
    }
    for (uint32_t i = 0; pe->remotes != NULL && i < pe->config.n_pes; i++) {
        prs_window_remote_close(pe->remotes[i]);
    }
    prs_window_destroy(pe->heap);
    prs_proxy_destroy(pe->proxy);
    prs_orderer_destroy(pe->orderer);
    bool owns = pe->config.beside == NULL;
    if (owns && pe->fabric != NULL) {
        pe->fabric->ops->close(pe->fabric);
    }
    prs_sources_destroy(pe->sources);
    prs_tickets_destroy(pe->tickets);
    prs_ring_destroy(pe->ring);
    if (pe->has_place) {
        prs_timeline_give_back(pe->config.timeline, 1);
    }
    free(pe->waiting.descs);
    free((void *)pe->remotes);
    if (owns) {
        free(pe->words);
    }
    free(pe);
}

/* ---- meeting ---- */

enum perseus_status sim_pe_export(struct sim_pe *pe, unsigned char *directory,
                                  unsigned char *windows)
{
    unsigned char *address = directory + (size_t)pe->config.rank * SIM_DIRECTORY_STRIDE;
    unsigned char *window = windows + (size_t)pe->config.rank * SIM_WINDOWS_STRIDE;
    size_t address_bytes = PRS_ORDERER_ADDRESS_MAX, window_bytes = PRS_WINDOW_BLOB_MAX;
    enum perseus_status status = prs_orderer_address(pe->orderer, address + 4, &address_bytes);
    if (status == PERSEUS_OK) {
        status = prs_window_export(pe->heap, window + 4, &window_bytes);
    }
    memcpy(address, &(uint32_t){(uint32_t)address_bytes}, 4);
    memcpy(window, &(uint32_t){(uint32_t)window_bytes}, 4);
    return status;
}

void sim_pe_set_directory(struct sim_pe *pe, const unsigned char *directory,
                          const unsigned char *windows)
{
    prs_orderer_set_directory(pe->orderer, directory, SIM_DIRECTORY_STRIDE);
    pe->windows = windows;
}

enum perseus_status sim_pe_meet(struct sim_pe *pe, uint32_t peer)
{
    struct prs_window_remote *remote;
    return remote_window(pe, peer, &remote);
}

/* ---- facts ---- */

enum perseus_status sim_pe_ticket(struct sim_pe *pe, uint32_t *out)
{
    return prs_ticket_take(pe->tickets, out);
}

bool sim_pe_poll_ticket(struct sim_pe *pe, uint32_t ticket, enum perseus_status *out_status)
{
    return prs_ticket_poll(pe->tickets, ticket, out_status, NULL);
}

uint64_t *sim_pe_words(struct sim_pe *pe)
{
    return pe->words;
}

struct prs_orderer *sim_pe_orderer(struct sim_pe *pe)
{
    return pe->orderer;
}

double sim_pe_sweep_ns(const struct sim_pe *pe)
{
    const struct sim_platform *platform = pe->config.platform;
    double reached = (double)pe->config.n_pes - platform->pes_per_node;
    return pe->config.stock ? fmax(reached, 0) * platform->fabric.ask_ns : 0;
}

uint64_t sim_pe_cpu_ns(const struct sim_pe *pe)
{
    return prs_sim_endpoint_free_ns(pe->endpoint);
}

enum perseus_status sim_pe_status(const struct sim_pe *pe)
{
    return pe->status;
}

bool sim_pe_is_idle(const struct sim_pe *pe)
{
    return pe->waiting.count == 0 && prs_ring_is_empty(pe->ring) && prs_proxy_is_idle(pe->proxy);
}

uint64_t sim_pe_ring_full(const struct sim_pe *pe)
{
    return pe->ring_full;
}
