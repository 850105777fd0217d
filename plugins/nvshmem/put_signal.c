/* SPDX-License-Identifier: Apache-2.0 */
/* put_signal.c: interface 4.0's put_signal: any number of pieces, then a signal that none of them
 * may miss. */
#include "plugin.h"

struct pieces { /* the host's three vectors, of one length */
    const struct prs_abi_rma_memory *remote, *local;
    const struct prs_abi_rma_bytes *bytes;
    size_t count;
};

static size_t length(const struct prs_abi_vector *vector, size_t element_bytes)
{
    return (size_t)((char *)vector->end - (char *)vector->begin) / element_bytes;
}

static enum perseus_status read_piece(struct prs_plugin *plugin, int pe,
                                      const struct pieces *pieces, size_t i, struct prs_piece *out)
{
    return prs_plugin_piece(plugin, pe, "put_signal", &pieces->remote[i], &pieces->local[i],
                            &pieces->bytes[i], out);
}

/* Plain puts, a fence, the signal. */
static enum perseus_status one_by_one(struct prs_plugin *plugin, enum prs_side side, int pe,
                                      const struct pieces *pieces, int signal_desc,
                                      const struct prs_abi_amo_memory *signal)
{
    for (size_t i = 0; i < pieces->count; i++) {
        struct prs_piece piece;
        enum perseus_status status = read_piece(plugin, pe, pieces, i, &piece);
        if (status == PERSEUS_OK && piece.bytes > 0) {
            status = prs_plugin_move(plugin, side, pe, PRS_ABI_PUT, &piece, false);
        }
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    enum perseus_status status = prs_plugin_fence(plugin, side, pe);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_abi_amo_verb verb = {.desc = signal_desc};
    const struct prs_abi_amo_bytes bytes = {.element_bytes = sizeof(uint64_t)};
    return prs_plugin_amo(plugin, side, pe, &verb, signal, &bytes);
}

/* One piece carries its signal: the engine orders just these two. */
static enum perseus_status together(struct prs_plugin *plugin, struct prs_route *route, int pe,
                                    const struct prs_piece *piece, const struct prs_piece *word,
                                    const struct prs_amo *amo)
{
    struct prs_request request;
    prs_route_lock(route);
    enum perseus_status status =
        prs_piece_request(route, &plugin->memory, pe, piece, PRS_REQUEST_PUT_SIGNAL, &request);
    if (status == PERSEUS_OK) {
        status = prs_route_remote(route, (uint32_t)pe, &word->handle, &request.signal_remote);
    }
    if (status == PERSEUS_OK) {
        request.op = amo->op == PERSEUS_ATOMIC_SET ? PERSEUS_SIGNAL_SET : PERSEUS_SIGNAL_ADD;
        request.value = amo->operand;
        request.signal_offset = word->offset;
        status = prs_route_submit(route, &request, PRS_CLASS_SIGNALED,
                                  (uint64_t)(uintptr_t)word->remote);
    }
    prs_route_unlock(route);
    return status;
}

enum perseus_status prs_plugin_put_signal(struct prs_plugin *plugin, enum prs_side side, int pe,
                                          const struct prs_abi_vector *remote,
                                          const struct prs_abi_vector *local,
                                          const struct prs_abi_vector *bytes, int signal_desc,
                                          const struct prs_abi_amo_memory *signal)
{
    const struct pieces pieces = {remote->begin, local->begin, bytes->begin,
                                  length(bytes, sizeof *pieces.bytes)};
    const struct prs_abi_amo_verb verb = {.desc = signal_desc};
    struct prs_amo amo;
    if (length(remote, sizeof *pieces.remote) != pieces.count ||
        length(local, sizeof *pieces.local) != pieces.count ||
        !prs_amo_decode(&verb, sizeof(uint64_t), signal->value, 0, &amo) || amo.fetch ||
        (amo.op != PERSEUS_ATOMIC_SET && amo.op != PERSEUS_ATOMIC_ADD)) {
        return prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT,
                        "put_signal toward PE %d with signal operation %d and lists of %zu pieces: "
                        "unknown operation, or lists of unequal length",
                        pe, signal_desc, pieces.count);
    }
    struct prs_route *route = &plugin->routes[side];
    if (pieces.count != 1 || pe == plugin->my_pe ||
        route->link.ordering == PERSEUS_ORDERING_DRAIN) {
        return one_by_one(plugin, side, pe, &pieces, signal_desc, signal);
    }
    struct prs_piece piece, word = {.remote = signal->remote.pointer};
    enum perseus_status status = read_piece(plugin, pe, &pieces, 0, &piece);
    if (status == PERSEUS_OK) {
        status = prs_plugin_target(plugin, pe, "a signal", &signal->remote, sizeof(uint64_t),
                                   &word.handle, &word.offset);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    if (piece.bytes == 0 || prs_plugin_is_staged(plugin, side, &piece)) {
        return one_by_one(plugin, side, pe, &pieces, signal_desc, signal);
    }
    status = prs_plugin_settle(plugin, side, pe, false);
    return status == PERSEUS_OK ? together(plugin, route, pe, &piece, &word, &amo) : status;
}
