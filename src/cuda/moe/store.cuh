/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.cuh: from the sums that a warpgroup holds to rows of bf16 in memory, here or at a peer.
 *
 * Four threads hold eight neighbouring columns of a row, two each. They exchange four such groups,
 * so that each has one whole, sixteen bytes; a warp then writes 64 bytes in each of eight rows.
 */
#ifndef PRS_CUDA_MOE_STORE_CUH
#define PRS_CUDA_MOE_STORE_CUH

#include <cuda_bf16.h>

#include "cuda/moe/wgmma.cuh"

PRS_MEMBER uint32_t prs_pack_bf16(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&pair;
}

/* Transposes a 4 x 4 matrix whose row i is thread i's. */
PRS_MEMBER uint4 prs_transpose_quad(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t lane = threadIdx.x & 3;
    const bool odd = (lane & 1) != 0, upper = (lane & 2) != 0;
    const uint32_t from_ab = __shfl_xor_sync(~0u, odd ? a : b, 1);
    const uint32_t from_cd = __shfl_xor_sync(~0u, odd ? c : d, 1);
    /* Columns {0,1} and {2,3} of the pair of rows. */
    const uint32_t ab0 = odd ? from_ab : a, ab1 = odd ? b : from_ab;
    const uint32_t cd0 = odd ? from_cd : c, cd1 = odd ? d : from_cd;
    const uint32_t first = __shfl_xor_sync(~0u, upper ? ab0 : cd0, 2);
    const uint32_t second = __shfl_xor_sync(~0u, upper ? ab1 : cd1, 2);
    return upper ? make_uint4(first, second, cd0, cd1) : make_uint4(ab0, ab1, first, second);
}

/* SiLU(gate) * up. */
PRS_MEMBER float prs_swiglu(float gate, float up)
{
    return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}

PRS_MEMBER float prs_gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

/* Writes groups of eight columns, 4 * `quads` of them, to this thread's two rows (NULL: none), from
 * `column` on, as far as `columns`, a multiple of eight, allows. value(group, i) is what the sums
 * give for i = 0, 1 in the upper row and 2, 3 in the lower. */
template <int quads, class Value>
PRS_MEMBER void prs_store_rows(__nv_bfloat16 *upper, __nv_bfloat16 *lower, uint32_t column,
                               uint32_t columns, Value value)
{
#pragma unroll
    for (int quad = 0; quad < quads; quad++) {
        uint32_t words[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int group = 4 * quad + i;
            words[0][i] = prs_pack_bf16(value(group, 0), value(group, 1));
            words[1][i] = prs_pack_bf16(value(group, 2), value(group, 3));
        }
        const uint4 up = prs_transpose_quad(words[0][0], words[0][1], words[0][2], words[0][3]);
        const uint4 low = prs_transpose_quad(words[1][0], words[1][1], words[1][2], words[1][3]);
        const uint32_t at = column + 8 * (4 * quad + (threadIdx.x & 3));
        if (at < columns && upper != nullptr) {
            *(uint4 *)(upper + at) = up;
        }
        if (at < columns && lower != nullptr) {
            *(uint4 *)(lower + at) = low;
        }
    }
}

#endif
