/* SPDX-License-Identifier: Apache-2.0 */
/* inner.h: the wrapped transport: found, loaded, and called in the form of its interface. */
#ifndef PRS_NVSHMEM_PROFILE_INNER_H
#define PRS_NVSHMEM_PROFILE_INNER_H

#include "base/log.h"
#include "host/interface.h"

struct prs_inner {
    const struct prs_interface *interface;
    void *library; /* NULL: not loaded */
    void *object;
    struct prs_abi_fields *fields;
    struct prs_abi_ops_head *head;
    struct prs_abi_ops_tail *tail;
    union prs_abi_op_put_signal *put_signal; /* NULL before 4.0 */
    struct prs_abi_ops_hints *hints;         /* NULL before 7.0 */
    char path[256];
};

/* Loads `file` from where PERSEUS_PROFILE_INNER says or from beside the host library, and starts
 * it. An enum prs_abi_status, or what its init returned. */
int prs_inner_open(struct prs_inner *inner, const struct prs_interface *interface, const char *file,
                   const void *cuda, int api_version, const struct prs_log *log);
void prs_inner_close(struct prs_inner *inner); /* after its finalize; a zeroed one is allowed */

bool prs_inner_has_fence(const struct prs_inner *inner);
int prs_inner_connect(const struct prs_inner *inner, int *devices, int n_devices, int *out_qps,
                      int n_qps);
int prs_inner_fence(const struct prs_inner *inner, int pe, int channel, int is_multi);
int prs_inner_amo(const struct prs_inner *inner, int pe, const struct prs_abi_amo_verb *verb,
                  struct prs_abi_amo_memory *target, const struct prs_abi_amo_bytes *bytes,
                  int channel);
int prs_inner_put_signal(const struct prs_inner *inner, int pe, const struct prs_abi_rma_verb *verb,
                         struct prs_abi_vector *remote, struct prs_abi_vector *local,
                         struct prs_abi_vector *bytes, const struct prs_abi_amo_verb *signal_verb,
                         struct prs_abi_amo_memory *signal,
                         const struct prs_abi_amo_bytes *signal_bytes, int channel);

#endif
