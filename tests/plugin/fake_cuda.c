/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define READY       0
#define INVALID     1
#define NO_CONTEXT  201
#define NOT_READY   600
#define TYPE_HOST   1
#define TYPE_DEVICE 2
#define AREAS       256

static _Atomic int faults;
static _Atomic bool refuse, held, has_atomics;
static _Atomic int broken;
static __thread void *current;
static int the_context;

static void fault(const char *what)
{
    fprintf(stderr, "fake CUDA: %s\n", what);
    atomic_fetch_add(&faults, 1);
}

static int fake_cuda_faults(void)
{
    return atomic_exchange(&faults, 0);
}

void fake_cuda_refuse_pinning(bool now)
{
    atomic_store(&refuse, now);
}

void fake_cuda_hold(bool now)
{
    atomic_store(&held, now);
}

void fake_cuda_break(int error)
{
    atomic_store(&broken, error);
}

void fake_cuda_give_atomics(bool now)
{
    atomic_store(&has_atomics, now);
}

void fake_cuda_enter(void)
{
    current = &the_context;
}

/* ---- areas: device memory with its view, and page-locked host memory ---- */

struct area {
    unsigned char *base, *view; /* view NULL: page-locked */
    size_t bytes;
};
static struct area areas[AREAS];
static pthread_mutex_t areas_lock = PTHREAD_MUTEX_INITIALIZER;

static bool find_area(const void *pointer, struct area *out)
{
    bool found = false;
    pthread_mutex_lock(&areas_lock);
    for (int i = 0; i < AREAS && !found; i++) {
        const unsigned char *at = pointer;
        if (areas[i].base != NULL && at >= areas[i].base && at < areas[i].base + areas[i].bytes) {
            *out = areas[i];
            found = true;
        }
    }
    pthread_mutex_unlock(&areas_lock);
    return found;
}

static void add_area(unsigned char *base, unsigned char *view, size_t bytes)
{
    pthread_mutex_lock(&areas_lock);
    int i = 0;
    while (areas[i].base != NULL) {
        i++;
    }
    areas[i] = (struct area){base, view, bytes};
    pthread_mutex_unlock(&areas_lock);
}

static void remove_area(const void *base)
{
    pthread_mutex_lock(&areas_lock);
    for (int i = 0; i < AREAS; i++) {
        if (areas[i].base == base) {
            areas[i] = (struct area){0};
        }
    }
    pthread_mutex_unlock(&areas_lock);
}

static void *allocate(size_t bytes)
{
    int file = memfd_create("device", 0);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        return NULL;
    }
    unsigned char *base = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, file, 0);
    unsigned char *view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    add_area(base, view, bytes);
    return base;
}

static void release(void *memory, size_t bytes)
{
    struct area area;
    if (find_area(memory, &area)) {
        remove_area(memory);
        munmap(area.view, bytes);
        munmap(area.base, bytes);
    }
}

static void *view(void *memory)
{
    struct area area;
    return find_area(memory, &area) && area.view != NULL
               ? area.view + ((unsigned char *)memory - area.base)
               : memory;
}

static void pin(void *memory, size_t bytes)
{
    add_area(memory, NULL, bytes);
}

static void unpin(void *memory)
{
    remove_area(memory);
}

const struct host_memory fake_cuda_memory = {allocate, release, view, pin, unpin, fake_cuda_faults};

/* ---- streams ---- */

struct event {
    _Atomic uint64_t recorded, reached;
};

struct work {
    void *target;
    const void *source;
    size_t bytes;
    struct event *event; /* or a copy */
    struct work *next;
};

struct stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work *first, *last;
    bool stop, busy;
    unsigned random;
};

/* Words move whole and in order, as a GPU sees them. */
static void move(void *target, const void *source, size_t bytes)
{
    void *to = view(target);
    const void *from = view((void *)(uintptr_t)source);
    uintptr_t both = (uintptr_t)to | (uintptr_t)from;
    if (bytes <= 32 && (both | bytes) % 8 == 0) {
        for (size_t i = 0; i < bytes / 8; i++) {
            uint64_t word = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_ACQUIRE);
            __atomic_store_n((uint64_t *)to + i, word, __ATOMIC_RELEASE);
        }
    } else if (bytes == 4 && both % 4 == 0) {
        __atomic_store_n((uint32_t *)to, __atomic_load_n((const uint32_t *)from, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, bytes);
    }
}

static void *stream_main(void *argument)
{
    struct stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    while (!stream->stop || stream->first != NULL) {
        if (stream->first == NULL) {
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        struct work *work = stream->first;
        stream->first = work->next;
        stream->last = stream->first == NULL ? NULL : stream->last;
        stream->busy = true;
        pthread_mutex_unlock(&stream->lock);
        if (rand_r(&stream->random) % 4 == 0) {
            usleep((unsigned)rand_r(&stream->random) % 60);
        }
        if (work->event != NULL) {
            atomic_fetch_add(&work->event->reached, 1);
        } else {
            move(work->target, work->source, work->bytes);
        }
        free(work);
        pthread_mutex_lock(&stream->lock);
        stream->busy = false;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static void push(struct stream *stream, struct work work)
{
    struct work *copy = malloc(sizeof *copy);
    *copy = work;
    pthread_mutex_lock(&stream->lock);
    if (stream->last != NULL) {
        stream->last->next = copy;
    } else {
        stream->first = copy;
    }
    stream->last = copy;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

/* ---- the driver's functions, under their names in the library ---- */

PRS_PUBLIC int cuPointerGetAttribute(void *out, int attribute, uintptr_t pointer);
PRS_PUBLIC int cuCtxGetCurrent(void **out);
PRS_PUBLIC int cuCtxSetCurrent(void *context);
PRS_PUBLIC int cuStreamCreate(void **out, unsigned flags);
PRS_PUBLIC int cuStreamDestroy_v2(void *handle);
PRS_PUBLIC int cuStreamSynchronize(void *handle);
PRS_PUBLIC int cuEventCreate(void **out, unsigned flags);
PRS_PUBLIC int cuEventDestroy_v2(void *event);
PRS_PUBLIC int cuEventRecord(void *handle, void *stream);
PRS_PUBLIC int cuEventQuery(void *handle);
PRS_PUBLIC int cuMemcpyAsync(uintptr_t target, uintptr_t source, size_t bytes, void *stream);
PRS_PUBLIC int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
PRS_PUBLIC int cuMemHostUnregister(void *memory);
PRS_PUBLIC int cuCtxGetDevice(int *out);
PRS_PUBLIC int cuDeviceGetAttribute(int *out, int attribute, int device);
PRS_PUBLIC int cuGetErrorString(int error, const char **out);

static bool in_context(void)
{
    if (current == NULL) {
        fault("a call without a current context");
    }
    return current != NULL;
}

int cuPointerGetAttribute(void *out, int attribute, uintptr_t pointer)
{
    struct area area;
    if (attribute != 2 || !find_area((void *)pointer, &area)) {
        return INVALID;
    }
    *(unsigned *)out = area.view != NULL ? TYPE_DEVICE : TYPE_HOST;
    return READY;
}

int cuCtxGetCurrent(void **out)
{
    *out = current;
    return READY;
}

int cuCtxSetCurrent(void *context)
{
    current = context;
    return READY;
}

int cuStreamCreate(void **out, unsigned flags)
{
    if (!in_context() || flags != 1) {
        return INVALID;
    }
    struct stream *stream = calloc(1, sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->random = (unsigned)(uintptr_t)stream;
    pthread_create(&stream->thread, NULL, stream_main, stream);
    *out = stream;
    return READY;
}

int cuStreamSynchronize(void *handle)
{
    struct stream *stream = handle;
    pthread_mutex_lock(&stream->lock);
    while (stream->first != NULL || stream->busy) {
        pthread_cond_wait(&stream->changed, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return READY;
}

int cuStreamDestroy_v2(void *handle)
{
    struct stream *stream = handle;
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
    return READY;
}

int cuEventCreate(void **out, unsigned flags)
{
    *out = in_context() && flags == 2 ? calloc(1, sizeof(struct event)) : NULL;
    return *out != NULL ? READY : INVALID;
}

int cuEventDestroy_v2(void *event)
{
    free(event);
    return READY;
}

int cuEventRecord(void *handle, void *stream)
{
    struct event *event = handle;
    if (!in_context()) {
        return NO_CONTEXT;
    }
    atomic_fetch_add(&event->recorded, 1);
    push(stream, (struct work){.event = event});
    return READY;
}

int cuEventQuery(void *handle)
{
    struct event *event = handle;
    if (atomic_load(&broken) != 0) {
        return atomic_load(&broken);
    }
    return atomic_load(&event->reached) == atomic_load(&event->recorded) ? READY : NOT_READY;
}

int cuMemcpyAsync(uintptr_t target, uintptr_t source, size_t bytes, void *stream)
{
    struct area to, from;
    while (atomic_load(&held)) { /* another thread is in a synchronous call */
        usleep(1000);
    }
    if (atomic_load(&broken) != 0) {
        return atomic_load(&broken);
    }
    bool to_known = find_area((void *)target, &to), from_known = find_area((void *)source, &from);
    bool device = (to_known && to.view != NULL) || (from_known && from.view != NULL);
    if (device && (!to_known || !from_known)) {
        fault("a copy between device memory and memory that is not page-locked");
    }
    if (!in_context()) {
        return NO_CONTEXT;
    }
    push(stream,
         (struct work){.target = (void *)target, .source = (const void *)source, .bytes = bytes});
    return READY;
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    if (atomic_load(&refuse) || !in_context() || flags != 1) {
        return INVALID;
    }
    add_area(memory, NULL, bytes);
    return READY;
}

int cuMemHostUnregister(void *memory)
{
    remove_area(memory);
    return READY;
}

int cuGetErrorString(int error, const char **out)
{
    *out = error == INVALID ? "invalid argument" : "some error";
    return READY;
}

int cuCtxGetDevice(int *out)
{
    *out = 0;
    return in_context() ? READY : NO_CONTEXT;
}

int cuDeviceGetAttribute(int *out, int attribute, int device)
{
    *out = atomic_load(&has_atomics);
    return attribute == 86 && device == 0 ? READY : INVALID;
}

static int get_proc_address(const char *name, void **out, int version, uint64_t flags, int *found)
{
    (void)flags;
    static const struct {
        const char *name;
        void *function;
    } rows[] = {
        {"cuPointerGetAttribute", (void *)cuPointerGetAttribute},
        {"cuCtxGetCurrent", (void *)cuCtxGetCurrent},
        {"cuCtxSetCurrent", (void *)cuCtxSetCurrent},
        {"cuStreamCreate", (void *)cuStreamCreate},
        {"cuStreamDestroy", (void *)cuStreamDestroy_v2},
        {"cuStreamSynchronize", (void *)cuStreamSynchronize},
        {"cuEventCreate", (void *)cuEventCreate},
        {"cuEventDestroy", (void *)cuEventDestroy_v2},
        {"cuEventRecord", (void *)cuEventRecord},
        {"cuEventQuery", (void *)cuEventQuery},
        {"cuMemcpyAsync", (void *)cuMemcpyAsync},
        {"cuMemHostRegister", (void *)cuMemHostRegister_v2},
        {"cuMemHostUnregister", (void *)cuMemHostUnregister},
        {"cuGetErrorString", (void *)cuGetErrorString},
        {"cuCtxGetDevice", (void *)cuCtxGetDevice},
        {"cuDeviceGetAttribute", (void *)cuDeviceGetAttribute},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0 && version >= 12000) {
            *out = rows[i].function;
            *found = 0;
            return READY;
        }
    }
    return INVALID;
}

/* From interface 6.0 on this place belongs to other functions of the driver. */
static int not_get_proc_address(void)
{
    fault("a call through a table whose places mean something else");
    return INVALID;
}

static const struct prs_abi_cuda_table table = {
    .entry = {[PRS_ABI_CUDA_GET_PROC_ADDRESS] = (void *)get_proc_address}};
static const struct prs_abi_cuda_table other_table = {
    .entry = {[PRS_ABI_CUDA_GET_PROC_ADDRESS] = (void *)not_get_proc_address}};

const struct prs_abi_cuda_table *fake_cuda_table(int major)
{
    return major <= 5 ? &table : &other_table;
}
