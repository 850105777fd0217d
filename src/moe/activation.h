/* activation.h: what stands between an expert's two products. */
#ifndef PRS_MOE_ACTIVATION_H
#define PRS_MOE_ACTIVATION_H

#include <perseus/moe.h>

/* out[row][i] = silu(gate[row][i]) * up[row][i]; rows of gate and up are `stride` floats apart, those of
 * out `inner` values of `type`. */
void prs_activation_swiglu(uint32_t rows, uint32_t inner, const float *gate, const float *up,
                           size_t stride, enum perseus_moe_dtype type, void *out);
/* out[i] = gelu(up[i]), with erf. */
void prs_activation_gelu(size_t count, const float *up, enum perseus_moe_dtype type, void *out);

#endif
