/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/stream.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/local_address.h"

/* A peer whose host is gone is given up after idle + count * interval seconds. */
enum { KEEPALIVE_IDLE_S = 5, KEEPALIVE_INTERVAL_S = 5, KEEPALIVE_COUNT = 4 };

bool prs_stream_address_parse(const char *text, uint16_t port, struct prs_stream_address *out)
{
    struct sockaddr_storage parsed;
    size_t bytes = prs_address_parse(text, &parsed);
    if (bytes == 0) {
        return false;
    }
    memset(out, 0, sizeof *out);
    memcpy(&out->any, &parsed, bytes);
    out->bytes = (socklen_t)bytes;
    if (out->any.sa_family == AF_INET) {
        out->in.sin_port = htons(port);
    } else {
        out->in6.sin6_port = htons(port);
    }
    return true;
}

uint16_t prs_stream_address_port(const struct prs_stream_address *address)
{
    return ntohs(address->any.sa_family == AF_INET ? address->in.sin_port : address->in6.sin6_port);
}

void prs_stream_address_format(const struct prs_stream_address *address,
                               char out[PRS_STREAM_NAME_BYTES])
{
    char host[PRS_STREAM_NAME_BYTES - 10] = "";
    if (getnameinfo(&address->any, address->bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST)) {
        snprintf(host, sizeof host, "unknown");
    }
    snprintf(out, PRS_STREAM_NAME_BYTES, address->any.sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u",
             host, prs_stream_address_port(address));
}

bool prs_stream_address_equal(const struct prs_stream_address *a,
                              const struct prs_stream_address *b)
{
    if (a->any.sa_family != b->any.sa_family ||
        prs_stream_address_port(a) != prs_stream_address_port(b)) {
        return false;
    }
    return a->any.sa_family == AF_INET
               ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
               : memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof a->in6.sin6_addr) == 0;
}

/* Best effort: without these the stream is slower to send, or to notice a dead host. */
static void tune(int fd)
{
    const int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S,
              count = KEEPALIVE_COUNT;
    const unsigned unacknowledged_ms = 1000 * (idle + count * interval);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

static int close_keep_errno(int fd)
{
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int prs_stream_listen(const struct prs_stream_address *address)
{
    const int on = 1;
    int fd =
        socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0) {
        return -1;
    }
    /* So that the port of an id whose maker has just ended can be bound again. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &address->any, address->bytes) != 0 || listen(fd, SOMAXCONN) != 0) {
        return close_keep_errno(fd);
    }
    return fd;
}

int prs_stream_accept(int listen_fd, char out_peer[PRS_STREAM_NAME_BYTES])
{
    struct prs_stream_address peer = {.bytes = sizeof peer.in6};
    int fd = accept4(listen_fd, &peer.any, &peer.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        tune(fd);
        prs_stream_address_format(&peer, out_peer);
    }
    return fd;
}

int prs_stream_connect(const struct prs_stream_address *address, int timeout_ms)
{
    int fd =
        socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0) {
        return -1;
    }
    tune(fd);
    if (connect(fd, &address->any, address->bytes) == 0) {
        return fd;
    }
    if (errno != EINPROGRESS && errno != EINTR) {
        return close_keep_errno(fd);
    }
    struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
    int ready = poll(&pollfd, 1, timeout_ms);
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
        error = ETIMEDOUT; /* the caller tries again until its own deadline */
    } else if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0) {
        error = errno;
    }
    if (error != 0) {
        errno = error;
        return close_keep_errno(fd);
    }
    return fd;
}

bool prs_stream_listens_at(int fd, struct prs_stream_address *out)
{
    int listens = 0;
    socklen_t bytes = sizeof listens;
    *out = (struct prs_stream_address){.bytes = sizeof out->in6};
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens != 0 &&
           getsockname(fd, &out->any, &out->bytes) == 0 &&
           (out->any.sa_family == AF_INET || out->any.sa_family == AF_INET6);
}
