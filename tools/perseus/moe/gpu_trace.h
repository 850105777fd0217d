/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_trace.h: --trace of --device cuda: what every multiprocessor does in a few forwards of the
 * megakernel, a lane each. */
#ifndef PRS_TOOLS_MOE_GPU_TRACE_H
#define PRS_TOOLS_MOE_GPU_TRACE_H

#include "moe/gpu_pes.h"

/* False after a message. */
bool prs_moe_gpu_trace(struct prs_moe_gpu_pes *pes, const struct prs_output *output);

#endif
