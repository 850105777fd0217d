/* SPDX-License-Identifier: Apache-2.0 */
#include "core/channel.h"

#include <stdlib.h>
#include <string.h>

#include "core/job/affinity.h"
#include "fabric/scope.h"
#include "link/link.h"

#define TICKETS_COUNT 1024 /* threads of a PE that may wait at once; more of them take turns */

struct prs_channel {
    const struct prs_log *log;
    int size;
    struct prs_link link;
    struct prs_window *window; /* the heap */
    struct prs_ring *ring;
    struct prs_tickets *tickets;
    struct prs_sources *sources; /* ring and tickets, and those of GPUs */
    struct prs_proxy *proxy;
    struct prs_proxy_thread *thread;
    struct prs_backoff backoff;
    const struct prs_buffers *buffers;
    const struct prs_heap *heap;
    struct prs_contact self;
    const struct prs_contact *contacts;
    struct prs_window_remote **remotes; /* heaps by PE, imported by the proxy on first use */
};

/* ---- what the proxy asks ---- */

static void complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    const struct prs_channel *channel = context;
    prs_sources_complete(channel->sources, token, status, result);
}

/* On a GPU's heap; a word of the host's is the engine's own to change. */
static uint64_t apply(void *context, struct prs_window *window, uint64_t offset,
                      enum perseus_atomic op, uint64_t operand, uint64_t compare, uint32_t bytes)
{
    const struct prs_channel *channel = context;
    return prs_gpu_side_apply(channel->heap->gpu, (unsigned char *)prs_window_base(window) + offset,
                              op, operand, compare, bytes);
}

static struct prs_region *local_region(void *context, uint16_t window)
{
    const struct prs_channel *channel = context;
    return prs_buffers_region(channel->buffers, window);
}

static enum perseus_status remote_window(void *context, uint32_t peer,
                                         struct prs_window_remote **out)
{
    struct prs_channel *channel = context;
    if (peer >= (uint32_t)channel->size) {
        return prs_fail(channel->log, PERSEUS_INVALID_ARGUMENT,
                        "a request names PE %u of %d; its producer writes malformed descriptors",
                        peer, channel->size);
    }
    if (channel->remotes[peer] == NULL) {
        const struct prs_contact *contact = &channel->contacts[peer];
        enum perseus_status status =
            prs_window_import(channel->link.orderer, peer, contact->window, contact->window_bytes,
                              &channel->remotes[peer]);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    *out = channel->remotes[peer];
    return PERSEUS_OK;
}

/* ---- opening ---- */

static enum perseus_status open_link(struct prs_channel *channel,
                                     const struct prs_settings *settings, int rank,
                                     const unsigned char *secret, const struct prs_heap *heap)
{
    struct prs_link_settings spread = settings->link;
    spread.ordinal = (uint32_t)rank;
    enum perseus_status status =
        prs_link_open(&channel->link, &spread, PERSEUS_LOG_ERROR, channel->log);
    if (status == PERSEUS_OK) {
        status = prs_link_resolve(&channel->link, &settings->link);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_link_end end = {
        .self = (uint32_t)rank,
        .n_peers = (uint32_t)channel->size,
        .stream = (uint64_t)rank,
        .secret = secret,
        .complete = complete,
        .apply = heap->gpu != NULL ? apply : NULL,
        .context = channel,
    };
    status = prs_link_start(&channel->link, &settings->link, &end);
    if (status == PERSEUS_OK) {
        status = prs_window_create(channel->link.orderer, heap->base, heap->bytes,
                                   settings->link.memory, &channel->window);
    }
    return status;
}

static enum perseus_status fill_contact(struct prs_channel *channel)
{
    struct prs_contact *self = &channel->self;
    size_t address_bytes = sizeof self->address, window_bytes = sizeof self->window;
    enum perseus_status status =
        prs_orderer_address(channel->link.orderer, self->address, &address_bytes);
    if (status == PERSEUS_OK) {
        status = prs_window_export(channel->window, self->window, &window_bytes);
    }
    if (status == PERSEUS_OK) {
        self->address_bytes = (uint32_t)address_bytes;
        self->window_bytes = (uint32_t)window_bytes;
        self->ordering = (uint32_t)channel->link.ordering;
        self->scope = channel->link.fabric->caps.scope;
        memcpy(self->provider, channel->link.fabric->caps.provider, sizeof self->provider);
    }
    return status;
}

static void choose_cpu(struct prs_channel *channel, const struct prs_settings *settings, int rank)
{
    channel->backoff = settings->backoff;
    int node = channel->link.fabric->caps.numa_node;
    if (settings->pin == PRS_PIN_NUMA &&
        (node < 0 || !prs_affinity_of_node(node, (unsigned)rank, &channel->backoff.cpu))) {
        prs_log(channel->log, PERSEUS_LOG_WARN,
                "the fabric %s does not tell its NUMA node; the proxy is not pinned. Name a CPU "
                "(PERSEUS_PROXY_CPU) to pin it",
                channel->link.fabric->caps.provider);
    }
}

/* The threads' ring, and that of the GPU's kernels. */
static enum perseus_status open_sources(struct prs_channel *channel, uint32_t slots)
{
    uint32_t number = 0;
    const struct prs_gpu_side *gpu = channel->heap->gpu;
    enum perseus_status status = prs_ring_create(slots, &channel->ring);
    if (status == PERSEUS_OK) {
        status = prs_tickets_create(TICKETS_COUNT, &channel->tickets);
    }
    if (status == PERSEUS_OK) {
        status = prs_sources_create(channel->ring, channel->tickets, &channel->sources);
    }
    if (status == PERSEUS_OK && gpu != NULL) {
        const struct prs_ring consumer = prs_gpu_side_consumer(gpu);
        status = prs_sources_add(channel->sources, &consumer, gpu->answers, &number);
    }
    return status;
}

enum perseus_status prs_channel_create(const struct prs_settings *settings, int rank, int size,
                                       const unsigned char *secret, const struct prs_heap *heap,
                                       struct prs_buffers *buffers, const struct prs_log *log,
                                       struct prs_channel **out)
{
    struct prs_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the channel");
    }
    channel->log = log;
    channel->size = size;
    channel->buffers = buffers;
    channel->heap = heap;
    channel->remotes = calloc((size_t)size, sizeof(struct prs_window_remote *));
    if (channel->remotes == NULL || open_sources(channel, settings->ring_slots) != PERSEUS_OK) {
        prs_channel_destroy(channel);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY,
                        "no memory for a channel ring of %u slots to %d PEs; ask for a shallower "
                        "one (PERSEUS_RING_SLOTS)",
                        settings->ring_slots, size);
    }
    enum perseus_status status = open_link(channel, settings, rank, secret, heap);
    if (status == PERSEUS_OK) {
        status = fill_contact(channel);
    }
    if (status != PERSEUS_OK) {
        prs_channel_stop(channel);
        prs_channel_destroy(channel);
        return status;
    }
    choose_cpu(channel, settings, rank);
    prs_buffers_set_fabric(buffers, channel->link.fabric, prs_window_region(channel->window));
    *out = channel;
    return PERSEUS_OK;
}

void prs_channel_contact(const struct prs_channel *channel, struct prs_contact *out)
{
    *out = channel->self;
}

/* Both sides of a connection must speak the same ordering over the same provider, and mean the same
 * by an address: 127.0.0.1 of another host would be taken for this one's. */
static enum perseus_status check_contacts(const struct prs_channel *channel)
{
    const struct prs_contact *first = &channel->contacts[0];
    for (int pe = 1; pe < channel->size; pe++) {
        const struct prs_contact *other = &channel->contacts[pe];
        if (other->ordering != first->ordering ||
            memcmp(other->provider, first->provider, sizeof first->provider) != 0) {
            return prs_fail(
                channel->log, PERSEUS_INVALID_ARGUMENT,
                "PE %d uses ordering %s over %.63s but PE 0 uses %s over %.63s; give "
                "every PE the same (PERSEUS_FABRIC, PERSEUS_PROVIDER, "
                "PERSEUS_ORDERING)",
                pe, perseus_ordering_name((enum perseus_ordering)other->ordering), other->provider,
                perseus_ordering_name((enum perseus_ordering)first->ordering), first->provider);
        }
        enum perseus_status status =
            prs_scope_check(first->scope, other->scope, pe, first->provider, channel->log);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    return PERSEUS_OK;
}

enum perseus_status prs_channel_start(struct prs_channel *channel,
                                      const struct prs_contact *contacts)
{
    channel->contacts = contacts;
    enum perseus_status status = check_contacts(channel);
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_orderer_set_directory(channel->link.orderer, (const unsigned char *)contacts,
                              sizeof *contacts);
    const struct prs_proxy_config config = {
        .sources = channel->sources,
        .orderer = channel->link.orderer,
        .context = channel,
        .local = local_region,
        .remote = remote_window,
        .log = channel->log,
    };
    status = prs_proxy_create(&config, &channel->proxy);
    if (status == PERSEUS_OK) {
        status = prs_proxy_thread_start(channel->proxy, &channel->backoff, channel->log,
                                        &channel->thread);
    }
    return status;
}

/* ---- closing ---- */

void prs_channel_stop(struct prs_channel *channel)
{
    if (channel == NULL) {
        return;
    }
    prs_proxy_thread_stop(channel->thread);
    channel->thread = NULL;
    prs_proxy_destroy(channel->proxy);
    channel->proxy = NULL;
    for (int pe = 0; pe < channel->size; pe++) {
        prs_window_remote_close(channel->remotes[pe]);
    }
    prs_window_destroy(channel->window);
    prs_link_stop(&channel->link);
    prs_tickets_cancel(channel->tickets, PERSEUS_CANCELED);
}

void prs_channel_destroy(struct prs_channel *channel)
{
    if (channel == NULL) {
        return;
    }
    prs_link_close(&channel->link);
    prs_sources_destroy(channel->sources);
    prs_tickets_destroy(channel->tickets);
    prs_ring_destroy(channel->ring);
    free(channel->remotes);
    free(channel);
}

/* ---- use ---- */

enum perseus_status prs_channel_push(struct prs_channel *channel, const struct prs_desc *descs,
                                     uint32_t n)
{
    enum perseus_status status = n == 1 ? prs_ring_push(channel->ring, descs, NULL)
                                        : prs_ring_push_many(channel->ring, descs, n);
    if (status == PERSEUS_OK) {
        prs_proxy_thread_wake(channel->thread);
    }
    return status;
}

uint32_t prs_channel_expect(struct prs_channel *channel)
{
    return prs_proxy_thread_expect(channel->thread);
}

void prs_channel_await(struct prs_channel *channel, uint32_t turn, uint64_t limit_ns)
{
    prs_proxy_thread_await(channel->thread, turn, limit_ns);
}

struct prs_tickets *prs_channel_tickets(const struct prs_channel *channel)
{
    return channel->tickets;
}

enum perseus_status prs_channel_health(const struct prs_channel *channel)
{
    return prs_proxy_thread_status(channel->thread);
}

enum perseus_ordering prs_channel_ordering(const struct prs_channel *channel)
{
    return channel->link.ordering;
}

const char *prs_channel_why(const struct prs_channel *channel)
{
    return channel->link.why;
}

uint32_t prs_channel_vector_max(const struct prs_channel *channel)
{
    uint32_t ring_max = (prs_ring_slots(channel->ring) - 1) * PRS_DESC_VALUES_MAX;
    uint32_t order_max = prs_orderer_vector_max(channel->link.orderer);
    return order_max < ring_max ? order_max : ring_max;
}

uint64_t prs_channel_message_max(const struct prs_channel *channel)
{
    return channel->link.fabric->caps.message_bytes_max;
}

void prs_channel_stats(const struct prs_channel *channel, uint32_t peer, struct perseus_stats *out)
{
    prs_orderer_stats(channel->link.orderer, peer, out);
}
