/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/star.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/outbox.h"
#include "bootstrap/proof.h"
#include "bootstrap/warnings.h"
#include "bootstrap/wire.h"

enum { NAME_BYTES = 64 };

/* GREETING: no hello yet. PROVING: the hello is there and challenged, its proof is not. */
enum conn_state { FREE, GREETING, PROVING, MEMBER, CLOSING };
enum rank_state { ABSENT, JOINED, GONE };

struct rank {
    enum rank_state state;
    bool has_socket;   /* of its own: it does not come as a stranger */
    bool has_gathered; /* its contribution to the open round is complete */
};

struct conn {
    enum conn_state state;
    int rank; /* PRS_STAR_STRANGER until the proof */
    bool is_dirty;
    int next_dirty;
    struct prs_proof_terms terms; /* from the hello on */
    uint64_t deadline_ns;         /* of a stranger's proof */
    struct prs_wire_reader reader;
    struct prs_outbox outbox;
    char name[NAME_BYTES];
};

struct prs_star {
    struct prs_log log;
    unsigned char secret[PRS_PROOF_SECRET_BYTES];
    int size, n_slots, n_strangers;
    int n_joined; /* ever */
    int n_gone;
    int leaver; /* the first rank that left with BYE, or -1 */
    uint64_t now_ns;
    struct conn *conns;
    struct rank *ranks;
    int first_dirty;
    /* The round being collected. */
    bool is_open;
    uint64_t bytes;
    int n_gathered;
    uint64_t deadline_ns; /* the earliest of those who wait */
    unsigned char *collecting;
    /* The round being sent. */
    unsigned char *sending;
    int n_unsent;
    /* The first failure; OK: none. */
    struct prs_wire_failed failure;
    uint32_t failure_rank;
    struct prs_warnings warnings; /* about strangers */
};

static uint64_t after_ms(const struct prs_star *star, uint32_t timeout_ms)
{
    return timeout_ms == PERSEUS_NO_TIMEOUT ? UINT64_MAX
                                            : star->now_ns + (uint64_t)timeout_ms * 1000000u;
}

enum perseus_status prs_star_create(int size, const unsigned char *secret,
                                    const struct prs_log *log, struct prs_star **out)
{
    if (size < 1 || size > PRS_WIRE_SIZE_MAX) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "a job has 1 to %d PEs, not %d",
                        PRS_WIRE_SIZE_MAX, size);
    }
    struct prs_star *star = calloc(1, sizeof *star);
    if (star != NULL) {
        /* One more than can be in use, for the newcomer that drives out the oldest stranger. */
        star->n_slots = size + PRS_STAR_STRANGERS + 1;
        star->conns = calloc((size_t)star->n_slots, sizeof *star->conns);
        star->ranks = calloc((size_t)size, sizeof *star->ranks);
    }
    if (star == NULL || star->conns == NULL || star->ranks == NULL) {
        prs_star_destroy(star);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the hub of %d PEs", size);
    }
    star->log = log != NULL ? *log : (struct prs_log){.pe = -1};
    star->warnings.log = &star->log;
    memcpy(star->secret, secret, sizeof star->secret);
    star->size = size;
    star->leaver = -1;
    star->first_dirty = -1;
    *out = star;
    return PERSEUS_OK;
}

void prs_star_destroy(struct prs_star *star)
{
    if (star == NULL) {
        return;
    }
    prs_warnings_finish(&star->warnings);
    free(star->collecting);
    free(star->sending);
    free(star->ranks);
    free(star->conns);
    free(star);
}

int prs_star_slots(const struct prs_star *star)
{
    return star->n_slots;
}

static void mark_dirty(struct prs_star *star, struct conn *conn)
{
    if (!conn->is_dirty) {
        conn->is_dirty = true;
        conn->next_dirty = star->first_dirty;
        star->first_dirty = (int)(conn - star->conns);
    }
}

int prs_star_next_dirty(struct prs_star *star)
{
    int slot = star->first_dirty;
    if (slot >= 0) {
        star->first_dirty = star->conns[slot].next_dirty;
        star->conns[slot].is_dirty = false;
    }
    return slot;
}

/* ---- output ---- */

/* One PE has read the round being sent, or never will. */
static void release_result(struct prs_star *star)
{
    if (--star->n_unsent == 0) {
        free(star->sending);
        star->sending = NULL;
    }
}

size_t prs_star_output(struct prs_star *star, int slot, const unsigned char **out_at)
{
    return prs_outbox_next(&star->conns[slot].outbox, out_at);
}

void prs_star_sent(struct prs_star *star, int slot, size_t n)
{
    enum prs_wire_type type;
    if (prs_outbox_sent(&star->conns[slot].outbox, n, &type) && type == PRS_WIRE_RESULT) {
        release_result(star);
    }
}

/* ---- failure ---- */

static void fail(struct prs_star *star, enum perseus_status status, int rank, uint32_t detail)
{
    if (star->failure.status != PERSEUS_OK) {
        return; /* the first one is the cause */
    }
    star->failure = (struct prs_wire_failed){status, detail};
    star->failure_rank = (uint32_t)rank;
    for (int i = 0; i < star->n_slots; i++) {
        if (star->conns[i].state == MEMBER) {
            prs_outbox_push_failed(&star->conns[i].outbox, star->failure_rank, &star->failure);
            mark_dirty(star, &star->conns[i]);
        }
    }
}

static void set_gone(struct prs_star *star, int rank)
{
    if (star->ranks[rank].state != GONE) {
        star->ranks[rank].state = GONE;
        star->n_gone++;
    }
}

static void lose(struct prs_star *star, int rank, const char *how)
{
    prs_log(&star->log, PERSEUS_LOG_INFO, "hub: PE %d %s", rank, how);
    set_gone(star, rank);
    fail(star, PERSEUS_PEER_LOST, rank, PRS_WIRE_DIED);
}

static bool is_live(const struct conn *conn)
{
    return conn->state != FREE && conn->state != CLOSING;
}

static bool is_stranger(const struct conn *conn)
{
    return is_live(conn) && conn->rank == PRS_STAR_STRANGER;
}

static void close_soon(struct prs_star *star, struct conn *conn)
{
    if (is_stranger(conn)) {
        star->n_strangers--;
    }
    conn->state = CLOSING;
    mark_dirty(star, conn);
}

/* A member, or a socket that belongs to a rank, turned out to be unusable. */
static void expel(struct prs_star *star, struct conn *conn, const char *how)
{
    close_soon(star, conn);
    lose(star, conn->rank, how);
}

/* ---- connections ---- */

static void drop_oldest_stranger(struct prs_star *star)
{
    struct conn *oldest = NULL;
    for (int i = 0; i < star->n_slots; i++) {
        struct conn *conn = &star->conns[i];
        if (is_stranger(conn) && (oldest == NULL || conn->deadline_ns < oldest->deadline_ns)) {
            oldest = conn;
        }
    }
    if (oldest != NULL) {
        prs_warnings_dropped(&star->warnings, star->now_ns, oldest->name,
                             "too many connections that have not proven that they know the secret");
        close_soon(star, oldest);
    }
}

int prs_star_add(struct prs_star *star, int rank, const char *name)
{
    if (rank == PRS_STAR_STRANGER) {
        if (star->n_strangers == PRS_STAR_STRANGERS) {
            drop_oldest_stranger(star);
        }
        star->n_strangers++;
    } else {
        star->ranks[rank].has_socket = true;
    }
    int slot = 0;
    while (star->conns[slot].state != FREE) {
        slot++;
    }
    struct conn *conn = &star->conns[slot];
    conn->state = GREETING;
    conn->rank = rank;
    conn->deadline_ns = after_ms(star, PRS_STAR_HELLO_MS);
    conn->outbox = (struct prs_outbox){0};
    snprintf(conn->name, sizeof conn->name, "%s", name);
    prs_wire_next(&conn->reader);
    return slot;
}

void prs_star_closed(struct prs_star *star, int slot)
{
    struct conn *conn = &star->conns[slot];
    if (is_stranger(conn)) {
        star->n_strangers--;
        prs_warnings_dropped(&star->warnings, star->now_ns, conn->name,
                             "closed before it had proven that it knows the secret");
    } else if (is_live(conn)) {
        lose(star, conn->rank, "closed its connection without saying goodbye");
    }
    if (prs_outbox_has(&conn->outbox, PRS_WIRE_RESULT)) {
        release_result(star);
    }
    conn->outbox = (struct prs_outbox){0};
    conn->state = FREE;
}

bool prs_star_closing(const struct prs_star *star, int slot)
{
    return star->conns[slot].state == CLOSING;
}

/* ---- input ---- */

static void refuse(struct prs_star *star, struct conn *conn, enum perseus_status status,
                   uint32_t detail, const char *what)
{
    const struct prs_wire_failed failed = {status, detail};
    prs_warnings_dropped(&star->warnings, star->now_ns, conn->name, what);
    prs_outbox_push_failed(&conn->outbox, conn->reader.header.rank, &failed);
    close_soon(star, conn);
    if (conn->rank != PRS_STAR_STRANGER) {
        lose(star, conn->rank, "could not join");
    }
}

/* Nothing of a hello is acted on before its proof but the version, which has to be told. */
static void on_hello(struct prs_star *star, struct conn *conn)
{
    const struct prs_wire_header *header = &conn->reader.header;
    struct prs_proof_challenge challenge;
    if (header->version != PRS_WIRE_VERSION) {
        refuse(star, conn, PERSEUS_VERSION, PRS_WIRE_VERSION, "another version of Perseus");
        return;
    }
    conn->terms.rank = header->rank;
    prs_wire_get_hello(conn->reader.scratch, &conn->terms);
    if (!prs_proof_challenge(star->secret, &conn->terms, &challenge)) {
        refuse(star, conn, PERSEUS_IO, 0, "the kernel has no random bytes to challenge it with");
        return;
    }
    prs_outbox_push_challenge(&conn->outbox, header->rank, &challenge);
    conn->state = PROVING;
    mark_dirty(star, conn);
}

static void admit(struct prs_star *star, struct conn *conn)
{
    star->n_strangers -= is_stranger(conn);
    conn->state = MEMBER;
    conn->rank = (int)conn->terms.rank;
    star->ranks[conn->rank].state = JOINED;
    star->n_joined++;
    prs_outbox_push(&conn->outbox, PRS_WIRE_WELCOME, conn->terms.rank);
    mark_dirty(star, conn);
}

static void on_proof(struct prs_star *star, struct conn *conn)
{
    const uint32_t rank = conn->terms.rank;
    const bool is_unknown = is_stranger(conn);
    if (!prs_proof_check(star->secret, PRS_PROOF_OF_PE, &conn->terms, conn->reader.scratch)) {
        refuse(star, conn, PERSEUS_INVALID_ARGUMENT, PRS_WIRE_WRONG_SECRET,
               "it does not know this job's secret");
    } else if (rank >= (uint32_t)star->size || (!is_unknown && rank != (uint32_t)conn->rank)) {
        refuse(star, conn, PERSEUS_INVALID_ARGUMENT, PRS_WIRE_WRONG_RANK,
               "its rank is not one of this job's, or not its own");
    } else if (conn->terms.size != (uint32_t)star->size) {
        refuse(star, conn, PERSEUS_INVALID_ARGUMENT, PRS_WIRE_WRONG_SIZE,
               "it was told another number of PEs");
    } else if (star->ranks[rank].state != ABSENT || (is_unknown && star->ranks[rank].has_socket)) {
        refuse(star, conn, PERSEUS_INVALID_ARGUMENT, PRS_WIRE_DUPLICATE,
               "its rank has joined already");
    } else if (star->failure.status != PERSEUS_OK) {
        prs_outbox_push_failed(&conn->outbox, star->failure_rank, &star->failure);
        close_soon(star, conn);
        set_gone(star, (int)rank);
    } else {
        admit(star, conn);
    }
}

/* A contribution begins: its place must be there before its body comes. */
static void on_gather(struct prs_star *star, struct conn *conn)
{
    const uint64_t bytes = conn->reader.header.bytes;
    if (star->failure.status == PERSEUS_OK && star->leaver >= 0) {
        fail(star, PERSEUS_PEER_LOST, star->leaver, PRS_WIRE_LEFT);
    }
    if (star->failure.status != PERSEUS_OK) {
        return; /* it has been told; the body is forgotten */
    }
    if (star->ranks[conn->rank].has_gathered || prs_outbox_has(&conn->outbox, PRS_WIRE_RESULT)) {
        expel(star, conn, "gathered again before it had read the last result");
        return;
    }
    if (!star->is_open) {
        /* Nobody still has the round before last in its queue: who contributes has read it. */
        star->collecting = bytes > 0 ? malloc((size_t)star->size * (size_t)bytes) : NULL;
        if (bytes > 0 && star->collecting == NULL) {
            prs_log(&star->log, PERSEUS_LOG_ERROR,
                    "hub: no memory to gather %llu bytes from each of %d PEs",
                    (unsigned long long)bytes, star->size);
            fail(star, PERSEUS_OUT_OF_MEMORY, conn->rank, 0);
            return;
        }
        star->is_open = true;
        star->bytes = bytes;
        star->n_gathered = 0;
        star->deadline_ns = UINT64_MAX;
    } else if (bytes != star->bytes) {
        fail(star, PERSEUS_INVALID_ARGUMENT, conn->rank, 0);
        return;
    }
    if (bytes > 0) {
        conn->reader.body = star->collecting + (size_t)conn->rank * (size_t)bytes;
    }
}

static void on_gathered(struct prs_star *star, struct conn *conn)
{
    if (star->failure.status != PERSEUS_OK) {
        return;
    }
    uint64_t deadline_ns = after_ms(star, conn->terms.timeout_ms);
    star->deadline_ns = deadline_ns < star->deadline_ns ? deadline_ns : star->deadline_ns;
    star->ranks[conn->rank].has_gathered = true;
    if (++star->n_gathered < star->size) {
        return;
    }
    star->sending = star->collecting;
    star->collecting = NULL;
    star->is_open = false;
    star->n_unsent = star->size;
    for (int i = 0; i < star->n_slots; i++) {
        struct conn *member = &star->conns[i];
        if (member->state == MEMBER) {
            prs_outbox_push_result(&member->outbox, (uint32_t)member->rank, star->sending,
                                   star->bytes * (uint64_t)star->size);
            mark_dirty(star, member);
            star->ranks[member->rank].has_gathered = false;
        }
    }
}

static void on_bye(struct prs_star *star, struct conn *conn)
{
    close_soon(star, conn);
    set_gone(star, conn->rank);
    star->leaver = star->leaver < 0 ? conn->rank : star->leaver;
    if (star->is_open) {
        fail(star, PERSEUS_PEER_LOST, conn->rank, PRS_WIRE_LEFT);
    }
}

static void reject(struct prs_star *star, struct conn *conn, enum perseus_status status)
{
    if (conn->rank != PRS_STAR_STRANGER) {
        expel(star, conn, "sent something that is not of our protocol");
        return;
    }
    prs_warnings_dropped(&star->warnings, star->now_ns, conn->name,
                         status == PERSEUS_VERSION ? "another version of Perseus"
                                                   : "it does not begin with our hello");
    close_soon(star, conn);
}

size_t prs_star_input(struct prs_star *star, int slot, unsigned char **out_at)
{
    struct conn *conn = &star->conns[slot];
    *out_at = prs_wire_place(&conn->reader);
    return prs_wire_room(&conn->reader);
}

static bool may_send(const struct conn *conn, const struct prs_wire_header *header)
{
    switch (conn->state) {
    case GREETING:
        return header->type == PRS_WIRE_HELLO;
    case PROVING:
        return header->type == PRS_WIRE_PROOF && header->rank == conn->terms.rank;
    default:
        return (header->type == PRS_WIRE_GATHER || header->type == PRS_WIRE_BYE) &&
               header->rank == (uint32_t)conn->rank;
    }
}

void prs_star_received(struct prs_star *star, int slot, size_t n)
{
    struct conn *conn = &star->conns[slot];
    struct prs_wire_reader *reader = &conn->reader;
    bool has_header = false;
    enum perseus_status status = prs_wire_received(reader, n, &has_header);
    if (status == PERSEUS_OK && has_header) {
        bool allowed = may_send(conn, &reader->header);
        status = allowed ? PERSEUS_OK : PERSEUS_PROTOCOL;
    }
    if (status != PERSEUS_OK) {
        reject(star, conn, status);
        return;
    }
    if (has_header && reader->header.type == PRS_WIRE_GATHER) {
        on_gather(star, conn);
    }
    if (!prs_wire_complete(reader) || conn->state == CLOSING) {
        return;
    }
    if (reader->header.type == PRS_WIRE_HELLO) {
        on_hello(star, conn);
    } else if (reader->header.type == PRS_WIRE_PROOF) {
        on_proof(star, conn);
    } else if (reader->header.type == PRS_WIRE_GATHER) {
        on_gathered(star, conn);
    } else {
        on_bye(star, conn);
    }
    prs_wire_next(reader);
}

/* ---- time and ends ---- */

/* Fails the round and says who is missing, as far as one line goes. */
static void time_out(struct prs_star *star)
{
    char text[400] = "";
    size_t used = 0;
    int first = -1, n = 0;
    for (int rank = 0; rank < star->size; rank++) {
        if (star->ranks[rank].has_gathered) {
            continue;
        }
        first = n == 0 ? rank : first;
        n++;
        if (used + 40 < sizeof text) {
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s %d%s", used > 0 ? "," : "",
                                 rank, star->ranks[rank].state == ABSENT ? " (never joined)" : "");
        }
    }
    prs_log(&star->log, PERSEUS_LOG_ERROR,
            "%d of %d PEs did not make the collective call before the deadline:%s%s. See whether "
            "they were started, and raise PERSEUS_TIMEOUT_MS if they are only slow",
            n, star->size, text, used + 40 < sizeof text ? "" : ", ...");
    fail(star, PERSEUS_TIMEOUT, first, (uint32_t)n);
}

uint64_t prs_star_tick(struct prs_star *star, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    star->now_ns = now_ns;
    for (int i = 0; i < star->n_slots && star->n_strangers > 0; i++) {
        struct conn *conn = &star->conns[i];
        if (!is_stranger(conn)) {
            continue;
        }
        if (conn->deadline_ns <= now_ns) {
            prs_warnings_dropped(&star->warnings, star->now_ns, conn->name,
                                 "it has not proven in time that it knows the secret");
            close_soon(star, conn);
        } else if (conn->deadline_ns < next_ns) {
            next_ns = conn->deadline_ns;
        }
    }
    if (star->is_open && star->failure.status == PERSEUS_OK) {
        if (star->deadline_ns <= now_ns) {
            time_out(star);
        } else if (star->deadline_ns < next_ns) {
            next_ns = star->deadline_ns;
        }
    }
    return next_ns;
}

void prs_star_report_death(struct prs_star *star, int rank)
{
    if (star->ranks[rank].state == GONE) {
        return;
    }
    for (int i = 0; i < star->n_slots; i++) {
        struct conn *conn = &star->conns[i];
        if (conn->rank == rank && is_live(conn)) {
            close_soon(star, conn);
        }
    }
    lose(star, rank, "died");
}

void prs_star_finish(struct prs_star *star)
{
    for (int i = 0; i < star->n_slots; i++) {
        struct conn *conn = &star->conns[i];
        if (conn->state == MEMBER) {
            prs_outbox_push(&conn->outbox, PRS_WIRE_BYE, (uint32_t)conn->rank);
            close_soon(star, conn);
        }
    }
}

bool prs_star_has_failed(const struct prs_star *star)
{
    return star->failure.status != PERSEUS_OK;
}

int prs_star_first_lost(const struct prs_star *star)
{
    return star->failure.status == PERSEUS_PEER_LOST ? (int)star->failure_rank : -1;
}

bool prs_star_owes(const struct prs_star *star)
{
    for (int i = 0; i < star->n_slots; i++) {
        if (star->conns[i].outbox.n > 0) {
            return true;
        }
    }
    return false;
}

bool prs_star_is_complete(const struct prs_star *star)
{
    return star->n_joined == star->size;
}

bool prs_star_is_gone(const struct prs_star *star, int rank)
{
    return star->ranks[rank].state == GONE;
}

bool prs_star_is_over(const struct prs_star *star)
{
    return star->n_gone == star->size;
}
