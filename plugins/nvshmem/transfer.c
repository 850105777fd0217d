/* transfer.c: puts, gets, put_signal, fence and quiet as requests to a route's ordering engine. */
#include <string.h>

#include "plugin.h"

struct transfer { /* one contiguous piece, checked */
    struct prs_handle handle;
    uint64_t offset; /* in the remote chunk */
    void *remote;    /* in the peer's address space */
    void *local;
    size_t bytes;
};

static enum perseus_status check(struct prs_plugin *plugin, int pe, const char *what,
                                 const struct prs_abi_rma_memory *remote,
                                 const struct prs_abi_rma_memory *local,
                                 const struct prs_abi_rma_bytes *bytes, struct transfer *out)
{
    if (bytes->element_bytes < 0 ||
        bytes->elements > SIZE_MAX / (size_t)(bytes->element_bytes + 1)) {
        return prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT, "%s of %zu times %d bytes", what,
                        bytes->elements, bytes->element_bytes);
    }
    out->bytes = bytes->elements * (size_t)bytes->element_bytes;
    out->remote = remote->pointer;
    out->local = local->pointer;
    return prs_plugin_target(plugin, pe, what, remote, out->bytes, &out->handle, &out->offset);
}

/* The local side's region, if it lies in registered memory. */
static enum perseus_status find_local(struct prs_route *route, int pe, const struct transfer *piece,
                                      struct prs_request *request)
{
    const struct prs_chunk *chunk =
        prs_memory_find(&route->plugin->memory, piece->local, piece->bytes);
    if (chunk == NULL) {
        return prs_fail(
            &route->plugin->log, PERSEUS_OUT_OF_RANGE,
            "transfer with PE %d: %zu bytes at %p are neither in the heap nor in a buffer "
            "given to nvshmemx_buffer_register",
            pe, piece->bytes, piece->local);
    }
    request->local = chunk->regions[route->side];
    request->local_offset = (uintptr_t)piece->local - chunk->base;
    return PERSEUS_OK;
}

static enum perseus_status prepare(struct prs_route *route, int pe, const struct transfer *piece,
                                   enum prs_request_kind kind, struct prs_request *out)
{
    *out = (struct prs_request){
        .kind = (uint8_t)kind,
        .peer = (uint32_t)pe,
        .token = PRS_ORDER_NO_TOKEN,
        .remote_offset = piece->offset,
        .bytes = piece->bytes,
    };
    return prs_route_remote(route, (uint32_t)pe, &piece->handle, &out->remote);
}

/* P: the value lies on the caller's stack. */
static enum perseus_status put_value(struct prs_route *route, int pe, const struct transfer *piece)
{
    struct prs_request request;
    enum perseus_status status = prepare(route, pe, piece, PRS_REQUEST_PUT, &request);
    if (status != PERSEUS_OK) {
        return status;
    }
    request.inline_source = piece->local;
    return prs_route_submit(route, &request, PRS_CLASS_FLAG, 0);
}

static enum perseus_status move(struct prs_route *route, int pe, const struct transfer *piece,
                                bool is_get, bool is_blocking)
{
    struct prs_request request;
    enum perseus_status status =
        prepare(route, pe, piece, is_get ? PRS_REQUEST_GET : PRS_REQUEST_PUT, &request);
    if (status == PERSEUS_OK) {
        status = find_local(route, pe, piece, &request);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_flag = !is_get && piece->bytes <= PRS_FLAG_BYTES_MAX;
    enum prs_class class = is_flag ? PRS_CLASS_FLAG : PRS_CLASS_PUT;
    return is_blocking ? prs_route_perform(route, &request, class)
                       : prs_route_submit(route, &request, class, 0);
}

enum perseus_status prs_plugin_rma(struct prs_plugin *plugin, enum prs_side side, int pe,
                                   const struct prs_abi_rma_verb *verb,
                                   const struct prs_abi_rma_memory *remote,
                                   const struct prs_abi_rma_memory *local,
                                   const struct prs_abi_rma_bytes *bytes)
{
    bool is_get = verb->desc == PRS_ABI_GET || verb->desc == PRS_ABI_G;
    if (!is_get && verb->desc != PRS_ABI_PUT && verb->desc != PRS_ABI_P) {
        return prs_fail(&plugin->log, PERSEUS_NOT_SUPPORTED,
                        "transfer %d toward PE %d is not known to this transport", verb->desc, pe);
    }
    struct transfer piece;
    enum perseus_status status =
        check(plugin, pe, is_get ? "a get" : "a put", remote, local, bytes, &piece);
    if (status != PERSEUS_OK || piece.bytes == 0) {
        return status;
    }
    struct prs_route *route = &plugin->routes[side];
    prs_route_lock(route);
    if (pe == plugin->my_pe) {
        memmove(is_get ? piece.local : piece.remote, is_get ? piece.remote : piece.local,
                piece.bytes);
    } else if (verb->desc == PRS_ABI_P) {
        status = put_value(route, pe, &piece);
    } else {
        status = move(route, pe, &piece, is_get, verb->is_nbi == 0);
    }
    prs_route_unlock(route);
    return status;
}

/* ---- put_signal ---- */

struct chunks { /* the host's three vectors, of one length */
    const struct prs_abi_rma_memory *remote, *local;
    const struct prs_abi_rma_bytes *bytes;
    size_t count;
};

static size_t length(const struct prs_abi_vector *vector, size_t element_bytes)
{
    return (size_t)((char *)vector->end - (char *)vector->begin) / element_bytes;
}

static enum perseus_status signal_alone(struct prs_route *route, int pe,
                                        const struct transfer *word, const struct prs_amo *amo)
{
    struct prs_request request;
    enum perseus_status status = prepare(route, pe, word, PRS_REQUEST_SIGNAL, &request);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_set = amo->op == PERSEUS_ATOMIC_SET;
    request.op = is_set ? PERSEUS_SIGNAL_SET : PERSEUS_SIGNAL_ADD;
    request.value = amo->operand;
    return prs_route_submit(route, &request, is_set ? PRS_CLASS_SET : PRS_CLASS_ATOMIC,
                            (uint64_t)(uintptr_t)word->remote);
}

static enum perseus_status put_with_signal(struct prs_route *route, int pe,
                                           const struct transfer *piece,
                                           const struct transfer *word, const struct prs_amo *amo)
{
    struct prs_request request;
    enum perseus_status status = prepare(route, pe, piece, PRS_REQUEST_PUT_SIGNAL, &request);
    if (status == PERSEUS_OK) {
        status = find_local(route, pe, piece, &request);
    }
    if (status == PERSEUS_OK) {
        status = prs_route_remote(route, (uint32_t)pe, &word->handle, &request.signal_remote);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    request.op = amo->op == PERSEUS_ATOMIC_SET ? PERSEUS_SIGNAL_SET : PERSEUS_SIGNAL_ADD;
    request.value = amo->operand;
    request.signal_offset = word->offset;
    return prs_route_submit(route, &request, PRS_CLASS_SIGNALED, (uint64_t)(uintptr_t)word->remote);
}

/* One chunk carries its signal. Several are plain puts, a fence, and the signal alone: a signal
 * that rides on one put need not wait for others. Vanilla drains in between, whatever the number.
 */
static enum perseus_status put_signal_remote(struct prs_route *route, int pe,
                                             const struct chunks *chunks,
                                             const struct transfer *word, const struct prs_amo *amo)
{
    bool vanilla = route->ordering == PERSEUS_ORDERING_DRAIN, fence_due = false;
    for (size_t i = 0; i < chunks->count; i++) {
        struct transfer piece;
        enum perseus_status status = check(route->plugin, pe, "put_signal", &chunks->remote[i],
                                           &chunks->local[i], &chunks->bytes[i], &piece);
        if (status != PERSEUS_OK) {
            return status;
        }
        if (piece.bytes == 0) {
            continue;
        }
        if (chunks->count == 1 && !vanilla) {
            return put_with_signal(route, pe, &piece, word, amo);
        }
        status = move(route, pe, &piece, false, false);
        if (status != PERSEUS_OK) {
            return status;
        }
        fence_due = true;
    }
    enum perseus_status status = fence_due ? prs_route_fence(route, (uint32_t)pe) : PERSEUS_OK;
    return status == PERSEUS_OK ? signal_alone(route, pe, word, amo) : status;
}

static enum perseus_status put_signal_here(struct prs_plugin *plugin, const struct chunks *chunks,
                                           const struct prs_amo *amo, void *word)
{
    for (size_t i = 0; i < chunks->count; i++) {
        struct transfer piece;
        enum perseus_status status = check(plugin, plugin->my_pe, "put_signal", &chunks->remote[i],
                                           &chunks->local[i], &chunks->bytes[i], &piece);
        if (status != PERSEUS_OK) {
            return status;
        }
        memmove(piece.remote, piece.local, piece.bytes);
    }
    prs_plugin_apply(plugin, amo, word);
    return PERSEUS_OK;
}

enum perseus_status prs_plugin_put_signal(struct prs_plugin *plugin, enum prs_side side, int pe,
                                          const struct prs_abi_vector *remote,
                                          const struct prs_abi_vector *local,
                                          const struct prs_abi_vector *bytes, int signal_desc,
                                          const struct prs_abi_amo_memory *signal)
{
    const struct chunks chunks = {remote->begin, local->begin, bytes->begin,
                                  length(bytes, sizeof *chunks.bytes)};
    struct prs_amo amo;
    if (length(remote, sizeof *chunks.remote) != chunks.count ||
        length(local, sizeof *chunks.local) != chunks.count ||
        !prs_amo_decode(signal_desc, 8, signal->value, 0, &amo) || amo.fetch ||
        (amo.op != PERSEUS_ATOMIC_SET && amo.op != PERSEUS_ATOMIC_ADD)) {
        return prs_fail(
            &plugin->log, PERSEUS_INVALID_ARGUMENT,
            "put_signal toward PE %d with signal operation %d and chunk lists of unequal "
            "length or unknown form",
            pe, signal_desc);
    }
    struct transfer word = {.remote = signal->remote.pointer, .bytes = sizeof(uint64_t)};
    enum perseus_status status = prs_plugin_target(plugin, pe, "a signal", &signal->remote,
                                                   word.bytes, &word.handle, &word.offset);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_route *route = &plugin->routes[side];
    prs_route_lock(route);
    status = pe == plugin->my_pe ? put_signal_here(plugin, &chunks, &amo, word.remote)
                                 : put_signal_remote(route, pe, &chunks, &word, &amo);
    prs_route_unlock(route);
    return status;
}

/* ---- fence, quiet ---- */

/* Interface 3.0 calls this for every PE in turn, so a PE without open operations costs two loads.
 */
enum perseus_status prs_plugin_fence(struct prs_plugin *plugin, enum prs_side side, int pe)
{
    struct prs_route *route = &plugin->routes[side];
    bool vanilla = route->ordering == PERSEUS_ORDERING_DRAIN;
    bool all = pe < 0 || pe >= plugin->n_pes;
    if (!all && !vanilla && route->links[pe].sequence.open == 0) {
        return PERSEUS_OK;
    }
    enum perseus_status status = PERSEUS_OK;
    prs_route_lock(route);
    if (!all || vanilla) {
        status = prs_route_fence(route, all ? PRS_ORDER_ALL_PEERS : (uint32_t)pe);
    }
    for (int each = 0; all && !vanilla && each < plugin->n_pes && status == PERSEUS_OK; each++) {
        if (route->links[each].sequence.open != 0) {
            status = prs_route_fence(route, (uint32_t)each);
        }
    }
    prs_route_unlock(route);
    return status;
}

enum perseus_status prs_plugin_quiet(struct prs_plugin *plugin, enum prs_side side, int pe)
{
    struct prs_route *route = &plugin->routes[side];
    bool all = pe < 0 || pe >= plugin->n_pes;
    if (!all && !route->links[pe].unsettled) {
        return PERSEUS_OK;
    }
    prs_route_lock(route);
    enum perseus_status status = prs_route_quiet(route, all ? PRS_ORDER_ALL_PEERS : (uint32_t)pe);
    prs_route_unlock(route);
    return status;
}
