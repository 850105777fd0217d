/* SPDX-License-Identifier: Apache-2.0 */
#include "host/amo.h"

#include "fabric/word.h"

struct amo_row {
    bool known, fetch;
    enum perseus_atomic op;
    bool fixed; /* the operand is `operand`, whatever the host says */
    uint64_t operand;
};

static const struct amo_row rows[] = {
    [PRS_ABI_AMO_INC] = {true, false, PERSEUS_ATOMIC_ADD, true, 1},
    [PRS_ABI_AMO_SET] = {true, false, PERSEUS_ATOMIC_SET, false, 0},
    [PRS_ABI_AMO_ADD] = {true, false, PERSEUS_ATOMIC_ADD, false, 0},
    [PRS_ABI_AMO_AND] = {true, false, PERSEUS_ATOMIC_AND, false, 0},
    [PRS_ABI_AMO_OR] = {true, false, PERSEUS_ATOMIC_OR, false, 0},
    [PRS_ABI_AMO_XOR] = {true, false, PERSEUS_ATOMIC_XOR, false, 0},
    [PRS_ABI_AMO_SIGNAL] = {true, false, PERSEUS_ATOMIC_SET, false, 0},
    [PRS_ABI_AMO_SIGNAL_SET] = {true, false, PERSEUS_ATOMIC_SET, false, 0},
    [PRS_ABI_AMO_SIGNAL_ADD] = {true, false, PERSEUS_ATOMIC_ADD, false, 0},
    [PRS_ABI_AMO_FETCH] = {true, true, PERSEUS_ATOMIC_ADD, true, 0},
    [PRS_ABI_AMO_FETCH_INC] = {true, true, PERSEUS_ATOMIC_ADD, true, 1},
    [PRS_ABI_AMO_FETCH_ADD] = {true, true, PERSEUS_ATOMIC_ADD, false, 0},
    [PRS_ABI_AMO_FETCH_AND] = {true, true, PERSEUS_ATOMIC_AND, false, 0},
    [PRS_ABI_AMO_FETCH_OR] = {true, true, PERSEUS_ATOMIC_OR, false, 0},
    [PRS_ABI_AMO_FETCH_XOR] = {true, true, PERSEUS_ATOMIC_XOR, false, 0},
    [PRS_ABI_AMO_SWAP] = {true, true, PERSEUS_ATOMIC_SET, false, 0},
    [PRS_ABI_AMO_COMPARE_SWAP] = {true, true, PERSEUS_ATOMIC_COMPARE_SWAP, false, 0},
};

/* Only sums differ for floats: what sets or swaps one copies its bits. */
static enum perseus_atomic op_of(const struct amo_row *row, bool is_float, int element_bytes)
{
    if (!is_float || row->op != PERSEUS_ATOMIC_ADD || row->fixed) {
        return row->op;
    }
    return (enum perseus_atomic)(element_bytes == 2   ? PRS_ATOMIC_ADD_HALF
                                 : element_bytes == 4 ? PRS_ATOMIC_ADD_FLOAT
                                                      : PRS_ATOMIC_ADD_DOUBLE);
}

bool prs_amo_decode(const struct prs_abi_amo_verb *verb, int element_bytes, uint64_t value,
                    uint64_t compare, struct prs_amo *out)
{
    int desc = verb->desc;
    if (desc < 0 || (size_t)desc >= sizeof rows / sizeof rows[0] || !rows[desc].known ||
        (element_bytes != 2 && element_bytes != 4 && element_bytes != 8)) {
        return false;
    }
    *out = (struct prs_amo){
        .op = op_of(&rows[desc], verb->is_float != 0, element_bytes),
        .operand = rows[desc].fixed ? rows[desc].operand : value,
        .compare = compare,
        .bytes = (uint32_t)element_bytes,
        .fetch = rows[desc].fetch,
    };
    return true;
}
