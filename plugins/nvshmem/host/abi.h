/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abi.h: the pieces of NVSHMEM's transport interface, 3.0 to 7.0. Where they lie in the transport
 * object of each interface: interface.h. Restated from measured offsets (docs/nvshmem.md says how);
 * every size and offset is asserted, because the host was compiled by somebody else.
 *
 * Verb and byte descriptors are passed by value; the rest by pointer to objects of the caller that
 * die when the call returns.
 */
#ifndef PRS_NVSHMEM_ABI_H
#define PRS_NVSHMEM_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRS_ABI_HANDLE_BYTES 512

/* What callbacks return. The host tests for non-zero only. */
enum prs_abi_status {
    PRS_ABI_SUCCESS = 0,
    PRS_ABI_INVALID_VALUE = 1,
    PRS_ABI_OUT_OF_MEMORY = 2,
    PRS_ABI_NOT_SUPPORTED = 3,
    PRS_ABI_INTERNAL = 7
};

enum prs_abi_rma { PRS_ABI_PUT = 1, PRS_ABI_P = 2, PRS_ABI_GET = 4, PRS_ABI_G = 5 };

enum prs_abi_amo {
    PRS_ABI_AMO_INC = 2,
    PRS_ABI_AMO_SET = 3,
    PRS_ABI_AMO_ADD = 4,
    PRS_ABI_AMO_AND = 5,
    PRS_ABI_AMO_OR = 6,
    PRS_ABI_AMO_XOR = 7,
    PRS_ABI_AMO_SIGNAL = 8, /* a plain SET; barriers use it */
    PRS_ABI_AMO_SIGNAL_SET = 9,
    PRS_ABI_AMO_SIGNAL_ADD = 10,
    PRS_ABI_AMO_FETCH = 12,
    PRS_ABI_AMO_FETCH_INC = 13,
    PRS_ABI_AMO_FETCH_ADD = 14,
    PRS_ABI_AMO_FETCH_AND = 15,
    PRS_ABI_AMO_FETCH_OR = 16,
    PRS_ABI_AMO_FETCH_XOR = 17,
    PRS_ABI_AMO_SWAP = 18,
    PRS_ABI_AMO_COMPARE_SWAP = 19
};

/* can_reach_peer's answer: the proxy may write, read and do atomics. Never a MAP bit: with one on
 * self the host would not register the heap. */
#define PRS_ABI_CAP_CPU_WRITE   16
#define PRS_ABI_CAP_CPU_READ    32
#define PRS_ABI_CAP_CPU_ATOMICS 64

#define PRS_ABI_ATTR_CONNECTED 2 /* connect_endpoints is wanted */
#define PRS_ABI_PE_ALL         0x8000
#define PRS_ABI_QP_HOST        0
#define PRS_ABI_QP_DEFAULT     1

struct prs_abi_rma_verb {
    int desc; /* enum prs_abi_rma */
    int is_nbi;
    int is_stream;
    void *stream;
};
static_assert(sizeof(struct prs_abi_rma_verb) == 24, "rma verb");

struct prs_abi_rma_memory {
    void *pointer; /* remote: an address of the peer's process */
    uint64_t offset;
    unsigned char *handle; /* PRS_ABI_HANDLE_BYTES, or NULL */
};
static_assert(sizeof(struct prs_abi_rma_memory) == 24, "rma memory");

struct prs_abi_rma_bytes {
    size_t elements;
    int element_bytes;
    ptrdiff_t source_stride, target_stride;
};
static_assert(sizeof(struct prs_abi_rma_bytes) == 32, "rma bytes");

/* Up to 5.0. What follows desc is never written by the host. */
struct prs_abi_amo_verb16 {
    int desc; /* enum prs_abi_amo */
    int is_fetch, is_value, is_cmp;
};
static_assert(sizeof(struct prs_abi_amo_verb16) == 16, "amo verb, up to 5.0");

/* From 6.0 on: four bytes more travel in other registers, so a callback declared with the other one
 * reads shifted arguments. */
struct prs_abi_amo_verb {
    int desc;
    int is_fetch, is_value, is_cmp; /* never written */
    int is_float; /* the word is a half, float or double; written for amo, not for put_signal */
};
static_assert(sizeof(struct prs_abi_amo_verb) == 20, "amo verb");

/* 7.0. Advice on a transfer, which may be ignored. */
struct prs_abi_hints {
    uint32_t flags, hints;
    uint64_t issuer, region;
};
static_assert(sizeof(struct prs_abi_hints) == 24, "hints");

struct prs_abi_amo_memory {
    struct prs_abi_rma_memory remote;
    uint64_t return_flag;
    void *return_pointer; /* where a fetched value goes, in the caller's own heap */
    void *value_pointer, *compare_pointer;
    uint64_t value, compare;
    unsigned char *return_handle;
};
static_assert(sizeof(struct prs_abi_amo_memory) == 80, "amo memory");
static_assert(offsetof(struct prs_abi_amo_memory, return_flag) == 24, "amo memory");
static_assert(offsetof(struct prs_abi_amo_memory, value) == 56, "amo memory");
static_assert(offsetof(struct prs_abi_amo_memory, return_handle) == 72, "amo memory");

struct prs_abi_amo_bytes {
    int name_type;
    int element_bytes;
};
static_assert(sizeof(struct prs_abi_amo_bytes) == 8, "amo bytes");

struct prs_abi_pe_info {
    int pci[3];
    int pe;
    uint64_t host_hash;
    unsigned char gpu_uuid[16];
};
static_assert(sizeof(struct prs_abi_pe_info) == 40, "PE info");

/* A std::vector as libstdc++ and every other vector of three pointers lays it out. Read only. */
struct prs_abi_vector {
    void *begin, *end, *capacity_end;
};
static_assert(sizeof(struct prs_abi_vector) == 24, "vector");

/* Collective calls return 0 when every PE made them; bytes are per PE (per pair). */
struct prs_abi_bootstrap {
    int version;
    int pg_rank, pg_size;
    int node_pe, node_pes;
    int (*allgather)(const void *send, void *receive, int bytes, struct prs_abi_bootstrap *self);
    int (*alltoall)(const void *send, void *receive, int bytes, struct prs_abi_bootstrap *self);
    int (*barrier)(struct prs_abi_bootstrap *self);
    void (*global_exit)(int status);
    int (*finalize)(struct prs_abi_bootstrap *self);
    int (*show_info)(struct prs_abi_bootstrap *self, int style);
    void *pre_init_ops;
    void *comm_state;
};
static_assert(sizeof(struct prs_abi_bootstrap) == 88, "bootstrap");
static_assert(offsetof(struct prs_abi_bootstrap, allgather) == 24, "bootstrap");
static_assert(offsetof(struct prs_abi_bootstrap, comm_state) == 80, "bootstrap");

/* The driver functions that init is handed, up to 5.0: from 6.0 on the places differ. Any entry may
 * be NULL. */
#define PRS_ABI_CUDA_ENTRIES 39
enum prs_abi_cuda_entry { PRS_ABI_CUDA_GET_PROC_ADDRESS = 38 };
struct prs_abi_cuda_table {
    void *entry[PRS_ABI_CUDA_ENTRIES];
};
static_assert(sizeof(struct prs_abi_cuda_table) == 312, "CUDA table");

/* ---- the parts of a transport object ---- */

struct prs_abi_start {
    int api_version;
    int type; /* 0: a plain transport */
    int *cap; /* host */
};
static_assert(sizeof(struct prs_abi_start) == 16, "start");

/* "host": filled by the host after nvshmemt_init returned. */
struct prs_abi_fields {
    struct prs_abi_bootstrap *bootstrap; /* host */
    void *state;
    void *shared_state;
    void *cache_handle; /* host, private */
    char **device_pci_paths;
    int attr;
    int n_devices;
    bool atomics_complete_on_quiet;
    bool is_successfully_initialized;
    bool no_proxy;
    void *heap_base;               /* host */
    size_t log2_cumem_granularity; /* host */
    uint64_t max_op_bytes;
    uint32_t atomic_host_endian_min_bytes;
    int index;        /* host */
    int my_pe, n_pes; /* host */
    void *alias_map;  /* host */
    void *egm_map;    /* host */
};
static_assert(sizeof(struct prs_abi_fields) == 112, "fields");
static_assert(offsetof(struct prs_abi_fields, state) == 8, "fields");
static_assert(offsetof(struct prs_abi_fields, device_pci_paths) == 32, "fields");
static_assert(offsetof(struct prs_abi_fields, attr) == 40, "fields");
static_assert(offsetof(struct prs_abi_fields, n_devices) == 44, "fields");
static_assert(offsetof(struct prs_abi_fields, atomics_complete_on_quiet) == 48, "fields");
static_assert(offsetof(struct prs_abi_fields, is_successfully_initialized) == 49, "fields");
static_assert(offsetof(struct prs_abi_fields, no_proxy) == 50, "fields");
static_assert(offsetof(struct prs_abi_fields, heap_base) == 56, "fields");
static_assert(offsetof(struct prs_abi_fields, max_op_bytes) == 72, "fields");
static_assert(offsetof(struct prs_abi_fields, atomic_host_endian_min_bytes) == 80, "fields");
static_assert(offsetof(struct prs_abi_fields, index) == 84, "fields");
static_assert(offsetof(struct prs_abi_fields, my_pe) == 88, "fields");
static_assert(offsetof(struct prs_abi_fields, n_pes) == 92, "fields");
static_assert(offsetof(struct prs_abi_fields, egm_map) == 104, "fields");

/* `t` is the transport object. `channel`: 0 from user threads; from the proxy thread 1, or from 4.0
 * on a queue pair, never 0. Where a callback has changed, the members of its union say until which
 * interface, or from which on. */
struct prs_abi_ops_head {
    int (*can_reach_peer)(int *access, struct prs_abi_pe_info *peer, void *t);
    union {
        int (*to_3)(void *t, int *devices, int n_devices);
        /* Also called later, for n_qps more queue pairs. */
        int (*from_4)(void *t, int *devices, int n_devices, int *out_qps, int n_qps);
    } connect_endpoints;
    int (*get_mem_handle)(unsigned char *handle, void *buffer, size_t bytes, void *t,
                          bool local_only);
    int (*release_mem_handle)(unsigned char *handle, void *t);
    int (*finalize)(void *t);
    int (*show_info)(void *t, int style);
    int (*progress)(void *t); /* some hosts pass one more int: harmless */
    int (*rma)(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_rma_memory *remote,
               struct prs_abi_rma_memory *local, struct prs_abi_rma_bytes bytes, int channel);
    union {
        int (*to_5)(void *t, int pe, void *unused, struct prs_abi_amo_verb16 verb,
                    struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int channel);
        int (*from_6)(void *t, int pe, void *unused, struct prs_abi_amo_verb verb,
                      struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes,
                      int channel);
    } amo;
    union {
        int (*to_3)(void *t, int pe, int channel);
        int (*from_4)(void *t, int pe, int channel, int is_multi);
    } fence;
    int (*quiet)(void *t, int pe, int channel);
};
static_assert(sizeof(struct prs_abi_ops_head) == 88, "operations");
static_assert(offsetof(struct prs_abi_ops_head, get_mem_handle) == 16, "operations");
static_assert(offsetof(struct prs_abi_ops_head, rma) == 56, "operations");
static_assert(offsetof(struct prs_abi_ops_head, amo) == 64, "operations");
static_assert(offsetof(struct prs_abi_ops_head, quiet) == 80, "operations");

/* From 4.0 on. The vectors are of struct prs_abi_rma_memory (two) and struct prs_abi_rma_bytes, of
 * one length. */
union prs_abi_op_put_signal {
    int (*to_5)(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_vector *remote,
                struct prs_abi_vector *local, struct prs_abi_vector *bytes,
                struct prs_abi_amo_verb16 signal_verb, struct prs_abi_amo_memory *signal,
                struct prs_abi_amo_bytes signal_bytes, int channel);
    int (*from_6)(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_vector *remote,
                  struct prs_abi_vector *local, struct prs_abi_vector *bytes,
                  struct prs_abi_amo_verb signal_verb, struct prs_abi_amo_memory *signal,
                  struct prs_abi_amo_bytes signal_bytes, int channel);
};
static_assert(sizeof(union prs_abi_op_put_signal) == 8, "operations");

struct prs_abi_ops_tail {
    int (*enforce_cst)(void *t);
    int (*enforce_cst_at_target)(void *t);
    int (*add_device_remote_mem_handles)(void *t, int stride, unsigned char *handles,
                                         uint64_t heap_offset, size_t bytes);
};
static_assert(sizeof(struct prs_abi_ops_tail) == 24, "operations");

/* 7.0; both may be NULL. */
struct prs_abi_ops_hints {
    int (*rma_with_hints)(void *t, int pe, struct prs_abi_rma_verb verb,
                          struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
                          struct prs_abi_rma_bytes bytes, int channel,
                          const struct prs_abi_hints *hints);
    int (*region_flush)(void *t, int role, uint64_t issuer, uint64_t region);
};
static_assert(sizeof(struct prs_abi_ops_hints) == 16, "operations");

#endif
