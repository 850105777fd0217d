/* SPDX-License-Identifier: Apache-2.0 */
#include "staging/cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "staging/watch.h"

/* Values of the driver interface. */
#define CUDA_READY           0
#define CUDA_NOT_READY       600
#define MEMORY_TYPE          2 /* pointer attribute */
#define TYPE_DEVICE          2
#define STREAM_NON_BLOCKING  1
#define EVENT_WITHOUT_TIMING 2
#define HOST_PORTABLE        1
#define DRIVER_VERSION       12000
#define HOST_NATIVE_ATOMICS  86 /* device attribute */

/* One row per driver function; `member` of struct calls below. */
struct calls {
    int (*pointer_get_attribute)(void *out, int attribute, uintptr_t pointer);
    int (*context_get)(void **out);
    int (*context_set)(void *context);
    int (*stream_create)(void **out, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*event_create)(void **out, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*copy_async)(uintptr_t target, uintptr_t source, size_t bytes, void *stream);
    int (*host_register)(void *memory, size_t bytes, unsigned flags);
    int (*host_unregister)(void *memory);
    int (*error_string)(int error, const char **out);
    int (*context_device)(int *out);
    int (*device_attribute)(int *out, int attribute, int device);
};

/* In the members' order; `exported` is the name in the library where it differs. */
static const struct {
    const char *name, *exported;
} names[] = {
    {"cuPointerGetAttribute", NULL},
    {"cuCtxGetCurrent", NULL},
    {"cuCtxSetCurrent", NULL},
    {"cuStreamCreate", NULL},
    {"cuStreamDestroy", "cuStreamDestroy_v2"},
    {"cuStreamSynchronize", NULL},
    {"cuEventCreate", NULL},
    {"cuEventDestroy", "cuEventDestroy_v2"},
    {"cuEventRecord", NULL},
    {"cuEventQuery", NULL},
    {"cuMemcpyAsync", NULL},
    {"cuMemHostRegister", "cuMemHostRegister_v2"},
    {"cuMemHostUnregister", NULL},
    {"cuGetErrorString", NULL},
    {"cuCtxGetDevice", NULL},
    {"cuDeviceGetAttribute", NULL},
};
#define CALLS (sizeof names / sizeof names[0])
static_assert(sizeof(struct calls) == CALLS * sizeof(void *), "a name for every call");

struct prs_cuda {
    struct calls calls;
    const struct prs_log *log;
    void *context;
    struct prs_watch *watch; /* NULL: nothing was staged yet */
    bool faulted;            /* under the lock of whoever uses the lanes */
};

/* ---- finding the driver ---- */

static bool from_table(const struct prs_abi_cuda_table *table, void **functions)
{
    int (*get)(const char *name, void **out, int version, uint64_t flags, int *out_found) = NULL;
    if (table != NULL) {
        memcpy(&get, &table->entry[PRS_ABI_CUDA_GET_PROC_ADDRESS], sizeof get);
    }
    for (size_t i = 0; get != NULL && i < CALLS; i++) {
        int found = 0; /* the older form of this call has no such argument and ignores it */
        functions[i] = NULL;
        if (get(names[i].name, &functions[i], DRIVER_VERSION, 0, &found) != CUDA_READY ||
            functions[i] == NULL) {
            return false;
        }
    }
    return get != NULL;
}

/* Only where the process uses CUDA already: NVSHMEM's host library brought it in. */
static bool from_library(void **functions)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) {
        return false;
    }
    bool complete = true;
    for (size_t i = 0; i < CALLS; i++) {
        const char *name = names[i].exported != NULL ? names[i].exported : names[i].name;
        functions[i] = dlsym(library, name);
        complete = complete && functions[i] != NULL;
    }
    dlclose(library);
    return complete;
}

enum perseus_status prs_cuda_create(const struct prs_abi_cuda_table *table,
                                    const struct prs_log *log, struct prs_cuda **out)
{
    void *functions[CALLS];
    struct calls calls;
    void *context = NULL;
    *out = NULL;
    if (!from_table(table, functions) && !from_library(functions)) {
        return PERSEUS_OK;
    }
    memcpy(&calls, functions, sizeof calls);
    if (calls.context_get(&context) != CUDA_READY || context == NULL) {
        return PERSEUS_OK;
    }
    struct prs_cuda *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the CUDA driver's functions");
    }
    *cuda = (struct prs_cuda){.calls = calls, .log = log, .context = context};
    *out = cuda;
    return PERSEUS_OK;
}

void prs_cuda_destroy(struct prs_cuda *cuda)
{
    if (cuda != NULL) {
        prs_watch_stop(cuda->watch);
    }
    free(cuda);
}

enum perseus_status prs_cuda_watch(struct prs_cuda *cuda, uint64_t patience_ms)
{
    return cuda->watch != NULL ? PERSEUS_OK : prs_watch_start(patience_ms, cuda->log, &cuda->watch);
}

/* What the driver answers to everything once a kernel has failed. */
static bool is_kernel_fault(int error)
{
    switch (error) {
    case 700: /* illegal address */
    case 702: /* time-out of a launch */
    case 710: /* a device assertion */
    case 714: /* hardware stack error */
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case 719: /* launch failure */
        return true;
    default:
        return false;
    }
}

bool prs_cuda_is_faulted(const struct prs_cuda *cuda)
{
    return cuda != NULL && cuda->faulted;
}

static enum perseus_status check(struct prs_cuda *cuda, int error, const char *what)
{
    if (error == CUDA_READY) {
        return PERSEUS_OK;
    }
    const char *text = NULL;
    if (cuda->calls.error_string(error, &text) != CUDA_READY || text == NULL) {
        text = "unknown error";
    }
    if (is_kernel_fault(error)) {
        if (!cuda->faulted) {
            prs_fail(
                cuda->log, PERSEUS_CANCELED,
                "a kernel of this process failed with error %d: %s. Staging ends with it; look "
                "for the fault in the program (compute-sanitizer)",
                error, text);
        }
        cuda->faulted = true;
        return PERSEUS_CANCELED;
    }
    return prs_fail(cuda->log, PERSEUS_IO, "CUDA: %s failed with error %d: %s", what, error, text);
}

/* ---- memory ---- */

enum perseus_status prs_cuda_enter(struct prs_cuda *cuda)
{
    void *context = NULL;
    if (cuda == NULL) {
        return PERSEUS_OK;
    }
    if (cuda->calls.context_get(&context) == CUDA_READY && context != NULL) {
        return PERSEUS_OK;
    }
    return check(cuda, cuda->calls.context_set(cuda->context), "making the context current");
}

bool prs_cuda_is_device(const struct prs_cuda *cuda, const void *pointer)
{
    unsigned type = 0;
    return cuda != NULL &&
           cuda->calls.pointer_get_attribute(&type, MEMORY_TYPE, (uintptr_t)pointer) ==
               CUDA_READY &&
           type == TYPE_DEVICE;
}

bool prs_cuda_has_host_atomics(const struct prs_cuda *cuda)
{
    int device, native = 1;
    return cuda == NULL || cuda->calls.context_device(&device) != CUDA_READY ||
           cuda->calls.device_attribute(&native, HOST_NATIVE_ATOMICS, device) != CUDA_READY ||
           native != 0;
}

enum perseus_status prs_cuda_pin(struct prs_cuda *cuda, void *memory, size_t bytes)
{
    int error = cuda->calls.host_register(memory, bytes, HOST_PORTABLE);
    struct rlimit limit = {.rlim_cur = 0};
    if (error == CUDA_READY) {
        return PERSEUS_OK;
    }
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return prs_fail(cuda->log, PERSEUS_OUT_OF_MEMORY,
                    "CUDA could not page-lock %zu bytes for staging (error %d): raise the "
                    "locked-memory limit (ulimit -l, now %llu bytes), or lower PERSEUS_STAGE_BYTES",
                    bytes, error, (unsigned long long)limit.rlim_cur);
}

void prs_cuda_unpin(struct prs_cuda *cuda, void *memory)
{
    cuda->calls.host_unregister(memory);
}

/* ---- lanes ---- */

enum perseus_status prs_cuda_lane_init(struct prs_cuda_lane *lane, struct prs_cuda *cuda)
{
    *lane = (struct prs_cuda_lane){.cuda = cuda};
    enum perseus_status status =
        check(cuda, cuda->calls.stream_create(&lane->stream, STREAM_NON_BLOCKING), "a stream");
    for (int i = 0; i < PRS_CUDA_EVENTS && status == PERSEUS_OK; i++) {
        status = check(cuda, cuda->calls.event_create(&lane->events[i], EVENT_WITHOUT_TIMING),
                       "an event");
    }
    return status;
}

void prs_cuda_lane_finish(struct prs_cuda_lane *lane)
{
    if (lane->cuda == NULL) {
        return;
    }
    if (lane->stream != NULL) {
        lane->cuda->calls.stream_synchronize(lane->stream);
        lane->cuda->calls.stream_destroy(lane->stream);
    }
    for (int i = 0; i < PRS_CUDA_EVENTS; i++) {
        if (lane->events[i] != NULL) {
            lane->cuda->calls.event_destroy(lane->events[i]);
        }
    }
    *lane = (struct prs_cuda_lane){.cuda = NULL};
}

enum perseus_status prs_cuda_lane_copy(struct prs_cuda_lane *lane, void *target, const void *source,
                                       size_t bytes)
{
    struct prs_cuda *cuda = lane->cuda;
    prs_watch_enter(cuda->watch);
    int error = cuda->calls.copy_async((uintptr_t)target, (uintptr_t)source, bytes, lane->stream);
    prs_watch_leave(cuda->watch);
    enum perseus_status status = check(cuda, error, "a copy");
    lane->issued += status == PERSEUS_OK;
    return status;
}

enum perseus_status prs_cuda_lane_advance(struct prs_cuda_lane *lane)
{
    if (lane->cuda == NULL) {
        return PERSEUS_OK;
    }
    const struct calls *calls = &lane->cuda->calls;
    if (lane->issued > lane->recorded && lane->count < PRS_CUDA_EVENTS) {
        uint32_t last = (lane->first + lane->count) % PRS_CUDA_EVENTS;
        enum perseus_status status =
            check(lane->cuda, calls->event_record(lane->events[last], lane->stream), "an event");
        if (status != PERSEUS_OK) {
            return status;
        }
        lane->tickets[last] = lane->recorded = lane->issued;
        lane->count++;
    }
    while (lane->count > 0) {
        int error = calls->event_query(lane->events[lane->first]);
        if (error == CUDA_NOT_READY) {
            return PERSEUS_OK;
        }
        if (error != CUDA_READY) {
            return check(lane->cuda, error, "a copy");
        }
        lane->done = lane->tickets[lane->first];
        lane->first = (lane->first + 1) % PRS_CUDA_EVENTS;
        lane->count--;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_cuda_lane_wait(struct prs_cuda_lane *lane)
{
    enum perseus_status status =
        check(lane->cuda, lane->cuda->calls.stream_synchronize(lane->stream), "waiting for copies");
    if (status == PERSEUS_OK) {
        lane->recorded = lane->done = lane->issued;
        lane->first = lane->count = 0;
    }
    return status;
}
