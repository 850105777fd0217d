/* SPDX-License-Identifier: Apache-2.0 */
/*
 * far.h: dispatch and combine between PEs that loads and stores do not reach: put-with-signal, an
 * expert's rows at a time. Plain data; valid as C11, C++ and CUDA.
 *
 * Every PE has a heap of the same layout. Signal words are set to the forward's number plus 1, and
 * never back to zero; everything else is there twice, forward n uses half n % 2:
 *
 *     told      [PEs]               counts of that PE are there
 *     arrived   [PEs, hosted max]   rows of that PE for an expert of ours are there
 *     answered  [experts]           answers of that expert to our rows are there
 *
 *     counts    [PEs, experts]      rows of each PE for each expert << 32 | the first one's place
 *     sent      [experts]           this PE's: rows so far
 *     telling   [experts]           this PE's counts, on their way
 *     staged    [choices, hidden]   bf16, rows by expert: sources of puts
 *     rows      [blocks * 128, hidden]  what this PE's experts get: expert by expert from a
 *                                       multiple of 128 on, in it source by source
 *     results   the same            what became of them: sources of puts
 *     answers   [choices, hidden]   as staged
 *
 * Why nothing is early: a PE tells its counts of forward n + 1 when it has all its answers of
 * forward n, so whatever it sent in forward n has arrived; and a PE that has everybody's counts of
 * n + 1 knows that its own answers of n have. So half n % 2 is free when forward n + 2 uses it.
 */
#ifndef PRS_CUDA_MOE_FAR_H
#define PRS_CUDA_MOE_FAR_H

#include <perseus/moe_cuda.h>

#define PRS_MOE_FAR_EXPERTS_MAX 1024
#define PRS_MOE_FAR_HALVES      2

/* Who signals when. */
enum prs_moe_far_protocol {
    PRS_MOE_FAR_COUPLED,   /* each put with its signal */
    PRS_MOE_FAR_DECOUPLED, /* puts; the last one to a PE sends one fence and all signals */
    PRS_MOE_FAR_PUT_ONLY   /* all puts, one quiet, then all signals: a ceiling, without overlap */
};

struct prs_moe_far_shape {
    uint32_t hidden, experts, top_k, tokens_max, n_pes, me;
};

/* Byte offsets in the heap; behind half_bytes those within a half. */
struct prs_moe_far_layout {
    uint64_t told, arrived, answered;
    uint64_t halves[PRS_MOE_FAR_HALVES];
    uint64_t counts, sent, telling, staged, rows, results, answers;
    uint64_t heap_bytes;
    uint32_t hosted_max;
    uint64_t rows_max;
};

/* This PE's own memory, in one piece of prs_moe_far_own_bytes, zeroed once. */
struct prs_moe_far_own {
    uint32_t *barrier;   /* CTAs that have come, ever */
    uint32_t *failed;    /* enum perseus_status of the first call that failed */
    uint64_t *ranks;     /* [choices]: of a choice among this PE's for the same expert */
    uint64_t *groups;    /* [blocks]: at the first block of a group its task's word, else 0 */
    uint32_t *order;     /* [choices]: by place */
    uint32_t *place;     /* [experts]: this PE's first in its order */
    uint32_t *begin;     /* [experts]: this PE's first row at the host */
    uint32_t *first_row; /* [experts]: the expert's first row at the host */
    /* Of one forward of the megakernel, which begins with them as zero: */
    uint32_t *replied;    /* [PEs, hosted max]: rows of that PE that the expert is done with */
    uint32_t *next_token; /* to be added up */
};

#ifdef __cplusplus
extern "C" {
#endif

void prs_moe_far_lay(const struct prs_moe_far_shape *shape, struct prs_moe_far_layout *out);
uint64_t prs_moe_far_own_bytes(const struct prs_moe_far_shape *shape);
void prs_moe_far_own_lay(const struct prs_moe_far_shape *shape, void *memory,
                         struct prs_moe_far_own *out);

#ifdef __cplusplus
}
#endif
#endif
