#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include <rdma/fi_cm.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/shm.h"
#include "fabric/libfabric/status.h"

#define PRS_LF_ADDRESS_MAGIC 0x31414c50u /* "PLA1" */

/* How an endpoint is reached. All hosts of a job are little-endian. */
struct prs_lf_address_blob {
    uint32_t magic;
    uint32_t format; /* FI_SOCKADDR_IN, FI_ADDR_STR... */
    int32_t pid;
    uint32_t address_bytes;
    unsigned char address[PRS_ADDRESS_MAX - 16];
};
_Static_assert(sizeof(struct prs_lf_address_blob) == PRS_ADDRESS_MAX,
               "an endpoint's address has no padding");

#define PRS_LF_ADDRESS_BLOB_MIN offsetof(struct prs_lf_address_blob, address)

enum perseus_status prs_lf_address_pack(const struct prs_lf_endpoint *endpoint, void *out,
                                        size_t *bytes)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    struct prs_lf_address_blob blob = {
        .magic = PRS_LF_ADDRESS_MAGIC,
        .format = fabric->info->addr_format,
        .pid = (int32_t)getpid(),
    };
    size_t address_bytes = sizeof blob.address;
    int error = fi_getname(&endpoint->ep->fid, blob.address, &address_bytes);
    if (error != 0) {
        return prs_fail(fabric->log, prs_lf_status(error), "%s does not tell its address: %s",
                        fabric->base.caps.provider, prs_lf_error_text(error));
    }
    blob.address_bytes = (uint32_t)address_bytes;
    size_t length = PRS_LF_ADDRESS_BLOB_MIN + address_bytes;
    if (*bytes < length) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "an endpoint's address takes %zu bytes, the buffer has %zu", length,
                        *bytes);
    }
    memcpy(out, &blob, length);
    *bytes = length;
    return PERSEUS_OK;
}

static enum perseus_status prs_lf_address_parse(const struct prs_lf_endpoint *endpoint,
                                                const void *address, size_t bytes,
                                                struct prs_lf_address_blob *out)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    *out = (struct prs_lf_address_blob){0};
    if (bytes > PRS_LF_ADDRESS_BLOB_MIN && bytes <= sizeof *out) {
        memcpy(out, address, bytes);
        bool is_text = out->format == FI_ADDR_STR;
        bool ends = !is_text || memchr(out->address, '\0', out->address_bytes) != NULL;
        if (out->magic == PRS_LF_ADDRESS_MAGIC && out->format == fabric->info->addr_format &&
            out->address_bytes == bytes - PRS_LF_ADDRESS_BLOB_MIN && ends) {
            return PERSEUS_OK;
        }
    }
    return prs_fail(fabric->log, PERSEUS_PROTOCOL,
                    "what a peer sent as its address is not one of %s's: give every PE the same "
                    "Perseus and the same provider",
                    fabric->base.caps.provider);
}

static enum perseus_status prs_lf_peers_reserve(struct prs_lf_endpoint *endpoint)
{
    if (endpoint->peer_count < endpoint->peer_capacity) {
        return PERSEUS_OK;
    }
    uint32_t capacity = endpoint->peer_capacity == 0 ? 8 : 2 * endpoint->peer_capacity;
    struct prs_lf_peer *peers = realloc(endpoint->peers, capacity * sizeof *peers);
    if (peers == NULL) {
        return prs_fail(prs_lf_log(endpoint), PERSEUS_OUT_OF_MEMORY, "no memory for %u peers",
                        capacity);
    }
    endpoint->peers = peers;
    endpoint->peer_capacity = capacity;
    return PERSEUS_OK;
}

/* shm has no connection that could break: a post to a dead process waits for ever. So the process
 * itself is watched. */
static enum perseus_status prs_lf_peer_watch(struct prs_lf_endpoint *endpoint,
                                             const struct prs_lf_address_blob *blob,
                                             struct prs_lf_peer *peer)
{
    const char *name = (const char *)blob->address;
    const char *mark = strstr(name, "://");
    name = mark != NULL ? mark + 3 : name;
    if (!prs_lf_shm_name_is_ours(name) || strlen(name) >= sizeof peer->shm_name) {
        return PERSEUS_OK;
    }
    strcpy(peer->shm_name, name);
    peer->pidfd = pidfd_open(blob->pid, 0);
    if (peer->pidfd < 0 && errno == ESRCH) {
        return prs_fail(prs_lf_log(endpoint), PERSEUS_PEER_LOST,
                        "process %d, whose address was given as peer %u, has ended: %s", blob->pid,
                        endpoint->peer_count, prs_lf_advice(PERSEUS_PEER_LOST));
    }
    return PERSEUS_OK;
}

enum perseus_status prs_lf_connect(struct prs_endpoint *base, const void *address, size_t bytes,
                                   uint32_t *out_peer)
{
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(base->fabric);
    struct prs_lf_address_blob blob;
    enum perseus_status status = prs_lf_address_parse(endpoint, address, bytes, &blob);
    status = status == PERSEUS_OK ? prs_lf_peers_reserve(endpoint) : status;
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_lf_peer peer = {.pidfd = -1};
    if (prs_lf_shm_is(fabric->info)) {
        status = prs_lf_peer_watch(endpoint, &blob, &peer);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    int inserted = fi_av_insert(endpoint->av, blob.address, 1, &peer.address, 0, NULL);
    if (inserted != 1) {
        if (peer.pidfd >= 0) {
            close(peer.pidfd);
        }
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "%s does not take the address of peer %u: %s", fabric->base.caps.provider,
                        endpoint->peer_count,
                        inserted < 0 ? prs_lf_error_text(inserted) : "not valid here");
    }
    endpoint->peers[endpoint->peer_count] = peer;
    *out_peer = endpoint->peer_count++;
    return PERSEUS_OK;
}

void prs_lf_peers_finish(struct prs_lf_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->peer_count; i++) {
        if (endpoint->peers[i].pidfd >= 0) {
            close(endpoint->peers[i].pidfd);
        }
    }
    free(endpoint->peers);
}

void prs_lf_peer_lose(struct prs_lf_endpoint *endpoint, uint32_t index, const char *what,
                      const char *provider_text)
{
    struct prs_lf_peer *peer = &endpoint->peers[index];
    if (peer->lost) {
        return;
    }
    peer->lost = true;
    prs_log(prs_lf_log(endpoint), PERSEUS_LOG_ERROR,
            "peer %u is lost: %s failed with %s (%s); %s; nothing more is sent to it", index, what,
            provider_text, endpoint->base.fabric->caps.provider, prs_lf_advice(PERSEUS_PEER_LOST));
}

void prs_lf_peers_watch(struct prs_lf_endpoint *endpoint)
{
    if (endpoint->peer_count == 0) {
        return;
    }
    uint32_t index = endpoint->watch_next++ % endpoint->peer_count;
    struct prs_lf_peer *peer = &endpoint->peers[index];
    struct pollfd watched = {.fd = peer->pidfd, .events = POLLIN};
    if (peer->lost || peer->pidfd < 0 || poll(&watched, 1, 0) != 1) {
        return;
    }
    prs_lf_peer_lose(endpoint, index, "its process", "exit");
    prs_lf_shm_remove(peer->shm_name);
    /* The provider will return none of these: they are stranded (context.h). */
    struct prs_lf_context *context;
    while ((context = prs_lf_pool_find_unsettled(&endpoint->pool, index)) != NULL) {
        endpoint->pool.stranded++;
        prs_lf_settle(endpoint, context, PERSEUS_PEER_LOST);
    }
}
