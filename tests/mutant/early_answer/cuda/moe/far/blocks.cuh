/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks with the count of rows broken: an answer leaves behind its first rows. */
#ifndef PRS_TESTS_MUTANT_EARLY_ANSWER
#define PRS_TESTS_MUTANT_EARLY_ANSWER

#include "cuda/moe/far/combine.cuh"

PRS_DEVICE uint32_t add_as_if_last(uint32_t *at, uint32_t value)
{
    return prs_add_acq_rel_gpu(at, value) == 0 ? UINT32_MAX - value : 0;
}

#define prs_add_acq_rel_gpu add_as_if_last
#include_next <cuda/moe/far/blocks.cuh>
#undef prs_add_acq_rel_gpu

#endif
