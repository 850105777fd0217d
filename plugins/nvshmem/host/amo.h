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

/* False for a code or width that no atomic has. The other members of the verb are never read: the
 * host does not write them. */
bool prs_amo_decode(int desc, int element_bytes, uint64_t value, uint64_t compare,
                    struct prs_amo *out);

/* The part of `value` that counts for this word. */
static inline uint64_t prs_amo_low(const struct prs_amo *amo, uint64_t value)
{
    return amo->bytes == 8 ? value : value & ((UINT64_C(1) << (8 * amo->bytes)) - 1);
}

#endif
