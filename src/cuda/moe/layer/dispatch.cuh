/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.cuh: rows into the blocks of their hosts, by warps; and whether they are all there.
 */
#ifndef PRS_CUDA_MOE_DISPATCH_CUH
#define PRS_CUDA_MOE_DISPATCH_CUH

#include "cuda/moe/layer/copies.cuh"
#include "cuda/moe/layer/routing.cuh"
#include "cuda/moe/subscribe.cuh"

/* Of one CTA, in shared memory: where the rows for each PE begin in the order, and the end. Behind
 * those for this PE itself are its tokens for the shared experts, one expert after the other. */
struct prs_moe_segments {
    uint32_t first[PRS_GPU_MOE_PES_MAX + 1];
    uint32_t longest;
    uint32_t shared_row; /* the first shared expert's first */
};

PRS_MEMBER void prs_moe_find_segments(const prs_moe_half &half, const prs_moe_routing &routing,
                                      uint32_t tokens, prs_moe_segments &segments)
{
    const prs_gpu_moe_layer &layer = half.layer;
    const uint32_t *mine =
        half.mine<uint32_t>(layer.layout.counts) + (uint64_t)layer.me * layer.experts;
    if (threadIdx.x == 0) {
        segments.longest = 0;
        segments.shared_row = prs_moe_routed_blocks(layer, routing) * PRS_GPU_MOE_BLOCK;
        for (uint32_t pe = 0; pe < layer.n_pes; pe++) {
            const uint32_t first = prs_moe_first_of(layer, pe);
            segments.first[pe] = first < layer.experts
                                     ? routing.place[first]
                                     : routing.place[layer.experts - 1] + mine[layer.experts - 1];
        }
        segments.first[layer.n_pes] = routing.place[layer.experts - 1] + mine[layer.experts - 1];
        for (uint32_t pe = 0; pe < layer.n_pes; pe++) {
            const uint32_t length = segments.first[pe + 1] - segments.first[pe] +
                                    (pe == layer.me ? layer.shared * tokens : 0);
            segments.longest = length > segments.longest ? length : segments.longest;
        }
    }
}

/* A choice on its way to its expert; place: of its answer. */
struct prs_moe_parcel {
    uint32_t pe, row, place, token;
    const __nv_bfloat16 *from;
    __nv_bfloat16 *to;
};

/* Item `item` of all, which go to the PEs in turns; false: this PE has had all of its. */
PRS_MEMBER bool prs_moe_find_parcel(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                                    const prs_moe_segments &segments, uint32_t item,
                                    prs_moe_parcel *out)
{
    const prs_gpu_moe_layer &layer = half.layer;
    out->pe = (layer.me + item) % layer.n_pes;
    const uint32_t at = segments.first[out->pe] + item / layer.n_pes;
    const uint32_t end = segments.first[out->pe + 1], choices = layer.top_k + layer.shared;
    if (at < end) {
        const uint64_t order = layer.order[at];
        const uint32_t choice = (uint32_t)order;
        out->row = (uint32_t)(order >> 32);
        out->token = choice / layer.top_k;
        out->place = out->token * choices + choice % layer.top_k;
    } else if (out->pe == layer.me && at - end < layer.shared * input.tokens) {
        const uint32_t expert = (at - end) / input.tokens;
        out->token = (at - end) % input.tokens;
        out->row = segments.shared_row + expert * prs_moe_blocks(input.tokens) * PRS_GPU_MOE_BLOCK +
                   out->token;
        out->place = out->token * choices + layer.top_k + expert;
    } else {
        return false;
    }
    out->from = (const __nv_bfloat16 *)input.x + (uint64_t)out->token * layer.products.shape.hidden;
    out->to = half.row(out->pe, layer.layout.rows, out->row);
    return true;
}

PRS_MEMBER void prs_moe_write_sender(const prs_moe_half &half, const prs_moe_parcel &parcel)
{
    half.at<uint64_t>(parcel.pe, half.layer.layout.senders)[parcel.row] =
        (uint64_t)half.layer.me << PRS_GPU_MOE_SENDER_PE |
        (uint64_t)parcel.token << PRS_GPU_MOE_SENDER_TOKEN |
        (uint64_t)parcel.place << PRS_GPU_MOE_SENDER_CHOICE;
}

/* Release, with the subscriber's acquire: what the warp wrote before its barrier is there. */
PRS_MEMBER void prs_moe_announce(const prs_moe_half &half, const prs_moe_parcel &parcel)
{
    prs_add_release_sys_one(half.at<uint32_t>(parcel.pe, half.layer.layout.arrived) +
                            parcel.row / PRS_GPU_MOE_BLOCK);
}

/* Items [0, end), by warp `worker` of `workers`, with loads and stores: for as long as all warps
 * have nothing better to do. */
PRS_MEMBER void prs_moe_send_first(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                                   const prs_moe_segments &segments, uint32_t end, uint32_t worker,
                                   uint32_t workers)
{
    const uint32_t lane = threadIdx.x & 31, n = half.layer.products.shape.hidden / 8;
    for (uint32_t item = worker; item < end; item += workers) {
        prs_moe_parcel parcel;
        if (!prs_moe_find_parcel(half, input, segments, item, &parcel)) {
            continue;
        }
        const uint4 *from = (const uint4 *)parcel.from;
        uint4 *to = (uint4 *)parcel.to;
#pragma unroll 8
        for (uint32_t i = lane; i < n; i += 32) {
            to[i] = from[i];
        }
        if (lane == 0) {
            prs_moe_write_sender(half, parcel);
        }
        __syncwarp();
        if (lane == 0) {
            prs_moe_announce(half, parcel);
        }
    }
}

/* Items [first, end), by one warp of each CTA, with bulk copies. */
PRS_MEMBER void prs_moe_send_rest(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                                  const prs_moe_segments &segments, prs_moe_copies &copies,
                                  uint32_t first, uint32_t end)
{
    const uint32_t lane = threadIdx.x & 31, bytes = half.layer.products.shape.hidden * 2;
    uint32_t parity = 0;
    for (uint32_t item = first + blockIdx.x * PRS_GPU_MOE_COPIES; item < end;
         item += half.layer.ctas * PRS_GPU_MOE_COPIES) {
        prs_moe_parcel parcel;
        const bool has = lane < PRS_GPU_MOE_COPIES && item + lane < end &&
                         prs_moe_find_parcel(half, input, segments, item + lane, &parcel);
        if (has) {
            prs_moe_write_sender(half, parcel);
            prs_moe_copy_row(copies, lane, &parity, parcel.to, parcel.from, bytes);
        }
        __syncwarp();
        if (has) {
            prs_moe_announce(half, parcel);
        }
    }
}

/* What the subscriber asks of a group: whether all its rows are there. */
struct prs_moe_near_rows {
    const uint32_t *arrived; /* [blocks] */

    /* By one lane. If not, *out says where some are missing. */
    __device__ bool are_here(prs_moe_task group, prs_moe_missing *out) const
    {
        for (uint32_t i = 0; i < group.group_blocks(); i++) {
            const uint32_t here = prs_load_acquire_sys(&arrived[group.group() + i]);
            if (here != group.rows_of(i)) {
                *out = {-1, group.group() + i, here, group.rows_of(i)};
                return false;
            }
        }
        return true;
    }
};

#endif
