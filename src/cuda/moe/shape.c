/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/moe/shape.h"

static const uint32_t widths[] = {256, 192};

static uint32_t tiles(uint32_t columns, uint32_t width)
{
    return (columns + width - 1) / width;
}

static uint64_t computed(const struct prs_gpu_moe_cut *cut)
{
    const struct prs_gpu_moe_shape *shape = &cut->shape;
    return (uint64_t)cut->columns * ((uint64_t)shape->first_tiles * shape->hidden +
                                     (uint64_t)shape->second_tiles * shape->intermediate);
}

enum perseus_status prs_gpu_moe_cut(uint32_t hidden, uint32_t intermediate, uint32_t hosted,
                                    bool is_swiglu, const struct prs_log *log,
                                    struct prs_gpu_moe_cut *out)
{
    if (hidden == 0 || hidden % 8 != 0 || intermediate % 8 != 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "moe on a GPU: hidden %u and intermediate %u must be multiples of 8",
                        hidden, intermediate);
    }
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        const uint32_t width = widths[i];
        struct prs_gpu_moe_cut cut = {
            .shape = {hidden, intermediate, hosted, is_swiglu,
                      tiles(intermediate, is_swiglu ? width / 2 : width), tiles(hidden, width)},
            .columns = width,
            .first_rows = intermediate * (is_swiglu ? 2 : 1),
        };
        if (i == 0 || computed(&cut) < computed(out)) {
            *out = cut;
        }
    }
    if (out->shape.first_tiles > PRS_GPU_MOE_TILES_MAX ||
        out->shape.second_tiles > PRS_GPU_MOE_TILES_MAX || hosted > PRS_GPU_MOE_EXPERTS_MAX) {
        return prs_fail(
            log, PERSEUS_INVALID_ARGUMENT,
            "moe on a GPU: hidden %u, intermediate %u, %u experts: at most %d tiles of %u "
            "columns and %d experts",
            hidden, intermediate, hosted, PRS_GPU_MOE_TILES_MAX, out->columns,
            PRS_GPU_MOE_EXPERTS_MAX);
    }
    return PERSEUS_OK;
}
