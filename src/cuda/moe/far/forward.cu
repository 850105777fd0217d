/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.cu: the megakernel over put-with-signal, one launch of one PE from routed tokens to their
 * outputs. All threads count, sort, gather and send; then each has a role:
 *
 *     warp 0       loads operands (one thread)
 *     warp 1       counts tiles that are done, and sends an answer behind its last row
 *     warp 2       adds answers up
 *     warp 3       is the subscriber in CTA 0, then adds answers up
 *     the others   multiply, then add answers up
 *
 * An expert's block is computed when the rows of those sources that have some in it are here.
 */
#include "cuda/moe/far/blocks.cuh"
#include "cuda/moe/far/dispatch.cuh"
#include "cuda/moe/far/launch.h"
#include "cuda/moe/launch.cuh"
#include "cuda/moe/subscribe.cuh"

namespace
{

/* In shared memory. */
struct cta_state {
    uint32_t blocks; /* of this PE; known in CTA 0 */
    uint32_t goes_on;
};

__device__ prs_moe_far_rows rows_of(const prs_moe_far &far, prs_moe_task task, uint32_t first_block,
                                    uint32_t rows)
{
    const uint32_t expert = prs_moe_far_first_of(far.shape, far.shape.me) + task.expert();
    const uint32_t first = first_block * PRS_GPU_MOE_BLOCK - far.own.first_row[expert];
    return {task.expert(), first, first + rows};
}

/* What the subscriber asks. */
struct far_rows {
    const prs_moe_far_half &half;

    __device__ bool are_here(prs_moe_task group, prs_moe_missing *out) const
    {
        uint32_t source = 0;
        const prs_moe_far_rows rows = rows_of(half.far, group, group.group(), group.group_rows());
        if (prs_moe_far_are_here(half, rows, &source)) {
            return true;
        }
        const uint64_t word = prs_moe_far_word_arrived(half.far.layout, source, rows.of_host);
        *out = {(int32_t)source, group.group(), *(const uint64_t *)half.far.wire.at(word),
                half.number + 1};
        return false;
    }
};

/* Where the second product's rows go, and who hears of them. */
struct far_target {
    static constexpr bool answers = true;
    const prs_moe_far_half &half;

    __device__ __nv_bfloat16 *row(prs_moe_task task, uint32_t row) const
    {
        const prs_moe_far &far = half.far;
        const prs_moe_far_rows rows = rows_of(far, task, task.block(), 0);
        return (__nv_bfloat16 *)far.wire.at(
            prs_moe_far_result(half, far.layout.results, rows.of_host, rows.first + row));
    }
    __device__ void answer(prs_moe_task task) const
    {
        const prs_moe_far &far = half.far;
        const prs_moe_far_rows rows = rows_of(far, task, task.block(), task.rows());
        for (uint32_t pe = threadIdx.x & 31; pe < far.shape.n_pes; pe += 32) {
            prs_moe_far_computed(half, far.layout.results, rows, pe);
        }
        __syncwarp();
    }
};

/* By CTA 0: the groups of this PE's blocks, and with them the number of tasks. */
__device__ uint32_t lay_blocks(const prs_moe_far_half &half, const prs_gpu_moe_products &products)
{
    const prs_moe_far &far = half.far;
    const uint32_t hosted = products.shape.hosted, warps = blockDim.x / 32;
    const uint32_t *first_row = far.own.first_row + prs_moe_far_first_of(far.shape, far.shape.me);
    for (uint32_t expert = threadIdx.x / 32; expert < hosted; expert += warps) {
        prs_moe_lay_groups(far.own.groups, first_row[expert] / PRS_GPU_MOE_BLOCK, expert,
                           prs_moe_far_rows_of(half, expert));
    }
    const uint32_t last_rows = hosted > 0 ? prs_moe_far_rows_of(half, hosted - 1) : 0;
    const uint32_t before = hosted > 0 ? first_row[hosted - 1] / PRS_GPU_MOE_BLOCK : 0;
    const uint32_t blocks = before + prs_moe_blocks(last_rows);
    __syncthreads(); /* the subscriber has all groups */
    if (threadIdx.x == 0) {
        prs_store_release_gpu(products.queue.total,
                              blocks * (products.shape.first_tiles + products.shape.second_tiles) +
                                  1);
    }
    return blocks;
}

/* Warps take tokens until there are none. */
__device__ void combine(const prs_moe_far_half &half, const perseus_moe_cuda_input &input)
{
    const prs_moe_far &far = half.far;
    const uint32_t lane = threadIdx.x & 31;
    for (;;) {
        uint32_t token = 0;
        if (lane == 0) {
            token = atomicAdd(far.own.next_token, 1u);
        }
        token = __shfl_sync(~0u, token, 0);
        if (token >= input.tokens) {
            return;
        }
        for (uint32_t k = lane; k < far.shape.top_k; k += 32) {
            const int64_t expert = prs_moe_far_id(input, token * far.shape.top_k + k);
            if (expert >= 0) {
                prs_moe_far_await(half, prs_moe_far_word_answered(far.layout, (uint32_t)expert),
                                  prs_moe_far_host_of(far.shape, (uint32_t)expert));
            }
        }
        if (__any_sync(~0u, !prs_moe_far_goes_on(far))) {
            return;
        }
        prs_moe_far_add_up(half, input, token, {0, 1, lane, 32});
    }
}

/* The warps that do not multiply. */
template <int N>
__device__ void help(const prs_moe_far_half &half, const prs_gpu_moe_products &products,
                     const prs_moe_maps &maps, const perseus_moe_cuda_input &input,
                     const cta_state &cta, prs_moe_stages<N> &stages)
{
    const uint32_t warp = threadIdx.x / 32;
    if (warp == 0) {
        if (threadIdx.x == 0) {
            prs_moe_load<N>(products, maps, stages);
        }
    } else if (warp == 1) {
        prs_moe_tell_tiles<N>(products, far_target{half}, stages);
    } else {
        if (warp == 3 && blockIdx.x == 0) {
            prs_moe_subscribe(products, half.far.own.groups, cta.blocks, far_rows{half});
        }
        combine(half, input);
    }
}

/* By all threads of the PE, before its route. */
__device__ void zero(uint64_t *words, uint64_t n)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        words[i] = 0;
    }
}

/* What all threads do before each has its role: on return this CTA knows the work. */
__device__ void begin(const prs_moe_far_half &half, const prs_gpu_moe_products &products,
                      const perseus_moe_cuda_input &input, prs_moe_far_scratch &scratch,
                      cta_state &cta)
{
    const prs_moe_far &far = half.far;
    const prs_moe_crew crew = {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x};
    prs_moe_far_begin_blocks(far, crew);
    prs_moe_far_route(half, input, scratch, crew);
    if (threadIdx.x == 0) {
        cta.goes_on = prs_moe_far_goes_on(far);
    }
    __syncthreads();
    if (cta.goes_on == 0) {
        return;
    }
    if (blockIdx.x == 0) {
        const uint32_t blocks = lay_blocks(half, products);
        if (threadIdx.x == 0) {
            cta.blocks = blocks;
        }
    }
    prs_moe_far_send_all(half, input, crew);
    if (blockIdx.x == 0) {
        prs_moe_far_answer_nobody(half, far.layout.results, crew);
    }
}

template <int N>
__global__ void __launch_bounds__(PRS_GPU_MOE_THREADS, 1)
    run(const __grid_constant__ prs_moe_far far,
        const __grid_constant__ prs_gpu_moe_products products,
        const __grid_constant__ prs_moe_maps maps,
        const __grid_constant__ perseus_moe_cuda_input input, uint64_t number, uint64_t *counters,
        uint64_t n_counters)
{
    __shared__ cta_state cta;
    prs_moe_stages<N> &stages = prs_moe_shared<prs_moe_stages<N>>();
    const prs_moe_far_half half(far, number);
    if (far.is_idle != 0) {
        return;
    }
    zero(counters, n_counters);
    begin(half, products, input, *(prs_moe_far_scratch *)stages.rows, cta);
    if (cta.goes_on == 0) {
        return;
    }
    prs_fence_shared_copies(); /* the stages were scratch until here */
    prs_moe_stages_init<N>(stages);
    if (threadIdx.x < PRS_GPU_MOE_MATH_FIRST) {
        prs_registers_fewer<104>();
        help<N>(half, products, maps, input, cta, stages);
    } else {
        prs_registers_more<200>();
        prs_moe_multiply<N>(products, far_target{half}, stages, prs_moe_no_record());
        combine(half, input);
    }
}

template <int N>
cudaError_t launch(const prs_moe_far &far, const prs_gpu_moe_experts_view &experts,
                   const perseus_moe_cuda_input &input, uint64_t number, uint32_t ctas,
                   cudaStream_t stream)
{
    static_assert(sizeof(prs_moe_far_scratch) <= sizeof(prs_moe_stages<N>::rows),
                  "scratch in stages");
    const uint32_t bytes = prs_moe_shared_bytes<prs_moe_stages<N>>();
    cudaError_t error =
        cudaFuncSetAttribute(run<N>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) {
        return error;
    }
    /* One word stops waits of the products and of the wire. */
    prs_gpu_moe_products products = experts.products;
    products.watch.stop = far.own.failed;
    run<N><<<ctas, PRS_GPU_MOE_THREADS, bytes, stream>>>(far, products, *experts.maps, input,
                                                         number, (uint64_t *)experts.counters,
                                                         experts.counter_bytes / sizeof(uint64_t));
    return cudaGetLastError();
}

} // namespace

int prs_moe_far_launch_forward(const prs_moe_far &far, const prs_gpu_moe_experts_view &experts,
                               const perseus_moe_cuda_input &input, uint64_t number, uint32_t ctas,
                               void *stream)
{
    if (far.protocol == PRS_MOE_FAR_PUT_ONLY) {
        return cudaErrorInvalidValue;
    }
    return experts.columns == 256
               ? launch<256>(far, experts, input, number, ctas, (cudaStream_t)stream)
               : launch<192>(far, experts, input, number, ctas, (cudaStream_t)stream);
}
