/* SPDX-License-Identifier: Apache-2.0 */
/* amo.h: NVSHMEM's atomic codes as one atomic operation on one word. */
#ifndef PRS_NVSHMEM_AMO_H
#define PRS_NVSHMEM_AMO_H

#include "host/abi.h"

#include <perseus/perseus.h>

struct prs_amo {
    enum perseus_atomic op;
    uint64_t operand, compare;
    uint32_t bytes; /* of the word: 2, 4 or 8 */
    bool fetch;
};

/* False for a code or width that no atomic has. Of the verb, desc and is_float are read: the host
 * does not write the others. */
bool prs_amo_decode(const struct prs_abi_amo_verb *verb, int element_bytes, uint64_t value,
                    uint64_t compare, struct prs_amo *out);

/* The part of `value` that counts for this word. */
static inline uint64_t prs_amo_low(const struct prs_amo *amo, uint64_t value)
{
    return amo->bytes == 8 ? value : value & ((UINT64_C(1) << (8 * amo->bytes)) - 1);
}

#endif
