/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm.h: matrix products of a row tile with an expert's matrix, by oneDNN, on the calling thread.
 *
 * oneDNN, because it multiplies bf16 natively and, for the few rows of a tile, is several times
 * faster than OpenBLAS here (docs/moe.md). Its products run on one thread: a layer's parallelism is
 * its processors.
 */
#ifndef PRS_MOE_MATH_GEMM_H
#define PRS_MOE_MATH_GEMM_H

#include <perseus/moe.h>

#include "base/log.h"

struct prs_gemm; /* one per thread: compiled products, kept for reuse */

/* c[rows, outputs] = a[rows, inputs] * b[outputs, inputs]^T, all row-major and dense. */
struct prs_gemm_call {
    uint32_t rows, outputs, inputs;
    enum perseus_moe_dtype type;        /* of a and b */
    enum perseus_moe_dtype result_type; /* of c: F32, or type */
    const void *a, *b;
    void *c;
};

enum perseus_status prs_gemm_create(const struct prs_log *log, struct prs_gemm **out);
void prs_gemm_destroy(struct prs_gemm *gemm); /* NULL allowed */
enum perseus_status prs_gemm_run(struct prs_gemm *gemm, const struct prs_gemm_call *call);

/* Whether this CPU multiplies bf16; otherwise weights must be expanded to f32. */
bool prs_gemm_has_bf16(void);

/* Sets the calling thread's OpenMP width, which oneDNN obeys, to one; returns the width before, to
 * be given to prs_gemm_thread_end. */
int prs_gemm_thread_begin(void);
void prs_gemm_thread_end(int width_before);

#endif
