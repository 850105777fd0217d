/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies.cuh: rows from here to there by bulk copies through shared memory. A few lanes of a warp
 * have a row each and move it piece by piece; all the bytes are under way in the copy hardware, so
 * one warp of a CTA does what ten could by loads and stores.
 */
#ifndef PRS_CUDA_MOE_COPIES_CUH
#define PRS_CUDA_MOE_COPIES_CUH

#include "cuda/moe/pipeline.cuh"

#define PRS_GPU_MOE_COPIES      6
#define PRS_GPU_MOE_PIECE_BYTES 4096

struct prs_moe_copies {
    unsigned char piece[PRS_GPU_MOE_COPIES][PRS_GPU_MOE_PIECE_BYTES];
    uint64_t loaded[PRS_GPU_MOE_COPIES];
};

PRS_MEMBER void prs_moe_copies_init(prs_moe_copies &copies)
{
    if (threadIdx.x < PRS_GPU_MOE_COPIES) {
        prs_mbarrier_init(&copies.loaded[threadIdx.x], 1);
        prs_mbarrier_publish();
    }
}

PRS_MEMBER void prs_bulk_load(void *shared, const void *from, uint32_t bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :
                 : "r"(prs_shared_address(shared)), "l"(from), "r"(bytes),
                   "r"(prs_shared_address(barrier))
                 : "memory");
}

PRS_MEMBER void prs_bulk_store(void *to, const void *shared, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\t"
                 "cp.async.bulk.commit_group;"
                 :
                 : "l"(to), "r"(prs_shared_address(shared)), "r"(bytes)
                 : "memory");
}

/* The shared memory of this thread's stores may be written again. */
PRS_MEMBER void prs_bulk_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory");
}

/* This thread's stores are done; a release of its own covers them. */
PRS_MEMBER void prs_bulk_wait()
{
    asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
}

/* One row, by lane `slot`; *parity is that slot's. Bytes a multiple of 16, as are the addresses. */
PRS_MEMBER void prs_moe_copy_row(prs_moe_copies &copies, uint32_t slot, uint32_t *parity, void *to,
                                 const void *from, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += PRS_GPU_MOE_PIECE_BYTES) {
        const uint32_t left = bytes - at;
        const uint32_t here = left < PRS_GPU_MOE_PIECE_BYTES ? left : PRS_GPU_MOE_PIECE_BYTES;
        prs_bulk_wait_read();
        prs_mbarrier_expect(&copies.loaded[slot], here);
        prs_bulk_load(copies.piece[slot], (const unsigned char *)from + at, here,
                      &copies.loaded[slot]);
        prs_mbarrier_wait(&copies.loaded[slot], *parity);
        *parity ^= 1;
        prs_bulk_store((unsigned char *)to + at, copies.piece[slot], here);
    }
    prs_bulk_wait();
}

#endif
