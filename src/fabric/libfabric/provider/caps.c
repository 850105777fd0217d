/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/caps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_endpoint.h>

#include "base/numa.h"
#include "fabric/libfabric/provider/traits.h"

#define PRS_LF_INFLIGHT_MAX 1024

/* A message order counts only if the data follows it for every size: max_order_waw_size is 0 where
 * it never does (ofi_rxm with atomics) and small where it does up to a packet (psm3). */
static void caps_order(const struct fi_info *info, struct prs_caps *caps)
{
    uint64_t order = info->tx_attr->msg_order & info->rx_attr->msg_order;
    size_t ordered_bytes = info->ep_attr->max_order_waw_size;
    bool writes = order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW);
    bool any_size = ordered_bytes >= info->ep_attr->max_msg_size;
    if (writes && any_size) {
        caps->order |= PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_SET | PRS_ORDER_SET_SET;
    }
    if ((order & FI_ORDER_WAW) && any_size && (info->caps & FI_ATOMIC)) {
        caps->order |= PRS_ORDER_PUT_ATOMIC;
    }
    snprintf(caps->order_word, sizeof caps->order_word, "msg_order=%s%s%s%s",
             order & FI_ORDER_WAW ? "WAW" : "",
             (order & FI_ORDER_WAW) && (order & FI_ORDER_RMA_WAW) ? "," : "",
             order & FI_ORDER_RMA_WAW ? "RMA_WAW" : "", writes ? "" : "none");
    if (writes && !any_size) {
        size_t used = strlen(caps->order_word);
        snprintf(caps->order_word + used, sizeof caps->order_word - used,
                 " but max_order_waw_size=%zu", ordered_bytes);
    }
}

static void caps_fence(const struct fi_info *info, uint32_t traits, struct prs_caps *caps)
{
    const char *word = "FI_FENCE of its peer";
    caps->fence_scope = PRS_FENCE_PEER;
    if (!(info->caps & info->tx_attr->caps & FI_FENCE)) {
        caps->fence_scope = PRS_FENCE_NONE;
        word = "FI_FENCE not granted";
    } else if (traits & PRS_LF_FENCES_ENDPOINT) {
        caps->fence_scope = PRS_FENCE_ENDPOINT;
        word = "FI_FENCE of the whole endpoint";
    } else if (traits & PRS_LF_FENCES_SLOWLY) {
        word = "FI_FENCE of its peer, but it waits for every peer";
    }
    snprintf(caps->fence_word, sizeof caps->fence_word, "%s", word);
}

static void caps_completion(const struct fi_info *info, struct prs_caps *caps)
{
    bool delivered = info->tx_attr->op_flags & FI_DELIVERY_COMPLETE;
    caps->completion = delivered ? PRS_COMPLETION_DELIVERED : PRS_COMPLETION_TRANSMITTED;
    caps->completion_per_operation = true;
    snprintf(caps->completion_word, sizeof caps->completion_word, "%s",
             delivered ? "FI_DELIVERY_COMPLETE" : "FI_TRANSMIT_COMPLETE");
}

static void caps_immediate(const struct fi_info *info, uint32_t traits, struct prs_caps *caps)
{
    size_t bytes = info->domain_attr->cq_data_size;
    bool refuses = traits & PRS_LF_REFUSES_IMMEDIATE;
    if (bytes > 0 && !refuses) {
        caps->immediate_bits = (uint32_t)(bytes < 8 ? 8 * bytes : 64);
    }
    snprintf(caps->immediate_word, sizeof caps->immediate_word, "cq_data_size=%zu%s", bytes,
             refuses ? ", but fi_writemsg does not take it" : "");
}

static int numa_node(const struct fi_info *info)
{
    if (info->nic == NULL || info->nic->bus_attr == NULL ||
        info->nic->bus_attr->bus_type != FI_BUS_PCI) {
        return -1;
    }
    const struct fi_pci_attr *pci = &info->nic->bus_attr->attr.pci;
    char folder[96];
    snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%04x:%02x:%02x.%x", pci->domain_id,
             pci->bus_id, pci->device_id, pci->function_id);
    return prs_numa_node_of(folder);
}

void prs_lf_caps_fill(const struct fi_info *info, struct prs_caps *out)
{
    uint32_t traits = prs_lf_traits(info->fabric_attr->prov_name);
    *out = (struct prs_caps){
        .inline_bytes = PRS_LF_SLOT_BYTES,
        .message_bytes_max = info->ep_attr->max_msg_size,
        .signals_tear = traits & PRS_LF_SPLITS_WORDS,
        .signals_repeat = traits & PRS_LF_COPIES_WORDS,
        .batching = traits & (PRS_LF_HAS_DOORBELL | PRS_LF_GATHERS),
        .memory_kinds = PRS_MEMORY_HOST | (info->caps & FI_HMEM ? PRS_MEMORY_CUDA : 0u),
        .target_must_progress = info->domain_attr->data_progress != FI_PROGRESS_AUTO,
        .source_needs_region = info->domain_attr->mr_mode & FI_MR_LOCAL,
        .lanes_max = 1,
        .numa_node = numa_node(info),
    };
    size_t queue = info->tx_attr->size;
    out->inflight_max =
        queue > 0 && queue < PRS_LF_INFLIGHT_MAX ? (uint32_t)queue : PRS_LF_INFLIGHT_MAX;
    snprintf(out->provider, sizeof out->provider, "%s", info->fabric_attr->prov_name);
    caps_order(info, out);
    caps_fence(info, traits, out);
    caps_completion(info, out);
    out->completes_early =
        out->completion == PRS_COMPLETION_DELIVERED && (traits & PRS_LF_ACKNOWLEDGES);
    caps_immediate(info, traits, out);
}

enum fi_op prs_lf_atomic_op(uint8_t atomic)
{
    switch ((enum perseus_atomic)atomic) {
    case PERSEUS_ATOMIC_SET:
        return FI_ATOMIC_WRITE;
    case PERSEUS_ATOMIC_ADD:
        return FI_SUM;
    case PERSEUS_ATOMIC_AND:
        return FI_BAND;
    case PERSEUS_ATOMIC_OR:
        return FI_BOR;
    case PERSEUS_ATOMIC_XOR:
        return FI_BXOR;
    case PERSEUS_ATOMIC_COMPARE_SWAP:
        break;
    }
    return FI_CSWAP;
}

void prs_lf_caps_atomics(const struct fi_info *info, struct fid_domain *domain,
                         struct prs_caps *caps)
{
    if (!(info->caps & FI_ATOMIC)) {
        return;
    }
    for (int atomic = PERSEUS_ATOMIC_SET; atomic <= PERSEUS_ATOMIC_COMPARE_SWAP; atomic++) {
        bool compares = atomic == PERSEUS_ATOMIC_COMPARE_SWAP;
        enum fi_op op = prs_lf_atomic_op((uint8_t)atomic);
        struct fi_atomic_attr attr;
        if (!compares && fi_query_atomic(domain, FI_UINT64, op, &attr, 0) == 0) {
            caps->atomics |= 1u << atomic;
        }
        uint64_t flags = compares ? FI_COMPARE_ATOMIC : FI_FETCH_ATOMIC;
        if (fi_query_atomic(domain, FI_UINT64, op, &attr, flags) == 0) {
            caps->atomics_fetch |= 1u << atomic;
        }
    }
    if (prs_lf_traits(info->fabric_attr->prov_name) & PRS_LF_BREAKS_FETCHES) {
        caps->atomics_fetch = 0;
    }
    if (caps->atomics == 0) {
        caps->order &= ~(uint32_t)PRS_ORDER_PUT_ATOMIC;
    }
}
