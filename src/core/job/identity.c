/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/identity.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/random.h"

static uint32_t own_version(void)
{
    return PERSEUS_VERSION_MAJOR << 16 | PERSEUS_VERSION_MINOR << 8 | PERSEUS_VERSION_PATCH;
}

/* The boot id tells hosts apart even when they share a name; the name is for kernels without it. */
static void read_host(char out[PRS_HOST_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, out, PRS_HOST_BYTES - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (length <= 0) {
        gethostname(out, PRS_HOST_BYTES - 1);
    }
}

enum perseus_status prs_identity_fill(const struct prs_settings *settings, struct prs_heap *heap,
                                      const struct prs_log *log, struct prs_identity *out)
{
    struct prs_limits limits;
    prs_limits_read("", &limits);
    memset(out, 0, sizeof *out);
    out->cpu_set = limits.cpu_set;
    out->version = own_version();
    out->pes_per_node = settings->pes_per_node;
    out->heap_bytes = settings->heap_bytes;
    out->memory = (uint64_t)settings->link.memory;
    out->device = heap->device;
    out->inode = heap->inode;
    out->pid = (int32_t)getpid();
    out->fd = heap->fd;
    out->heap = (uintptr_t)heap;
    read_host(out->host);
    return prs_random_fill(out->secret, sizeof out->secret)
               ? PERSEUS_OK
               : prs_fail(log, PERSEUS_INTERNAL, "the kernel has no random bytes for a secret");
}

enum perseus_status prs_identity_check(const struct prs_identity *all, int size,
                                       const struct prs_log *log)
{
    const struct prs_identity *first = &all[0];
    for (int pe = 1; pe < size; pe++) {
        const struct prs_identity *other = &all[pe];
        if (other->version != first->version) {
            return prs_fail(log, PERSEUS_VERSION,
                            "PE %d runs Perseus %u.%u.%u but PE 0 runs %u.%u.%u; start every PE "
                            "with the same library",
                            pe, other->version >> 16, other->version >> 8 & 0xff,
                            other->version & 0xff, first->version >> 16, first->version >> 8 & 0xff,
                            first->version & 0xff);
        }
        if (other->heap_bytes != first->heap_bytes) {
            return prs_fail(
                log, PERSEUS_INVALID_ARGUMENT,
                "PE %d has a symmetric heap of %llu bytes but PE 0 has %llu; give every "
                "PE the same heap_bytes (PERSEUS_HEAP_BYTES)",
                pe, (unsigned long long)other->heap_bytes, (unsigned long long)first->heap_bytes);
        }
        if (other->memory != first->memory) {
            return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                            "PE %d has its heap in %s memory but PE 0 in the other; give every PE "
                            "the same heap_memory",
                            pe, other->memory == PRS_MEMORY_CUDA ? "a GPU's" : "host");
        }
        if (other->pes_per_node != first->pes_per_node) {
            return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                            "PE %d has pes_per_node %u but PE 0 has %u; give every PE the same "
                            "(PERSEUS_PES_PER_NODE)",
                            pe, other->pes_per_node, first->pes_per_node);
        }
    }
    return PERSEUS_OK;
}
