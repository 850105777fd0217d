/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/proxy.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define PRS_PROXY_BATCH_DEFAULT 64
/* A put with signal is two completions here and, if peers send as we do, as many target events. */
#define PRS_PROXY_EVENTS_PER_DESC 4

_Static_assert(PRS_DESC_NO_TICKET == PRS_ORDER_NO_TOKEN, "tickets are tokens");
_Static_assert(PRS_DESC_ALL_PEERS == PRS_ORDER_ALL_PEERS, "all peers of a descriptor are all");

struct prs_proxy {
    struct prs_proxy_config config;
    bool flush_due; /* something was submitted and not flushed yet */
    uint32_t values_max;
    uint64_t values[]; /* of the vector at a ring's head, in one piece */
};

enum perseus_status prs_proxy_create(const struct prs_proxy_config *config, struct prs_proxy **out)
{
    if (config->sources == NULL || config->orderer == NULL || config->local == NULL ||
        config->remote == NULL) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "a proxy needs sources, an orderer and both look-ups");
    }
    uint32_t values_max = prs_orderer_vector_max(config->orderer);
    struct prs_proxy *proxy = calloc(1, sizeof *proxy + values_max * sizeof proxy->values[0]);
    if (proxy == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY,
                        "no memory for the proxy (vectors of %u values)", values_max);
    }
    proxy->config = *config;
    if (proxy->config.batch == 0) {
        proxy->config.batch = PRS_PROXY_BATCH_DEFAULT;
    }
    proxy->values_max = values_max;
    *out = proxy;
    return PERSEUS_OK;
}

void prs_proxy_destroy(struct prs_proxy *proxy)
{
    free(proxy);
}

/* Ends a request that was refused. The orderer keeps the error, for every quiet that covers it, and
 * lets nothing through to that PE that was to come behind; whoever holds the ticket hears it
 * now. */
static void refuse(struct prs_proxy *proxy, struct prs_source *source, uint32_t peer,
                   uint32_t ticket, enum perseus_status status)
{
    prs_orderer_refuse(proxy->config.orderer, peer, status);
    prs_source_settle(source, ticket, status);
}

/* Whether the orderer's answer moves the head on; AGAIN holds it. */
static bool accepted(struct prs_proxy *proxy, struct prs_source *source,
                     const struct prs_desc *desc, enum perseus_status status)
{
    if (status == PERSEUS_AGAIN) {
        prs_source_place(source)->held = true;
        return false;
    }
    if (status == PERSEUS_OK) {
        proxy->flush_due = true;
    } else {
        refuse(proxy, source, desc->peer, desc->ticket, status);
    }
    return true;
}

static enum perseus_status find_local(const struct prs_proxy *proxy, const struct prs_desc *desc,
                                      struct prs_region **out)
{
    *out = proxy->config.local(proxy->config.context, desc->local_window);
    if (*out == NULL) {
        return prs_fail(proxy->config.log, PERSEUS_INVALID_ARGUMENT,
                        "a request to PE %u names local window %u, which is not registered; "
                        "register the buffer first and keep it so until quiet",
                        desc->peer, desc->local_window);
    }
    return PERSEUS_OK;
}

static enum perseus_status check_op(const struct prs_proxy *proxy, const struct prs_desc *desc,
                                    bool known)
{
    if (!known) {
        return prs_fail(proxy->config.log, PERSEUS_INVALID_ARGUMENT,
                        "a request of kind %u to PE %u has the unknown operation %u; its producer "
                        "writes malformed descriptors",
                        desc->kind, desc->peer, desc->sub);
    }
    return PERSEUS_OK;
}

static enum perseus_status check_signal(const struct prs_proxy *proxy, const struct prs_desc *desc)
{
    bool add = desc->sub == PERSEUS_SIGNAL_ADD && desc->kind != PRS_DESC_SIGNAL_VECTOR;
    return check_op(proxy, desc, add || desc->sub == PERSEUS_SIGNAL_SET);
}

/* Everything of the request but its peer's window. */
static enum perseus_status translate(const struct prs_proxy *proxy, const struct prs_desc *desc,
                                     struct prs_request *out)
{
    *out = (struct prs_request){.op = desc->sub,
                                .peer = desc->peer,
                                .local_offset = desc->local,
                                .remote_offset = desc->remote,
                                .bytes = desc->bytes,
                                .value = desc->value};
    enum perseus_status status;
    switch (desc->kind) {
    case PRS_DESC_PUT:
        out->kind = PRS_REQUEST_PUT;
        return find_local(proxy, desc, &out->local);
    case PRS_DESC_GET:
        out->kind = PRS_REQUEST_GET;
        return find_local(proxy, desc, &out->local);
    case PRS_DESC_PUT_SIGNAL:
        out->kind = PRS_REQUEST_PUT_SIGNAL;
        out->signal_offset = desc->signal;
        status = check_signal(proxy, desc);
        return status == PERSEUS_OK ? find_local(proxy, desc, &out->local) : status;
    case PRS_DESC_SIGNAL:
        out->kind = PRS_REQUEST_SIGNAL;
        return check_signal(proxy, desc);
    case PRS_DESC_SIGNAL_VECTOR:
        out->kind = PRS_REQUEST_SIGNAL_VECTOR;
        out->values = proxy->values;
        return check_signal(proxy, desc);
    case PRS_DESC_ATOMIC:
        out->compare = desc->compare;
        /* The old value is worth a round trip only to who waits for it. */
        out->kind =
            desc->ticket == PRS_DESC_NO_TICKET ? PRS_REQUEST_ATOMIC : PRS_REQUEST_ATOMIC_FETCH;
        return check_op(proxy, desc, desc->sub <= PERSEUS_ATOMIC_COMPARE_SWAP);
    default:
        return prs_fail(proxy->config.log, PERSEUS_INVALID_ARGUMENT,
                        "a descriptor for PE %u has the unknown kind %u; its producer writes "
                        "malformed descriptors",
                        desc->peer, desc->kind);
    }
}

static bool submit(struct prs_proxy *proxy, struct prs_source *source, const struct prs_desc *desc)
{
    struct prs_request request;
    enum perseus_status status = translate(proxy, desc, &request);
    if (status == PERSEUS_OK) {
        status = proxy->config.remote(proxy->config.context, desc->peer, &request.remote);
    }
    if (status == PERSEUS_OK) {
        request.token = prs_source_token(source, desc->ticket);
        request.signal_remote = desc->kind == PRS_DESC_PUT_SIGNAL ? request.remote : NULL;
        status = prs_orderer_submit(proxy->config.orderer, &request);
        if (status == PERSEUS_OK) {
            prs_source_taken(source, desc->ticket);
        }
    }
    return accepted(proxy, source, desc, status);
}

static bool handle_fence(struct prs_proxy *proxy, struct prs_source *source,
                         const struct prs_desc *desc)
{
    enum perseus_status status = prs_orderer_fence(proxy->config.orderer, desc->peer);
    if (status == PERSEUS_OK) {
        prs_source_settle(source, desc->ticket, PERSEUS_OK); /* the orderer has no token for it */
    }
    return accepted(proxy, source, desc, status);
}

static bool handle_quiet(struct prs_proxy *proxy, struct prs_source *source,
                         const struct prs_desc *desc)
{
    enum perseus_status status = prs_orderer_quiet(proxy->config.orderer, desc->peer,
                                                   prs_source_token(source, desc->ticket));
    if (status == PERSEUS_OK) {
        prs_source_taken(source, desc->ticket);
    }
    return accepted(proxy, source, desc, status);
}

/* Gathers the values behind the vector at `index`. *out_length: descriptors it is made of, 0 if
 * some are not published yet. */
static enum perseus_status gather(struct prs_proxy *proxy, const struct prs_ring *ring,
                                  const struct prs_desc *vector, uint32_t index,
                                  uint32_t *out_length)
{
    uint64_t n = vector->bytes / sizeof(uint64_t);
    uint32_t ring_max = (prs_ring_slots(ring) - 1) * PRS_DESC_VALUES_MAX;
    uint32_t n_max = ring_max < proxy->values_max ? ring_max : proxy->values_max;
    if (n == 0 || n > n_max || vector->bytes % sizeof(uint64_t) != 0) {
        return prs_fail(proxy->config.log, PERSEUS_INVALID_ARGUMENT,
                        "a vector signal to PE %u has %llu bytes; allowed are 1 to %u words of 8",
                        vector->peer, (unsigned long long)vector->bytes, n_max);
    }
    uint32_t length = 1;
    for (uint64_t done = 0; done < n; length++) {
        const struct prs_desc_values *part =
            (const struct prs_desc_values *)prs_ring_peek(ring, index + length);
        if (part == NULL) {
            *out_length = 0;
            return PERSEUS_OK;
        }
        uint64_t count = n - done < PRS_DESC_VALUES_MAX ? n - done : PRS_DESC_VALUES_MAX;
        if (part->of[0].kind != PRS_DESC_VALUES || part->of[0].count != count) {
            return prs_fail(proxy->config.log, PERSEUS_INVALID_ARGUMENT,
                            "a vector signal of %llu values to PE %u is not followed by them; its "
                            "producer must push both in one call",
                            (unsigned long long)n, vector->peer);
        }
        for (uint64_t i = 0; i < count; i++) {
            proxy->values[done++] = part->of[i].value;
        }
    }
    *out_length = length;
    return PERSEUS_OK;
}

/* Ends a descriptor that cannot become a request. Values behind it have lost their vector. */
static uint32_t reject(struct prs_proxy *proxy, struct prs_source *source, uint32_t peer,
                       uint32_t ticket, enum perseus_status status)
{
    refuse(proxy, source, peer, ticket, status);
    prs_source_place(source)->skips_values = true;
    return 1;
}

static uint32_t handle_vector(struct prs_proxy *proxy, struct prs_source *source,
                              const struct prs_desc *desc, uint32_t index)
{
    uint32_t length = 0;
    enum perseus_status status = gather(proxy, prs_source_ring(source), desc, index, &length);
    if (status != PERSEUS_OK) {
        return reject(proxy, source, desc->peer, desc->ticket, status);
    }
    return length > 0 && submit(proxy, source, desc) ? length : 0;
}

static uint32_t stray_values(struct prs_proxy *proxy, struct prs_source *source)
{
    if (prs_source_place(source)->skips_values) {
        return 1;
    }
    return reject(proxy, source, PRS_DESC_ALL_PEERS, PRS_DESC_NO_TICKET,
                  prs_fail(proxy->config.log, PERSEUS_INVALID_ARGUMENT,
                           "signal values came without their vector; their producer "
                           "must push both in one call"));
}

/* The descriptor at `index`. Returns how many descriptors are done, 0 if it must wait. */
static uint32_t handle(struct prs_proxy *proxy, struct prs_source *source,
                       const struct prs_desc *desc, uint32_t index)
{
    if (desc->kind == PRS_DESC_VALUES) {
        return stray_values(proxy, source);
    }
    prs_source_place(source)->skips_values = false;
    if (!prs_source_ticket_valid(source, desc->ticket)) {
        return reject(proxy, source, desc->peer, PRS_DESC_NO_TICKET,
                      prs_fail(proxy->config.log, PERSEUS_INVALID_ARGUMENT,
                               "a request of kind %u to PE %u has ticket %u, which does not "
                               "exist; its producer writes malformed descriptors",
                               desc->kind, desc->peer, desc->ticket));
    }
    switch (desc->kind) {
    case PRS_DESC_FENCE:
        return handle_fence(proxy, source, desc);
    case PRS_DESC_QUIET:
        return handle_quiet(proxy, source, desc);
    case PRS_DESC_SIGNAL_VECTOR:
        return handle_vector(proxy, source, desc, index);
    default:
        return submit(proxy, source, desc);
    }
}

/* At most `batch` requests; a vector's values belong to it.
 * Returns how many descriptors are done. */
static uint32_t drain_ring(struct prs_proxy *proxy, struct prs_source *source)
{
    struct prs_ring *ring = prs_source_ring(source);
    uint32_t taken = 0;
    prs_source_place(source)->held = false;
    for (uint32_t i = 0; i < proxy->config.batch; i++) {
        const struct prs_desc *desc = prs_ring_peek(ring, taken);
        uint32_t length = desc == NULL ? 0 : handle(proxy, source, desc, taken);
        if (length == 0) {
            break;
        }
        taken += length;
    }
    if (taken > 0) {
        prs_ring_release(ring, taken);
    }
    return taken;
}

enum perseus_status prs_proxy_step(struct prs_proxy *proxy, bool *out_did)
{
    uint32_t taken = 0, used = prs_sources_used(proxy->config.sources);
    for (uint32_t i = 0; i < used; i++) {
        struct prs_source *source = prs_source_at(proxy->config.sources, i);
        taken += source != NULL ? drain_ring(proxy, source) : 0;
    }
    if (proxy->flush_due) {
        enum perseus_status flushed = prs_orderer_flush(proxy->config.orderer);
        if (flushed != PERSEUS_OK && flushed != PERSEUS_AGAIN) {
            return flushed;
        }
        proxy->flush_due = flushed == PERSEUS_AGAIN;
    }
    bool progressed = false;
    enum perseus_status status = prs_orderer_progress(
        proxy->config.orderer, proxy->config.batch * PRS_PROXY_EVENTS_PER_DESC, &progressed);
    if (status == PERSEUS_OK) {
        *out_did = taken > 0 || progressed;
    }
    return status;
}

/* Source 0 alone wakes. */
static bool threads_wait(const struct prs_proxy *proxy)
{
    return prs_source_place(prs_source_at(proxy->config.sources, 0))->held;
}

bool prs_proxy_may_sleep(const struct prs_proxy *proxy)
{
    return prs_sources_can_wake(proxy->config.sources) &&
           (threads_wait(proxy) ||
            prs_ring_is_empty(prs_source_ring(prs_source_at(proxy->config.sources, 0))));
}

bool prs_proxy_is_idle(const struct prs_proxy *proxy)
{
    return prs_sources_can_wake(proxy->config.sources) && !threads_wait(proxy) &&
           prs_orderer_is_idle(proxy->config.orderer);
}

bool prs_proxy_bytes_are_silent(const struct prs_proxy *proxy)
{
    return prs_orderer_bytes_are_silent(proxy->config.orderer);
}

int prs_proxy_wait_fd(const struct prs_proxy *proxy)
{
    return prs_orderer_wait_fd(proxy->config.orderer);
}

enum perseus_status prs_proxy_arm(struct prs_proxy *proxy, uint64_t *out_limit_ns)
{
    return prs_orderer_arm(proxy->config.orderer, out_limit_ns);
}
