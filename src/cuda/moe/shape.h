/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: how a layer's products are cut into output tiles. Pure. */
#ifndef PRS_CUDA_MOE_SHAPE_H
#define PRS_CUDA_MOE_SHAPE_H

#include <stdbool.h>

#include "base/log.h"
#include "cuda/moe/round.h"

struct prs_gpu_moe_cut {
    struct prs_gpu_moe_shape shape;
    uint32_t columns;    /* of an output tile: 192 or 256 */
    uint32_t first_rows; /* of one expert's weights in the first product */
};

/* Of the two widths of a tile the one that leaves least of the last tiles empty, the wider of
 * equals. Intermediate 0: there are no experts. INVALID_ARGUMENT for widths that are no multiple of
 * eight, or have too many tiles. */
enum perseus_status prs_gpu_moe_cut(uint32_t hidden, uint32_t intermediate, uint32_t hosted,
                                    bool is_swiglu, const struct prs_log *log,
                                    struct prs_gpu_moe_cut *out);

#endif
