/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/moe/fault.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum perseus_status prs_gpu_moe_cuda(const struct prs_log *log, int error, const char *what)
{
    if (error == cudaSuccess) {
        return PERSEUS_OK;
    }
    return prs_fail(log, error == cudaErrorMemoryAllocation ? PERSEUS_OUT_OF_MEMORY : PERSEUS_IO,
                    "CUDA: %s failed: %s", what, cudaGetErrorString((cudaError_t)error));
}

enum perseus_status prs_gpu_moe_processors(const struct prs_log *log, uint32_t *out)
{
    int gpu = 0, count = 0, major = 0, minor = 0;
    int error = cudaGetDevice(&gpu);
    const struct {
        enum cudaDeviceAttr attribute;
        int *out;
    } asked[] = {{cudaDevAttrMultiProcessorCount, &count},
                 {cudaDevAttrComputeCapabilityMajor, &major},
                 {cudaDevAttrComputeCapabilityMinor, &minor}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0] && error == cudaSuccess; i++) {
        error = cudaDeviceGetAttribute(asked[i].out, asked[i].attribute, gpu);
    }
    if (error != cudaSuccess) {
        return prs_gpu_moe_cuda(log, error, "asking for the GPU's attributes");
    }
    if (major != 9 || minor != 0) {
        return prs_fail(
            log, PERSEUS_NOT_SUPPORTED,
            "moe on a GPU: GPU %d has compute capability %d.%d; the kernels are for 9.0 "
            "(H100, H200)",
            gpu, major, minor);
    }
    *out = (uint32_t)count;
    return PERSEUS_OK;
}

enum perseus_status prs_gpu_moe_fault_create(const struct prs_log *log, uint32_t timeout_ms,
                                             struct prs_gpu_moe_watch *out)
{
    out->timeout_ns = (timeout_ms == 0 ? PRS_GPU_MOE_TIMEOUT_MS : timeout_ms) * UINT64_C(1000000);
    void *memory = NULL;
    enum perseus_status status =
        prs_gpu_moe_cuda(log, cudaHostAlloc(&memory, sizeof *out->fault, cudaHostAllocMapped),
                         "cudaHostAlloc of a fault report");
    if (status == PERSEUS_OK) {
        memset(memory, 0, sizeof *out->fault);
        out->fault = memory;
    }
    return status;
}

void prs_gpu_moe_fault_destroy(struct prs_gpu_moe_watch *watch)
{
    if (watch->fault != NULL) {
        cudaFreeHost(watch->fault);
    }
    watch->fault = NULL;
}

static const char *const waits[] = {
    [PRS_GPU_MOE_WAIT_NONE] = "nothing",
    [PRS_GPU_MOE_WAIT_TASK] = "a task for ticket",
    [PRS_GPU_MOE_WAIT_CTAS] = "this PE's CTAs at barrier",
    [PRS_GPU_MOE_WAIT_COUNTS] = "counts, slot",
    [PRS_GPU_MOE_WAIT_ROWS] = "rows of block",
    [PRS_GPU_MOE_WAIT_ANSWERS] = "answers to token",
    [PRS_GPU_MOE_WAIT_INPUT] = "an expert's number at place",
};

enum perseus_status prs_gpu_moe_fault_check(const struct prs_log *log,
                                            struct prs_gpu_moe_watch *watch)
{
    /* Acquire, with the kernel's release. */
    const uint32_t kind = __atomic_load_n(&watch->fault->kind, __ATOMIC_ACQUIRE);
    if (kind == PRS_GPU_MOE_WAIT_NONE) {
        return PERSEUS_OK;
    }
    const struct prs_gpu_moe_fault fault = *watch->fault;
    memset(watch->fault, 0, sizeof *watch->fault);
    return prs_fail(
        log, kind == PRS_GPU_MOE_WAIT_INPUT ? PERSEUS_INVALID_ARGUMENT : PERSEUS_TIMEOUT,
        "moe kernel: awaited %s %llu from PE %d: found %lld, expected %llu",
        kind < sizeof waits / sizeof waits[0] ? waits[kind] : "?", (unsigned long long)fault.slot,
        fault.peer, (long long)fault.found, (unsigned long long)fault.expected);
}
