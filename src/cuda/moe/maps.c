/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/moe/maps.h"

#include <cuda_runtime_api.h>
#include <string.h>

typedef CUresult encode_call(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                             const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                             const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                             CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

enum perseus_status prs_gpu_moe_map(const void *matrix, uint64_t rows, uint64_t columns,
                                    uint32_t box_rows, const struct prs_log *log, CUtensorMap *out)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                         &result) != cudaSuccess ||
        found == NULL) {
        return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                        "the CUDA driver has no cuTensorMapEncodeTiled; a driver for CUDA 12 has");
    }
    encode_call *encode;
    memcpy(&encode, &found, sizeof encode);
    const cuuint64_t sizes[] = {columns, rows}, strides[] = {columns * 2};
    const cuuint32_t box[] = {PRS_GPU_MOE_DEPTH, box_rows}, steps[] = {1, 1};
    CUresult error =
        encode(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)(uintptr_t)matrix, sizes, strides,
               box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (error != CUDA_SUCCESS) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "moe: a matrix of %llu x %llu at %p cannot be copied in boxes (error %d): "
                        "columns must be a multiple of eight, the memory 16-byte aligned",
                        (unsigned long long)rows, (unsigned long long)columns, matrix, (int)error);
    }
    return PERSEUS_OK;
}
