/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/verbs/device.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/numa.h"

#define CANDIDATES_MAX 64

struct candidate {
    struct ibv_device *device;
    uint8_t port;
    int numa_node;
};

/* ---- GIDs ---- */

int prs_verbs_gid_rank(const struct ibv_gid_entry *entry)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char nothing[16];
    const unsigned char *raw = entry->gid.raw;
    if (memcmp(raw, nothing, sizeof nothing) == 0) {
        return 0;
    }
    if (entry->gid_type == IBV_GID_TYPE_IB) {
        return 1;
    }
    bool is_ipv4 = memcmp(raw, mapped, sizeof mapped) == 0;
    bool is_link_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
    int rank = is_ipv4 ? 4 : is_link_local ? 2 : 3;
    return entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? 10 + rank : rank;
}

static enum perseus_status choose_gid(const struct prs_verbs_library *library,
                                      const struct prs_verbs_settings *settings, int table,
                                      const struct prs_log *log, struct prs_verbs_device *out)
{
    int best = 0;
    for (int i = 0; i < table && i < 256; i++) {
        struct ibv_gid_entry entry = {0};
        if ((settings->gid_index >= 0 && i != settings->gid_index) ||
            library->query_gid_ex(out->context, out->port, (uint32_t)i, &entry, 0, sizeof entry) !=
                0) {
            continue;
        }
        int rank = prs_verbs_gid_rank(&entry);
        if (rank > best) {
            best = rank;
            out->gid = entry.gid;
            out->gid_index = (uint8_t)i;
        }
    }
    if (best > 0) {
        return PERSEUS_OK;
    }
    return prs_fail(log, PERSEUS_NOT_FOUND,
                    "port %u of %s has no GID%s: give its network interface an address, or leave "
                    "PERSEUS_IB_GID_INDEX away",
                    out->port, out->name, settings->gid_index >= 0 ? " at that index" : "");
}

static enum perseus_status choose_pkey(const struct prs_verbs_library *library,
                                       const struct prs_verbs_settings *settings, int table,
                                       const struct prs_log *log, struct prs_verbs_device *out)
{
    for (int i = 0; i < table; i++) {
        __be16 bits = 0;
        if (library->query_pkey(out->context, out->port, i, &bits) != 0) {
            break;
        }
        /* The bytes are those of the wire: high one first. */
        const unsigned char *raw = (const unsigned char *)&bits;
        int key = (raw[0] & 0x7f) << 8 | raw[1];
        if (key != 0 && (settings->pkey < 0 || key == settings->pkey)) {
            out->pkey_index = (uint16_t)i;
            return PERSEUS_OK;
        }
    }
    if (settings->pkey < 0) {
        return PERSEUS_OK; /* RoCE devices may have no table; index 0 it is */
    }
    return prs_fail(log, PERSEUS_NOT_FOUND,
                    "port %u of %s is not in partition 0x%04x (PERSEUS_IB_PKEY): ask who runs the "
                    "subnet manager",
                    out->port, out->name, (unsigned)settings->pkey);
}

/* ---- devices ---- */

static int numa_node_of(const struct ibv_device *device)
{
    char folder[sizeof device->ibdev_path + sizeof "/device"];
    snprintf(folder, sizeof folder, "%s/device", device->ibdev_path);
    return prs_numa_node_of(folder);
}

/* Adds the device's active ports that the settings allow. *what: names of all that were seen. */
static void add_ports(const struct prs_verbs_library *library,
                      const struct prs_verbs_settings *settings, struct ibv_device *device,
                      struct candidate *candidates, uint32_t *n, char *what, size_t what_bytes)
{
    const char *name = library->get_device_name(device);
    struct ibv_context *context = library->open_device(device);
    struct ibv_device_attr attr;
    if (context == NULL || library->query_device(context, &attr) != 0) {
        attr.phys_port_cnt = 0;
    }
    for (uint32_t port = 1; port <= attr.phys_port_cnt; port++) {
        struct ibv_port_attr seen;
        bool is_active = library->query_port(context, (uint8_t)port, &seen) == 0 &&
                         seen.state == IBV_PORT_ACTIVE;
        size_t length = strlen(what);
        snprintf(what + length, what_bytes - length, "%s%s:%u%s", length > 0 ? ", " : "", name,
                 port, is_active ? "" : " (down)");
        if (is_active && *n < CANDIDATES_MAX && prs_verbs_hcas_allow(&settings->hcas, name, port)) {
            candidates[(*n)++] = (struct candidate){
                .device = device, .port = (uint8_t)port, .numa_node = numa_node_of(device)};
        }
    }
    if (context != NULL) {
        library->close_device(context);
    }
}

/* Keeps those of this thread's NUMA node, if there are any. */
static uint32_t nearest(struct candidate *candidates, uint32_t n)
{
    unsigned cpu, node;
    if (getcpu(&cpu, &node) != 0) {
        return n;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (candidates[i].numa_node == (int)node) {
            candidates[kept++] = candidates[i];
        }
    }
    return kept > 0 ? kept : n;
}

static enum perseus_status open_port(const struct prs_verbs_library *library,
                                     const struct prs_verbs_settings *settings,
                                     const struct candidate *chosen, const struct prs_log *log,
                                     struct prs_verbs_device *out)
{
    *out = (struct prs_verbs_device){.port = chosen->port, .numa_node = chosen->numa_node};
    snprintf(out->name, sizeof out->name, "%s", library->get_device_name(chosen->device));
    struct ibv_port_attr port;
    out->context = library->open_device(chosen->device);
    if (out->context == NULL || library->query_device(out->context, &out->attr) != 0 ||
        library->query_port(out->context, out->port, &port) != 0) {
        return prs_fail(log, PERSEUS_IO, "device %s cannot be opened: %s", out->name,
                        strerror(errno));
    }
    out->is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    out->lid = port.lid;
    out->mtu = port.active_mtu;
    out->message_bytes_max = port.max_msg_sz;
    for (enum ibv_mtu mtu = IBV_MTU_256; mtu < out->mtu; mtu++) {
        if (128u << mtu == settings->mtu) {
            out->mtu = mtu;
        }
    }
    enum perseus_status status = choose_gid(library, settings, port.gid_tbl_len, log, out);
    return status == PERSEUS_OK ? choose_pkey(library, settings, port.pkey_tbl_len, log, out)
                                : status;
}

enum perseus_status prs_verbs_device_open(const struct prs_verbs_library *library,
                                          const struct prs_verbs_settings *settings,
                                          uint32_t ordinal, const struct prs_log *log,
                                          struct prs_verbs_device *out)
{
    *out = (struct prs_verbs_device){0};
    int devices = 0;
    struct ibv_device **list = library->get_device_list(&devices);
    struct candidate candidates[CANDIDATES_MAX];
    uint32_t n = 0;
    char what[512] = "";
    for (int i = 0; list != NULL && i < devices; i++) {
        add_ports(library, settings, list[i], candidates, &n, what, sizeof what);
    }
    enum perseus_status status;
    if (n > 0) {
        n = nearest(candidates, n);
        status = open_port(library, settings, &candidates[ordinal % n], log, out);
    } else if (what[0] == '\0') {
        status = prs_fail(log, PERSEUS_NOT_FOUND,
                          "there is no RDMA device here: see `rdma link`, or use fabric libfabric");
    } else {
        status = prs_fail(log, PERSEUS_NOT_FOUND,
                          "no RDMA device with an active port is left by PERSEUS_IB_HCA=\"%s\"; "
                          "there are: %s",
                          prs_env_text(PRS_ENV_IB_HCA), what);
    }
    if (list != NULL) {
        library->free_device_list(list);
    }
    return status;
}
