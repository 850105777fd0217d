/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles only if C++ and CUDA lay descriptors out as the proxy reads them. ring_test.c asserts
 * the same numbers in C. */
#include <perseus/device/layout.h>

#include <cstddef>

#include "layout_numbers.h"

#ifdef __CUDACC__
/* What a producer on the GPU does: each quarter with its turn, in one store. */
__global__ void layout_check_publish(prs_ring ring, prs_desc desc, uint64_t position)
{
    union prs_desc_slot filled;
    filled.desc = desc;
    filled.quarters[threadIdx.x].turn = prs_ring_turn(&ring, position);
    prs_ring_slot(&ring, position)->quarters[threadIdx.x] = filled.quarters[threadIdx.x];
}
#endif
