/* SPDX-License-Identifier: Apache-2.0 */
#include "host/status.h"

enum prs_abi_status prs_abi_status(enum perseus_status status)
{
    switch (status) {
    case PERSEUS_OK:
        return PRS_ABI_SUCCESS;
    case PERSEUS_INVALID_ARGUMENT:
    case PERSEUS_OUT_OF_RANGE:
    case PERSEUS_VERSION:
        return PRS_ABI_INVALID_VALUE;
    case PERSEUS_OUT_OF_MEMORY:
        return PRS_ABI_OUT_OF_MEMORY;
    case PERSEUS_NOT_SUPPORTED:
    case PERSEUS_NOT_FOUND:
        return PRS_ABI_NOT_SUPPORTED;
    default:
        return PRS_ABI_INTERNAL;
    }
}
