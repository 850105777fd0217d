/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/member.h"

static void leave(struct prs_bootstrap *bootstrap)
{
    prs_member_finish((struct prs_member *)bootstrap, true);
    free(bootstrap);
}

static void abandon(struct prs_bootstrap *bootstrap)
{
    prs_member_finish((struct prs_member *)bootstrap, false);
    free(bootstrap);
}

static const struct prs_bootstrap_ops local_ops = {
    .name = "local",
    .allgather = prs_member_allgather,
    .health = prs_member_health,
    .close = leave,
    .abandon = abandon,
};

static bool has_option(int fd, int option, int wanted)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 && value == wanted;
}

enum perseus_status prs_bootstrap_open_local(int fd, int rank, int size, uint32_t timeout_ms,
                                             const struct prs_log *log, struct prs_bootstrap **out)
{
    const unsigned char no_secret[PRS_PROOF_SECRET_BYTES] = {0};
    /* What the program has opened there instead, say a connection of its own, must not get our
     * hello. */
    if (!has_option(fd, SO_TYPE, SOCK_STREAM) || !has_option(fd, SO_DOMAIN, AF_UNIX) ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "descriptor %d is not the socket of perseus run: %s, or a PE was "
                        "initialized here before, which can be done once per process",
                        fd,
                        errno == EBADF ? "whatever started this program has closed it (in Python "
                                         "let subprocess pass it on: close_fds=False)"
                                       : "this program has opened something else in its place");
    }
    struct prs_member *member = malloc(sizeof *member);
    if (member == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the bootstrap");
    }
    enum perseus_status status =
        prs_member_init(member, &local_ops, rank, size, -1, timeout_ms, log);
    if (status != PERSEUS_OK) {
        free(member);
        return status;
    }
    status = prs_member_join(member, fd, no_secret, prs_member_deadline_ns(member));
    if (status == PERSEUS_AGAIN) {
        status = prs_fail(log, PERSEUS_PEER_LOST,
                          "the launcher has closed this PE's socket: it ended, or rank %d has "
                          "finalized before in this process",
                          rank);
    }
    if (status != PERSEUS_OK) {
        prs_member_finish(member, false);
        free(member);
        return status;
    }
    *out = &member->bootstrap;
    return PERSEUS_OK;
}
