/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/member.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own_fd.h"
#include "base/random.h"
#include "bootstrap/proof.h"

/* The hub watches the deadline and names who is missing; a member waits this much longer for its
 * word. */
enum { HUB_GRACE_MS = 2000 };

static const uint64_t no_wait = 0;

enum perseus_status prs_member_init(struct prs_member *member, const struct prs_bootstrap_ops *ops,
                                    int rank, int size, int hub_rank, uint32_t timeout_ms,
                                    const struct prs_log *log)
{
    if (size < 1 || size > PRS_WIRE_SIZE_MAX || rank < 0 || rank >= size) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "rank %d of %d PEs: a job has 1 to %d PEs, with ranks from 0", rank, size,
                        PRS_WIRE_SIZE_MAX);
    }
    memset(member, 0, sizeof *member);
    member->bootstrap = (struct prs_bootstrap){.ops = ops, .rank = rank, .size = size};
    member->log = log != NULL ? *log : (struct prs_log){.pe = -1};
    member->log.pe = rank;
    member->clock = prs_clock_monotonic();
    member->hub_rank = hub_rank;
    member->timeout_ms = timeout_ms;
    member->fd = -1;
    atomic_init(&member->lost, PRS_MEMBER_NONE_LOST);
    if (pthread_mutex_init(&member->mutex, NULL) != 0) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no mutex for the bootstrap");
    }
    return PERSEUS_OK;
}

uint64_t prs_member_deadline_ns(const struct prs_member *member)
{
    return member->timeout_ms == PERSEUS_NO_TIMEOUT
               ? UINT64_MAX
               : prs_clock_now_ns(&member->clock) + (uint64_t)member->timeout_ms * 1000000u;
}

/* ---- failure ---- */

static enum perseus_status give_up(struct prs_member *member, enum perseus_status status, int lost)
{
    member->failure = status;
    if (status == PERSEUS_PEER_LOST) {
        /* Relaxed: the number is all there is to see. */
        atomic_store_explicit(&member->lost, lost, memory_order_relaxed);
    }
    return status;
}

static enum perseus_status lose_hub(struct prs_member *member)
{
    if (member->hub_rank < 0) {
        prs_fail(&member->log, PERSEUS_PEER_LOST,
                 "the launcher is gone, and with it the job: start it again with perseus run");
    } else {
        prs_fail(&member->log, PERSEUS_PEER_LOST,
                 "PE %d is gone, and with it the job: see its last messages", member->hub_rank);
    }
    return give_up(member, PERSEUS_PEER_LOST, member->hub_rank);
}

static enum perseus_status refused(struct prs_member *member, const struct prs_wire_failed *failed)
{
    const struct prs_bootstrap *self = &member->bootstrap;
    switch ((enum prs_wire_refusal)failed->detail) {
    case PRS_WIRE_WRONG_SECRET:
        return prs_fail(
            &member->log, PERSEUS_INVALID_ARGUMENT,
            "the hub does not accept this PE's secret: its unique id is of another job");
    case PRS_WIRE_WRONG_RANK:
        return prs_fail(&member->log, PERSEUS_INVALID_ARGUMENT,
                        "the hub has no rank %d for this PE: check rank and size", self->rank);
    case PRS_WIRE_WRONG_SIZE:
        return prs_fail(&member->log, PERSEUS_INVALID_ARGUMENT,
                        "this PE was told that the job has %d PEs, PE 0 another number: give all "
                        "the same size",
                        self->size);
    case PRS_WIRE_DUPLICATE:
        return prs_fail(&member->log, PERSEUS_INVALID_ARGUMENT,
                        "another PE has joined as rank %d: give every PE its own rank, and let it "
                        "join once",
                        self->rank);
    }
    return prs_fail(&member->log, PERSEUS_PROTOCOL,
                    "the hub refuses this PE for an unknown reason");
}

/* FAILED came in: says what it means, and returns its status. */
static enum perseus_status explain(struct prs_member *member, bool is_joining)
{
    const int rank = (int)member->reader.header.rank;
    struct prs_wire_failed failed;
    prs_wire_get_failed(member->reader.scratch, &failed);
    switch (failed.status) {
    case PERSEUS_PEER_LOST:
        return prs_fail(&member->log, PERSEUS_PEER_LOST,
                        failed.detail == PRS_WIRE_LEFT
                            ? "PE %d has finalized, but another PE still makes collective calls: "
                              "every PE must make the same ones"
                            : "PE %d died, and with it the job: see its last messages",
                        rank);
    case PERSEUS_TIMEOUT:
        return prs_fail(&member->log, PERSEUS_TIMEOUT,
                        "%u of %d PEs did not make the collective call before the deadline, the "
                        "first of them PE %d: see whether they were started, and raise "
                        "PERSEUS_TIMEOUT_MS if they are only slow",
                        failed.detail, member->bootstrap.size, rank);
    case PERSEUS_VERSION:
        return prs_fail(&member->log, PERSEUS_VERSION,
                        "the hub speaks version %u of the bootstrap, this PE version %d: use one "
                        "release of Perseus for the whole job",
                        failed.detail, PRS_WIRE_VERSION);
    case PERSEUS_OUT_OF_MEMORY:
        return prs_fail(&member->log, PERSEUS_OUT_OF_MEMORY,
                        "the hub has no memory for the collective call that PE %d began", rank);
    case PERSEUS_INVALID_ARGUMENT:
        if (is_joining) {
            return refused(member, &failed);
        }
        return prs_fail(&member->log, PERSEUS_INVALID_ARGUMENT,
                        "PE %d gathers another number of bytes than the others: every PE must "
                        "make the same collective calls in the same order",
                        rank);
    }
    return prs_fail(&member->log, PERSEUS_PROTOCOL, "the hub failed with unknown status %u",
                    failed.status);
}

static enum perseus_status on_failed(struct prs_member *member, bool is_joining)
{
    int lost = (int)member->reader.header.rank;
    return give_up(member, explain(member, is_joining), lost);
}

/* ---- the socket ---- */

static enum perseus_status wait_for(const struct prs_member *member, short events,
                                    uint64_t deadline_ns)
{
    uint64_t now_ns = prs_clock_now_ns(&member->clock);
    if (deadline_ns == no_wait) {
        return PERSEUS_AGAIN;
    }
    if (now_ns >= deadline_ns) {
        return PERSEUS_TIMEOUT;
    }
    uint64_t ms = (deadline_ns - now_ns) / 1000000u + 1;
    struct pollfd pollfd = {.fd = member->fd, .events = events};
    /* Whatever it says, EINTR too: the caller tries again and comes back here. */
    poll(&pollfd, 1, ms < INT_MAX ? (int)ms : INT_MAX);
    return PERSEUS_OK;
}

/* IO: the hub does not take it; what it said last may still be there to read. */
static enum perseus_status send_all(const struct prs_member *member, const void *data, size_t bytes,
                                    uint64_t deadline_ns)
{
    const unsigned char *at = data;
    while (bytes > 0) {
        ssize_t n = send(member->fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (errno == EAGAIN) {
            enum perseus_status status = wait_for(member, POLLOUT, deadline_ns);
            if (status != PERSEUS_OK) {
                return status;
            }
        } else if (errno != EINTR) {
            return PERSEUS_IO;
        }
    }
    return PERSEUS_OK;
}

static enum perseus_status send_frame(const struct prs_member *member, enum prs_wire_type type,
                                      const void *body, size_t bytes, uint64_t deadline_ns)
{
    const struct prs_wire_header header = {
        .version = PRS_WIRE_VERSION,
        .type = (uint16_t)type,
        .rank = (uint32_t)member->bootstrap.rank,
        .bytes = bytes,
    };
    unsigned char head[PRS_WIRE_HEADER_BYTES];
    prs_wire_put_header(&header, head);
    enum perseus_status status = send_all(member, head, sizeof head, deadline_ns);
    return status == PERSEUS_OK ? send_all(member, body, bytes, deadline_ns) : status;
}

/* Reads one frame: `expected` with result_bytes of body (a RESULT's goes to `result`), or FAILED,
 * or BYE. Nothing is logged. AGAIN or TIMEOUT: not there yet. IO: the stream has ended. */
static enum perseus_status read_frame(struct prs_member *member, enum prs_wire_type expected,
                                      void *result, uint64_t result_bytes, uint64_t deadline_ns)
{
    struct prs_wire_reader *reader = &member->reader;
    if (prs_wire_complete(reader)) {
        prs_wire_next(reader);
    }
    while (!prs_wire_complete(reader)) {
        ssize_t n = recv(member->fd, prs_wire_place(reader), prs_wire_room(reader), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            enum perseus_status status = wait_for(member, POLLIN, deadline_ns);
            if (status != PERSEUS_OK) {
                return status;
            }
            continue;
        }
        if (n <= 0) {
            return PERSEUS_IO;
        }
        bool has_header;
        enum perseus_status status = prs_wire_received(reader, (size_t)n, &has_header);
        if (status != PERSEUS_OK) {
            return status;
        }
        const struct prs_wire_header *header = &reader->header;
        if (has_header && header->type != PRS_WIRE_FAILED && header->type != PRS_WIRE_BYE &&
            (header->type != expected || header->bytes != result_bytes)) {
            return PERSEUS_PROTOCOL;
        }
        if (has_header && header->type == PRS_WIRE_RESULT) {
            reader->body = result;
        }
    }
    return PERSEUS_OK;
}

/* ---- life ---- */

/* Says hello and looks at what the hub proves. OK: *out_terms is what to prove in turn. */
/* Says hello and looks at what the hub proves. OK: *terms are what to prove in turn. */
static enum perseus_status greet(struct prs_member *member, const unsigned char *secret,
                                 struct prs_proof_terms *terms, uint64_t deadline_ns)
{
    unsigned char body[PRS_WIRE_HELLO_BYTES];
    struct prs_proof_challenge challenge;
    *terms = (struct prs_proof_terms){.rank = (uint32_t)member->bootstrap.rank,
                                      .size = (uint32_t)member->bootstrap.size,
                                      .timeout_ms = member->timeout_ms};
    if (!prs_random_fill(terms->nonce_of_pe, PRS_PROOF_NONCE_BYTES)) {
        return prs_fail(&member->log, PERSEUS_INTERNAL,
                        "the kernel has no random bytes to challenge the hub with");
    }
    prs_wire_put_hello(terms, body);
    enum perseus_status status = send_frame(member, PRS_WIRE_HELLO, body, sizeof body, deadline_ns);
    if (status == PERSEUS_OK || status == PERSEUS_IO) {
        status =
            read_frame(member, PRS_WIRE_CHALLENGE, NULL, PRS_WIRE_CHALLENGE_BYTES, deadline_ns);
    }
    if (status != PERSEUS_OK || member->reader.header.type != PRS_WIRE_CHALLENGE) {
        return status;
    }
    prs_wire_get_challenge(member->reader.scratch, &challenge);
    memcpy(terms->nonce_of_hub, challenge.nonce, PRS_PROOF_NONCE_BYTES);
    if (!prs_proof_check(secret, PRS_PROOF_OF_HUB, terms, challenge.proof)) {
        return prs_fail(&member->log, PERSEUS_INVALID_ARGUMENT,
                        "who listens there does not know this PE's secret: its unique id is of "
                        "another job, or another process has taken the id's port; make a new id");
    }
    return PERSEUS_OK;
}

static enum perseus_status prove(struct prs_member *member, const unsigned char *secret,
                                 const struct prs_proof_terms *terms, uint64_t deadline_ns)
{
    unsigned char proof[PRS_PROOF_BYTES];
    prs_proof_make(secret, PRS_PROOF_OF_PE, terms, proof);
    enum perseus_status status =
        send_frame(member, PRS_WIRE_PROOF, proof, sizeof proof, deadline_ns);
    return status == PERSEUS_OK || status == PERSEUS_IO
               ? read_frame(member, PRS_WIRE_WELCOME, NULL, 0, deadline_ns)
               : status;
}

enum perseus_status prs_member_join(struct prs_member *member, int fd, const unsigned char *secret,
                                    uint64_t deadline_ns)
{
    struct prs_proof_terms terms;
    member->fd = fd;
    prs_wire_next(&member->reader);
    enum perseus_status status = greet(member, secret, &terms, deadline_ns);
    if (status == PERSEUS_OK && member->reader.header.type == PRS_WIRE_CHALLENGE) {
        status = prove(member, secret, &terms, deadline_ns);
    }
    if (status == PERSEUS_OK && member->reader.header.type == PRS_WIRE_FAILED) {
        status = on_failed(member, true);
    } else if (status == PERSEUS_IO ||
               (status == PERSEUS_OK && member->reader.header.type == PRS_WIRE_BYE)) {
        status = PERSEUS_AGAIN;
    } else if (status == PERSEUS_TIMEOUT) {
        prs_fail(&member->log, status,
                 "the hub took the connection but did not answer within %u ms: is %s running?",
                 member->timeout_ms, member->hub_rank < 0 ? "the launcher" : "PE 0");
    } else if (status == PERSEUS_PROTOCOL || status == PERSEUS_VERSION) {
        prs_fail(&member->log, status, "what answers is not the hub of a Perseus job");
    }
    if (status == PERSEUS_OK && !prs_own_fd_add(fd)) {
        status = prs_fail(&member->log, PERSEUS_OUT_OF_MEMORY, "no memory for the bootstrap");
    }
    if (status != PERSEUS_OK) {
        member->fd = -1; /* stays the caller's */
    }
    return status;
}

void prs_member_finish(struct prs_member *member, bool says_goodbye)
{
    if (member->fd >= 0) {
        if (says_goodbye && member->failure == PERSEUS_OK) {
            /* Best effort: a hub that does not take twenty bytes finds the socket closed. */
            send_frame(member, PRS_WIRE_BYE, NULL, 0, no_wait);
        }
        prs_own_fd_end(member->fd);
        member->fd = -1;
    }
    pthread_mutex_destroy(&member->mutex);
}

/* ---- calls ---- */

static enum perseus_status exchange(struct prs_member *member, const void *send, void *recv,
                                    size_t bytes)
{
    if (member->failure != PERSEUS_OK) {
        return member->failure;
    }
    if (member->is_hub_gone) {
        return lose_hub(member);
    }
    const uint64_t result_bytes = (uint64_t)bytes * (uint64_t)member->bootstrap.size;
    uint64_t deadline_ns = prs_member_deadline_ns(member);
    if (deadline_ns != UINT64_MAX) {
        deadline_ns += (uint64_t)HUB_GRACE_MS * 1000000u;
    }
    enum perseus_status status = send_frame(member, PRS_WIRE_GATHER, send, bytes, deadline_ns);
    if (status == PERSEUS_OK || status == PERSEUS_IO) {
        status = read_frame(member, PRS_WIRE_RESULT, recv, result_bytes, deadline_ns);
    }
    if (status == PERSEUS_OK && member->reader.header.type == PRS_WIRE_FAILED) {
        return on_failed(member, false);
    }
    if (status == PERSEUS_IO ||
        (status == PERSEUS_OK && member->reader.header.type == PRS_WIRE_BYE)) {
        return lose_hub(member);
    }
    if (status == PERSEUS_TIMEOUT) {
        prs_fail(&member->log, status, "the hub (%s) did not answer within %u ms: is it stopped?",
                 member->hub_rank < 0 ? "the launcher" : "PE 0", member->timeout_ms + HUB_GRACE_MS);
    } else if (status != PERSEUS_OK) {
        prs_fail(&member->log, status, "the hub sent something that is not of our protocol");
    }
    return status == PERSEUS_OK ? status : give_up(member, status, -1);
}

enum perseus_status prs_member_allgather(struct prs_bootstrap *bootstrap, const void *send,
                                         void *recv, size_t bytes)
{
    struct prs_member *member = (struct prs_member *)bootstrap;
    if (bytes > PRS_WIRE_GATHER_BYTES) {
        return prs_fail(&member->log, PERSEUS_LIMIT,
                        "a PE gathers at most %d bytes at once, not %zu: gather in pieces",
                        PRS_WIRE_GATHER_BYTES, bytes);
    }
    pthread_mutex_lock(&member->mutex);
    enum perseus_status status = exchange(member, send, recv, bytes);
    pthread_mutex_unlock(&member->mutex);
    return status;
}

/* Takes in what the hub has told meanwhile. */
static void look(struct prs_member *member)
{
    if (member->failure != PERSEUS_OK || member->is_hub_gone) {
        return;
    }
    enum perseus_status status = read_frame(member, PRS_WIRE_FAILED, NULL, 0, no_wait);
    if (status == PERSEUS_AGAIN) {
        return;
    }
    if (status != PERSEUS_OK) {
        lose_hub(member);
    } else if (member->reader.header.type == PRS_WIRE_FAILED) {
        on_failed(member, false);
    } else {
        member->is_hub_gone = true;
    }
}

enum perseus_status prs_member_health(struct prs_bootstrap *bootstrap, int *out_rank)
{
    struct prs_member *member = (struct prs_member *)bootstrap;
    if (pthread_mutex_trylock(&member->mutex) == 0) {
        look(member);
        pthread_mutex_unlock(&member->mutex);
    }
    int lost = atomic_load_explicit(&member->lost, memory_order_relaxed);
    if (lost == PRS_MEMBER_NONE_LOST) {
        return PERSEUS_OK;
    }
    *out_rank = lost;
    return PERSEUS_PEER_LOST;
}
