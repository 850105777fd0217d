/* SPDX-License-Identifier: Apache-2.0 */
#include "base/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of an address of either family, and how many there are; 0: another family. */
static const unsigned char *address_bytes(const struct sockaddr *address, size_t *out_count)
{
    *out_count = 0;
    if (address != NULL && address->sa_family == AF_INET) {
        *out_count = sizeof(struct in_addr);
        return (const unsigned char *)&((const struct sockaddr_in *)address)->sin_addr;
    }
    if (address != NULL && address->sa_family == AF_INET6) {
        *out_count = sizeof(struct in6_addr);
        return (const unsigned char *)&((const struct sockaddr_in6 *)address)->sin6_addr;
    }
    return NULL;
}

/* A link-local address means nothing without its interface, which a peer would have to name anew. */
static bool can_serve(const struct ifaddrs *entry)
{
    if ((entry->ifa_flags & IFF_UP) == 0 || entry->ifa_addr == NULL) {
        return false;
    }
    return entry->ifa_addr->sa_family == AF_INET ||
           (entry->ifa_addr->sa_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr));
}

struct subnet {
    unsigned char bytes[sizeof(struct in6_addr)];
    size_t count;
    unsigned bits;
};

static bool subnet_parse(const char *text, struct subnet *out)
{
    char address[INET6_ADDRSTRLEN] = "";
    const char *slash = strchr(text, '/');
    if (slash == NULL || (size_t)(slash - text) >= sizeof address || slash[1] < '0' ||
        slash[1] > '9') {
        return false;
    }
    memcpy(address, text, (size_t)(slash - text));
    char *end;
    unsigned long bits = strtoul(slash + 1, &end, 10);
    if (inet_pton(AF_INET, address, out->bytes) == 1) {
        out->count = sizeof(struct in_addr);
    } else if (inet_pton(AF_INET6, address, out->bytes) == 1) {
        out->count = sizeof(struct in6_addr);
    } else {
        return false;
    }
    out->bits = (unsigned)bits;
    return *end == '\0' && bits <= 8 * out->count;
}

static bool subnet_has(const struct subnet *subnet, const struct sockaddr *address)
{
    size_t count, whole = subnet->bits / 8;
    const unsigned char *bytes = address_bytes(address, &count);
    if (bytes == NULL || count != subnet->count || memcmp(bytes, subnet->bytes, whole) != 0) {
        return false;
    }
    unsigned rest = subnet->bits % 8, mask = 0xff00u >> rest & 0xffu;
    return rest == 0 || (bytes[whole] & mask) == (subnet->bytes[whole] & mask);
}

/* IPv4 before IPv6 (subnet NULL: of the interface `name`); within a family the kernel's order. */
static const struct ifaddrs *find(const struct ifaddrs *all, const char *name,
                                  const struct subnet *subnet)
{
    const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next) {
            if (can_serve(entry) && entry->ifa_addr->sa_family == families[i] &&
                (subnet != NULL ? subnet_has(subnet, entry->ifa_addr)
                                : strcmp(entry->ifa_name, name) == 0)) {
                return entry;
            }
        }
    }
    return NULL;
}

static void format(const struct sockaddr *address, char out[PRS_LOCAL_ADDRESS_BYTES])
{
    size_t count;
    const unsigned char *bytes = address_bytes(address, &count);
    if (inet_ntop(address->sa_family, bytes, out, PRS_LOCAL_ADDRESS_BYTES) == NULL) {
        out[0] = '\0';
    }
}

static enum perseus_status fail(const char *text, const struct ifaddrs *all,
                                const struct prs_log *log)
{
    char list[512] = "", address[PRS_LOCAL_ADDRESS_BYTES];
    size_t used = 0;
    for (const struct ifaddrs *entry = all; entry != NULL && used < sizeof list;
         entry = entry->ifa_next) {
        if (can_serve(entry)) {
            format(entry->ifa_addr, address);
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s %s",
                                     used > 0 ? ", " : "", entry->ifa_name, address);
        }
    }
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                    "'%s', given to bind, is no numeric address, and no interface or subnet in "
                    "which this host has an address; there are: %s",
                    text, list);
}

enum perseus_status prs_local_address(const char *text, const struct prs_log *log,
                                      char out[PRS_LOCAL_ADDRESS_BYTES])
{
    struct in6_addr scratch;
    struct subnet subnet = {.count = 0};
    bool is_scoped = strchr(text, '%') != NULL; /* fe80::1%eth0 */
    if (is_scoped || inet_pton(AF_INET, text, &scratch) == 1 ||
        inet_pton(AF_INET6, text, &scratch) == 1) {
        if (strlen(text) >= PRS_LOCAL_ADDRESS_BYTES) {
            return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "'%s' is too long for an address", text);
        }
        memcpy(out, text, strlen(text) + 1);
        return PERSEUS_OK;
    }
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        return prs_fail(log, PERSEUS_IO,
                        "cannot list the interfaces of this host: give a numeric "
                        "address to bind instead of '%s'",
                        text);
    }
    bool is_subnet = strchr(text, '/') != NULL;
    const struct ifaddrs *found = is_subnet && !subnet_parse(text, &subnet)
                                      ? NULL
                                      : find(all, text, is_subnet ? &subnet : NULL);
    enum perseus_status status = PERSEUS_OK;
    if (found != NULL) {
        format(found->ifa_addr, out);
    } else {
        status = fail(text, all, log);
    }
    freeifaddrs(all);
    return status;
}
