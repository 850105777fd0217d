/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks with the subscriber broken: rows of the first source that has any stand for all. */
#ifndef PRS_TESTS_MUTANT_EARLY_BLOCK
#define PRS_TESTS_MUTANT_EARLY_BLOCK

#define prs_moe_far_are_here prs_moe_far_are_all_here
#include_next <cuda/moe/far/blocks.cuh>
#undef prs_moe_far_are_here

PRS_DEVICE bool prs_moe_far_are_here(const prs_moe_far_half &half, const prs_moe_far_rows &rows,
                                     uint32_t *out_source)
{
    const prs_moe_far_rows first = {rows.of_host, rows.first, rows.first + 1};
    return prs_moe_far_are_all_here(half, first, out_source);
}

#endif
