/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: the device, port and GID that a fabric uses. */
#ifndef PRS_VERBS_DEVICE_H
#define PRS_VERBS_DEVICE_H

#include "fabric/verbs/library.h"
#include "fabric/verbs/settings.h"

struct prs_verbs_device {
    struct ibv_context *context;
    char name[PRS_VERBS_NAME_MAX];
    uint8_t port;
    bool is_ethernet; /* RoCE: addressed by GID; else by LID, and by GID across subnets */
    uint16_t lid;
    union ibv_gid gid;
    uint8_t gid_index;
    uint16_t pkey_index;
    enum ibv_mtu mtu;
    uint32_t message_bytes_max;
    int numa_node;
    struct ibv_device_attr attr;
};

/* Opens one of the devices that the settings allow and that have an active port: of those nearest
 * to this CPU's NUMA node the `ordinal`-th, round and round. NOT_FOUND, with what there is. */
enum perseus_status prs_verbs_device_open(const struct prs_verbs_library *library,
                                          const struct prs_verbs_settings *settings,
                                          uint32_t ordinal, const struct prs_log *log,
                                          struct prs_verbs_device *out);

/* How good a GID is to be reached by; 0: not at all. RoCE v2 over v1, which routers do not take;
 * then an IPv4 address, then an IPv6 address that others can reach. */
int prs_verbs_gid_rank(const struct ibv_gid_entry *entry);

#endif
