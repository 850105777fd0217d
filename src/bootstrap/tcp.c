/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/local_address.h"
#include "base/own_fd.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/hub.h"
#include "bootstrap/member.h"
#include "bootstrap/stream.h"
#include "bootstrap/unique_id.h"

enum {
    HUB_RANK = 0,
    RETRY_FIRST_MS = 5, /* then twice as long each time */
    RETRY_LAST_MS = 250
};

/* Rank 0 also runs the hub, on a thread of its own, and joins it over a socket pair. */
struct prs_tcp {
    struct prs_member member; /* first: ops get its address */
    struct prs_hub *hub;
    pthread_t thread;
    bool has_thread;
};

static void finish(struct prs_tcp *tcp, bool says_goodbye)
{
    /* The hub's thread ends because rank 0 is gone. */
    prs_member_finish(&tcp->member, says_goodbye);
    if (tcp->has_thread) {
        pthread_join(tcp->thread, NULL);
    }
    prs_hub_destroy(tcp->hub);
    free(tcp);
}

static void leave(struct prs_bootstrap *bootstrap)
{
    finish((struct prs_tcp *)bootstrap, true);
}

static void abandon(struct prs_bootstrap *bootstrap)
{
    finish((struct prs_tcp *)bootstrap, false);
}

static const struct prs_bootstrap_ops tcp_ops = {
    .name = "tcp",
    .allgather = prs_member_allgather,
    .health = prs_member_health,
    .close = leave,
    .abandon = abandon,
};

/* ---- rank 0 ---- */

static void *serve(void *hub)
{
    while (prs_hub_serve(hub, PERSEUS_NO_TIMEOUT) == PERSEUS_AGAIN) {
    }
    return NULL;
}

/* The listening socket that made the id, if this process made it, else a new one. */
static enum perseus_status take_listener(const struct prs_unique_id *id, const struct prs_log *log,
                                         int *out_fd)
{
    struct prs_stream_address bound;
    char name[PRS_STREAM_NAME_BYTES];
    if (prs_stream_listens_at(id->listen_fd, &bound) &&
        prs_stream_address_equal(&bound, &id->address)) {
        *out_fd = id->listen_fd;
        return PERSEUS_OK;
    }
    *out_fd = prs_stream_listen(&id->address);
    if (*out_fd >= 0) {
        return PERSEUS_OK;
    }
    const char *what = strerror(errno);
    prs_stream_address_format(&id->address, name);
    return prs_fail(log, PERSEUS_IO,
                    "PE 0 cannot listen at %s, where the unique id says: %s. It must run on the "
                    "host that made the id, in the same process or after that one has ended, and "
                    "an id serves one job",
                    name, what);
}

/* On failure the listening socket is closed. */
static enum perseus_status host(struct prs_tcp *tcp, int listen_fd, const struct prs_unique_id *id,
                                int *out_fd)
{
    const struct prs_member *member = &tcp->member;
    enum perseus_status status = prs_hub_create_host(member->bootstrap.size, listen_fd, id->secret,
                                                     member->timeout_ms, &member->log, &tcp->hub);
    if (status != PERSEUS_OK) {
        close(listen_fd);
        return status;
    }
    int fd = prs_hub_take_fd(tcp->hub, HUB_RANK);
    if (fd < 0) {
        return PERSEUS_IO;
    }
    /* Signals are the program's business, on the program's threads. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&tcp->thread, NULL, serve, tcp->hub);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0) {
        close(fd);
        return prs_fail(&member->log, PERSEUS_OUT_OF_MEMORY, "no thread for the hub of the job: %s",
                        strerror(error));
    }
    tcp->has_thread = true;
    *out_fd = fd;
    return PERSEUS_OK;
}

static enum perseus_status join_as_host(struct prs_tcp *tcp, const struct prs_unique_id *id,
                                        uint64_t deadline_ns)
{
    int listen_fd = -1, fd = -1;
    enum perseus_status status = take_listener(id, &tcp->member.log, &listen_fd);
    if (status == PERSEUS_OK) {
        status = host(tcp, listen_fd, id, &fd);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_member_join(&tcp->member, fd, id->secret, deadline_ns);
    if (status == PERSEUS_OK) {
        return status;
    }
    prs_own_fd_end(fd); /* ends the hub */
    return status == PERSEUS_AGAIN
               ? prs_fail(&tcp->member.log, PERSEUS_INTERNAL, "the hub ended before PE 0 joined")
               : status;
}

/* ---- other ranks ---- */

static int ms_until(const struct prs_member *member, uint64_t deadline_ns)
{
    uint64_t now_ns = prs_clock_now_ns(&member->clock);
    if (now_ns >= deadline_ns) {
        return 0;
    }
    uint64_t ms = (deadline_ns - now_ns) / 1000000u + 1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Where the id says, from here: a zone is a number of the host that made it. */
static struct prs_stream_address address_of_host(const struct prs_unique_id *id)
{
    struct prs_stream_address address = id->address;
    prs_address_enter_zone(&address.any, prs_local_zone(prs_env_text(PRS_ENV_BIND)));
    return address;
}

/* Tries until the deadline: PE 0 may come later, and may drop a connection when strangers crowd
 * it. */
static enum perseus_status join_by_network(struct prs_tcp *tcp, const struct prs_unique_id *id,
                                           uint64_t deadline_ns)
{
    struct prs_member *member = &tcp->member;
    const struct prs_stream_address address = address_of_host(id);
    const char *last = "it closed the connection before it answered";
    for (int wait_ms = RETRY_FIRST_MS;;
         wait_ms = 2 * wait_ms < RETRY_LAST_MS ? 2 * wait_ms : RETRY_LAST_MS) {
        int fd = prs_stream_connect(&address, ms_until(member, deadline_ns));
        if (fd >= 0) {
            enum perseus_status status = prs_member_join(member, fd, id->secret, deadline_ns);
            if (status == PERSEUS_OK) {
                return status;
            }
            prs_own_fd_end(fd);
            if (status != PERSEUS_AGAIN) {
                return status;
            }
        } else {
            last = strerror(errno);
        }
        int left_ms = ms_until(member, deadline_ns);
        if (left_ms <= 0) {
            char name[PRS_STREAM_NAME_BYTES];
            prs_stream_address_format(&address, name);
            return prs_fail(&member->log, PERSEUS_TIMEOUT,
                            "cannot join PE 0 at %s within %u ms: %s. See whether PE 0 runs, and "
                            "whether this host can reach that address (PERSEUS_BIND where the id "
                            "is made chooses it)",
                            name, member->timeout_ms, last);
        }
        int pause_ms = wait_ms < left_ms ? wait_ms : left_ms;
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
    }
}

enum perseus_status prs_bootstrap_open_tcp(const struct perseus_unique_id *id, int rank, int size,
                                           uint32_t timeout_ms, const struct prs_log *log,
                                           struct prs_bootstrap **out)
{
    struct prs_unique_id decoded;
    enum perseus_status status = prs_unique_id_decode(id, log, &decoded);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_tcp *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the bootstrap");
    }
    status = prs_member_init(&tcp->member, &tcp_ops, rank, size, HUB_RANK, timeout_ms, log);
    if (status != PERSEUS_OK) {
        free(tcp);
        return status;
    }
    uint64_t deadline_ns = prs_member_deadline_ns(&tcp->member);
    status = rank == HUB_RANK ? join_as_host(tcp, &decoded, deadline_ns)
                              : join_by_network(tcp, &decoded, deadline_ns);
    if (status != PERSEUS_OK) {
        finish(tcp, false);
        return status;
    }
    *out = &tcp->member.bootstrap;
    return PERSEUS_OK;
}
