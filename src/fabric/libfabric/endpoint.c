/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>

#include "base/file_limit.h"
#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/handlers.h"
#include "fabric/libfabric/provider/ip.h"
#include "fabric/libfabric/provider/library.h"
#include "fabric/libfabric/provider/shm.h"
#include "fabric/libfabric/status.h"
#include "fabric/libfabric/provider/traits.h"

static enum perseus_status endpoint_fail(const struct prs_lf_endpoint *endpoint, const char *what,
                                         int error)
{
    enum perseus_status status = prs_lf_status(error);
    return prs_fail(prs_lf_log(endpoint), status, "%s cannot %s: %s; %s",
                    endpoint->base.fabric->caps.provider, what, prs_lf_error_text(error),
                    prs_lf_advice(status));
}

/* The info of this endpoint: the fabric's, with a name of its own where addresses are names. */
static struct fi_info *endpoint_info(struct prs_lf_endpoint *endpoint,
                                     const struct prs_lf_fabric *fabric)
{
    struct fi_info *info = prs_lf_library()->dupinfo(fabric->info);
    if (info == NULL || !prs_lf_shm_is(info)) {
        return info;
    }
    char address[PRS_LF_SHM_NAME_MAX + 8];
    prs_lf_shm_name(endpoint->shm_name, sizeof endpoint->shm_name);
    snprintf(address, sizeof address, "fi_ns://%s", endpoint->shm_name);
    free(info->src_addr);
    info->src_addr = strdup(address);
    info->src_addrlen = strlen(address) + 1;
    return info;
}

static int endpoint_make(struct prs_lf_endpoint *endpoint, struct prs_lf_fabric *fabric)
{
    struct fi_info *info = endpoint_info(endpoint, fabric);
    if (info == NULL) {
        return -FI_ENOMEM;
    }
    struct fi_av_attr av = {.type = info->domain_attr->av_type, .count = 64};
    /* Room for every completion of ours, and for as many remote writes as the target side buffers;
     * the pool of contexts keeps the first from overrunning it. */
    struct fi_cq_attr cq = {
        .size = fabric->base.caps.inflight_max + info->rx_attr->size,
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = fabric->base.caps.wakes && !fabric->rings ? FI_WAIT_FD : FI_WAIT_NONE,
    };
    int error = fi_endpoint(fabric->domain, info, &endpoint->ep, NULL);
    error = error == 0 ? fi_av_open(fabric->domain, &av, &endpoint->av, NULL) : error;
    error = error == 0 ? fi_cq_open(fabric->domain, &cq, &endpoint->cq, NULL) : error;
    error = error == 0 ? fi_ep_bind(endpoint->ep, &endpoint->av->fid, 0) : error;
    error =
        error == 0 ? fi_ep_bind(endpoint->ep, &endpoint->cq->fid, FI_TRANSMIT | FI_RECV) : error;
    error = error == 0 ? fi_enable(endpoint->ep) : error;
    prs_lf_library()->freeinfo(info);
    return error;
}

static enum perseus_status endpoint_check_bind(struct prs_lf_endpoint *endpoint)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    if (fabric->bind[0] == '\0') {
        return PERSEUS_OK;
    }
    struct sockaddr_storage address = {0};
    size_t bytes = sizeof address;
    int error = fi_getname(&endpoint->ep->fid, &address, &bytes);
    if (error != 0) {
        return endpoint_fail(endpoint, "tell its address", error);
    }
    if (!prs_lf_ip_is(&address, fabric->bind)) {
        return prs_fail(fabric->log, PERSEUS_INTERNAL,
                        "%s does not listen on %s, as it was told to: use another provider",
                        fabric->base.caps.provider, fabric->bind);
    }
    return PERSEUS_OK;
}

static enum perseus_status endpoint_open_bell(struct prs_lf_endpoint *endpoint)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    if (!fabric->rings || prs_lf_bell_open(&endpoint->bell)) {
        return PERSEUS_OK;
    }
    return prs_fail(fabric->log, PERSEUS_LIMIT,
                    "no page or pipe for peers to wake an endpoint of %s by: %s; allow more "
                    "descriptors (ulimit -n)",
                    fabric->base.caps.provider, strerror(errno));
}

static enum perseus_status too_large(const struct prs_lf_fabric *fabric)
{
    return prs_fail(fabric->log, PERSEUS_LIMIT,
                    "libfabric provider '%s' needs a file beyond the limit of file sizes: raise it "
                    "(ulimit -f), or choose another provider",
                    fabric->base.caps.provider);
}

enum perseus_status prs_lf_endpoint_open(struct prs_fabric *base, struct prs_endpoint **out)
{
    struct prs_lf_fabric *fabric = prs_lf_fabric_of(base);
    struct prs_lf_endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL) {
        return prs_fail(fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for an endpoint");
    }
    endpoint->base = (struct prs_endpoint){.ops = base->ops, .fabric = base};
    prs_lf_pool_init(&endpoint->pool, base->caps.inflight_max);
    prs_lf_gather_init(endpoint);
    struct prs_lf_handlers handlers;
    struct prs_file_limit limit;
    prs_lf_handlers_keep(&handlers);
    prs_file_limit_begin(&limit); /* shm makes a file */
    int error = endpoint_make(endpoint, fabric);
    bool met_limit = prs_file_limit_end(&limit);
    prs_lf_handlers_give_back(&handlers);
    enum perseus_status status = error == 0  ? endpoint_check_bind(endpoint)
                                 : met_limit ? too_large(fabric)
                                             : endpoint_fail(endpoint, "open an endpoint", error);
    status = status == PERSEUS_OK ? endpoint_open_bell(endpoint) : status;
    if (status == PERSEUS_OK && (fabric->traits & PRS_LF_REFUSES_EMPTY)) {
        status = prs_lf_memory_register(fabric, endpoint, &endpoint->sink_word,
                                        sizeof endpoint->sink_word, FI_REMOTE_WRITE,
                                        PRS_MEMORY_HOST, &endpoint->sink_mr);
    }
    if (status == PERSEUS_OK) {
        prs_lf_listens(endpoint);
        pthread_mutex_lock(&fabric->lock);
        if (fabric->first == NULL) {
            status = prs_lf_regions_bind(fabric, endpoint);
            fabric->first = endpoint;
        }
        pthread_mutex_unlock(&fabric->lock);
    }
    if (status != PERSEUS_OK) {
        prs_lf_endpoint_close(&endpoint->base);
        return status;
    }
    *out = &endpoint->base;
    return PERSEUS_OK;
}

void prs_lf_endpoint_close(struct prs_endpoint *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    struct prs_lf_fabric *fabric = prs_lf_fabric_of(base->fabric);
    pthread_mutex_lock(&fabric->lock);
    if (fabric->first == endpoint) {
        prs_lf_regions_unbind(fabric);
        fabric->first = NULL;
    }
    pthread_mutex_unlock(&fabric->lock);
    /* The endpoint first: closing it cancels what is in flight, and everything else is its. */
    if (endpoint->ep != NULL) {
        fi_close(&endpoint->ep->fid);
    }
    if (endpoint->shm_name[0] != '\0') {
        prs_lf_shm_remove(endpoint->shm_name); /* if opening failed half-way */
    }
    if (endpoint->cq != NULL) {
        fi_close(&endpoint->cq->fid);
    }
    if (endpoint->av != NULL) {
        fi_close(&endpoint->av->fid);
    }
    if (endpoint->sink_mr != NULL) {
        fi_close(&endpoint->sink_mr->fid);
    }
    prs_lf_pool_finish(&endpoint->pool);
    prs_lf_peers_finish(endpoint);
    prs_lf_bell_close(&endpoint->bell);
    free(endpoint);
}

enum perseus_status prs_lf_endpoint_address(struct prs_endpoint *base, void *out, size_t *bytes)
{
    return prs_lf_address_pack(prs_lf_endpoint_of(base), out, bytes);
}
