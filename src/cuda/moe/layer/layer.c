/* SPDX-License-Identifier: Apache-2.0 */
#include <perseus/moe_cuda.h>

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "base/export.h"
#include "cuda/moe/fault.h"
#include "cuda/moe/layer/kernels.h"
#include "cuda/moe/layer/layout.h"

struct perseus_moe_cuda {
    struct prs_log log;
    struct prs_gpu_moe_plan plan;
    struct prs_gpu_moe_layer layer;
    struct prs_moe_maps maps[PRS_GPU_MOE_HALVES];
    uint32_t tokens_max;
    bool is_dispatched; /* combine is next */
    void *own;          /* this PE's memory that no peer sees */
};

static struct prs_log log_of(const struct perseus_moe_cuda_attr *attr)
{
    return (struct prs_log){attr->log, attr->log_user, attr->log_level, (int)attr->my_pe};
}

static enum perseus_status plan_here(const struct perseus_moe_cuda_attr *attr,
                                     const struct prs_log *log, struct prs_gpu_moe_plan *out)
{
    uint32_t processors = 0;
    enum perseus_status status = prs_gpu_moe_processors(log, &processors);
    return status == PERSEUS_OK ? prs_gpu_moe_plan(attr, processors, log, out) : status;
}

PRS_PUBLIC enum perseus_status perseus_moe_cuda_heap_bytes(const struct perseus_moe_cuda_attr *attr,
                                                           uint64_t *out)
{
    const struct prs_log log = log_of(attr);
    struct prs_gpu_moe_plan plan;
    enum perseus_status status = plan_here(attr, &log, &plan);
    *out = status == PERSEUS_OK ? plan.layout.heap_bytes : 0;
    return status;
}

/* Pieces of one allocation, in order of their alignment. */
static enum perseus_status take_memory(struct perseus_moe_cuda *moe,
                                       const struct perseus_moe_cuda_attr *attr, void *const *heaps)
{
    const uint64_t choices = (uint64_t)attr->tokens_max * attr->top_k;
    const uint64_t activation_bytes = moe->plan.rows_max * attr->intermediate * 2;
    const uint64_t blocks_max = moe->plan.blocks_max, words = 2 + 1 + choices;
    const uint64_t bytes = activation_bytes +
                           (attr->n_pes + choices + blocks_max) * sizeof(uint64_t) +
                           words * sizeof(uint32_t);
    enum perseus_status status = prs_gpu_moe_cuda(&moe->log, cudaMalloc(&moe->own, bytes),
                                                  "cudaMalloc of a layer's own memory");
    if (status != PERSEUS_OK) {
        return status;
    }
    unsigned char *at = moe->own;
    moe->layer.products.activations = at;
    at += activation_bytes;
    moe->layer.heaps = (unsigned char *const *)(void *)at;
    at += attr->n_pes * sizeof(uint64_t);
    moe->layer.order = (uint64_t *)(void *)at;
    moe->layer.groups = moe->layer.order + choices;
    uint32_t *word = (uint32_t *)(void *)(moe->layer.groups + blocks_max);
    moe->layer.forward = word;
    moe->layer.products.watch.stop = word + 2;
    moe->layer.ranks = word + 3;
    status = prs_gpu_moe_cuda(&moe->log, cudaMemset(word, 0, 3 * sizeof *word), "cudaMemset");
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_cuda(&moe->log,
                                  cudaMemcpy((void *)(uintptr_t)moe->layer.heaps, heaps,
                                             attr->n_pes * sizeof *heaps, cudaMemcpyHostToDevice),
                                  "cudaMemcpy of the heaps' addresses");
    }
    return status;
}

static enum perseus_status make_maps(struct perseus_moe_cuda *moe,
                                     const struct perseus_moe_cuda_attr *attr,
                                     const unsigned char *heap)
{
    const struct prs_gpu_moe_cut *cut = &moe->plan.cut;
    const struct prs_gpu_moe_layout *layout = &moe->plan.layout;
    const uint64_t hosted = cut->shape.hosted, rows = moe->plan.rows_max;
    const uint32_t half_block = PRS_GPU_MOE_BLOCK / 2, half_tile = cut->columns / 2;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t half = 0; half < PRS_GPU_MOE_HALVES && status == PERSEUS_OK; half++) {
        struct prs_moe_maps *maps = &moe->maps[half];
        const struct {
            const void *matrix;
            uint64_t rows, columns;
            uint32_t box_rows;
            CUtensorMap *out;
        } wanted[] = {
            {heap + layout->halves[half] + layout->rows, rows, attr->hidden, half_block,
             &maps->rows},
            {moe->layer.products.activations, rows, attr->intermediate, half_block,
             &maps->activations},
            {attr->first, hosted * cut->first_rows, attr->hidden, half_tile, &maps->first},
            {attr->second, hosted * attr->hidden, attr->intermediate, half_tile, &maps->second},
        };
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && status == PERSEUS_OK; i++) {
            status = prs_gpu_moe_map(wanted[i].matrix, wanted[i].rows, wanted[i].columns,
                                     wanted[i].box_rows, &moe->log, wanted[i].out);
        }
    }
    return status;
}

static enum perseus_status fill_in(struct perseus_moe_cuda *moe,
                                   const struct perseus_moe_cuda_attr *attr, void *const *heaps)
{
    enum perseus_status status = plan_here(attr, &moe->log, &moe->plan);
    if (status != PERSEUS_OK) {
        return status;
    }
    moe->tokens_max = attr->tokens_max;
    moe->layer.products.shape = moe->plan.cut.shape;
    moe->layer.layout = moe->plan.layout;
    moe->layer.n_pes = attr->n_pes;
    moe->layer.me = attr->my_pe;
    moe->layer.experts = attr->experts;
    moe->layer.top_k = attr->top_k;
    moe->layer.shared = attr->shared_experts;
    moe->layer.ctas = moe->plan.ctas;
    status = take_memory(moe, attr, heaps);
    if (status == PERSEUS_OK && attr->intermediate != 0) {
        status = make_maps(moe, attr, heaps[attr->my_pe]);
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_fault_create(&moe->log, attr->timeout_ms, &moe->layer.products.watch);
    }
    return status;
}

PRS_PUBLIC enum perseus_status perseus_moe_cuda_create(const struct perseus_moe_cuda_attr *attr,
                                                       void *const *heaps,
                                                       struct perseus_moe_cuda **out)
{
    const struct prs_log log = log_of(attr);
    struct perseus_moe_cuda *moe = calloc(1, sizeof *moe);
    if (moe == NULL) {
        return prs_fail(&log, PERSEUS_OUT_OF_MEMORY, "no memory for a layer on a GPU");
    }
    moe->log = log;
    enum perseus_status status = fill_in(moe, attr, heaps);
    if (status != PERSEUS_OK) {
        perseus_moe_cuda_destroy(moe);
        return status;
    }
    *out = moe;
    return PERSEUS_OK;
}

PRS_PUBLIC void perseus_moe_cuda_destroy(struct perseus_moe_cuda *moe)
{
    if (moe == NULL) {
        return;
    }
    cudaFree(moe->own);
    prs_gpu_moe_fault_destroy(&moe->layer.products.watch);
    free(moe);
}

static enum perseus_status check_input(const struct perseus_moe_cuda *moe,
                                       const struct perseus_moe_cuda_input *input, bool is_combine)
{
    const bool has_all =
        input->x != NULL && input->ids != NULL && input->weights != NULL && input->y != NULL;
    if (input->tokens > moe->tokens_max || (input->tokens != 0 && !has_all) ||
        (input->id_bytes != 4 && input->id_bytes != 8)) {
        return prs_fail(&moe->log, PERSEUS_INVALID_ARGUMENT,
                        "moe forward on a GPU: %u tokens (at most %u), ids of %u bytes (4 or 8)%s",
                        input->tokens, moe->tokens_max, input->id_bytes,
                        has_all ? "" : ", an array is NULL");
    }
    if (is_combine != moe->is_dispatched) {
        return prs_fail(&moe->log, PERSEUS_INVALID_ARGUMENT,
                        "moe on a GPU: dispatch and combine take turns: %s comes next",
                        moe->is_dispatched ? "combine" : "dispatch or a whole forward");
    }
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_moe_cuda_forward(struct perseus_moe_cuda *moe,
                                                        const struct perseus_moe_cuda_input *input,
                                                        void *stream)
{
    enum perseus_status status = check_input(moe, input, false);
    if (status == PERSEUS_OK && moe->plan.cut.shape.intermediate == 0) {
        status = prs_fail(&moe->log, PERSEUS_INVALID_ARGUMENT,
                          "moe forward on a GPU: this layer was made without experts "
                          "(intermediate 0), for dispatch and combine alone");
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    return prs_gpu_moe_cuda(
        &moe->log,
        prs_gpu_moe_launch_layer(moe->plan.cut.columns, &moe->layer, moe->maps, input, stream),
        "launch of a forward");
}

void prs_gpu_moe_record(struct perseus_moe_cuda *moe, const struct prs_gpu_moe_lanes *lanes)
{
    moe->layer.lanes = *lanes;
}

PRS_PUBLIC uint64_t perseus_moe_cuda_rows_max(const struct perseus_moe_cuda *moe)
{
    return moe->plan.rows_max;
}

PRS_PUBLIC enum perseus_status perseus_moe_dispatch(struct perseus_moe_cuda *moe,
                                                    const struct perseus_moe_cuda_input *input,
                                                    void *rows, uint32_t *counts, void *stream)
{
    enum perseus_status status = check_input(moe, input, false);
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_cuda(
            &moe->log, prs_gpu_moe_launch_dispatch(&moe->layer, input, rows, counts, stream),
            "launch of a dispatch");
    }
    moe->is_dispatched = moe->is_dispatched || status == PERSEUS_OK;
    return status;
}

PRS_PUBLIC enum perseus_status perseus_moe_combine(struct perseus_moe_cuda *moe,
                                                   const struct perseus_moe_cuda_input *input,
                                                   const void *rows, void *stream)
{
    enum perseus_status status = check_input(moe, input, true);
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_cuda(&moe->log,
                                  prs_gpu_moe_launch_combine(&moe->layer, input, rows, stream),
                                  "launch of a combine");
    }
    moe->is_dispatched = moe->is_dispatched && status != PERSEUS_OK;
    return status;
}

PRS_PUBLIC enum perseus_status perseus_moe_cuda_check(struct perseus_moe_cuda *moe)
{
    return prs_gpu_moe_fault_check(&moe->log, &moe->layer.products.watch);
}
