/* SPDX-License-Identifier: Apache-2.0 */
/* The memory operations with one of them broken: a quarter of a descriptor is published by its turn
 * before the rest of it is there. */
#define prs_store_quarter prs_store_quarter_in_order
#include_next <perseus/device/memory.cuh>
#undef prs_store_quarter

#ifndef PRS_TESTS_MUTANT_EARLY_TURN
#define PRS_TESTS_MUTANT_EARLY_TURN

PRS_DEVICE void prs_store_quarter(prs_desc_quarter *at, const prs_desc_quarter &quarter)
{
    __atomic_store_n(&at->turn, quarter.turn, __ATOMIC_RELEASE);
    prs_pause(1000);
    prs_store_quarter_in_order(at, quarter);
}

#endif
