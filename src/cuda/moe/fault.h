/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h: errors of CUDA's calls and of waits in kernels, as statuses with a message. */
#ifndef PRS_CUDA_MOE_FAULT_H
#define PRS_CUDA_MOE_FAULT_H

#include "base/log.h"
#include "cuda/moe/round.h"

#define PRS_GPU_MOE_TIMEOUT_MS 10000

/* OK for cudaSuccess (0); else IO, OUT_OF_MEMORY where that is it, with `what` and CUDA's words. */
enum perseus_status prs_gpu_moe_cuda(const struct prs_log *log, int error, const char *what);
/* CTAs that run at once on the current GPU: one a multiprocessor. NOT_SUPPORTED where the GPU is
 * not of compute capability 9.0. */
enum perseus_status prs_gpu_moe_processors(const struct prs_log *log, uint32_t *out);

/* Where kernels report; `stop` is the caller's. */
enum perseus_status prs_gpu_moe_fault_create(const struct prs_log *log, uint32_t timeout_ms,
                                             struct prs_gpu_moe_watch *out);
void prs_gpu_moe_fault_destroy(struct prs_gpu_moe_watch *watch);
/* OK, or the report, which is logged and taken out. */
enum perseus_status prs_gpu_moe_fault_check(const struct prs_log *log,
                                            struct prs_gpu_moe_watch *watch);

#endif
