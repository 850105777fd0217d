/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/pacing.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define DEPTH_MAX 4 /* epoll descriptors watch each other no deeper in any provider */

#define PACES "bbr"  /* and its later versions */
#define CALM  "reno" /* in every kernel, and allowed to everybody: tcp(7) */

static bool is_within_host(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    if (getsockname(fd, (struct sockaddr *)&here, &here_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &there_bytes) != 0 ||
        here.ss_family != there.ss_family) {
        return false;
    }
    if (here.ss_family == AF_INET) {
        return ((struct sockaddr_in *)&here)->sin_addr.s_addr ==
               ((struct sockaddr_in *)&there)->sin_addr.s_addr;
    }
    return here.ss_family == AF_INET6 &&
           memcmp(&((struct sockaddr_in6 *)&here)->sin6_addr,
                  &((struct sockaddr_in6 *)&there)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static int lift_socket(int fd)
{
    char control[16] = "";
    socklen_t bytes = sizeof control - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &bytes) != 0 ||
        strncmp(control, PACES, strlen(PACES)) != 0 || !is_within_host(fd)) {
        return 0;
    }
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, CALM, strlen(CALM)) == 0;
}

/* proc(5): an epoll descriptor's fdinfo has a line "tfd: N ..." for each that it watches. */
static int lift_watched(int fd, int depth)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    int lifted = 0, watched;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "tfd: %d", &watched) == 1) {
            lifted += lift_socket(watched);
            lifted += depth < DEPTH_MAX ? lift_watched(watched, depth + 1) : 0;
        }
    }
    fclose(file);
    return lifted;
}

int prs_lf_pacing_lift(int wait_fd)
{
    return lift_watched(wait_fd, 1);
}
