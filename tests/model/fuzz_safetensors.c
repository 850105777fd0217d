/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file: an answer and a message, never a crash, and tensors lie inside
 * the file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "capture.h"
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_file(const uint8_t *data, size_t size)
{
    struct capture capture;
    struct prs_safetensors *file;
    struct prs_tensor tensor;
    capture_init(&capture);
    if (prs_safetensors_create("fuzz", data, size, &capture.log, &file) != PERSEUS_OK) {
        if (capture.count == 0) {
            abort();
        }
        return;
    }
    if (prs_safetensors_find(file, prs_safetensors_example(file), &capture.log, &tensor) ==
        PERSEUS_OK) {
        uint64_t bytes = tensor.type == PRS_TENSOR_F32 ? 4 : 2;
        for (uint32_t i = 0; i < tensor.dims; i++) {
            bytes *= tensor.shape[i];
        }
        if (tensor.data < data || bytes > (uint64_t)(data + size - tensor.data)) {
            abort();
        }
    } else if (capture.count == 0) {
        abort();
    }
    prs_safetensors_destroy(file);
}

/* As they are; and as header and data, a zero between, so that the length is right more than once
 * in 2^64. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_file(data, size);
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    uint64_t header = zero != NULL ? (uint64_t)(zero - data) : size;
    uint8_t *file = malloc(sizeof header + size);
    if (file == NULL) {
        return 0;
    }
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header, data, size);
    read_file(file, sizeof header + size);
    free(file);
    return 0;
}
