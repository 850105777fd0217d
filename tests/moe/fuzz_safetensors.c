/* Any bytes as a safetensors file: an answer, never a crash, and tensors lie inside the file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "moe/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prs_safetensors *file;
    struct prs_tensor tensor;
    if (prs_safetensors_create("fuzz", data, size, NULL, &file) != PERSEUS_OK) {
        return 0;
    }
    if (prs_safetensors_find(file, prs_safetensors_example(file), NULL, &tensor) == PERSEUS_OK) {
        uint64_t bytes = tensor.type == PRS_TENSOR_F32 ? 4 : 2;
        for (uint32_t i = 0; i < tensor.dims; i++) {
            bytes *= tensor.shape[i];
        }
        if (tensor.data < data || bytes > (uint64_t)(data + size - tensor.data)) {
            abort();
        }
    }
    prs_safetensors_destroy(file);
    return 0;
}
