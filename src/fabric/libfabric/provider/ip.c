/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/ip.h"

#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/local_address.h"

enum perseus_status prs_lf_ip_check(const char *text, const struct prs_log *log)
{
    struct sockaddr_storage address;
    size_t length = prs_address_parse(text, &address);
    if (length == 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "'%s' is not a numeric IP address to bind: use 127.0.0.1, or the address "
                        "of an interface (ip addr)",
                        text);
    }
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_here = fd >= 0 && bind(fd, (const struct sockaddr *)&address, (socklen_t)length) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (!is_here) {
        return prs_fail(log, PERSEUS_NOT_FOUND,
                        "no interface of this host has the address %s to bind: ip addr lists what "
                        "there is",
                        text);
    }
    return PERSEUS_OK;
}

bool prs_lf_ip_is_loopback(const char *text)
{
    struct sockaddr_storage address;
    if (prs_address_parse(text, &address) == 0) {
        return false;
    }
    return address.ss_family == AF_INET
               ? ntohl(((const struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 ==
                     IN_LOOPBACKNET
               : IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&address)->sin6_addr);
}

bool prs_lf_ip_is(const struct sockaddr_storage *address, const char *text)
{
    struct sockaddr_storage wanted;
    if (prs_address_parse(text, &wanted) == 0 || wanted.ss_family != address->ss_family) {
        return false;
    }
    if (wanted.ss_family == AF_INET) {
        return ((const struct sockaddr_in *)address)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)&wanted)->sin_addr.s_addr;
    }
    return memcmp(&((const struct sockaddr_in6 *)address)->sin6_addr,
                  &((const struct sockaddr_in6 *)&wanted)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

void prs_lf_ip_from_peer(void *address, size_t bytes, const char *bind)
{
    struct sockaddr_in6 v6;
    struct sockaddr_storage own;
    if (bytes != sizeof v6 || prs_address_parse(bind, &own) != sizeof v6) {
        return;
    }
    memcpy(&v6, address, sizeof v6); /* in a blob it may lie anywhere */
    prs_address_enter_zone((struct sockaddr *)&v6,
                           ((const struct sockaddr_in6 *)&own)->sin6_scope_id);
    memcpy(address, &v6, sizeof v6);
}
