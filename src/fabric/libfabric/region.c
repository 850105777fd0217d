/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_rma.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/status.h"

#define PRS_LF_REGION_MAGIC 0x314c5250u /* "PRL1" */

/* What a region's owner sends to its peers. All hosts of a job are little-endian. */
struct prs_lf_region_blob {
    uint32_t magic;
    uint32_t raw_key_bytes; /* 0: `key` is the key */
    uint64_t bytes;
    uint64_t address;
    uint64_t key; /* with a raw key: the base address that maps it */
    unsigned char raw_key[PRS_BLOB_MAX - 32];
};
_Static_assert(sizeof(struct prs_lf_region_blob) == PRS_BLOB_MAX, "a region's blob has no padding");

#define PRS_LF_REGION_BLOB_MIN offsetof(struct prs_lf_region_blob, raw_key)

/* A provider on IP accepts whoever reaches its port, and the key is all that stands between them
 * and this memory: it is random, not counted. */
static uint64_t random_key(const struct fi_info *info)
{
    uint64_t key = 0;
    if (info->domain_attr->mr_mode & FI_MR_PROV_KEY) {
        return key;
    }
    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key) {
        return key;
    }
    size_t key_bytes = info->domain_attr->mr_key_size;
    /* Never all ones: that is FI_KEY_NOTAVAIL. */
    return key_bytes < sizeof key ? key & ((UINT64_C(1) << (8 * key_bytes)) - 1) : key >> 1;
}

static enum perseus_status memory_bind(const struct prs_lf_fabric *fabric, struct fid_mr *mr,
                                       struct prs_lf_endpoint *endpoint)
{
    int error = fi_mr_bind(mr, &endpoint->ep->fid, 0);
    error = error == 0 ? fi_mr_enable(mr) : error;
    if (error != 0) {
        return prs_fail(fabric->log, prs_lf_status(error), "%s cannot bind memory: %s; %s",
                        fabric->base.caps.provider, prs_lf_error_text(error),
                        prs_lf_advice(prs_lf_status(error)));
    }
    return PERSEUS_OK;
}

static enum fi_hmem_iface interface_of(enum prs_memory_kind kind)
{
    return kind == PRS_MEMORY_CUDA ? FI_HMEM_CUDA : FI_HMEM_SYSTEM;
}

bool prs_lf_memory_is_known(const struct prs_lf_fabric *fabric, enum prs_memory_kind kind)
{
    unsigned char probe[64];
    const struct iovec vector = {.iov_base = probe, .iov_len = sizeof probe};
    const struct fi_mr_attr attr = {.mr_iov = &vector,
                                    .iov_count = 1,
                                    .access = FI_READ,
                                    .requested_key = random_key(fabric->info),
                                    .iface = interface_of(kind)};
    struct fid_mr *mr = NULL;
    int error = fi_mr_regattr(fabric->domain, &attr, 0, &mr);
    if (error == 0) {
        fi_close(&mr->fid);
    }
    return error != -FI_ENOSYS;
}

enum perseus_status prs_lf_memory_register(struct prs_lf_fabric *fabric,
                                           struct prs_lf_endpoint *endpoint, void *base,
                                           size_t bytes, uint64_t access, enum prs_memory_kind kind,
                                           struct fid_mr **out)
{
    const struct iovec vector = {.iov_base = base, .iov_len = bytes};
    struct fi_mr_attr attr = {
        .mr_iov = &vector,
        .iov_count = 1,
        .access = access,
        .iface = interface_of(kind),
    };
    struct fid_mr *mr = NULL;
    int error;
    int attempts = 8; /* a random key may be taken, most likely where keys are short */
    do {
        attr.requested_key = random_key(fabric->info);
        error = fi_mr_regattr(fabric->domain, &attr, 0, &mr);
    } while (error == -FI_ENOKEY && --attempts > 0);
    if (error != 0) {
        return prs_fail(fabric->log, prs_lf_status(error),
                        "%s cannot register %zu bytes at %p: %s; %s", fabric->base.caps.provider,
                        bytes, base, prs_lf_error_text(error), prs_lf_advice(prs_lf_status(error)));
    }
    if (endpoint != NULL && (fabric->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
        enum perseus_status status = memory_bind(fabric, mr, endpoint);
        if (status != PERSEUS_OK) {
            fi_close(&mr->fid);
            return status;
        }
    }
    *out = mr;
    return PERSEUS_OK;
}

enum perseus_status prs_lf_region_register(struct prs_fabric *base_fabric, void *base, size_t bytes,
                                           enum prs_memory_kind kind, struct prs_region **out)
{
    struct prs_lf_fabric *fabric = prs_lf_fabric_of(base_fabric);
    if (base == NULL || bytes == 0) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT, "a region needs at least one byte");
    }
    if (!(base_fabric->caps.memory_kinds & kind)) {
        return prs_fail(fabric->log, PERSEUS_NOT_SUPPORTED,
                        "%s was opened without this kind of memory: name it in memory_kinds",
                        base_fabric->caps.provider);
    }
    struct prs_lf_region *region = calloc(1, sizeof *region);
    if (region == NULL) {
        return prs_fail(fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for a region handle");
    }
    region->base =
        (struct prs_region){.fabric = base_fabric, .base = base, .bytes = bytes, .kind = kind};
    pthread_mutex_lock(&fabric->lock);
    enum perseus_status status = prs_lf_memory_register(
        fabric, fabric->first, base, bytes, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
        kind, &region->mr);
    if (status == PERSEUS_OK) {
        region->bound = fabric->first != NULL;
        region->next = fabric->regions;
        fabric->regions = region;
    }
    pthread_mutex_unlock(&fabric->lock);
    if (status != PERSEUS_OK) {
        free(region);
        return status;
    }
    *out = &region->base;
    return PERSEUS_OK;
}

void prs_lf_region_close(struct prs_region *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_lf_region *region = (struct prs_lf_region *)base;
    struct prs_lf_fabric *fabric = prs_lf_fabric_of(base->fabric);
    pthread_mutex_lock(&fabric->lock);
    struct prs_lf_region **link = &fabric->regions;
    while (*link != region) {
        link = &(*link)->next;
    }
    *link = region->next;
    if (region->mr != NULL) {
        fi_close(&region->mr->fid);
    }
    pthread_mutex_unlock(&fabric->lock);
    free(region);
}

enum perseus_status prs_lf_regions_bind(struct prs_lf_fabric *fabric, struct prs_lf_endpoint *first)
{
    if (!(fabric->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
        return PERSEUS_OK;
    }
    for (struct prs_lf_region *region = fabric->regions; region != NULL; region = region->next) {
        if (!region->bound) {
            enum perseus_status status = memory_bind(fabric, region->mr, first);
            if (status != PERSEUS_OK) {
                return status;
            }
            region->bound = true;
        }
    }
    return PERSEUS_OK;
}

void prs_lf_regions_unbind(struct prs_lf_fabric *fabric)
{
    if (!(fabric->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
        return;
    }
    for (struct prs_lf_region *region = fabric->regions; region != NULL; region = region->next) {
        if (region->bound && region->mr != NULL) {
            fi_close(&region->mr->fid);
            region->mr = NULL;
        }
    }
}

enum perseus_status prs_lf_region_export(struct prs_region *base, void *blob, size_t *bytes)
{
    struct prs_lf_region *region = (struct prs_lf_region *)base;
    struct prs_lf_fabric *fabric = prs_lf_fabric_of(base->fabric);
    int mr_mode = fabric->info->domain_attr->mr_mode;
    if ((mr_mode & FI_MR_ENDPOINT) && (region->mr == NULL || !region->bound)) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "%s gives memory its key through an endpoint: open one before exporting",
                        fabric->base.caps.provider);
    }
    struct prs_lf_region_blob out = {
        .magic = PRS_LF_REGION_MAGIC,
        .bytes = base->bytes,
        .address = mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)base->base : 0,
        .key = fi_mr_key(region->mr),
    };
    size_t length = PRS_LF_REGION_BLOB_MIN;
    if (mr_mode & FI_MR_RAW) {
        size_t key_bytes = sizeof out.raw_key;
        int error = fi_mr_raw_attr(region->mr, &out.key, out.raw_key, &key_bytes, 0);
        if (error != 0) {
            return prs_fail(fabric->log, prs_lf_status(error), "%s gives no key for a region: %s",
                            fabric->base.caps.provider, prs_lf_error_text(error));
        }
        out.raw_key_bytes = (uint32_t)key_bytes;
        length += key_bytes;
    }
    if (*bytes < length) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "a region's blob takes %zu bytes, the buffer has %zu", length, *bytes);
    }
    memcpy(blob, &out, length);
    *bytes = length;
    return PERSEUS_OK;
}

static enum perseus_status blob_parse(const struct prs_lf_endpoint *endpoint, uint32_t peer,
                                      const void *blob, size_t bytes,
                                      struct prs_lf_region_blob *out)
{
    *out = (struct prs_lf_region_blob){0};
    if (bytes >= PRS_LF_REGION_BLOB_MIN && bytes <= sizeof *out) {
        memcpy(out, blob, bytes);
        int mr_mode = prs_lf_fabric_of(endpoint->base.fabric)->info->domain_attr->mr_mode;
        bool is_raw = out->raw_key_bytes != 0;
        if (out->magic == PRS_LF_REGION_MAGIC && out->bytes != 0 &&
            out->bytes <= UINT64_MAX - out->address &&
            out->raw_key_bytes == bytes - PRS_LF_REGION_BLOB_MIN &&
            is_raw == ((mr_mode & FI_MR_RAW) != 0)) {
            return PERSEUS_OK;
        }
    }
    return prs_fail(prs_lf_log(endpoint), PERSEUS_PROTOCOL,
                    "what peer %u sent as a region is not one of %s's: give every PE the same "
                    "Perseus and the same provider",
                    peer, endpoint->base.fabric->caps.provider);
}

enum perseus_status prs_lf_remote_import(struct prs_endpoint *base, uint32_t peer, const void *blob,
                                         size_t bytes, struct prs_remote **out)
{
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    if (peer >= endpoint->peer_count) {
        return prs_fail(prs_lf_log(endpoint), PERSEUS_INVALID_ARGUMENT,
                        "peer %u is not connected: there are %u", peer, endpoint->peer_count);
    }
    struct prs_lf_region_blob region;
    enum perseus_status status = blob_parse(endpoint, peer, blob, bytes, &region);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_lf_remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL) {
        return prs_fail(prs_lf_log(endpoint), PERSEUS_OUT_OF_MEMORY,
                        "no memory for a remote region of peer %u", peer);
    }
    *remote = (struct prs_lf_remote){
        .base = {.endpoint = base, .peer = peer, .bytes = region.bytes},
        .address = region.address,
        .key = region.key,
    };
    if (region.raw_key_bytes != 0) {
        struct prs_lf_fabric *fabric = prs_lf_fabric_of(base->fabric);
        int error = fi_mr_map_raw(fabric->domain, region.key, region.raw_key, region.raw_key_bytes,
                                  &remote->key, 0);
        if (error != 0) {
            free(remote);
            return prs_fail(fabric->log, prs_lf_status(error),
                            "%s cannot take the region key of peer %u: %s",
                            fabric->base.caps.provider, peer, prs_lf_error_text(error));
        }
        remote->key_mapped = true;
    }
    *out = &remote->base;
    return PERSEUS_OK;
}

void prs_lf_remote_close(struct prs_remote *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_lf_remote *remote = (struct prs_lf_remote *)base;
    if (remote->key_mapped) {
        fi_mr_unmap_key(prs_lf_fabric_of(base->endpoint->fabric)->domain, remote->key);
    }
    free(remote);
}
