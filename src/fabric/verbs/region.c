/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/internal.h"

#define REGION_MAGIC 0x31525250u /* "PRR1" */

/* What a region's owner sends to its peers. All hosts of a job are little-endian. */
struct region_blob {
    uint32_t magic, key;
    uint64_t address, bytes;
};

enum perseus_status prs_verbs_region_register(struct prs_fabric *base, void *memory, size_t bytes,
                                              enum prs_memory_kind kind, struct prs_region **out)
{
    struct prs_verbs_fabric *fabric = prs_verbs_fabric_of(base);
    struct prs_verbs_region *region = calloc(1, sizeof *region);
    if (region == NULL) {
        return prs_fail(fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for a region");
    }
    region->base =
        (struct prs_region){.fabric = base, .base = memory, .bytes = bytes, .kind = kind};
    enum perseus_status status = prs_verbs_registration_take(&fabric->registrations, memory, bytes,
                                                             kind, &region->registration);
    if (status != PERSEUS_OK) {
        free(region);
        return status;
    }
    region->mr = region->registration->mr;
    region->key = region->mr->lkey;
    *out = &region->base;
    return PERSEUS_OK;
}

void prs_verbs_region_close(struct prs_region *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_verbs_region *region = (struct prs_verbs_region *)base;
    prs_verbs_registration_give_back(&prs_verbs_fabric_of(base->fabric)->registrations,
                                     region->registration);
    free(region);
}

enum perseus_status prs_verbs_region_export(struct prs_region *base, void *out, size_t *bytes)
{
    const struct prs_verbs_region *region = (const struct prs_verbs_region *)base;
    struct region_blob blob = {.magic = REGION_MAGIC,
                               .key = region->mr->rkey,
                               .address = (uintptr_t)base->base,
                               .bytes = base->bytes};
    if (*bytes < sizeof blob) {
        return prs_fail(prs_verbs_fabric_of(base->fabric)->log, PERSEUS_INVALID_ARGUMENT,
                        "a region blob needs %zu bytes, not %zu", sizeof blob, *bytes);
    }
    memcpy(out, &blob, sizeof blob);
    *bytes = sizeof blob;
    return PERSEUS_OK;
}

enum perseus_status prs_verbs_import(struct prs_endpoint *base, uint32_t peer, const void *bytes,
                                     size_t n, struct prs_remote **out)
{
    const struct prs_verbs_endpoint *endpoint = (const struct prs_verbs_endpoint *)base;
    const struct prs_log *log = prs_verbs_of(endpoint)->log;
    struct region_blob blob = {0};
    if (peer >= endpoint->peer_count) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected: there are %u",
                        peer, endpoint->peer_count);
    }
    if (n == sizeof blob) {
        memcpy(&blob, bytes, n);
    }
    if (blob.magic != REGION_MAGIC) {
        return prs_fail(log, PERSEUS_PROTOCOL,
                        "what peer %u sent as a region is not one of %s's: give every PE the same "
                        "Perseus and the same fabric",
                        peer, base->fabric->caps.provider);
    }
    struct prs_verbs_remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a remote region of peer %u",
                        peer);
    }
    *remote =
        (struct prs_verbs_remote){.base = {.endpoint = base, .peer = peer, .bytes = blob.bytes},
                                  .peer = endpoint->peers[peer],
                                  .address = blob.address,
                                  .key = blob.key};
    *out = &remote->base;
    return PERSEUS_OK;
}

void prs_verbs_remote_close(struct prs_remote *remote)
{
    free(remote);
}
