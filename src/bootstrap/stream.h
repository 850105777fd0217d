/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap/stream.h: the tcp bootstrap's sockets: close-on-exec, never blocking, with keep-alive
 * so that a host that vanished is noticed. Addresses are IPv4 or IPv6; no names are resolved. */
#ifndef PRS_BOOTSTRAP_STREAM_H
#define PRS_BOOTSTRAP_STREAM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct prs_stream_address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    };
    socklen_t bytes;
};

enum { PRS_STREAM_NAME_BYTES = 64 };

/* "127.0.0.1", "fe80::1%eth0". False for anything else. */
bool prs_stream_address_parse(const char *text, uint16_t port, struct prs_stream_address *out);
/* "127.0.0.1:4711", "[::1]:4711" */
void prs_stream_address_format(const struct prs_stream_address *address,
                               char out[PRS_STREAM_NAME_BYTES]);
bool prs_stream_address_equal(const struct prs_stream_address *a,
                              const struct prs_stream_address *b);
uint16_t prs_stream_address_port(const struct prs_stream_address *address);

/* These return a descriptor, or -1 with errno. */
int prs_stream_listen(const struct prs_stream_address *address);
int prs_stream_accept(int listen_fd, char out_peer[PRS_STREAM_NAME_BYTES]);
/* Waits at most timeout_ms; ETIMEDOUT then. */
int prs_stream_connect(const struct prs_stream_address *address, int timeout_ms);

/* The address fd is bound to, if it is a listening socket. */
bool prs_stream_listens_at(int fd, struct prs_stream_address *out);

#endif
