/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles only if C++ and CUDA lay descriptors out as the proxy reads them. ring_test.c asserts
 * the same numbers in C. */
#include "ring/layout.h"

#include <cstddef>

#include "layout_numbers.h"

#ifdef __CUDACC__
/* What a producer on the GPU does: the body first, `turn` last. */
__global__ void layout_check_publish(prs_desc *slot, prs_desc desc, uint32_t turn)
{
    desc.turn = slot->turn;
    *slot = desc;
    __threadfence_system();
    *(volatile uint32_t *)&slot->turn = turn;
}
#endif
