/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU, for PERSEUS_CUDA_LIBRARY. "Device" memory is memory of the process;
 * with PERSEUS_SCRIPTED_GUARD=1 only this driver reaches it, so a CPU's look at it is a crash.
 *
 * Copies do nothing when they are submitted: streams move on a little, each a different way, at
 * every look at an event, and to their end at a synchronize. The copies of one batch are carried
 * out in any order, streams overtake each other, and nothing overtakes within a stream; so whoever
 * relies on more than CUDA promises is found out. PERSEUS_SCRIPTED_GPUS is the number of GPUs
 * (2); PERSEUS_SCRIPTED_SEED makes another run of it.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "cuda/driver.h"

#define PUBLIC __attribute__((visibility("default")))

#define INVALID     1
#define NO_CONTEXT  201
#define GPUS_MAX    8
#define STREAMS_MAX 256
#define PIECES_MAX  3 /* of a stream, at one look */

/* A copy, or the end of what an event waits for. */
struct work {
    unsigned char *target;
    const unsigned char *source;
    size_t bytes;
    struct event *event;
    uint64_t batch; /* works of one batch lie behind each other and go in any order */
    struct work *next;
};

struct event {
    uint64_t recorded, reached;
};

struct stream {
    struct work *first, *last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams[STREAMS_MAX];
static struct prs_rng rng;
static bool has_rng;
static uint64_t batches;
static int contexts[GPUS_MAX];
static __thread void *current;

/* GPU memory. `reached` is where this driver reaches it. */
struct allocation {
    struct allocation *next;
    unsigned char *base, *reached;
    size_t bytes;
};
static struct allocation *allocations;

static struct allocation **find_allocation(const void *pointer)
{
    struct allocation **at = &allocations;
    while (*at != NULL && (uintptr_t)pointer - (uintptr_t)(*at)->base >= (*at)->bytes) {
        at = &(*at)->next;
    }
    return at;
}

static unsigned char *reach(const void *pointer)
{
    const struct allocation *found = *find_allocation(pointer);
    return found == NULL ? (unsigned char *)(uintptr_t)pointer
                         : found->reached + ((const unsigned char *)pointer - found->base);
}

static int gpus(void)
{
    const char *text = getenv("PERSEUS_SCRIPTED_GPUS");
    int n = text != NULL ? atoi(text) : 2;
    return n < 0 || n > GPUS_MAX ? 0 : n;
}

static uint32_t draw(uint32_t below)
{
    if (!has_rng) {
        const char *seed = getenv("PERSEUS_SCRIPTED_SEED");
        rng = prs_rng_seeded(seed != NULL ? strtoull(seed, NULL, 10) : 1);
        has_rng = true;
    }
    return prs_rng_below(&rng, below);
}

/* Aligned words move whole, as others may be looking. */
static void move(unsigned char *target, const unsigned char *source, size_t bytes)
{
    if ((((uintptr_t)target | (uintptr_t)source | bytes) & 7) != 0 || bytes > 4096) {
        memmove(target, source, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word =
            __atomic_load_n((const uint64_t *)(const void *)(source + at), __ATOMIC_ACQUIRE);
        __atomic_store_n((uint64_t *)(void *)(target + at), word, __ATOMIC_RELEASE);
    }
}

/* One work of the batch at the stream's head, any of it. */
static void step(struct stream *stream)
{
    struct work **chosen = &stream->first;
    uint32_t n = 0;
    for (struct work **at = &stream->first;
         *at != NULL && (*at)->batch == stream->first->batch && (*at)->event == NULL;
         at = &(*at)->next) {
        if (draw(++n) == 0) {
            chosen = at;
        }
    }
    struct work *work = *chosen;
    *chosen = work->next;
    if (work == stream->last) {
        stream->last = NULL;
        for (struct work *at = stream->first; at != NULL; at = at->next) {
            stream->last = at;
        }
    }
    if (work->event != NULL) {
        work->event->reached++;
    } else {
        move(reach(work->target), reach(work->source), work->bytes);
    }
    free(work);
}

static void advance(void)
{
    for (int i = 0; i < STREAMS_MAX; i++) {
        for (uint32_t left = streams[i] != NULL ? draw(PIECES_MAX + 1) : 0;
             left > 0 && streams[i]->first != NULL; left--) {
            step(streams[i]);
        }
    }
}

static void push(struct stream *stream, struct work work)
{
    struct work *copy = malloc(sizeof *copy);
    *copy = work;
    copy->next = NULL;
    if (stream->last != NULL) {
        stream->last->next = copy;
    } else {
        stream->first = copy;
    }
    stream->last = copy;
}

/* ---- the driver's functions ---- */

PUBLIC int cuInit(unsigned flags);
PUBLIC int cuInit(unsigned flags)
{
    return flags == 0 ? PRS_CUDA_SUCCESS : INVALID;
}

PUBLIC int cuDeviceGetCount(int *out);
PUBLIC int cuDeviceGetCount(int *out)
{
    *out = gpus();
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuDeviceGet(int *out, int ordinal);
PUBLIC int cuDeviceGet(int *out, int ordinal)
{
    *out = ordinal;
    return ordinal < gpus() ? PRS_CUDA_SUCCESS : INVALID;
}

PUBLIC int cuDeviceGetName(char *out, int bytes, int device);
PUBLIC int cuDeviceGetName(char *out, int bytes, int device)
{
    snprintf(out, (size_t)bytes, "scripted GPU %d", device);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuDeviceGetAttribute(int *out, int attribute, int device);
PUBLIC int cuDeviceGetAttribute(int *out, int attribute, int device)
{
    (void)device;
    *out = attribute == PRS_CUDA_DEVICE_CAPABILITY_MAJOR   ? 9
           : attribute == PRS_CUDA_DEVICE_CAPABILITY_MINOR ? 0
                                                           : 3;
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuDeviceCanAccessPeer(int *out, int device, int peer);
PUBLIC int cuDeviceCanAccessPeer(int *out, int device, int peer)
{
    *out = device != peer;
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuDevicePrimaryCtxRetain(void **out, int device);
PUBLIC int cuDevicePrimaryCtxRetain(void **out, int device)
{
    *out = &contexts[device];
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuDevicePrimaryCtxRelease_v2(int device);
PUBLIC int cuDevicePrimaryCtxRelease_v2(int device)
{
    return device < gpus() ? PRS_CUDA_SUCCESS : INVALID;
}

PUBLIC int cuCtxGetCurrent(void **out);
PUBLIC int cuCtxGetCurrent(void **out)
{
    *out = current;
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuCtxSetCurrent(void *context);
PUBLIC int cuCtxSetCurrent(void *context)
{
    current = context;
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuCtxEnablePeerAccess(void *peer, unsigned flags);
PUBLIC int cuCtxEnablePeerAccess(void *peer, unsigned flags)
{
    return current == NULL || flags != 0 ? NO_CONTEXT
           : peer == current             ? INVALID
                                         : PRS_CUDA_PEER_ENABLED;
}

PUBLIC int cuStreamCreate(void **out, unsigned flags);
PUBLIC int cuStreamCreate(void **out, unsigned flags)
{
    int error = INVALID;
    if (current == NULL || flags != PRS_CUDA_STREAM_NON_BLOCKING) {
        return NO_CONTEXT;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS_MAX && error != PRS_CUDA_SUCCESS; i++) {
        if (streams[i] == NULL) {
            streams[i] = calloc(1, sizeof *streams[i]);
            *out = streams[i];
            error = PRS_CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&lock);
    return error;
}

PUBLIC int cuStreamSynchronize(void *handle);
PUBLIC int cuStreamSynchronize(void *handle)
{
    struct stream *stream = handle;
    pthread_mutex_lock(&lock);
    while (stream->first != NULL) {
        step(stream);
    }
    pthread_mutex_unlock(&lock);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuStreamDestroy_v2(void *handle);
PUBLIC int cuStreamDestroy_v2(void *handle)
{
    cuStreamSynchronize(handle);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS_MAX; i++) {
        streams[i] = streams[i] == handle ? NULL : streams[i];
    }
    pthread_mutex_unlock(&lock);
    free(handle);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuEventCreate(void **out, unsigned flags);
PUBLIC int cuEventCreate(void **out, unsigned flags)
{
    *out = flags == PRS_CUDA_EVENT_WITHOUT_TIMING ? calloc(1, sizeof(struct event)) : NULL;
    return *out != NULL ? PRS_CUDA_SUCCESS : INVALID;
}

PUBLIC int cuEventDestroy_v2(void *event);
PUBLIC int cuEventDestroy_v2(void *event)
{
    free(event);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuEventRecord(void *handle, void *stream);
PUBLIC int cuEventRecord(void *handle, void *stream)
{
    struct event *event = handle;
    if (current == NULL) {
        return NO_CONTEXT;
    }
    pthread_mutex_lock(&lock);
    event->recorded++;
    push(stream, (struct work){.event = event, .batch = ++batches});
    pthread_mutex_unlock(&lock);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuEventQuery(void *handle);
PUBLIC int cuEventQuery(void *handle)
{
    struct event *event = handle;
    pthread_mutex_lock(&lock);
    advance();
    bool is_ready = event->reached == event->recorded;
    pthread_mutex_unlock(&lock);
    return is_ready ? PRS_CUDA_SUCCESS : PRS_CUDA_NOT_READY;
}

PUBLIC int cuMemcpyBatchAsync_v2(uintptr_t *targets, uintptr_t *sources, size_t *sizes,
                                 size_t count, struct prs_gpu_copy_attributes *attributes,
                                 size_t *first, size_t n_attributes, void *stream);
PUBLIC int cuMemcpyBatchAsync_v2(uintptr_t *targets, uintptr_t *sources, size_t *sizes,
                                 size_t count, struct prs_gpu_copy_attributes *attributes,
                                 size_t *first, size_t n_attributes, void *stream)
{
    if (current == NULL) {
        return NO_CONTEXT;
    }
    if (n_attributes != 1 || *first != 0 || count == 0 ||
        attributes->source_order != PRS_CUDA_SOURCE_IN_STREAM_ORDER ||
        attributes->flags > PRS_CUDA_COPY_OVERLAPS_KERNELS) {
        return INVALID;
    }
    pthread_mutex_lock(&lock);
    batches++;
    for (size_t i = 0; i < count; i++) {
        push(stream, (struct work){.target = (unsigned char *)targets[i],
                                   .source = (const unsigned char *)sources[i],
                                   .bytes = sizes[i],
                                   .batch = batches});
    }
    pthread_mutex_unlock(&lock);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuMemcpyAsync(uintptr_t target, uintptr_t source, size_t bytes, void *stream);
PUBLIC int cuMemcpyAsync(uintptr_t target, uintptr_t source, size_t bytes, void *stream)
{
    struct prs_gpu_copy_attributes attributes = {.source_order = PRS_CUDA_SOURCE_IN_STREAM_ORDER};
    size_t first = 0;
    return cuMemcpyBatchAsync_v2(&target, &source, &bytes, 1, &attributes, &first, 1, stream);
}

PUBLIC int cuMemsetD8Async(uintptr_t target, unsigned char value, size_t bytes, void *stream);
PUBLIC int cuMemsetD8Async(uintptr_t target, unsigned char value, size_t bytes, void *stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    memset(reach((const void *)target), value, bytes);
    pthread_mutex_unlock(&lock);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuMemAlloc_v2(uintptr_t *out, size_t bytes);
PUBLIC int cuMemAlloc_v2(uintptr_t *out, size_t bytes)
{
    if (current == NULL) {
        return INVALID;
    }
    const char *guard = getenv("PERSEUS_SCRIPTED_GUARD");
    bool is_guarded = guard != NULL && guard[0] == '1';
    struct allocation *made = calloc(1, sizeof *made);
    made->bytes = (bytes + 255) / 256 * 256;
    if (is_guarded) {
        int fd = memfd_create("scripted-gpu", MFD_CLOEXEC);
        if (ftruncate(fd, (off_t)made->bytes) != 0) {
            abort();
        }
        made->base = mmap(NULL, made->bytes, PROT_NONE, MAP_SHARED, fd, 0);
        made->reached = mmap(NULL, made->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    } else {
        made->base = aligned_alloc(256, made->bytes);
        made->reached = made->base;
    }
    pthread_mutex_lock(&lock);
    made->next = allocations;
    allocations = made;
    pthread_mutex_unlock(&lock);
    *out = (uintptr_t)made->base;
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuMemFree_v2(uintptr_t memory);
PUBLIC int cuMemFree_v2(uintptr_t memory)
{
    pthread_mutex_lock(&lock);
    struct allocation **at = find_allocation((const void *)memory);
    struct allocation *gone = *at;
    if (gone != NULL) {
        *at = gone->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone == NULL || (uintptr_t)gone->base != memory) {
        return INVALID;
    }
    if (gone->base == gone->reached) {
        free(gone->base);
    } else {
        munmap(gone->base, gone->bytes);
        munmap(gone->reached, gone->bytes);
    }
    free(gone);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
PUBLIC int cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    *out = current != NULL && flags != 0 ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    return *out != NULL ? PRS_CUDA_SUCCESS : INVALID;
}

PUBLIC int cuMemFreeHost(void *memory);
PUBLIC int cuMemFreeHost(void *memory)
{
    free(memory);
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
PUBLIC int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    (void)memory;
    (void)bytes;
    return current != NULL && flags == PRS_CUDA_HOST_PORTABLE ? PRS_CUDA_SUCCESS : INVALID;
}

PUBLIC int cuMemHostUnregister(void *memory);
PUBLIC int cuMemHostUnregister(void *memory)
{
    (void)memory;
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuPointerGetAttribute(void *out, int attribute, uintptr_t pointer);
PUBLIC int cuPointerGetAttribute(void *out, int attribute, uintptr_t pointer)
{
    pthread_mutex_lock(&lock);
    bool is_device = *find_allocation((const void *)pointer) != NULL;
    pthread_mutex_unlock(&lock);
    if (!is_device || attribute != PRS_CUDA_POINTER_MEMORY_TYPE) {
        return INVALID; /* as for memory that the driver does not know */
    }
    *(unsigned *)out = PRS_CUDA_MEMORY_DEVICE;
    return PRS_CUDA_SUCCESS;
}

/* A file of that length stands for the pages. PERSEUS_SCRIPTED_DMABUF=0: a driver that has none. */
PUBLIC int cuMemGetHandleForAddressRange(void *out, uintptr_t first, size_t bytes, int type,
                                         uint64_t flags);
PUBLIC int cuMemGetHandleForAddressRange(void *out, uintptr_t first, size_t bytes, int type,
                                         uint64_t flags)
{
    const char *text = getenv("PERSEUS_SCRIPTED_DMABUF");
    pthread_mutex_lock(&lock);
    bool is_device = *find_allocation((const void *)first) != NULL;
    pthread_mutex_unlock(&lock);
    if (!is_device || type != PRS_CUDA_HANDLE_DMABUF || flags != 0 ||
        ((first | bytes) & 4095) != 0 || (text != NULL && strcmp(text, "0") == 0)) {
        return INVALID;
    }
    int fd = memfd_create("dmabuf", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        return INVALID;
    }
    *(int *)out = fd;
    return PRS_CUDA_SUCCESS;
}

PUBLIC int cuGetErrorString(int error, const char **out);
PUBLIC int cuGetErrorString(int error, const char **out)
{
    *out = error == INVALID      ? "invalid argument"
           : error == NO_CONTEXT ? "no context"
                                 : "some error";
    return PRS_CUDA_SUCCESS;
}
