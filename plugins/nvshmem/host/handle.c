/* SPDX-License-Identifier: Apache-2.0 */
#include "host/handle.h"

#include <string.h>

bool prs_handle_read(const unsigned char *blob, struct prs_handle *out)
{
    if (blob == NULL) {
        return false;
    }
    struct prs_handle handle;
    memcpy(&handle, blob, sizeof handle);
    size_t blobs = (size_t)handle.blob_bytes[PRS_SIDE_HOST] + handle.blob_bytes[PRS_SIDE_PROXY];
    if (handle.magic != PRS_HANDLE_MAGIC || blobs > sizeof handle.blobs ||
        handle.kind < PRS_HANDLE_WINDOW || handle.kind > PRS_HANDLE_LOCAL ||
        handle.base + handle.bytes < handle.base) {
        return false;
    }
    *out = handle;
    return true;
}
