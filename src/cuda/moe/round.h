/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round.h: what the megakernel works on, as plain data; valid as C11 and CUDA.
 *
 * Rows of one expert begin at a multiple of PRS_GPU_MOE_BLOCK, so a block is rows of one expert and
 * its number is its first row over PRS_GPU_MOE_BLOCK. A task is one output tile of one of the two
 * products, for one block.
 *
 * Every counter begins a round as zero. There are two sets, and a forward zeroes the one that the
 * next forward uses: no peer touches that before it has this PE's counts of the next forward.
 */
#ifndef PRS_CUDA_MOE_ROUND_H
#define PRS_CUDA_MOE_ROUND_H

#include <stdint.h>

#define PRS_GPU_MOE_BLOCK     128
#define PRS_GPU_MOE_DEPTH     64 /* columns of a step of a product: 128 bytes of bf16 */
#define PRS_GPU_MOE_THREADS   384
#define PRS_GPU_MOE_TILES_MAX 255 /* output tiles of a block: 8 bits of a task */

struct prs_gpu_moe_shape {
    uint32_t hidden, intermediate;
    uint32_t hosted;       /* experts of this PE */
    uint32_t is_swiglu;    /* 0: the two-matrix form */
    uint32_t first_tiles;  /* output tiles of a block in the first product */
    uint32_t second_tiles; /* and in the second */
};

/* A task's word; 0 is none. Blocks of one expert come in groups, whose tiles are computed at about
 * the same time, so that their weights come from memory once. */
#define PRS_GPU_MOE_GROUP       4 /* blocks, at most */
#define PRS_GPU_MOE_TASK_VALID  (1ull << 63)
#define PRS_GPU_MOE_TASK_SECOND (1ull << 62)
#define PRS_GPU_MOE_TASK_TILE   48 /* 8 bits */
#define PRS_GPU_MOE_TASK_INDEX  44 /* 2 bits: of the block in its group */
#define PRS_GPU_MOE_TASK_ROWS   32 /* 9 bits: rows of the group, less 1 */
#define PRS_GPU_MOE_TASK_EXPERT 20 /* 12 bits */
#define PRS_GPU_MOE_TASK_BLOCK  0  /* 20 bits: the group's first */
#define PRS_GPU_MOE_EXPERTS_MAX 1024
#define PRS_GPU_MOE_BLOCKS_MAX  (1u << 20)

/* The ready queue: only tasks that can run are in it, so nobody who took one waits. */
struct prs_gpu_moe_queue {
    uint64_t *tasks; /* room for every task of a round, and one more for each CTA */
    uint32_t *head;  /* next to be taken */
    uint32_t *tail;  /* next to be filled */
    uint32_t *total; /* of the round, plus 1; 0 while nobody knows */
};

/* Why a kernel ended early, in mapped host memory. */
enum prs_gpu_moe_wait {
    PRS_GPU_MOE_WAIT_NONE,
    PRS_GPU_MOE_WAIT_TASK,    /* slot: a ticket of the queue */
    PRS_GPU_MOE_WAIT_CTAS,    /* slot: a barrier of this PE's CTAs */
    PRS_GPU_MOE_WAIT_COUNTS,  /* peer: whose counts did not come */
    PRS_GPU_MOE_WAIT_ROWS,    /* slot: a block of rows */
    PRS_GPU_MOE_WAIT_ANSWERS, /* slot: a token */
    PRS_GPU_MOE_WAIT_INPUT    /* slot: an id's place; found: the id that is no expert */
};

struct prs_gpu_moe_fault {
    uint32_t kind; /* enum prs_gpu_moe_wait; written last */
    int32_t peer;  /* -1: nobody in particular */
    uint64_t slot, found, expected;
};

/* What a wait needs to end. */
struct prs_gpu_moe_watch {
    struct prs_gpu_moe_fault *fault;
    uint32_t *stop; /* in GPU memory: some wait failed, every other one ends too */
    uint64_t timeout_ns;
};

/* What the two products need. */
struct prs_gpu_moe_products {
    struct prs_gpu_moe_shape shape;
    struct prs_gpu_moe_queue queue;
    struct prs_gpu_moe_watch watch;
    uint32_t *first_done;  /* [blocks]: tiles of the first product that are there, by group */
    uint32_t *second_done; /* [blocks]: and of the second, by block */
    void *activations;     /* bf16 [rows, intermediate] */
};

#endif
