/* SPDX-License-Identifier: Apache-2.0 */
/* atomic.c: atomics on remote words, on words of this PE, and of node neighbours: once one PE is
 * remote, the host sends them all here. All of them end as CPU atomics of the word's owner (or as
 * what the fabric promises is coherent with those), so there is one atomicity domain per word. */
#include "fabric/word.h"
#include "plugin.h"
#include "staging/stage.h"

enum perseus_status prs_plugin_target(struct prs_plugin *plugin, int pe, const char *what,
                                      const struct prs_abi_rma_memory *memory, size_t bytes,
                                      struct prs_handle *out_handle, uint64_t *out_offset)
{
    struct prs_handle handle;
    if (pe < 0 || pe >= plugin->n_pes) {
        return prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT,
                        "%s toward PE %d: the job has %d PEs", what, pe, plugin->n_pes);
    }
    if (!prs_handle_read(memory->handle, &handle) || handle.owner != (uint32_t)pe ||
        handle.kind == PRS_HANDLE_LOCAL) {
        return prs_fail(
            &plugin->log, PERSEUS_INVALID_ARGUMENT,
            "%s toward PE %d: its memory handle is not one of this transport. Give every "
            "PE the same files and environment",
            what, pe);
    }
    uint64_t offset = (uint64_t)(uintptr_t)memory->pointer - handle.base;
    if (offset > handle.bytes || bytes > handle.bytes - offset) {
        return prs_fail(
            &plugin->log, PERSEUS_OUT_OF_RANGE,
            "%s toward PE %d: %zu bytes at %p are not inside its chunk of %llu bytes at "
            "%#llx",
            what, pe, bytes, memory->pointer, (unsigned long long)handle.bytes,
            (unsigned long long)handle.base);
    }
    *out_handle = handle;
    *out_offset = offset;
    return PERSEUS_OK;
}

/* Self: at once. */
static enum perseus_status apply_here(struct prs_plugin *plugin, const struct prs_amo *amo,
                                      const struct prs_handle *handle,
                                      const struct prs_abi_amo_memory *target)
{
    uint64_t old;
    if (handle->kind == PRS_HANDLE_STAGED) {
        enum perseus_status status =
            prs_staging_amo_here(plugin->stage, amo, target->remote.pointer, &old);
        return status == PERSEUS_OK && amo->fetch
                   ? prs_staging_copy_here(plugin->stage, target->return_pointer,
                                           plugin->stage->rmw.scratch, amo->bytes)
                   : status;
    }
    old = prs_word_apply_sized(target->remote.pointer, amo->bytes, amo->op, amo->operand,
                               amo->compare);
    if (amo->fetch) {
        prs_word_apply_sized(target->return_pointer, amo->bytes, PERSEUS_ATOMIC_SET, old, 0);
    }
    return PERSEUS_OK;
}

static struct prs_request request_of(const struct prs_amo *amo, int pe, uint64_t offset)
{
    struct prs_request request = {
        .kind = amo->fetch ? PRS_REQUEST_ATOMIC_FETCH : PRS_REQUEST_ATOMIC,
        .op = (uint8_t)amo->op,
        .peer = (uint32_t)pe,
        .token = PRS_ORDER_NO_TOKEN,
        .remote_offset = offset,
        .word_bytes = (uint8_t)amo->bytes,
        .value = amo->operand,
        .compare = amo->compare,
    };
    if (request.kind == PRS_REQUEST_ATOMIC && amo->op == PERSEUS_ATOMIC_SET && amo->bytes == 8) {
        request.kind = PRS_REQUEST_SIGNAL; /* needs nobody at the target */
        request.op = PERSEUS_SIGNAL_SET;
    }
    return request;
}

static enum perseus_status submit(struct prs_route *route, const struct prs_amo *amo,
                                  const struct prs_handle *handle,
                                  const struct prs_abi_amo_memory *target,
                                  struct prs_request *request)
{
    enum perseus_status status = prs_route_remote(route, request->peer, handle, &request->remote);
    if (status == PERSEUS_OK && amo->fetch) {
        status = prs_route_fetch_token(route, target->return_pointer, amo->bytes, &request->token);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    uint64_t word = (uint64_t)(uintptr_t)target->remote.pointer;
    status = request->kind == PRS_REQUEST_SIGNAL
                 ? prs_route_set(route, request, word)
                 : prs_route_submit(route, request, PRS_CLASS_ATOMIC, word);
    if (status != PERSEUS_OK && amo->fetch) {
        prs_route_token_give_back(route, request->token);
    }
    return status;
}

enum perseus_status prs_plugin_amo(struct prs_plugin *plugin, enum prs_side side, int pe,
                                   const struct prs_abi_amo_verb *verb,
                                   const struct prs_abi_amo_memory *target,
                                   const struct prs_abi_amo_bytes *bytes)
{
    struct prs_amo amo;
    if (!prs_amo_decode(verb, bytes->element_bytes, target->value, target->compare, &amo)) {
        return prs_fail(&plugin->log, PERSEUS_NOT_SUPPORTED,
                        "atomic %d on %d bytes toward PE %d is not known to this transport",
                        verb->desc, bytes->element_bytes, pe);
    }
    struct prs_handle handle;
    uint64_t offset;
    enum perseus_status status =
        prs_plugin_target(plugin, pe, "an atomic", &target->remote, amo.bytes, &handle, &offset);
    if (status != PERSEUS_OK) {
        return status;
    }
    if ((uintptr_t)target->remote.pointer % amo.bytes != 0 ||
        (amo.fetch && (uintptr_t)target->return_pointer % amo.bytes != 0)) {
        return prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT,
                        "an atomic toward PE %d on %p, which is not aligned to %u bytes", pe,
                        target->remote.pointer, amo.bytes);
    }
    bool staged = handle.kind == PRS_HANDLE_STAGED;
    struct prs_route *route = &plugin->routes[staged ? PRS_SIDE_PROXY : side];
    status = prs_plugin_settle(plugin, side, pe, staged);
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_route_lock(route);
    if (pe == plugin->my_pe) {
        status = apply_here(plugin, &amo, &handle, target);
    } else if (staged) {
        plugin->routes[side].peers[pe].staged = true;
        status = prs_staging_amo(plugin->stage, pe, (uint64_t)(uintptr_t)target->remote.pointer,
                                 &amo, target->return_pointer);
    } else {
        struct prs_request request = request_of(&amo, pe, offset);
        status = submit(route, &amo, &handle, target, &request);
    }
    prs_route_unlock(route);
    return status;
}
