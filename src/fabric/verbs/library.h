/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: libibverbs itself, loaded when it is first asked for something, so that hosts without
 * it run everything else. What its header does inline (post, poll) goes through the objects it
 * makes. */
#ifndef PRS_VERBS_LIBRARY_H
#define PRS_VERBS_LIBRARY_H

#include <infiniband/verbs.h>

/* As in verbs(7); `query_port` and `query_gid_ex` are calls here. */
struct prs_verbs_library {
    struct ibv_device **(*get_device_list)(int *out_n);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *out);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *out);
    int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *out, uint32_t flags, size_t entry_bytes);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *out);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *base, size_t bytes, int access);
    /* NULL: the library is older than 34. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *user,
                                struct ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **out_cq, void **out_user);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
    struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
    int (*destroy_srq)(struct ibv_srq *srq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
    int (*destroy_ah)(struct ibv_ah *ah);
    const char *(*wc_status_str)(enum ibv_wc_status status);
};

/* NULL if there is none that can be loaded; any thread. */
const struct prs_verbs_library *prs_verbs_library(void);
/* Why there is none. */
const char *prs_verbs_library_error(void);

#endif
