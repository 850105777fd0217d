/* SPDX-License-Identifier: Apache-2.0 */
/* orderer.c: life of the engine, its address, its counters. */
#include "order/engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- life ---- */

static uint32_t usable_atomics(const struct prs_orderer_config *config, const struct prs_caps *caps,
                               uint32_t granted)
{
    /* Without order and without delivered completions nothing could put an atomic behind a put. */
    bool orderable =
        caps->completion == PRS_COMPLETION_DELIVERED || (caps->order & PRS_ORDER_PUT_ATOMIC) != 0;
    return orderable && (caps->atomics_cpu_coherent || config->native_atomics) ? granted : 0;
}

/* Mail, replies and staging in one registered mapping. Untouched pages of peers that never write
 * cost nothing unless the provider pins memory. */
static enum perseus_status create_control(struct prs_orderer *orderer)
{
    uint32_t mailboxes = orderer->has_mailbox ? orderer->config.n_peers : 0;
    const struct prs_order_pools *pools = &orderer->config.pools;
    orderer->layout = prs_control_layout(mailboxes, pools->replies, pools->stages);
    size_t bytes = orderer->layout.bytes;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return prs_fail(orderer->config.log, PERSEUS_OUT_OF_MEMORY,
                        "no memory for %zu bytes of mailboxes of %u PEs", bytes, mailboxes);
    }
    orderer->control = memory;
    return orderer->ops->region_register(orderer->config.endpoint->fabric, memory, bytes,
                                         PRS_MEMORY_HOST, &orderer->control_region);
}

static void free_orderer(struct prs_orderer *orderer)
{
    for (uint32_t i = 0; orderer->peers != NULL && i < orderer->config.n_peers; i++) {
        prs_order_peer_destroy(atomic_load_explicit(&orderer->peers[i], memory_order_relaxed));
    }
    for (uint32_t i = 0; orderer->mail_in != NULL && i < orderer->config.n_peers; i++) {
        if (orderer->mail_in[i] != NULL) {
            free(orderer->mail_in[i]->riding_bits);
        }
        free(orderer->mail_in[i]);
    }
    if (orderer->config.endpoint != NULL) {
        orderer->ops->endpoint_close(orderer->config.endpoint);
    }
    if (orderer->control_region != NULL) {
        orderer->ops->region_close(orderer->control_region);
    }
    if (orderer->control != NULL) {
        munmap(orderer->control, orderer->layout.bytes);
    }
    prs_pools_destroy(&orderer->pools);
    free(orderer->quiets);
    free((void *)orderer->windows);
    free((void *)orderer->peers);
    free((void *)orderer->mail_in);
    free(orderer);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What the mode, the fabric and the wishes come to. */
static void decide(struct prs_orderer *orderer)
{
    const struct prs_orderer_config *config = &orderer->config;
    const struct prs_caps *caps = &orderer->caps;
    orderer->has_mailbox =
        prs_immediate_layout(caps->immediate_bits, config->n_peers, &orderer->immediate);
    orderer->signals_are_records =
        orderer->mode->counted || ((caps->signals_tear || caps->signals_repeat) &&
                                   orderer->has_mailbox && !config->torn_signals);
    orderer->signals_ride = orderer->mode->rides && orderer->signals_are_records &&
                            config->immediate_signal && orderer->immediate.rides;
    orderer->lanes = config->lanes > 0 ? config->lanes : caps->lanes_useful;
    orderer->lanes = orderer->lanes > 1 ? orderer->lanes : 1;
    /* With its signal, if it has one, a transfer in pieces fits all that its operations need. */
    uint32_t room = smaller(config->parked_max, config->pools.operations) - 1;
    orderer->pieces_max = orderer->mode->stripes ? smaller(orderer->lanes, room) : 1;
    orderer->atomics_native = usable_atomics(config, caps, caps->atomics);
    orderer->atomics_fetch_native = usable_atomics(config, caps, caps->atomics_fetch);
}

static enum perseus_status allocate(struct prs_orderer *orderer)
{
    const struct prs_orderer_config *config = &orderer->config;
    if (orderer->lanes > orderer->caps.lanes_max) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "%u lanes to each peer: this fabric (%s) has at most %u", orderer->lanes,
                        orderer->caps.provider, orderer->caps.lanes_max);
    }
    if (config->parked_max < 2 || config->n_peers == 0) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "%u parked operations for each of %u peers: use at least two",
                        config->parked_max, config->n_peers);
    }
    orderer->peers = calloc(config->n_peers, sizeof *orderer->peers);
    orderer->mail_in = calloc(config->n_peers, sizeof *orderer->mail_in);
    orderer->quiets = calloc(config->pools.quiets, sizeof *orderer->quiets);
    if (orderer->peers == NULL || orderer->mail_in == NULL || orderer->quiets == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for %u peers",
                        config->n_peers);
    }
    enum perseus_status status = prs_pools_create(&orderer->pools, &config->pools, config->log);
    return status == PERSEUS_OK ? create_control(orderer) : status;
}

enum perseus_status prs_orderer_create_with_mode(const struct prs_orderer_config *config,
                                                 const struct prs_mode *mode,
                                                 struct prs_orderer **out)
{
    struct prs_orderer *orderer = calloc(1, sizeof *orderer);
    if (orderer == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for the ordering engine");
    }
    orderer->config = *config;
    orderer->config.timeout_ns = config->timeout_ns == 0 ? UINT64_MAX : config->timeout_ns;
    orderer->mode = mode;
    orderer->caps = config->endpoint->fabric->caps;
    orderer->ops = config->endpoint->ops;
    orderer->config.pools = prs_pools_defaults(&config->pools);
    if (orderer->config.parked_max == 0) {
        orderer->config.parked_max = PRS_PARKED_DEFAULT;
    }
    if (config->piece_bytes == 0) {
        orderer->config.piece_bytes = PRS_PIECE_DEFAULT;
    }
    if (config->secret != NULL) {
        memcpy(orderer->secret, config->secret, sizeof orderer->secret);
    }
    decide(orderer);
    prs_epochs_init(&orderer->epochs);
    enum perseus_status status = allocate(orderer);
    if (status != PERSEUS_OK) {
        orderer->config.endpoint = NULL; /* still the caller's */
        free_orderer(orderer);
        return status;
    }
    *out = orderer;
    return PERSEUS_OK;
}

enum perseus_status prs_orderer_create(const struct prs_orderer_config *config,
                                       struct prs_orderer **out)
{
    const struct prs_mode *mode = prs_mode_get(config->ordering);
    if (mode == NULL) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "ordering mode %s must be resolved first",
                        perseus_ordering_name(config->ordering));
    }
    char why[256];
    enum perseus_ordering resolved;
    enum perseus_status status = prs_ordering_resolve(
        config->ordering, &config->endpoint->fabric->caps, config->log, &resolved, why, sizeof why);
    return status == PERSEUS_OK ? prs_orderer_create_with_mode(config, mode, out) : status;
}

static void cancel_everything(struct prs_orderer *orderer)
{
    for (uint32_t i = 0; i < orderer->pools.pending_free.used; i++) {
        if (orderer->pools.pendings[i].peer != NULL) {
            prs_pending_give_up(orderer, &orderer->pools.pendings[i], PERSEUS_CANCELED);
        }
    }
    for (uint32_t i = 0; i < orderer->quiets_count; i++) {
        if (orderer->config.complete != NULL && orderer->quiets[i].token != PRS_ORDER_NO_TOKEN) {
            orderer->config.complete(orderer->config.context, orderer->quiets[i].token,
                                     PERSEUS_CANCELED, 0);
        }
    }
}

void prs_orderer_destroy(struct prs_orderer *orderer)
{
    if (orderer != NULL) {
        cancel_everything(orderer);
        free_orderer(orderer);
    }
}

/* ---- addresses ---- */

enum perseus_status prs_orderer_address(struct prs_orderer *orderer, void *out, size_t *bytes)
{
    unsigned char address[PRS_ADDRESS_MAX], blob[PRS_BLOB_MAX];
    size_t address_bytes = sizeof address, blob_bytes = sizeof blob;
    enum perseus_status status =
        orderer->ops->endpoint_address(orderer->config.endpoint, address, &address_bytes);
    if (status == PERSEUS_OK) {
        status = orderer->ops->region_export(orderer->control_region, blob, &blob_bytes);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    if (!orderer->has_mailbox) {
        blob_bytes = 0;
    }
    uint32_t lengths[2] = {(uint32_t)address_bytes, (uint32_t)blob_bytes};
    if (*bytes < sizeof lengths + address_bytes + blob_bytes) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "an address needs %zu bytes, %zu were given",
                        sizeof lengths + address_bytes + blob_bytes, *bytes);
    }
    unsigned char *at = out;
    memcpy(at, lengths, sizeof lengths);
    memcpy(at + sizeof lengths, address, address_bytes);
    memcpy(at + sizeof lengths + address_bytes, blob, blob_bytes);
    *bytes = sizeof lengths + address_bytes + blob_bytes;
    return PERSEUS_OK;
}

void prs_orderer_set_directory(struct prs_orderer *orderer, const unsigned char *addresses,
                               size_t stride)
{
    orderer->directory = addresses;
    orderer->directory_stride = stride;
}

/* ---- facts and counters ---- */

uint32_t prs_orderer_vector_max(const struct prs_orderer *orderer)
{
    return orderer->signals_are_records ? PRS_RECORD_VALUES_MAX : PRS_VECTOR_VALUES_MAX;
}

enum perseus_ordering prs_orderer_mode(const struct prs_orderer *orderer)
{
    return orderer->mode->ordering;
}

static uint64_t counter(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void add_counters(const struct prs_counters *counters, struct perseus_stats *out)
{
    out->puts += counter(&counters->puts);
    out->put_bytes += counter(&counters->put_bytes);
    out->gets += counter(&counters->gets);
    out->get_bytes += counter(&counters->get_bytes);
    out->signals += counter(&counters->signals);
    out->signal_messages += counter(&counters->signal_messages);
    out->atomics += counter(&counters->atomics);
    out->fences += counter(&counters->fences);
    out->fence_flags += counter(&counters->fence_flags);
    out->drains += counter(&counters->drains);
    out->drain_ns += counter(&counters->drain_ns);
    out->again += counter(&counters->again);
    out->deferred += counter(&counters->deferred);
    out->in_flight += counter(&counters->in_flight);
    out->in_flight_max += counter(&counters->in_flight_max);
}

void prs_orderer_stats(const struct prs_orderer *orderer, uint32_t rank, struct perseus_stats *out)
{
    *out = (struct perseus_stats){0};
    if (rank == PRS_ORDER_ALL_PEERS) {
        add_counters(&orderer->counters, out);
    }
    uint32_t first = rank == PRS_ORDER_ALL_PEERS ? 0 : rank;
    uint32_t last = rank == PRS_ORDER_ALL_PEERS ? orderer->config.n_peers : rank + 1;
    for (uint32_t i = first; i < last && i < orderer->config.n_peers; i++) {
        /* Acquire pairs with the release in prs_order_peer_get. */
        const struct prs_order_peer *peer =
            atomic_load_explicit(&orderer->peers[i], memory_order_acquire);
        if (peer != NULL) {
            add_counters(&peer->counters, out);
        }
    }
}
