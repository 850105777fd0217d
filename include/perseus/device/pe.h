/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device/pe.h: what a kernel needs of a PE, as plain data: the host fills it in
 * (perseus/device.h), kernels take it by value (perseus/device.cuh). Valid as C11, C++ and CUDA.
 */
#ifndef PERSEUS_DEVICE_PE_H
#define PERSEUS_DEVICE_PE_H

#include <perseus/status.h>

#include <perseus/device/layout.h>

/* The first thing that went wrong in a kernel, in mapped pinned memory. */
enum perseus_device_fault_kind {
    PERSEUS_DEVICE_FAULT_NONE,
    PERSEUS_DEVICE_FAULT_SIGNAL, /* wait_until passed its deadline */
    PERSEUS_DEVICE_FAULT_ANSWER, /* quiet did: the proxy answers no more */
    PERSEUS_DEVICE_FAULT_RING,   /* the ring stayed full: the proxy takes no more */
    PERSEUS_DEVICE_FAULT_GROUP   /* the leader of the round before did not signal */
};

struct perseus_device_fault {
    uint32_t kind; /* enum perseus_device_fault_kind; written last, with release */
    int32_t peer;  /* whose signal was awaited, -1 unknown */
    uint64_t slot; /* heap offset of the signal word; ring position; answer slot */
    uint64_t found, expected;
    uint32_t block, thread; /* who waited */
};

#define PERSEUS_DEVICE_BUFFERS_MAX 4

/* Memory that puts may take their source from. */
struct perseus_device_buffer {
    unsigned char *base;
    uint64_t bytes;
    uint64_t offset; /* of its base in the window */
    uint32_t window;
};

struct perseus_device_pe {
    struct prs_ring ring; /* its producers' words are in this GPU's memory */
    struct prs_answer *answers;
    uint32_t *answer_uses; /* this GPU's memory: uses of a slot so far, and whether it is taken */
    uint32_t n_answers;
    int32_t my_pe, n_pes;
    unsigned char *heap; /* this PE's, in this GPU's memory */
    uint64_t heap_bytes;
    uint64_t heap_offset; /* of its base, as descriptors count */
    uint32_t n_buffers;
    struct perseus_device_buffer buffers[PERSEUS_DEVICE_BUFFERS_MAX]; /* the heap is the first */
    /* By PE: its heap as this GPU's loads and stores reach it, or NULL: through the proxy. NULL
     * when there is none at all. This GPU's memory. */
    unsigned char **direct;
    uint32_t timeout_ms; /* for room in the ring and for answers */
    struct perseus_device_fault *fault;
    uint32_t *fault_taken; /* this GPU's memory */
};

struct perseus_device_member {
    uint32_t target;
    uint32_t reserved;
    uint64_t signal; /* as descriptors count */
};

/* A descriptor of a round: the fence, a signal, a vector of them, or values of the
 * vector before. */
#define PERSEUS_DEVICE_PART_FENCE 0xffffffffu
struct perseus_device_part {
    uint32_t member; /* the first one of its signal or vector; PERSEUS_DEVICE_PART_FENCE */
    uint32_t first;  /* of values: 1 + how many of the vector's are in front of them, else 0 */
    uint32_t n;      /* members of the signal or vector, or values that are left from `first` on */
    uint32_t piece_end; /* parts below it go into the ring together with this one */
};

/* A signal group in the GPU's memory; its arrays lie behind each other, `n` long. */
struct perseus_device_group {
    uint32_t n;
    uint32_t op;         /* enum perseus_signal_op */
    uint32_t arrived[2]; /* of the round of this parity */
    uint32_t signaled;   /* rounds */
    uint32_t n_parts;
    uint32_t *rounds;                      /* by member: it has put in so many */
    uint64_t *values;                      /* by parity and member */
    struct perseus_device_member *members; /* sorted by target and signal */
    struct perseus_device_part *parts;
};

#endif
