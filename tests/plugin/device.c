/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: what NVSHMEM makes of device and host API calls, as calls of the transport. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

#define WAIT_S  20
#define GARBAGE (-1) /* in fields that NVSHMEM never writes */

static unsigned char *blob(struct host_pe *pe, int target, size_t offset)
{
    size_t chunk = offset / HOST_CHUNK_BYTES;
    return pe->blobs + (chunk * (size_t)pe->n_pes + (size_t)target) * PRS_ABI_HANDLE_BYTES;
}

static struct prs_abi_rma_memory remote_at(struct host_pe *pe, int target, size_t offset)
{
    return (struct prs_abi_rma_memory){
        .pointer = pe->heaps[target] + offset,
        .offset = offset % HOST_CHUNK_BYTES,
        .handle = blob(pe, target, offset),
    };
}

static bool in_heap(struct host_pe *pe, const void *local)
{
    return (const unsigned char *)local >= pe->heap &&
           (const unsigned char *)local < pe->heap + HOST_HEAP_BYTES;
}

static struct prs_abi_rma_memory local_at(struct host_pe *pe, const void *local)
{
    bool ours = in_heap(pe, local);
    size_t offset = ours ? (size_t)((const unsigned char *)local - pe->heap) : 0;
    return (struct prs_abi_rma_memory){
        .pointer = (void *)(uintptr_t)local,
        .offset = UINT64_MAX, /* the host leaves it undefined */
        .handle = ours ? blob(pe, pe->rank, offset) : NULL,
    };
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What may go in one operation: up to the borders of both sides' chunks and the transport's
 * limit. */
static size_t step_bytes(struct host_pe *pe, size_t offset, const unsigned char *local,
                         size_t bytes)
{
    bytes = least(bytes, HOST_CHUNK_BYTES - offset % HOST_CHUNK_BYTES);
    if (in_heap(pe, local)) {
        bytes = least(bytes, HOST_CHUNK_BYTES - (size_t)(local - pe->heap) % HOST_CHUNK_BYTES);
    }
    return least(bytes, (size_t)pe->fields->max_op_bytes);
}

static int transfer(struct host_pe *pe, bool proxy, int desc, int target, size_t offset,
                    const void *local, size_t bytes, bool nbi)
{
    const unsigned char *at = local;
    int failed = 0;
    while (bytes > 0 && failed == 0) {
        size_t step = step_bytes(pe, offset, at, bytes);
        struct prs_abi_rma_memory there = remote_at(pe, target, offset), here = local_at(pe, at);
        failed = host_rma(
            pe, proxy, target,
            (struct prs_abi_rma_verb){.desc = desc, .is_nbi = nbi, .is_stream = GARBAGE}, &there,
            &here,
            (struct prs_abi_rma_bytes){
                .elements = step, .element_bytes = 1, .source_stride = 1, .target_stride = 1});
        memset(&there, 0xa5, sizeof there);
        memset(&here, 0xa5, sizeof here);
        offset += step;
        at += step;
        bytes -= step;
    }
    return failed;
}

static int put_value(struct host_pe *pe, bool proxy, int target, size_t offset, uint64_t value,
                     int bytes)
{
    volatile uint64_t on_stack = value;
    struct prs_abi_rma_memory there = remote_at(pe, target, offset);
    struct prs_abi_rma_memory here = {.pointer = (void *)(uintptr_t)&on_stack, .handle = NULL};
    int failed =
        host_rma(pe, proxy, target, (struct prs_abi_rma_verb){.desc = PRS_ABI_P}, &there, &here,
                 (struct prs_abi_rma_bytes){.elements = 1,
                                            .element_bytes = bytes,
                                            .source_stride = GARBAGE,
                                            .target_stride = GARBAGE});
    on_stack = 0xdeadbeefdeadbeefu;
    return failed;
}

static int for_all(struct host_pe *pe, bool proxy, bool with_self,
                   int (*call)(struct host_pe *pe, bool proxy, int target))
{
    int failed = 0;
    for (int target = 0; target < pe->n_pes && failed == 0; target++) {
        failed = with_self || target != pe->rank ? call(pe, proxy, target) : 0;
    }
    return failed;
}

/* ---- device ---- */

int device_put(struct host_pe *pe, int target, size_t offset, const void *local, size_t bytes)
{
    return transfer(pe, true, PRS_ABI_PUT, target, offset, local, bytes, true);
}

int device_get(struct host_pe *pe, int target, size_t offset, void *local, size_t bytes)
{
    return transfer(pe, true, PRS_ABI_GET, target, offset, local, bytes, true);
}

int device_p(struct host_pe *pe, int target, size_t offset, uint64_t value, int bytes)
{
    return put_value(pe, true, target, offset, value, bytes);
}

static int amo(struct host_pe *pe, int target, int desc, size_t offset, int bytes, uint64_t value,
               uint64_t compare, void *result, uint64_t flag)
{
    struct prs_abi_amo_memory memory = {
        .remote = remote_at(pe, target, offset),
        .return_flag = flag,
        .return_pointer = result,
        .value = value,
        .compare = compare,
        .return_handle = result != NULL ? blob(pe, pe->rank, 0) : NULL,
    };
    int failed =
        host_amo(pe, target, desc & ~DEVICE_FLOAT, (desc & DEVICE_FLOAT) != 0, &memory, bytes);
    memset(&memory, 0xa5, sizeof memory);
    return failed;
}

int device_amo(struct host_pe *pe, int target, int desc, size_t offset, int bytes, uint64_t value,
               uint64_t compare)
{
    return amo(pe, target, desc, offset, bytes, value, compare, NULL, 0);
}

int device_fetch(struct host_pe *pe, int target, int desc, size_t offset, int bytes, uint64_t value,
                 uint64_t compare, size_t slot, uint64_t *out_old)
{
    const uint64_t untouched = 0x5a5a5a5a5a5a5a5au;
    uint64_t poison = UINT64_MAX;
    memcpy(pe->view + slot, &poison, sizeof poison);
    memcpy(pe->view + slot + 8, &untouched, sizeof untouched);
    int failed = amo(pe, target, desc, offset, bytes, value, compare, pe->heap + slot, 2 * 5 + 1);
    if (failed == 0) {
        failed = device_quiet(pe);
    }
    *out_old = 0;
    memcpy(out_old, pe->view + slot, (size_t)bytes);
    /* In complete-on-quiet mode the flag is the GPU's, and so is what lies beside the result. */
    CHECK(pe, memcmp(pe->view + slot + 8, &untouched, sizeof untouched) == 0);
    CHECK(pe, memcmp(pe->view + slot + bytes, &poison, 8 - (size_t)bytes) == 0);
    return failed;
}

int device_fence(struct host_pe *pe)
{
    bool lost = !pe->interface->passes_fences && pe->spec->drops_fences;
    return lost || !host_has_fence(pe) ? 0 : for_all(pe, true, false, host_fence);
}

int device_quiet(struct host_pe *pe)
{
    return for_all(pe, true, true, host_quiet);
}

static int put_signal(struct host_pe *pe, int target, size_t offset, const void *local,
                      size_t bytes, struct prs_abi_amo_memory *signal, int signal_desc)
{
    struct prs_abi_rma_memory there[8], here[8];
    struct prs_abi_rma_bytes sizes[8];
    const unsigned char *at = local;
    size_t count = 0;
    while (bytes > 0) {
        size_t step = step_bytes(pe, offset, at, bytes);
        there[count] = remote_at(pe, target, offset);
        here[count] = local_at(pe, at);
        sizes[count] = (struct prs_abi_rma_bytes){
            .elements = step, .element_bytes = 1, .source_stride = 1, .target_stride = 1};
        count++;
        offset += step;
        at += step;
        bytes -= step;
    }
    struct prs_abi_vector remote = {count > 0 ? there : NULL, count > 0 ? there + count : NULL,
                                    there + 8};
    struct prs_abi_vector source = {count > 0 ? here : NULL, count > 0 ? here + count : NULL,
                                    here + 8};
    struct prs_abi_vector lengths = {count > 0 ? sizes : NULL, count > 0 ? sizes + count : NULL,
                                     sizes + 8};
    int failed = host_put_signal(pe, target, &remote, &source, &lengths, signal_desc, signal);
    memset(there, 0xa5, sizeof there);
    memset(here, 0xa5, sizeof here);
    memset(sizes, 0xa5, sizeof sizes);
    return failed;
}

int device_put_signal(struct host_pe *pe, int target, size_t offset, const void *local,
                      size_t bytes, size_t signal, uint64_t value, int signal_desc)
{
    if (pe->interface->put_signal_at != 0) {
        struct prs_abi_amo_memory memory = {.remote = remote_at(pe, target, signal),
                                            .value = value};
        int failed = put_signal(pe, target, offset, local, bytes, &memory, signal_desc);
        memset(&memory, 0xa5, sizeof memory);
        return failed;
    }
    int failed = device_put(pe, target, offset, local, bytes);
    if (failed == 0) {
        failed = device_fence(pe);
    }
    return failed != 0 ? failed : device_amo(pe, target, signal_desc, signal, 8, value, 0);
}

uint64_t host_word(struct host_pe *pe, size_t offset)
{
    return __atomic_load_n((uint64_t *)(void *)(pe->view + offset), __ATOMIC_ACQUIRE);
}

bool device_wait(struct host_pe *pe, size_t offset, uint64_t value)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (host_word(pe, offset) < value) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (host_progress(pe) != 0 || now.tv_sec - start.tv_sec > WAIT_S) {
            return false;
        }
        usleep(1);
    }
    return true;
}

bool device_barrier(struct host_pe *pe, size_t flags, uint64_t *count)
{
    (*count)++;
    if (device_quiet(pe) != 0) {
        return false;
    }
    size_t slot = flags;
    for (int distance = 1; distance < pe->n_pes; distance *= 2, slot += 8) {
        int target = (pe->rank + distance) % pe->n_pes;
        if (device_amo(pe, target, PRS_ABI_AMO_SIGNAL, slot, 8, *count, 0) != 0 ||
            !device_wait(pe, slot, *count)) {
            return false;
        }
    }
    return true;
}

/* ---- user thread ---- */

int user_put(struct host_pe *pe, int target, size_t offset, const void *local, size_t bytes,
             bool nbi)
{
    return transfer(pe, false, PRS_ABI_PUT, target, offset, local, bytes, nbi);
}

int user_get(struct host_pe *pe, int target, size_t offset, void *local, size_t bytes, bool nbi)
{
    return transfer(pe, false, PRS_ABI_GET, target, offset, local, bytes, nbi);
}

int user_p(struct host_pe *pe, int target, size_t offset, uint64_t value, int bytes)
{
    return put_value(pe, false, target, offset, value, bytes);
}

int user_fence(struct host_pe *pe)
{
    return host_has_fence(pe) ? for_all(pe, false, true, host_fence) : 0;
}

int user_quiet(struct host_pe *pe)
{
    return for_all(pe, false, true, host_quiet);
}
