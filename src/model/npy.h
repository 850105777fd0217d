/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h: NumPy array files (format versions 1 to 3), as far as recorded routing needs them: C
 * order, integers of 1 to 8 bytes, little-endian, up to three dimensions. */
#ifndef PRS_MODEL_NPY_H
#define PRS_MODEL_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define PRS_NPY_DIMS_MAX 3

struct prs_npy {
    uint32_t item_bytes; /* 1, 2, 4 or 8 */
    bool is_signed;
    uint32_t dims;                    /* 1 to PRS_NPY_DIMS_MAX */
    uint64_t shape[PRS_NPY_DIMS_MAX]; /* 1 where the array has fewer dimensions */
    uint64_t items_offset;            /* of the first item in the file */
    const unsigned char *items;       /* points into the bytes given to parse */
};

/* Reads the header and checks that the items are all there. Every failure is PROTOCOL and says
 * which file, at which offset, and what was expected there. */
enum perseus_status prs_npy_parse(const char *name, const unsigned char *bytes, size_t size,
                                  const struct prs_log *log, struct prs_npy *out);
/* The item at `index`, counted in C order; index < the product of the shape. What is above
 * INT64_MAX is INT64_MAX. */
int64_t prs_npy_item(const struct prs_npy *npy, uint64_t index);

#endif
