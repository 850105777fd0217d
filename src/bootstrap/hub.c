/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/hub.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own_fd.h"
#include "bootstrap/star.h"
#include "bootstrap/stream.h"
#include "bootstrap/wire.h"

enum {
    EVENTS = 64,
    READS_PER_EVENT = 8, /* then another connection's turn */
    ACCEPTS_PER_EVENT = 16,
    ACCEPT_PAUSE_MS = 100, /* when descriptors have run out */
    HOST_RANK = 0,
    NO_HOST = -1
};
/* What epoll gives back for the listening socket; slots are below. */
static const uint32_t listener_mark = UINT32_MAX;

struct connection {
    int fd;          /* -1: no connection */
    uint32_t events; /* watched */
};

struct prs_hub {
    struct prs_log log;
    struct prs_clock clock;
    struct prs_star *star;
    int epoll_fd;
    struct connection *connections; /* by slot */
    int n_open;
    int host; /* the hub ends with this rank */
    int listen_fd;
    uint64_t accept_again_ns; /* 0: not paused */
    bool is_ending;
    uint32_t linger_ms;
    uint64_t linger_until_ns;
};

static enum perseus_status create(int size, const unsigned char *secret, const struct prs_log *log,
                                  struct prs_hub **out)
{
    struct prs_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL) {
        prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the hub of %d PEs", size);
        return PERSEUS_OUT_OF_MEMORY;
    }
    hub->log = log != NULL ? *log : (struct prs_log){.pe = -1};
    hub->clock = prs_clock_monotonic();
    hub->host = NO_HOST;
    hub->listen_fd = -1;
    hub->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    enum perseus_status status = prs_star_create(size, secret, log, &hub->star);
    if (status == PERSEUS_OK && hub->epoll_fd < 0) {
        status = prs_fail(log, PERSEUS_IO, "no epoll descriptor for the hub: %s", strerror(errno));
    }
    if (status == PERSEUS_OK) {
        int n_slots = prs_star_slots(hub->star);
        hub->connections = calloc((size_t)n_slots, sizeof *hub->connections);
        for (int i = 0; i < n_slots && hub->connections != NULL; i++) {
            hub->connections[i].fd = -1;
        }
        if (hub->connections == NULL) {
            status = prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the hub of %d PEs", size);
        }
    }
    if (status != PERSEUS_OK) {
        prs_hub_destroy(hub);
        return status;
    }
    *out = hub;
    return PERSEUS_OK;
}

enum perseus_status prs_hub_create(int size, const struct prs_log *log, struct prs_hub **out)
{
    /* A socket pair is its own proof. */
    const unsigned char secret[PRS_PROOF_SECRET_BYTES] = {0};
    return create(size, secret, log, out);
}

static bool watch(struct prs_hub *hub, int operation, int fd, uint32_t mark, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u32 = mark};
    return epoll_ctl(hub->epoll_fd, operation, fd, &event) == 0;
}

enum perseus_status prs_hub_create_host(int size, int listen_fd, const unsigned char *secret,
                                        uint32_t linger_ms, const struct prs_log *log,
                                        struct prs_hub **out)
{
    struct prs_hub *hub;
    enum perseus_status status = create(size, secret, log, &hub);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (!watch(hub, EPOLL_CTL_ADD, listen_fd, listener_mark, EPOLLIN)) {
        status =
            prs_fail(log, PERSEUS_IO, "cannot watch the listening socket: %s", strerror(errno));
        prs_hub_destroy(hub);
        return status;
    }
    if (!prs_own_fd_add(listen_fd)) {
        prs_hub_destroy(hub);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the hub of %d PEs", size);
    }
    hub->host = HOST_RANK;
    hub->linger_ms = linger_ms;
    hub->listen_fd = listen_fd;
    *out = hub;
    return PERSEUS_OK;
}

static void stop_listening(struct prs_hub *hub)
{
    if (hub->listen_fd >= 0) {
        watch(hub, EPOLL_CTL_DEL, hub->listen_fd, listener_mark, 0);
        prs_own_fd_end(hub->listen_fd);
        hub->listen_fd = -1;
    }
}

static void close_slot(struct prs_hub *hub, int slot)
{
    struct connection *connection = &hub->connections[slot];
    if (connection->fd < 0) {
        return;
    }
    /* Explicitly: a child may still hold the other reference. */
    watch(hub, EPOLL_CTL_DEL, connection->fd, 0, 0);
    prs_own_fd_end(connection->fd);
    connection->fd = -1;
    hub->n_open--;
    prs_star_closed(hub->star, slot);
}

void prs_hub_destroy(struct prs_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    for (int i = 0; hub->connections != NULL && i < prs_star_slots(hub->star); i++) {
        if (hub->connections[i].fd >= 0) {
            prs_own_fd_end(hub->connections[i].fd);
        }
    }
    stop_listening(hub);
    if (hub->epoll_fd >= 0) {
        close(hub->epoll_fd);
    }
    free(hub->connections);
    prs_star_destroy(hub->star);
    free(hub);
}

/* Gives fd to the hub, which owns it from now on. */
static bool adopt(struct prs_hub *hub, int fd, int rank, const char *name)
{
    int slot = prs_star_add(hub->star, rank, name);
    hub->connections[slot] = (struct connection){.fd = fd, .events = EPOLLIN};
    hub->n_open++;
    if (!prs_own_fd_add(fd) || !watch(hub, EPOLL_CTL_ADD, fd, (uint32_t)slot, EPOLLIN)) {
        close_slot(hub, slot);
        return false;
    }
    return true;
}

int prs_hub_take_fd(struct prs_hub *hub, int rank)
{
    int pair[2];
    char name[16];
    snprintf(name, sizeof name, "PE %d", rank);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        prs_fail(&hub->log, PERSEUS_IO,
                 "no socket pair for PE %d: %s. Raise the limit of open files (ulimit -n)", rank,
                 strerror(errno));
        return -1;
    }
    if (!adopt(hub, pair[0], rank, name)) {
        prs_fail(&hub->log, PERSEUS_IO, "cannot watch the socket of PE %d: %s", rank,
                 strerror(errno));
        close(pair[1]);
        return -1;
    }
    return pair[1];
}

/* ---- serving ---- */

/* Sends what the socket takes now. */
static void flush(struct prs_hub *hub, int slot)
{
    struct connection *connection = &hub->connections[slot];
    const unsigned char *at;
    size_t left;
    while ((left = prs_star_output(hub->star, slot, &at)) > 0) {
        ssize_t n = send(connection->fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            prs_star_sent(hub->star, slot, (size_t)n);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            close_slot(hub, slot);
            return;
        }
    }
    /* While the hub ends it delivers what it owes; anybody else that closes gets one try. */
    bool is_closing = prs_star_closing(hub->star, slot);
    if (is_closing && (left == 0 || !hub->is_ending)) {
        close_slot(hub, slot);
        return;
    }
    uint32_t events = (is_closing ? 0 : EPOLLIN) | (left > 0 ? EPOLLOUT : 0);
    if (events != connection->events) {
        connection->events = events;
        watch(hub, EPOLL_CTL_MOD, connection->fd, (uint32_t)slot, events);
    }
}

static void settle(struct prs_hub *hub)
{
    int slot;
    while ((slot = prs_star_next_dirty(hub->star)) >= 0) {
        if (hub->connections[slot].fd >= 0) {
            flush(hub, slot);
        }
    }
}

static void receive(struct prs_hub *hub, int slot)
{
    for (int i = 0; i < READS_PER_EVENT; i++) {
        if (hub->connections[slot].fd < 0 || prs_star_closing(hub->star, slot)) {
            return;
        }
        unsigned char *at;
        size_t room = prs_star_input(hub->star, slot, &at);
        ssize_t n = recv(hub->connections[slot].fd, at, room, MSG_DONTWAIT);
        if (n > 0) {
            prs_star_received(hub->star, slot, (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n == 0 || errno != EINTR) {
            close_slot(hub, slot);
            return;
        }
    }
}

static void accept_some(struct prs_hub *hub)
{
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        char peer[PRS_STREAM_NAME_BYTES];
        int fd = prs_stream_accept(hub->listen_fd, peer);
        if (fd >= 0) {
            adopt(hub, fd, PRS_STAR_STRANGER, peer);
            settle(hub);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The socket stays readable: look away for a while instead of spinning. */
            prs_log(&hub->log, PERSEUS_LOG_WARN,
                    "cannot accept a connection now: %s. Raise the limit of open files (ulimit -n)",
                    strerror(errno));
            watch(hub, EPOLL_CTL_MOD, hub->listen_fd, listener_mark, 0);
            hub->accept_again_ns =
                prs_clock_now_ns(&hub->clock) + (uint64_t)ACCEPT_PAUSE_MS * 1000000u;
            return;
        }
    }
}

static void handle(struct prs_hub *hub, const struct epoll_event *event)
{
    if (event->data.u32 == listener_mark) {
        if (hub->listen_fd >= 0) {
            accept_some(hub);
        }
        return;
    }
    int slot = (int)event->data.u32;
    if (event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR) && hub->connections[slot].fd >= 0) {
        flush(hub, slot);
    }
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        receive(hub, slot);
    }
    settle(hub);
}

/* Looks at time and at what has ended. Returns when to look again at the latest. */
static uint64_t advance(struct prs_hub *hub, uint64_t now_ns)
{
    uint64_t next_ns = prs_star_tick(hub->star, now_ns);
    if (hub->accept_again_ns != 0 && hub->listen_fd >= 0) {
        if (hub->accept_again_ns <= now_ns) {
            hub->accept_again_ns = 0;
            watch(hub, EPOLL_CTL_MOD, hub->listen_fd, listener_mark, EPOLLIN);
        } else if (hub->accept_again_ns < next_ns) {
            next_ns = hub->accept_again_ns;
        }
    }
    if (prs_star_is_complete(hub->star)) {
        stop_listening(hub);
    }
    if (hub->host != NO_HOST && !hub->is_ending && prs_star_is_gone(hub->star, hub->host)) {
        stop_listening(hub);
        hub->is_ending = true;
        hub->linger_until_ns =
            prs_star_has_failed(hub->star) ? now_ns : now_ns + (uint64_t)hub->linger_ms * 1000000u;
        prs_star_finish(hub->star);
    }
    settle(hub);
    return hub->is_ending && hub->linger_until_ns < next_ns ? hub->linger_until_ns : next_ns;
}

static bool has_ended(const struct prs_hub *hub, uint64_t now_ns)
{
    if (hub->is_ending) {
        return !prs_star_owes(hub->star) || hub->linger_until_ns <= now_ns;
    }
    return prs_star_is_over(hub->star) && hub->n_open == 0;
}

static int wait_ms(uint64_t now_ns, uint64_t until_ns)
{
    if (until_ns <= now_ns) {
        return 0;
    }
    uint64_t ms = (until_ns - now_ns + 999999u) / 1000000u;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

enum perseus_status prs_hub_serve(struct prs_hub *hub, uint32_t timeout_ms)
{
    uint64_t now_ns = prs_clock_now_ns(&hub->clock);
    const uint64_t deadline_ns =
        timeout_ms == PERSEUS_NO_TIMEOUT ? UINT64_MAX : now_ns + (uint64_t)timeout_ms * 1000000u;
    for (bool is_first = true;; is_first = false) {
        struct epoll_event events[EVENTS];
        uint64_t next_ns = advance(hub, now_ns);
        if (has_ended(hub, now_ns)) {
            return PERSEUS_OK;
        }
        if (now_ns >= deadline_ns && !is_first) {
            return PERSEUS_AGAIN;
        }
        next_ns = next_ns < deadline_ns ? next_ns : deadline_ns;
        int n = epoll_wait(hub->epoll_fd, events, EVENTS, wait_ms(now_ns, next_ns));
        for (int i = 0; i < n; i++) {
            handle(hub, &events[i]);
        }
        now_ns = prs_clock_now_ns(&hub->clock);
    }
}

void prs_hub_report_death(struct prs_hub *hub, int rank)
{
    prs_star_report_death(hub->star, rank);
    settle(hub);
}

int prs_hub_first_lost(const struct prs_hub *hub)
{
    return prs_star_first_lost(hub->star);
}
