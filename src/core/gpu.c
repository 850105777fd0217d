/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c: what kernels need of a PE whose heap is a GPU's memory. */
#include <perseus/gpu.h>

#include "base/export.h"
#include "core/pe.h"

static enum perseus_status side_of(const struct perseus_pe *pe, struct prs_gpu_side **out)
{
    if (pe->heap->gpu == NULL) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "the heap of this PE is host memory, which kernels do not reach; ask for a "
                        "GPU's (perseus_attr.heap_memory)");
    }
    *out = pe->heap->gpu;
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_gpu_pe_get(struct perseus_pe *pe,
                                                  struct perseus_device_pe *out)
{
    struct prs_gpu_side *side = NULL;
    enum perseus_status status = side_of(pe, &side);
    if (status == PERSEUS_OK) {
        prs_gpu_side_describe(side, out);
        prs_buffers_describe(pe->buffers, out);
    }
    return status;
}

PRS_PUBLIC enum perseus_status perseus_gpu_check(struct perseus_pe *pe)
{
    struct prs_gpu_side *side = NULL;
    enum perseus_status status = side_of(pe, &side);
    if (status == PERSEUS_OK) {
        status = prs_gpu_side_check(side);
    }
    return status == PERSEUS_OK ? prs_channel_health(pe->channel) : status;
}

PRS_PUBLIC enum perseus_status
perseus_gpu_group_create(struct perseus_pe *pe, const struct perseus_device_group_attr *attr,
                         uint32_t *out_numbers, struct perseus_device_group **out)
{
    struct prs_gpu_side *side = NULL;
    enum perseus_status status = side_of(pe, &side);
    return status == PERSEUS_OK
               ? prs_gpu_group_create(side, attr, prs_channel_vector_max(pe->channel), out_numbers,
                                      out)
               : status;
}
