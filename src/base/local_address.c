/* SPDX-License-Identifier: Apache-2.0 */
#include "base/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

/* Which address of an interface, or of a subnet, is taken: of the lowest rank, and within it the
 * first in the kernel's order. */
enum rank { RANK_IPV4, RANK_IPV6, RANK_LINK_LOCAL, RANKS };

static enum rank rank_of(const struct ifaddrs *entry)
{
    if ((entry->ifa_flags & IFF_UP) == 0 || entry->ifa_addr == NULL) {
        return RANKS;
    }
    if (entry->ifa_addr->sa_family != AF_INET6) {
        return entry->ifa_addr->sa_family == AF_INET ? RANK_IPV4 : RANKS;
    }
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr)
               ? RANK_LINK_LOCAL
               : RANK_IPV6;
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

/* subnet NULL: of the interface `name`. */
static const struct ifaddrs *find(const struct ifaddrs *all, const char *name,
                                  const struct subnet *subnet)
{
    for (enum rank rank = 0; rank < RANKS; rank++) {
        for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next) {
            if (rank_of(entry) == rank && (subnet != NULL ? subnet_has(subnet, entry->ifa_addr)
                                                          : strcmp(entry->ifa_name, name) == 0)) {
                return entry;
            }
        }
    }
    return NULL;
}

/* What `text`, an interface or a subnet, stands for; NULL: nothing that is here. */
static const struct ifaddrs *look_up(const struct ifaddrs *all, const char *text)
{
    struct subnet subnet;
    if (strchr(text, '/') == NULL) {
        return find(all, text, NULL);
    }
    return subnet_parse(text, &subnet) ? find(all, text, &subnet) : NULL;
}

static void format(const struct ifaddrs *entry, char out[PRS_LOCAL_ADDRESS_BYTES])
{
    char text[INET6_ADDRSTRLEN] = "";
    size_t count;
    const unsigned char *bytes = address_bytes(entry->ifa_addr, &count);
    inet_ntop(entry->ifa_addr->sa_family, bytes, text, sizeof text);
    bool has_zone = rank_of(entry) == RANK_LINK_LOCAL;
    snprintf(out, PRS_LOCAL_ADDRESS_BYTES, "%s%s%s", text, has_zone ? "%" : "",
             has_zone ? entry->ifa_name : "");
}

static enum perseus_status fail(const char *text, const struct ifaddrs *all,
                                const struct prs_log *log)
{
    char list[512] = "", address[PRS_LOCAL_ADDRESS_BYTES];
    size_t used = 0;
    for (const struct ifaddrs *entry = all; entry != NULL && used < sizeof list;
         entry = entry->ifa_next) {
        if (rank_of(entry) != RANKS) {
            format(entry, address);
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
    struct sockaddr_storage scratch;
    bool is_scoped = strchr(text, '%') != NULL; /* its interface may not be here: binding says so */
    if (is_scoped || prs_address_parse(text, &scratch) != 0) {
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
    const struct ifaddrs *found = look_up(all, text);
    enum perseus_status status = PERSEUS_OK;
    if (found != NULL) {
        format(found, out);
    } else {
        status = fail(text, all, log);
    }
    freeifaddrs(all);
    return status;
}

/* ---- addresses ---- */

size_t prs_address_parse(const char *text, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    *out = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        return sizeof *v4;
    }
    /* Not inet_pton, which knows no zones. */
    const struct addrinfo hints = {
        .ai_family = AF_INET6, .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(text, NULL, &hints, &found) != 0) {
        return 0;
    }
    size_t bytes = found->ai_addrlen;
    memcpy(out, found->ai_addr, bytes);
    freeaddrinfo(found);
    return bytes;
}

uint32_t prs_local_zone(const char *text)
{
    struct sockaddr_storage address;
    if (prs_address_parse(text, &address) != 0) {
        return address.ss_family == AF_INET6
                   ? ((const struct sockaddr_in6 *)&address)->sin6_scope_id
                   : 0;
    }
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        return 0;
    }
    const struct ifaddrs *found = look_up(all, text);
    uint32_t zone = found != NULL ? if_nametoindex(found->ifa_name) : 0;
    freeifaddrs(all);
    return zone;
}

void prs_address_enter_zone(struct sockaddr *address, uint32_t zone)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)address;
    if (zone != 0 && address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) {
        v6->sin6_scope_id = zone;
    }
}
