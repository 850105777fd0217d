/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/moe/experts.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "cuda/moe/fault.h"
#include "cuda/moe/kernels.h"
#include "cuda/moe/shape.h"

struct prs_gpu_moe_experts {
    const struct prs_log *log;
    struct prs_gpu_moe_cut cut;
    struct prs_gpu_moe_products products;
    struct prs_moe_maps maps;
    void *results;
    void *counters; /* all that a run begins with as zero */
    size_t counter_bytes;
    uint32_t ctas;
};

/* Counters in one piece: tasks, then what is four bytes wide. */
static enum perseus_status take_memory(struct prs_gpu_moe_experts *experts, uint32_t blocks)
{
    const struct prs_gpu_moe_shape *shape = &experts->cut.shape;
    struct prs_gpu_moe_products *products = &experts->products;
    const size_t tasks =
        (size_t)blocks * (shape->first_tiles + shape->second_tiles) + experts->ctas;
    const size_t words = 4 + 2 * (size_t)blocks;
    experts->counter_bytes = tasks * sizeof(uint64_t) + words * sizeof(uint32_t);
    const size_t activation_bytes = (size_t)blocks * PRS_GPU_MOE_BLOCK * shape->intermediate * 2;
    enum perseus_status status =
        prs_gpu_moe_cuda(experts->log, cudaMalloc(&experts->counters, experts->counter_bytes),
                         "cudaMalloc of counters");
    if (status == PERSEUS_OK) {
        status =
            prs_gpu_moe_cuda(experts->log, cudaMalloc(&products->activations, activation_bytes),
                             "cudaMalloc of activations");
    }
    uint64_t *first = experts->counters;
    uint32_t *word = (uint32_t *)(first + tasks);
    products->queue = (struct prs_gpu_moe_queue){first, word, word + 1, word + 2};
    products->watch.stop = word + 3;
    products->first_done = word + 4;
    products->second_done = word + 4 + blocks;
    return status;
}

static enum perseus_status make_maps(struct prs_gpu_moe_experts *experts,
                                     const struct prs_gpu_moe_experts_attr *attr)
{
    const struct prs_gpu_moe_cut *cut = &experts->cut;
    const uint64_t rows = (uint64_t)attr->blocks_max * PRS_GPU_MOE_BLOCK;
    const uint32_t half = PRS_GPU_MOE_BLOCK / 2;
    const struct {
        const void *matrix;
        uint64_t rows, columns;
        uint32_t box_rows;
        CUtensorMap *out;
    } maps[] = {
        {attr->rows, rows, attr->hidden, half, &experts->maps.rows},
        {experts->products.activations, rows, attr->intermediate, half, &experts->maps.activations},
        {attr->first, (uint64_t)attr->hosted * cut->first_rows, attr->hidden, cut->columns / 2,
         &experts->maps.first},
        {attr->second, (uint64_t)attr->hosted * attr->hidden, attr->intermediate, cut->columns / 2,
         &experts->maps.second},
    };
    enum perseus_status status = PERSEUS_OK;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0] && status == PERSEUS_OK; i++) {
        status = prs_gpu_moe_map(maps[i].matrix, maps[i].rows, maps[i].columns, maps[i].box_rows,
                                 experts->log, maps[i].out);
    }
    return status;
}

enum perseus_status prs_gpu_moe_experts_create(const struct prs_gpu_moe_experts_attr *attr,
                                               const struct prs_log *log,
                                               struct prs_gpu_moe_experts **out)
{
    struct prs_gpu_moe_experts *experts = calloc(1, sizeof *experts);
    if (experts == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a layer's experts");
    }
    experts->log = log;
    experts->results = attr->results;
    enum perseus_status status = prs_gpu_moe_cut(attr->hidden, attr->intermediate, attr->hosted,
                                                 attr->is_swiglu, log, &experts->cut);
    if (status == PERSEUS_OK) {
        experts->products.shape = experts->cut.shape;
        status = prs_gpu_moe_processors(log, &experts->ctas);
    }
    if (status == PERSEUS_OK) {
        status = take_memory(experts, attr->blocks_max);
    }
    if (status == PERSEUS_OK) {
        status = make_maps(experts, attr);
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_moe_fault_create(log, attr->timeout_ms, &experts->products.watch);
    }
    if (status != PERSEUS_OK) {
        prs_gpu_moe_experts_destroy(experts);
        return status;
    }
    *out = experts;
    return PERSEUS_OK;
}

void prs_gpu_moe_experts_destroy(struct prs_gpu_moe_experts *experts)
{
    if (experts == NULL) {
        return;
    }
    cudaFree(experts->counters);
    cudaFree(experts->products.activations);
    prs_gpu_moe_fault_destroy(&experts->products.watch);
    free(experts);
}

enum perseus_status prs_gpu_moe_experts_run(struct prs_gpu_moe_experts *experts,
                                            const uint32_t *counts, void *stream)
{
    enum perseus_status status = prs_gpu_moe_cuda(
        experts->log, cudaMemsetAsync(experts->counters, 0, experts->counter_bytes, stream),
        "cudaMemsetAsync of counters");
    if (status != PERSEUS_OK) {
        return status;
    }
    return prs_gpu_moe_cuda(experts->log,
                            prs_gpu_moe_launch_experts(experts->cut.columns, experts->ctas,
                                                       &experts->products, &experts->maps,
                                                       experts->results, counts, stream),
                            "launch of the experts");
}

void prs_gpu_moe_experts_see(const struct prs_gpu_moe_experts *experts,
                             struct prs_gpu_moe_experts_view *out)
{
    *out = (struct prs_gpu_moe_experts_view){
        .columns = experts->cut.columns,
        .products = experts->products,
        .maps = &experts->maps,
        .counters = experts->counters,
        .counter_bytes = experts->counter_bytes,
    };
}

enum perseus_status prs_gpu_moe_experts_check(struct prs_gpu_moe_experts *experts)
{
    return prs_gpu_moe_fault_check(experts->log, &experts->products.watch);
}
