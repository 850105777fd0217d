/* SPDX-License-Identifier: Apache-2.0 */
/* activation.h: what stands between an expert's two products. */
#ifndef PRS_MOE_MATH_ACTIVATION_H
#define PRS_MOE_MATH_ACTIVATION_H

#include <perseus/moe.h>

/* out[row][i] = silu(gate[row][i]) * up[row][i]; rows of gate and up are `stride` floats apart,
 * those of out `inner` values of `type`. */
void prs_activation_swiglu(uint32_t rows, uint32_t inner, const float *gate, const float *up,
                           size_t stride, enum perseus_moe_dtype type, void *out);
/* out[row][i] = gelu(up[row][i]), with erf; rows lie one behind the other. */
void prs_activation_gelu(uint32_t rows, uint32_t inner, const float *up,
                         enum perseus_moe_dtype type, void *out);

#endif
