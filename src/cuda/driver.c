/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

/* In the members' order. */
static const char *const names[] = {
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceCanAccessPeer",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxEnablePeerAccess",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuMemcpyAsync",
    "cuMemcpyBatchAsync_v2",
    "cuMemsetD8Async",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuPointerGetAttribute",
    "cuMemGetHandleForAddressRange",
    "cuGetErrorString",
};
#define CALLS (sizeof names / sizeof names[0])
_Static_assert(sizeof(struct prs_gpu_calls) == CALLS * sizeof(void *), "a name for every call");

static bool is_optional(const char *name)
{
    return strcmp(name, "cuMemcpyBatchAsync_v2") == 0 ||
           strcmp(name, "cuMemGetHandleForAddressRange") == 0;
}

/* The first call that the library lacks, or NULL. */
static const char *find_calls(void *library, struct prs_gpu_calls *out)
{
    void *functions[CALLS];
    for (size_t i = 0; i < CALLS; i++) {
        functions[i] = dlsym(library, names[i]);
        if (functions[i] == NULL && !is_optional(names[i])) {
            return names[i];
        }
    }
    memcpy(out, functions, sizeof *out);
    return NULL;
}

static enum perseus_status start(struct prs_gpu *cuda, const char *path)
{
    cuda->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (cuda->library == NULL) {
        return prs_fail(cuda->log, PERSEUS_NOT_FOUND,
                        "no CUDA driver here (%s): install NVIDIA's driver, name its library in "
                        "PERSEUS_CUDA_LIBRARY, or choose another fabric (perseus info)",
                        path);
    }
    const char *missing = find_calls(cuda->library, &cuda->call);
    if (missing != NULL) {
        return prs_fail(cuda->log, PERSEUS_NOT_SUPPORTED,
                        "the CUDA driver %s has no %s; a driver for CUDA 12 or newer has", path,
                        missing);
    }
    if (cuda->call.init(0) != PRS_CUDA_SUCCESS ||
        cuda->call.device_count(&cuda->devices) != PRS_CUDA_SUCCESS || cuda->devices == 0) {
        return prs_fail(cuda->log, PERSEUS_NOT_FOUND,
                        "the CUDA driver %s finds no GPU; nvidia-smi shows what is there, "
                        "CUDA_VISIBLE_DEVICES may hide some",
                        path);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_gpu_open(const struct prs_log *log, struct prs_gpu **out)
{
    struct prs_gpu *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the CUDA driver's calls");
    }
    cuda->log = log;
    enum perseus_status status = start(cuda, prs_env_text(PRS_ENV_CUDA_LIBRARY));
    if (status != PERSEUS_OK) {
        prs_gpu_close(cuda);
        return status;
    }
    *out = cuda;
    return PERSEUS_OK;
}

void prs_gpu_close(struct prs_gpu *cuda)
{
    if (cuda == NULL) {
        return;
    }
    if (cuda->library != NULL) {
        dlclose(cuda->library);
    }
    free(cuda);
}

enum perseus_status prs_gpu_check(const struct prs_gpu *cuda, int error, const char *what)
{
    if (error == PRS_CUDA_SUCCESS) {
        return PERSEUS_OK;
    }
    const char *text = NULL;
    if (cuda->call.error_string(error, &text) != PRS_CUDA_SUCCESS || text == NULL) {
        text = "unknown error";
    }
    return prs_fail(cuda->log, PERSEUS_IO, "CUDA: %s failed with error %d: %s", what, error, text);
}
