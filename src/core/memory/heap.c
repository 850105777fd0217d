/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

/* An object beyond the limit of file sizes is a SIGXFSZ, which ends the process. */
static enum perseus_status check_file_limit(size_t bytes, const struct prs_log *log)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        bytes > limit.rlim_cur) {
        return prs_fail(log, PERSEUS_LIMIT,
                        "a symmetric heap of %zu bytes is beyond the limit of %llu for the size of "
                        "a file; raise it (ulimit -f) or ask for a smaller heap (heap_bytes, "
                        "PERSEUS_HEAP_BYTES)",
                        bytes, (unsigned long long)limit.rlim_cur);
    }
    return PERSEUS_OK;
}

/* Seals keep every mapping safe: nobody can shrink the object under a peer's feet. */
static bool map_object(struct prs_heap *heap)
{
    struct stat info;
    heap->fd = memfd_create("perseus-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (heap->fd < 0 || ftruncate(heap->fd, (off_t)heap->bytes) != 0 ||
        fcntl(heap->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
        fstat(heap->fd, &info) != 0) {
        return false;
    }
    heap->device = info.st_dev;
    heap->inode = info.st_ino;
    void *base =
        mmap(NULL, heap->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap->fd, 0);
    if (base == MAP_FAILED) {
        return false;
    }
    heap->base = base;
    return true;
}

enum perseus_status prs_heap_create(size_t bytes, const struct prs_log *log, struct prs_heap **out)
{
    enum perseus_status status = check_file_limit(PRS_HEAP_RESERVED + bytes, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_limits limits;
    prs_limits_read("", &limits);
    struct prs_heap *heap = calloc(1, sizeof *heap);
    if (heap == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the heap's records");
    }
    atomic_init(&heap->shares, 1);
    heap->fd = -1;
    heap->bytes = PRS_HEAP_RESERVED + bytes;
    heap->touched_bytes = PRS_HEAP_RESERVED;
    heap->takes_pages = limits.strict_memory;
    status = prs_allocator_create(bytes, &heap->allocator);
    if (status == PERSEUS_OK && !map_object(heap)) {
        status = PERSEUS_OUT_OF_MEMORY;
    }
    if (status != PERSEUS_OK) {
        int error = errno;
        prs_heap_destroy(heap);
        return prs_fail(log, status,
                        "cannot create a symmetric heap of %zu bytes: %s; ask for a smaller one "
                        "(heap_bytes, PERSEUS_HEAP_BYTES)",
                        bytes, strerror(error));
    }
    *out = heap;
    return PERSEUS_OK;
}

enum perseus_status prs_heap_create_gpu(size_t bytes, const struct prs_gpu_side_config *config,
                                        struct prs_heap **out)
{
    struct prs_heap *heap = calloc(1, sizeof *heap);
    if (heap == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for the heap's records");
    }
    atomic_init(&heap->shares, 1);
    heap->fd = -1;
    heap->bytes = PRS_HEAP_RESERVED + bytes;
    heap->touched_bytes = PRS_HEAP_RESERVED;
    struct prs_gpu_side_config own = *config;
    own.heap_bytes = heap->bytes;
    own.heap_offset = PRS_HEAP_RESERVED;
    enum perseus_status status = prs_allocator_create(bytes, &heap->allocator);
    if (status == PERSEUS_OK) {
        status = prs_gpu_side_open(&own, &heap->gpu);
    }
    if (status != PERSEUS_OK) {
        prs_heap_destroy(heap);
        return status;
    }
    heap->base = heap->gpu->heap;
    *out = heap;
    return PERSEUS_OK;
}

struct prs_heap *prs_heap_share(struct prs_heap *heap)
{
    /* Relaxed: whoever shares was told of the heap by its owner, who holds a share. */
    atomic_fetch_add_explicit(&heap->shares, 1, memory_order_relaxed);
    return heap;
}

void prs_heap_destroy(struct prs_heap *heap)
{
    /* With itself: what every holder did to the heap is done before the last one frees it. */
    if (heap == NULL || atomic_fetch_sub_explicit(&heap->shares, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (heap->gpu != NULL) {
        prs_gpu_side_close(heap->gpu);
    } else if (heap->base != NULL) {
        munmap(heap->base, heap->bytes);
    }
    prs_heap_close_fd(heap);
    prs_allocator_destroy(heap->allocator);
    free(heap);
}

void prs_heap_close_fd(struct prs_heap *heap)
{
    if (heap->fd >= 0) {
        close(heap->fd);
        heap->fd = -1;
    }
}

/* The pages of [offset, offset + bytes), before anybody uses them: those that the kernel cannot
 * give are an error here and a SIGBUS there. */
static enum perseus_status take_pages(const struct prs_heap *heap, size_t offset, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = offset / page * page;
    size_t end = (offset + bytes + page - 1) / page * page;
    end = end < heap->bytes ? end : heap->bytes;
    bool is_known = madvise(heap->base + first, end - first, MADV_POPULATE_WRITE) == 0 ||
                    errno == EINVAL; /* a kernel before 5.14: as it was */
    return is_known ? PERSEUS_OK : PERSEUS_OUT_OF_MEMORY;
}

/* What was handed out before, and is about to be again. */
static enum perseus_status zero(struct prs_heap *heap, size_t offset, size_t bytes)
{
    if (heap->gpu != NULL) {
        return prs_gpu_side_zero(heap->gpu, heap->base + offset, bytes);
    }
    memset(heap->base + offset, 0, bytes);
    return PERSEUS_OK;
}

enum perseus_status prs_heap_take(struct prs_heap *heap, size_t bytes, uint64_t *out_offset)
{
    size_t block;
    enum perseus_status status = prs_allocator_take(heap->allocator, bytes, &block);
    if (status != PERSEUS_OK) {
        return status;
    }
    size_t offset = PRS_HEAP_RESERVED + block;
    if (heap->takes_pages && take_pages(heap, offset, bytes) != PERSEUS_OK) {
        prs_allocator_give(heap->allocator, block);
        return PERSEUS_OUT_OF_MEMORY;
    }
    if (offset < heap->touched_bytes) {
        size_t used_before = heap->touched_bytes - offset;
        status = zero(heap, offset, bytes < used_before ? bytes : used_before);
    }
    if (status != PERSEUS_OK) {
        prs_allocator_give(heap->allocator, block);
        return status;
    }
    if (offset + bytes > heap->touched_bytes) {
        heap->touched_bytes = offset + bytes;
    }
    *out_offset = offset;
    return PERSEUS_OK;
}

enum perseus_status prs_heap_load(const struct prs_heap *heap, uint64_t offset, uint64_t *out)
{
    const uint64_t *word = (const uint64_t *)(const void *)(heap->base + offset);
    if (heap->gpu != NULL) {
        return prs_gpu_side_load(heap->gpu, word, out);
    }
    *out = perseus_signal_fetch(word);
    return PERSEUS_OK;
}

enum perseus_status prs_heap_give(struct prs_heap *heap, uint64_t offset)
{
    return prs_allocator_give(heap->allocator, (size_t)offset - PRS_HEAP_RESERVED);
}

bool prs_heap_holds(const struct prs_heap *heap, uint64_t offset)
{
    return prs_allocator_holds(heap->allocator, (size_t)offset - PRS_HEAP_RESERVED);
}
