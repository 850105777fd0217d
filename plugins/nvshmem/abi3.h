/* abi3.h: the transport object of interface 3.0 (NVSHMEM 3.4). */
#ifndef PRS_NVSHMEM_ABI3_H
#define PRS_NVSHMEM_ABI3_H

#include "abi.h"

struct prs_abi3_transport;

struct prs_abi3_ops {
    int (*can_reach_peer)(int *access, struct prs_abi_pe_info *peer, struct prs_abi3_transport *t);
    int (*connect_endpoints)(struct prs_abi3_transport *t, int *devices, int n_devices);
    int (*get_mem_handle)(unsigned char *handle, void *buffer, size_t bytes,
                          struct prs_abi3_transport *t, bool local_only);
    int (*release_mem_handle)(unsigned char *handle, struct prs_abi3_transport *t);
    int (*finalize)(struct prs_abi3_transport *t);
    int (*show_info)(struct prs_abi3_transport *t, int style);
    int (*progress)(struct prs_abi3_transport *t);
    int (*rma)(struct prs_abi3_transport *t, int pe, struct prs_abi_rma_verb verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               struct prs_abi_rma_bytes bytes, int is_proxy);
    int (*amo)(struct prs_abi3_transport *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int is_proxy);
    int (*fence)(struct prs_abi3_transport *t, int pe, int is_proxy);
    int (*quiet)(struct prs_abi3_transport *t, int pe, int is_proxy);
    int (*enforce_cst)(struct prs_abi3_transport *t);
    int (*enforce_cst_at_target)(struct prs_abi3_transport *t);
    int (*add_device_remote_mem_handles)(struct prs_abi3_transport *t, int stride,
                                         unsigned char *handles, uint64_t heap_offset,
                                         size_t bytes);
};
static_assert(sizeof(struct prs_abi3_ops) == 112, "3.0 operations");
static_assert(offsetof(struct prs_abi3_ops, get_mem_handle) == 16, "3.0 operations");
static_assert(offsetof(struct prs_abi3_ops, rma) == 56, "3.0 operations");
static_assert(offsetof(struct prs_abi3_ops, quiet) == 80, "3.0 operations");
static_assert(offsetof(struct prs_abi3_ops, enforce_cst) == 88, "3.0 operations");

/* "host": filled by the host after nvshmemt_init returned. */
struct prs_abi3_transport {
    int api_version;
    int type;
    int *cap; /* host */
    struct prs_abi3_ops ops;
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
static_assert(sizeof(struct prs_abi3_transport) == 240, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, cap) == 8, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, ops) == 16, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, bootstrap) == 128, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, state) == 136, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, device_pci_paths) == 160, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, attr) == 168, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, n_devices) == 172, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, atomics_complete_on_quiet) == 176, "3.0");
static_assert(offsetof(struct prs_abi3_transport, is_successfully_initialized) == 177, "3.0");
static_assert(offsetof(struct prs_abi3_transport, no_proxy) == 178, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, heap_base) == 184, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, max_op_bytes) == 200, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, atomic_host_endian_min_bytes) == 208, "3.0");
static_assert(offsetof(struct prs_abi3_transport, index) == 212, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, my_pe) == 216, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, n_pes) == 220, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, egm_map) == 232, "3.0 transport");

#endif
