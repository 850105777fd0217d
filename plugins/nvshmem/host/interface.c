/* SPDX-License-Identifier: Apache-2.0 */
#include "host/interface.h"

#define OPS    (sizeof(struct prs_abi_ops_head) + sizeof(union prs_abi_op_put_signal))
#define FIELDS sizeof(struct prs_abi_fields)
#define START  sizeof(struct prs_abi_start)

/* From 4.0 on the fields come before the operations. */
#define HEAD       (START + FIELDS)
#define PUT_SIGNAL (HEAD + sizeof(struct prs_abi_ops_head))
#define TAIL       (HEAD + OPS)
#define HINTS      (TAIL + sizeof(struct prs_abi_ops_tail))

static const struct prs_interface interfaces[] = {
    {.major = 3,
     .nvshmem = "3.3 and 3.4",
     .bytes = 240,
     .fields_at = 128,
     .head_at = 16,
     .tail_at = 104,
     .has_cuda_table = true,
     .passes_fences = true},
    {.major = 4,
     .nvshmem = "3.5",
     .bytes = 248,
     .fields_at = 16,
     .head_at = HEAD,
     .put_signal_at = PUT_SIGNAL,
     .tail_at = TAIL,
     .has_queue_pairs = true,
     .has_cuda_table = true},
    {.major = 5,
     .nvshmem = "3.6",
     .bytes = 248,
     .fields_at = 16,
     .head_at = HEAD,
     .put_signal_at = PUT_SIGNAL,
     .tail_at = TAIL,
     .has_queue_pairs = true,
     .has_cuda_table = true},
    {.major = 6,
     .nvshmem = "3.7",
     .bytes = 256,
     .fields_at = 16,
     .head_at = HEAD,
     .put_signal_at = PUT_SIGNAL,
     .tail_at = TAIL,
     .device_mode_at = 248,
     .has_queue_pairs = true,
     .has_floats = true},
    {.major = 7,
     .nvshmem = "3.8",
     .bytes = 272,
     .fields_at = 16,
     .head_at = HEAD,
     .put_signal_at = PUT_SIGNAL,
     .tail_at = TAIL,
     .hints_at = HINTS,
     .device_mode_at = 264,
     .has_queue_pairs = true,
     .has_floats = true},
};
#define COUNT (sizeof interfaces / sizeof interfaces[0])

static_assert(HEAD == 128 && PUT_SIGNAL == 216 && TAIL == 224 && HINTS == 248, "as measured");
static_assert(COUNT == PRS_INTERFACE_LAST - PRS_INTERFACE_FIRST + 1, "a row for each");

const struct prs_interface *prs_interface_find(int major)
{
    return major < PRS_INTERFACE_FIRST || major > PRS_INTERFACE_LAST
               ? NULL
               : &interfaces[major - PRS_INTERFACE_FIRST];
}

enum perseus_status prs_interface_negotiate(int host_version, const struct prs_log *log,
                                            const struct prs_interface **out, int *out_version)
{
    const struct prs_interface *interface = prs_interface_find(host_version / 10000);
    if (interface == NULL) {
        return prs_fail(log, PERSEUS_VERSION,
                        "this NVSHMEM speaks transport interface %d.%d, Perseus speaks 3.0 to 7.0 "
                        "(NVSHMEM 3.3 to 3.8): use one of those, or NVSHMEM's own transport",
                        host_version / 10000, host_version / 100 % 100);
    }
    int own = interface->major * 10000;
    *out = interface;
    *out_version = host_version < own ? host_version : own;
    return PERSEUS_OK;
}
