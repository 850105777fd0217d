/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/moe/layer/layer.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "cuda/moe/fault.h"
#include "cuda/moe/layer/kernels.h"
#include "cuda/moe/layer/layout.h"

struct prs_gpu_moe {
    const struct prs_log *log;
    struct prs_gpu_moe_plan plan;
    struct prs_gpu_moe_layer layer;
    struct prs_moe_maps maps[PRS_GPU_MOE_HALVES];
    uint32_t tokens_max;
    bool is_dispatched; /* combine is next */
    void *own;          /* this PE's memory that no peer sees */
};

uint64_t prs_gpu_moe_heap_bytes(const struct prs_gpu_moe_attr *attr, const struct prs_log *log)
{
    uint32_t processors = 0;
    struct prs_gpu_moe_plan plan;
    if (prs_gpu_moe_processors(log, &processors) != PERSEUS_OK ||
        prs_gpu_moe_plan(attr, processors, log, &plan) != PERSEUS_OK) {
        return 0;
    }
    return plan.layout.heap_bytes;
}

/* Pieces of one allocation, in order of their alignment. */
static enum perseus_status take_memory(struct prs_gpu_moe *moe, const struct prs_gpu_moe_attr *attr,
                                       void *const *heaps)
{
    const uint64_t choices = (uint64_t)attr->tokens_max * attr->top_k;
    const uint64_t activation_bytes = moe->plan.rows_max * attr->intermediate * 2;
    const uint64_t blocks_max = moe->plan.blocks_max, words = 2 + 1 + choices;
    const uint64_t bytes = activation_bytes +
                           (attr->n_pes + choices + blocks_max) * sizeof(uint64_t) +
                           words * sizeof(uint32_t);
    enum perseus_status status = prs_gpu_moe_cuda(moe->log, cudaMalloc(&moe->own, bytes),
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
    status = prs_gpu_moe_cuda(moe->log, cudaMemset(word, 0, 3 * sizeof *word), "cudaMemset");
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_cuda(moe->log,
                                  cudaMemcpy((void *)(uintptr_t)moe->layer.heaps, heaps,
                                             attr->n_pes * sizeof *heaps, cudaMemcpyHostToDevice),
                                  "cudaMemcpy of the heaps' addresses");
    }
    return status;
}

static enum perseus_status make_maps(struct prs_gpu_moe *moe, const struct prs_gpu_moe_attr *attr,
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
                                     wanted[i].box_rows, moe->log, wanted[i].out);
        }
    }
    return status;
}

static enum perseus_status fill_in(struct prs_gpu_moe *moe, const struct prs_gpu_moe_attr *attr,
                                   void *const *heaps)
{
    uint32_t processors = 0;
    enum perseus_status status = prs_gpu_moe_processors(moe->log, &processors);
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_plan(attr, processors, moe->log, &moe->plan);
    }
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
    moe->layer.ctas = moe->plan.ctas;
    status = take_memory(moe, attr, heaps);
    if (status == PERSEUS_OK) {
        status = make_maps(moe, attr, heaps[attr->my_pe]);
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_fault_create(moe->log, attr->timeout_ms, &moe->layer.products.watch);
    }
    return status;
}

enum perseus_status prs_gpu_moe_create(const struct prs_gpu_moe_attr *attr, void *const *heaps,
                                       const struct prs_log *log, struct prs_gpu_moe **out)
{
    struct prs_gpu_moe *moe = calloc(1, sizeof *moe);
    if (moe == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a layer on a GPU");
    }
    moe->log = log;
    enum perseus_status status = fill_in(moe, attr, heaps);
    if (status != PERSEUS_OK) {
        prs_gpu_moe_destroy(moe);
        return status;
    }
    *out = moe;
    return PERSEUS_OK;
}

void prs_gpu_moe_destroy(struct prs_gpu_moe *moe)
{
    if (moe == NULL) {
        return;
    }
    cudaFree(moe->own);
    prs_gpu_moe_fault_destroy(&moe->layer.products.watch);
    free(moe);
}

static enum perseus_status check_input(const struct prs_gpu_moe *moe,
                                       const struct prs_gpu_moe_input *input, bool is_combine)
{
    const bool has_all =
        input->x != NULL && input->ids != NULL && input->weights != NULL && input->y != NULL;
    if (input->tokens > moe->tokens_max || (input->tokens != 0 && !has_all) ||
        (input->id_bytes != 4 && input->id_bytes != 8)) {
        return prs_fail(moe->log, PERSEUS_INVALID_ARGUMENT,
                        "moe forward on a GPU: %u tokens (at most %u), ids of %u bytes (4 or 8)%s",
                        input->tokens, moe->tokens_max, input->id_bytes,
                        has_all ? "" : ", an array is NULL");
    }
    if (is_combine != moe->is_dispatched) {
        return prs_fail(moe->log, PERSEUS_INVALID_ARGUMENT,
                        "moe on a GPU: dispatch and combine take turns: %s comes next",
                        moe->is_dispatched ? "combine" : "dispatch or a whole forward");
    }
    return PERSEUS_OK;
}

enum perseus_status prs_gpu_moe_forward(struct prs_gpu_moe *moe,
                                        const struct prs_gpu_moe_input *input, void *stream)
{
    enum perseus_status status = check_input(moe, input, false);
    if (status != PERSEUS_OK) {
        return status;
    }
    return prs_gpu_moe_cuda(
        moe->log,
        prs_gpu_moe_launch_layer(moe->plan.cut.columns, &moe->layer, moe->maps, input, stream),
        "launch of a forward");
}

uint64_t prs_gpu_moe_rows_max(const struct prs_gpu_moe *moe)
{
    return moe->plan.rows_max;
}

enum perseus_status prs_gpu_moe_dispatch(struct prs_gpu_moe *moe,
                                         const struct prs_gpu_moe_input *input, void *rows,
                                         uint32_t *counts, void *stream)
{
    enum perseus_status status = check_input(moe, input, false);
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_cuda(
            moe->log, prs_gpu_moe_launch_dispatch(&moe->layer, input, rows, counts, stream),
            "launch of a dispatch");
    }
    moe->is_dispatched = moe->is_dispatched || status == PERSEUS_OK;
    return status;
}

enum perseus_status prs_gpu_moe_combine(struct prs_gpu_moe *moe,
                                        const struct prs_gpu_moe_input *input, const void *rows,
                                        void *stream)
{
    enum perseus_status status = check_input(moe, input, true);
    if (status == PERSEUS_OK) {
        status =
            prs_gpu_moe_cuda(moe->log, prs_gpu_moe_launch_combine(&moe->layer, input, rows, stream),
                             "launch of a combine");
    }
    moe->is_dispatched = moe->is_dispatched && status != PERSEUS_OK;
    return status;
}

enum perseus_status prs_gpu_moe_check(struct prs_gpu_moe *moe)
{
    return prs_gpu_moe_fault_check(moe->log, &moe->layer.products.watch);
}
