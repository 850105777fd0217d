/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routing.cuh: where every row goes. All CTAs of a PE count its rows by expert; the last one tells
 * all PEs; from everybody's counts each CTA works out for itself where its rows lie at their hosts,
 * expert by expert, source by source, without holes but those behind an expert.
 */
#ifndef PRS_CUDA_MOE_ROUTING_CUH
#define PRS_CUDA_MOE_ROUTING_CUH

#include "cuda/moe/layer/half.cuh"
#include "cuda/moe/queue.cuh"

/* Of one CTA, in shared memory. */
struct prs_moe_routing {
    uint32_t count[PRS_GPU_MOE_EXPERTS_MAX]; /* rows: this CTA's, then of all PEs together */
    uint32_t base[PRS_GPU_MOE_EXPERTS_MAX];  /* this CTA's first among this PE's */
    uint32_t row[PRS_GPU_MOE_EXPERTS_MAX];   /* this PE's first at the host */
    uint32_t place[PRS_GPU_MOE_EXPERTS_MAX]; /* this PE's first in its order */
    uint32_t block[PRS_GPU_MOE_EXPERTS_MAX]; /* the expert's first block at the host */
    uint32_t is_last;
};

/* The choices of a CTA: [first, end). */
struct prs_moe_share {
    uint32_t first, end;
    __device__ prs_moe_share(uint32_t all, uint32_t parts, uint32_t part)
    {
        const uint32_t each = (all + parts - 1) / parts;
        first = part * each < all ? part * each : all;
        end = first + each < all ? first + each : all;
    }
};

/* All threads. Whether this CTA is the last to come; what the others wrote is there then. */
PRS_MEMBER bool prs_moe_arrive(uint32_t *barrier, uint32_t ctas, uint32_t *is_last)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        *is_last = prs_add_acq_rel_gpu(barrier, 1) + 1 == ctas;
    }
    __syncthreads();
    return *is_last != 0;
}

/* One thread; false: a wait failed. */
PRS_MEMBER bool prs_moe_await_ctas(const prs_moe_half &half, prs_gpu_moe_word which)
{
    prs_moe_patience patience(half.layer.products.watch);
    for (;;) {
        const uint32_t seen = prs_load_acquire_sys(half.word(which));
        if (seen == half.layer.ctas) {
            return true;
        }
        if (!patience.lasts(PRS_GPU_MOE_WAIT_CTAS, (int32_t)half.layer.me, which, seen,
                            half.layer.ctas)) {
            return false;
        }
    }
}

PRS_MEMBER void prs_moe_count(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                              const prs_moe_share &share, prs_moe_routing &routing)
{
    const prs_gpu_moe_layer &layer = half.layer;
    for (uint32_t expert = threadIdx.x; expert < layer.experts; expert += blockDim.x) {
        routing.count[expert] = 0;
    }
    __syncthreads();
    for (uint32_t choice = share.first + threadIdx.x; choice < share.end; choice += blockDim.x) {
        const int64_t expert = prs_moe_id(input, choice);
        if (expert >= 0 && expert < layer.experts) {
            layer.ranks[choice] = atomicAdd(&routing.count[expert], 1u);
        } else if (expert != -1) {
            prs_moe_report(layer.products.watch, PRS_GPU_MOE_WAIT_INPUT, (int32_t)layer.me, choice,
                           (uint64_t)expert, layer.experts - 1);
        }
    }
    __syncthreads();
    uint32_t *sent = half.mine<uint32_t>(layer.layout.sent);
    for (uint32_t expert = threadIdx.x; expert < layer.experts; expert += blockDim.x) {
        const uint32_t count = routing.count[expert];
        routing.base[expert] = count != 0 ? atomicAdd(&sent[expert], count) : 0;
    }
}

/* By the last CTA to count: this PE's counts to every PE. */
PRS_MEMBER void prs_moe_tell(const prs_moe_half &half)
{
    const prs_gpu_moe_layer &layer = half.layer;
    const uint32_t *sent = half.mine<uint32_t>(layer.layout.sent);
    for (uint32_t i = threadIdx.x; i < layer.n_pes * layer.experts; i += blockDim.x) {
        const uint32_t pe = i / layer.experts, expert = i % layer.experts;
        uint32_t *counts = half.at<uint32_t>(pe, layer.layout.counts);
        counts[layer.me * layer.experts + expert] = prs_load_relaxed_gpu(&sent[expert]);
    }
    __syncthreads();
    if (threadIdx.x < layer.n_pes) {
        /* Release, with the acquire of prs_moe_await_counts. */
        prs_store_release_sys(half.at<uint32_t>(threadIdx.x, layer.layout.told) + layer.me,
                              half.number + 1);
    }
}

/* All threads, one a PE: until everybody's counts are here. */
PRS_MEMBER void prs_moe_await_counts(const prs_moe_half &half)
{
    if (threadIdx.x < half.layer.n_pes) {
        const uint32_t *told = half.mine<uint32_t>(half.layer.layout.told) + threadIdx.x;
        prs_moe_patience patience(half.layer.products.watch);
        uint32_t seen = prs_load_acquire_sys(told);
        while (seen != half.number + 1 &&
               patience.lasts(PRS_GPU_MOE_WAIT_COUNTS, (int32_t)threadIdx.x, threadIdx.x, seen,
                              half.number + 1)) {
            seen = prs_load_acquire_sys(told);
        }
    }
    __syncthreads();
}

/* By one warp: values[i] becomes the sum of those before it. */
PRS_MEMBER void prs_moe_sum_before(uint32_t *values, uint32_t n)
{
    const uint32_t lane = threadIdx.x & 31;
    uint32_t before = 0;
    for (uint32_t first = 0; first < n; first += 32) {
        const uint32_t value = first + lane < n ? values[first + lane] : 0;
        uint32_t sum = value;
        for (uint32_t step = 1; step < 32; step *= 2) {
            const uint32_t other = __shfl_up_sync(~0u, sum, step);
            sum += lane >= step ? other : 0;
        }
        if (first + lane < n) {
            values[first + lane] = before + sum - value;
        }
        before += __shfl_sync(~0u, sum, 31);
    }
}

/* All threads: routing.row and routing.place, and in count the rows of all PEs together. */
PRS_MEMBER void prs_moe_locate(const prs_moe_half &half, prs_moe_routing &routing)
{
    const prs_gpu_moe_layer &layer = half.layer;
    const uint32_t *counts = half.mine<uint32_t>(layer.layout.counts);
    uint32_t before[(PRS_GPU_MOE_EXPERTS_MAX + PRS_GPU_MOE_THREADS - 1) / PRS_GPU_MOE_THREADS];
    for (uint32_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        const uint32_t expert = threadIdx.x + i * PRS_GPU_MOE_THREADS;
        before[i] = 0;
        if (expert < layer.experts) {
            uint32_t all = 0;
            for (uint32_t pe = 0; pe < layer.n_pes; pe++) {
                const uint32_t theirs = counts[pe * layer.experts + expert];
                before[i] += pe < layer.me ? theirs : 0;
                all += theirs;
            }
            routing.count[expert] = all;
            routing.row[expert] =
                (all + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK * PRS_GPU_MOE_BLOCK;
            routing.place[expert] = counts[layer.me * layer.experts + expert];
        }
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        prs_moe_sum_before(routing.row, layer.experts);
    } else if (threadIdx.x < 64) {
        prs_moe_sum_before(routing.place, layer.experts);
    }
    __syncthreads();
    uint32_t starts[sizeof before / sizeof before[0]];
    for (uint32_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        const uint32_t expert = threadIdx.x + i * PRS_GPU_MOE_THREADS;
        if (expert < layer.experts) {
            starts[i] = routing.row[expert] -
                        routing.row[prs_moe_first_of(layer, prs_moe_host_of(layer, expert))];
        }
    }
    __syncthreads();
    for (uint32_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        const uint32_t expert = threadIdx.x + i * PRS_GPU_MOE_THREADS;
        if (expert < layer.experts) {
            routing.block[expert] = starts[i] / PRS_GPU_MOE_BLOCK;
            routing.row[expert] = starts[i] + before[i];
        }
    }
    __syncthreads();
}

/* Choices in the order in which they are sent: by expert. */
PRS_MEMBER void prs_moe_sort(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                             const prs_moe_share &share, const prs_moe_routing &routing)
{
    const prs_gpu_moe_layer &layer = half.layer;
    for (uint32_t choice = share.first + threadIdx.x; choice < share.end; choice += blockDim.x) {
        const int64_t expert = prs_moe_id(input, choice);
        if (expert >= 0 && expert < layer.experts) {
            const uint32_t rank = routing.base[expert] + layer.ranks[choice];
            layer.order[routing.place[expert] + rank] =
                (uint64_t)(routing.row[expert] + rank) << 32 | choice;
        }
    }
}

/* The blocks of this PE's routed experts. */
PRS_MEMBER uint32_t prs_moe_routed_blocks(const prs_gpu_moe_layer &layer,
                                          const prs_moe_routing &routing)
{
    const uint32_t last = prs_moe_first_of(layer, layer.me) + prs_moe_routed(layer) - 1;
    return routing.block[last] + prs_moe_blocks(routing.count[last]);
}

/* By one CTA: the blocks of this PE's experts, and with them the number of tasks. Shared experts
 * come last, with a row for each of the PE's tokens. */
PRS_MEMBER uint32_t prs_moe_lay_blocks(const prs_moe_half &half, const prs_moe_routing &routing,
                                       uint32_t tokens)
{
    const prs_gpu_moe_layer &layer = half.layer;
    const prs_gpu_moe_shape &shape = layer.products.shape;
    const uint32_t first = prs_moe_first_of(layer, layer.me), routed = prs_moe_routed(layer);
    const uint32_t before = prs_moe_routed_blocks(layer, routing), each = prs_moe_blocks(tokens);
    for (uint32_t expert = threadIdx.x / 32; expert < shape.hosted; expert += blockDim.x / 32) {
        const bool is_routed = expert < routed;
        const uint32_t rows = is_routed ? routing.count[first + expert] : tokens;
        const uint32_t begin =
            is_routed ? routing.block[first + expert] : before + (expert - routed) * each;
        prs_moe_lay_groups(layer.groups, begin, expert, rows);
    }
    const uint32_t blocks = before + layer.shared * each;
    __syncthreads(); /* the release covers all groups */
    if (threadIdx.x == 0) {
        prs_store_release_gpu(half.word(PRS_GPU_MOE_WORD_TOTAL),
                              blocks * (shape.first_tiles + shape.second_tiles) + 1);
    }
    return blocks;
}

#endif
