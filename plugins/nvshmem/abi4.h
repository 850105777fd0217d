/* abi4.h: the transport object of interface 4.0 (NVSHMEM 3.5). Calls name a queue pair instead of a
 * thread class, put_signal is new, and the operations moved to the end of the object. */
#ifndef PRS_NVSHMEM_ABI4_H
#define PRS_NVSHMEM_ABI4_H

#include "abi.h"

struct prs_abi4_transport;

struct prs_abi4_ops {
    int (*can_reach_peer)(int *access, struct prs_abi_pe_info *peer, struct prs_abi4_transport *t);
    int (*connect_endpoints)(struct prs_abi4_transport *t, int *devices, int n_devices,
                             int *out_qps, int n_qps);
    int (*get_mem_handle)(unsigned char *handle, void *buffer, size_t bytes,
                          struct prs_abi4_transport *t, bool local_only);
    int (*release_mem_handle)(unsigned char *handle, struct prs_abi4_transport *t);
    int (*finalize)(struct prs_abi4_transport *t);
    int (*show_info)(struct prs_abi4_transport *t, int style);
    int (*progress)(struct prs_abi4_transport *t); /* some hosts pass one more int: harmless */
    int (*rma)(struct prs_abi4_transport *t, int pe, struct prs_abi_rma_verb verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               struct prs_abi_rma_bytes bytes, int qp);
    int (*amo)(struct prs_abi4_transport *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int qp);
    int (*fence)(struct prs_abi4_transport *t, int pe, int qp, int is_multi);
    int (*quiet)(struct prs_abi4_transport *t, int pe, int qp);
    /* vectors of struct prs_abi_rma_memory (two) and struct prs_abi_rma_bytes, of one length */
    int (*put_signal)(struct prs_abi4_transport *t, int pe, struct prs_abi_rma_verb verb,
                      struct prs_abi_vector *remote, struct prs_abi_vector *local,
                      struct prs_abi_vector *bytes, struct prs_abi_amo_verb signal_verb,
                      struct prs_abi_amo_memory *signal, struct prs_abi_amo_bytes signal_bytes,
                      int qp);
    int (*enforce_cst)(struct prs_abi4_transport *t);
    int (*enforce_cst_at_target)(struct prs_abi4_transport *t);
    int (*add_device_remote_mem_handles)(struct prs_abi4_transport *t, int stride,
                                         unsigned char *handles, uint64_t heap_offset,
                                         size_t bytes);
};
static_assert(sizeof(struct prs_abi4_ops) == 120, "4.0 operations");
static_assert(offsetof(struct prs_abi4_ops, rma) == 56, "4.0 operations");
static_assert(offsetof(struct prs_abi4_ops, quiet) == 80, "4.0 operations");
static_assert(offsetof(struct prs_abi4_ops, put_signal) == 88, "4.0 operations");
static_assert(offsetof(struct prs_abi4_ops, enforce_cst) == 96, "4.0 operations");

/* "host": filled by the host after nvshmemt_init returned. */
struct prs_abi4_transport {
    int api_version;
    int type;
    int *cap;                            /* host */
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
    struct prs_abi4_ops ops;
};
static_assert(sizeof(struct prs_abi4_transport) == 248, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, cap) == 8, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, bootstrap) == 16, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, state) == 24, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, device_pci_paths) == 48, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, attr) == 56, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, n_devices) == 60, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, atomics_complete_on_quiet) == 64, "4.0");
static_assert(offsetof(struct prs_abi4_transport, is_successfully_initialized) == 65, "4.0");
static_assert(offsetof(struct prs_abi4_transport, no_proxy) == 66, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, heap_base) == 72, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, max_op_bytes) == 88, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, atomic_host_endian_min_bytes) == 96, "4.0");
static_assert(offsetof(struct prs_abi4_transport, index) == 100, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, my_pe) == 104, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, n_pes) == 108, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, egm_map) == 120, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, ops) == 128, "4.0 transport");

#endif
