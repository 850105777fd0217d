/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_heaps.h: PEs of one process whose heaps are GPU memory. */
#ifndef TESTS_DEVICE_GPU_HEAPS_H
#define TESTS_DEVICE_GPU_HEAPS_H

#include "core/check.h"
#include "core/pes.h"

/* NULL: the one for a GPU's heap. The others carry it by way of the host's memory. */
static const char *const fabrics[] = {NULL, "loopback",
#ifdef PERSEUS_HAVE_LIBFABRIC
                                      "libfabric"
#endif
};
#define FABRICS (sizeof fabrics / sizeof fabrics[0])

static inline struct perseus_attr gpu_attr(const char *fabric)
{
    struct perseus_attr attr = pes_attr(0);
    attr.fabric = fabric;
    attr.heap_memory = PERSEUS_MEMORY_GPU;
    return attr;
}

static inline void *allocate(struct perseus_pe *pe, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &memory));
    return memory;
}

#endif
