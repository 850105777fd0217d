/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.h: what the megakernel of one PE takes, as plain data; valid as C11 and CUDA.
 *
 * Every PE has a heap of the same layout, in memory that all PEs of the job reach by loads and
 * stores: two halves, forward n uses half n % 2. In a half:
 *
 *     rows      [blocks * 128, hidden]  bf16; what this PE's experts get, written by the sources
 *     senders   [blocks * 128]          whose row it is (PRS_GPU_MOE_SENDER)
 *     answers   [tokens * choices, hidden] bf16; what experts made of this PE's rows, by choice;
 *                                       shared experts are a token's last choices
 *     counts    [PEs, experts]          rows that each PE sends to each expert, written by that PE
 *     told      [PEs]                   the forward whose counts are there, plus 1
 *     counters                          all that begins a forward as zero
 *
 * A PE ends a forward when all its tokens are answered and all rows that it got are computed. So
 * when it begins forward n + 1, nothing of n is under way to it; it zeroes the counters of half n %
 * 2 then, and peers write to that half again only when they have its counts of forward n + 2.
 */
#ifndef PRS_CUDA_MOE_FORWARD_H
#define PRS_CUDA_MOE_FORWARD_H

#include <perseus/moe_cuda.h>

#include "cuda/moe/layer/lanes.h"
#include "cuda/moe/round.h"

#define PRS_GPU_MOE_PES_MAX     64
#define PRS_GPU_MOE_CHOICES_MAX 64 /* of a token, shared experts too */
#define PRS_GPU_MOE_CTAS_MAX    1024
#define PRS_GPU_MOE_HALVES      2

/* A row's sender: PE, token, and the token's place times its choices plus the choice. */
#define PRS_GPU_MOE_SENDER_PE     48
#define PRS_GPU_MOE_SENDER_TOKEN  24
#define PRS_GPU_MOE_SENDER_CHOICE 0
#define PRS_GPU_MOE_SENDER_MASK   0xffffff

/* Byte offsets within a half; those of counters within the part that is zeroed, which is last. */
struct prs_gpu_moe_layout {
    uint64_t rows, senders, answers, counts, told;
    uint64_t counters;                      /* begin of the zeroed part */
    uint64_t arrived;                       /* u32 [blocks]: rows that are there */
    uint64_t answered;                      /* u32 [tokens]: choices that are there */
    uint64_t tasks;                         /* u64 */
    uint64_t first_done, second_done, sent; /* u32; sent [experts]: this PE's rows for each */
    uint64_t words;                         /* u32: enum prs_gpu_moe_word */
    uint64_t half_bytes;
    uint64_t halves[PRS_GPU_MOE_HALVES]; /* within the heap */
    uint64_t heap_bytes;                 /* of it all */
};

enum prs_gpu_moe_word {
    PRS_GPU_MOE_WORD_HEAD,
    PRS_GPU_MOE_WORD_TAIL,
    PRS_GPU_MOE_WORD_TOTAL,
    PRS_GPU_MOE_WORD_COUNTED, /* CTAs whose rows are in `sent` */
    PRS_GPU_MOE_WORD_SORTED,  /* CTAs whose rows are in `order` */
    PRS_GPU_MOE_WORD_TOKEN,   /* next to be added up */
    PRS_GPU_MOE_WORDS
};

struct prs_gpu_moe_layer {
    struct prs_gpu_moe_products
        products; /* queue and counters are of the half, filled in by the kernel */
    struct prs_gpu_moe_layout layout;
    unsigned char *const *heaps; /* [n_pes]: every PE's, as this GPU reaches it */
    uint32_t n_pes, me, experts, top_k;
    uint32_t shared; /* experts of every PE; the last of products.shape.hosted */
    uint32_t ctas;
    struct prs_gpu_moe_lanes lanes;
    /* This PE's own, in GPU memory. */
    uint32_t *forward; /* the number of the next one, and how many CTAs have left this one */
    uint32_t *ranks;   /* [tokens * top_k]: of a choice among its CTA's for the same expert */
    uint64_t *order;   /* [tokens * top_k]: row at the host << 32 | choice, by expert */
    uint64_t *groups;  /* [blocks]: at the first block of a group its task's word, else 0 */
};

#endif
