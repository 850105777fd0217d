/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cudadma/cudadma.h"

#define MESSAGE_BYTES_MAX (UINT64_C(1) << 40)

/* "", "batch" or "stream", and ":" with the number of a GPU. */
static enum perseus_status parse_provider(const struct prs_fabric_config *config, bool *out_strict,
                                          int *out_device)
{
    const char *text = config->provider != NULL ? config->provider : "";
    size_t name = strcspn(text, ":");
    char *end = NULL;
    long device = text[name] == ':' ? strtol(text + name + 1, &end, 10) : config->gpu;
    bool is_number = end == NULL || (end != text + name + 1 && *end == '\0' && device >= 0);
    bool is_batch = name == 0 || (name == 5 && strncmp(text, "batch", 5) == 0);
    *out_strict = name == 6 && strncmp(text, "stream", 6) == 0;
    *out_device = (int)device;
    if (!is_number || (!is_batch && !*out_strict)) {
        return prs_fail(config->log, PERSEUS_NOT_FOUND,
                        "fabric cudadma has no provider \"%s\"; choose batch or stream, and a GPU "
                        "with :N behind it",
                        text);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_cudadma_caps(const struct prs_fabric_config *config, struct prs_caps *out,
                                     int *out_device)
{
    bool strict = false;
    enum perseus_status status = parse_provider(config, &strict, out_device);
    if (status != PERSEUS_OK) {
        return status;
    }
    *out = (struct prs_caps){
        .order = strict ? PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_SET | PRS_ORDER_SET_SET : 0,
        .fence_scope = PRS_FENCE_LANE,
        .completion = PRS_COMPLETION_DELIVERED,
        .completion_per_operation = true,
        .immediate_bits = 64,
        .inline_bytes = PRS_CUDADMA_INLINE_BYTES,
        .message_bytes_max = MESSAGE_BYTES_MAX,
        .inflight_max = PRS_CUDADMA_INFLIGHT,
        .batching = true,
        .memory_kinds = PRS_MEMORY_HOST | PRS_MEMORY_CUDA,
        .source_needs_region = true,
        .lanes_max = PRS_CUDADMA_LANES,
        .numa_node = -1,
    };
    snprintf(out->provider, sizeof out->provider, "%s", strict ? "stream" : "batch");
    snprintf(out->order_word, sizeof out->order_word, "%s",
             strict ? "stream order, an operation to a peer behind the one before"
                    : "none: copies of a batch in any order");
    snprintf(out->fence_word, sizeof out->fence_word, "stream order between batches");
    snprintf(out->completion_word, sizeof out->completion_word, "event behind the copies");
    snprintf(out->wake_word, sizeof out->wake_word, "nothing (its events are looked at)");
    snprintf(out->immediate_word, sizeof out->immediate_word,
             "64 bits, by the sender's poll after the event");
    return PERSEUS_OK;
}
