/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap of mpirun and srun: an allgather is a put under a key that counts the calls, a
 * fence that collects, and a get per PE. The runtime keeps every value until the job ends, so this
 * is for start-up, not for data: O(PEs * bytes) per call and node, for good.
 */
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/pmix_start.h"
#include "bootstrap/wire.h"

enum {
    NONE_LOST = -2,
    LOOK_MS = 50,    /* how soon a waiting call sees that a PE is lost */
    PREFIX_BYTES = 4 /* of a value: how many bytes its PE gathers, little-endian */
};

struct prs_pmix {
    struct prs_bootstrap bootstrap; /* first: ops get this address */
    struct prs_log log;
    struct prs_clock clock;
    uint32_t timeout_ms;
    pmix_proc_t self;
    size_t handler;
    uint32_t instance; /* tells its keys from those of earlier opens */
    uint32_t n_calls;
    enum perseus_status failure; /* of this job, for good; OK: none */
    atomic_int lost;             /* a rank, -1: the runtime, or NONE_LOST */
};

/* What PMIx's callback for a fence and the call that waits for it share; the last of both frees it,
 * because a call that gave up may not take it away from the callback. */
struct answer {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    int n_owners;
    bool is_there;
    pmix_status_t status;
};

static struct answer *create_answer(void)
{
    struct answer *answer = calloc(1, sizeof *answer);
    pthread_condattr_t attr;
    if (answer == NULL) {
        return NULL;
    }
    answer->n_owners = 2;
    pthread_mutex_init(&answer->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&answer->arrived, &attr);
    pthread_condattr_destroy(&attr);
    return answer;
}

static void destroy_answer(struct answer *answer)
{
    pthread_cond_destroy(&answer->arrived);
    pthread_mutex_destroy(&answer->mutex);
    free(answer);
}

static void leave_answer(struct answer *answer)
{
    pthread_mutex_lock(&answer->mutex);
    bool is_last = --answer->n_owners == 0;
    pthread_mutex_unlock(&answer->mutex);
    if (is_last) {
        destroy_answer(answer);
    }
}

static void on_fenced(pmix_status_t status, void *context)
{
    struct answer *answer = context;
    pthread_mutex_lock(&answer->mutex);
    answer->is_there = true;
    answer->status = status;
    pthread_cond_signal(&answer->arrived);
    pthread_mutex_unlock(&answer->mutex);
    leave_answer(answer);
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

static bool has_lost(const struct prs_pmix *pmix)
{
    return atomic_load_explicit(&pmix->lost, memory_order_relaxed) != NONE_LOST;
}

/* OK: it is there. TIMEOUT. PEER_LOST: the runtime told so meanwhile. */
static enum perseus_status await(const struct prs_pmix *pmix, struct answer *answer,
                                 uint64_t deadline_ns)
{
    enum perseus_status status = PERSEUS_OK;
    pthread_mutex_lock(&answer->mutex);
    while (!answer->is_there && status == PERSEUS_OK) {
        uint64_t now_ns = prs_clock_now_ns(&pmix->clock);
        uint64_t look_ns = now_ns + (uint64_t)LOOK_MS * 1000000u;
        if (now_ns >= deadline_ns) {
            status = PERSEUS_TIMEOUT;
        } else if (has_lost(pmix)) {
            status = PERSEUS_PEER_LOST;
        } else {
            const struct timespec until =
                timespec_of(look_ns < deadline_ns ? look_ns : deadline_ns);
            pthread_cond_timedwait(&answer->arrived, &answer->mutex, &until);
        }
    }
    pthread_mutex_unlock(&answer->mutex);
    return status;
}

/* ---- deaths ---- */

/* Relaxed: the number is all there is to see. The first loss is the cause. */
static void note_lost(struct prs_pmix *pmix, int rank)
{
    int none = NONE_LOST;
    atomic_compare_exchange_strong_explicit(&pmix->lost, &none, rank, memory_order_relaxed,
                                            memory_order_relaxed);
}

static void on_event(size_t handler, pmix_status_t status, const pmix_proc_t *source,
                     pmix_info_t info[], size_t n_info, pmix_info_t *results, size_t n_results,
                     pmix_event_notification_cbfunc_fn_t done, void *done_context)
{
    (void)handler;
    (void)results;
    (void)n_results;
    const pmix_proc_t *affected = source;
    struct prs_pmix *pmix = NULL;
    for (size_t i = 0; i < n_info; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_RETURN_OBJECT)) {
            pmix = info[i].value.data.ptr;
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) {
            affected = info[i].value.data.proc;
        }
    }
    bool is_runtime = status == PMIX_ERR_LOST_CONNECTION;
    if (pmix != NULL && (is_runtime || strcmp(affected->nspace, pmix->self.nspace) == 0)) {
        bool is_rank = !is_runtime && affected->rank < (pmix_rank_t)pmix->bootstrap.size;
        note_lost(pmix, is_rank ? (int)affected->rank : -1);
    }
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_context);
    }
}

static bool watch_deaths(struct prs_pmix *pmix)
{
    pmix_status_t codes[] = {PMIX_ERR_PROC_REQUESTED_ABORT, PMIX_ERR_PROC_TERM_WO_SYNC,
                             PMIX_ERR_PROC_KILLED_BY_CMD,   PMIX_ERR_PROC_ABORTED_BY_SIG,
                             PMIX_ERR_PROC_FAILED_TO_START, PMIX_ERR_LOST_CONNECTION};
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_RETURN_OBJECT, pmix, PMIX_POINTER);
    /* Without a callback it waits, and returns the handler's number or a negative error. */
    pmix_status_t handler = PMIx_Register_event_handler(codes, sizeof codes / sizeof *codes, &info,
                                                        1, on_event, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
    pmix->handler = handler >= 0 ? (size_t)handler : 0;
    return handler >= 0;
}

/* ---- allgather ---- */

static enum perseus_status put(struct prs_pmix *pmix, const char *key, const void *send,
                               size_t bytes)
{
    unsigned char *prefixed = malloc(PREFIX_BYTES + bytes);
    if (prefixed == NULL) {
        return prs_fail(&pmix->log, PERSEUS_OUT_OF_MEMORY, "no memory to gather %zu bytes", bytes);
    }
    for (int i = 0; i < PREFIX_BYTES; i++) {
        prefixed[i] = (unsigned char)(bytes >> (8 * i));
    }
    if (bytes > 0) {
        memcpy(prefixed + PREFIX_BYTES, send, bytes);
    }
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)prefixed;
    value.data.bo.size = PREFIX_BYTES + bytes;
    pmix_status_t result = PMIx_Put(PMIX_GLOBAL, key, &value);
    free(prefixed); /* PMIx has copied it */
    if (result == PMIX_SUCCESS) {
        result = PMIx_Commit();
    }
    return result == PMIX_SUCCESS
               ? PERSEUS_OK
               : prs_fail(&pmix->log, PERSEUS_IO, "PMIx does not take %zu bytes: %s", bytes,
                          PMIx_Error_string(result));
}

static enum perseus_status say_lost(struct prs_pmix *pmix)
{
    int rank = atomic_load_explicit(&pmix->lost, memory_order_relaxed);
    return rank >= 0 ? prs_fail(&pmix->log, PERSEUS_PEER_LOST,
                                "PE %d died, and with it the job: see its last messages", rank)
                     : prs_fail(&pmix->log, PERSEUS_PEER_LOST,
                                "a PE or the runtime is gone, and with it the job: see the "
                                "messages of mpirun or srun");
}

/* Asks this node's runtime, which answers at once that it has the value or that it has not. The
 * form of PMIx_Get that does not block would have a deadline, but some versions leak its values. */
static pmix_status_t look_up(const struct prs_pmix *pmix, int rank, const char *key,
                             pmix_value_t **out)
{
    bool immediate = true;
    pmix_info_t info;
    pmix_proc_t peer;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &immediate, PMIX_BOOL);
    PMIX_LOAD_PROCID(&peer, pmix->self.nspace, (pmix_rank_t)rank);
    pmix_status_t result = PMIx_Get(&peer, key, &info, 1, out);
    PMIX_INFO_DESTRUCT(&info);
    return result;
}

/* Lists those PEs of this node that have not made the call (of others the runtime does not know)
 * and returns the first, or -1. */
static int list_missing(const struct prs_pmix *pmix, const char *key, char *text, size_t text_bytes)
{
    int first = -1;
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    size_t used = 0;
    text[0] = '\0';
    PMIX_LOAD_PROCID(&job, pmix->self.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&job, PMIX_LOCAL_PEERS, NULL, 0, &value) != PMIX_SUCCESS) {
        return -1;
    }
    const char *peers = value->type == PMIX_STRING ? value->data.string : "";
    while (*peers >= '0' && *peers <= '9' && used + 16 < text_bytes) {
        char *end;
        int rank = (int)strtol(peers, &end, 10);
        pmix_value_t *theirs = NULL;
        if (look_up(pmix, rank, key, &theirs) == PMIX_SUCCESS) {
            PMIX_VALUE_RELEASE(theirs);
        } else {
            first = used == 0 ? rank : first;
            used += (size_t)snprintf(text + used, text_bytes - used, "%s PE %d",
                                     used > 0 ? "," : "", rank);
        }
        peers = *end == ',' ? end + 1 : end;
    }
    PMIX_VALUE_RELEASE(value);
    return first;
}

static enum perseus_status say_late(const struct prs_pmix *pmix, const char *key)
{
    char missing[300];
    list_missing(pmix, key, missing, sizeof missing);
    return prs_fail(&pmix->log, PERSEUS_TIMEOUT,
                    "not all of %d PEs made the collective call within %u ms, of this node's PEs "
                    "not:%s. See whether they run, and raise PERSEUS_TIMEOUT_MS if they are only "
                    "slow",
                    pmix->bootstrap.size, pmix->timeout_ms,
                    missing[0] != '\0' ? missing : " (all did)");
}

static enum perseus_status fence(struct prs_pmix *pmix, const char *key, uint64_t deadline_ns)
{
    struct answer *answer = create_answer();
    if (answer == NULL) {
        return prs_fail(&pmix->log, PERSEUS_OUT_OF_MEMORY, "no memory to wait for PMIx");
    }
    bool collect = true;
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    enum perseus_status status = PERSEUS_OK;
    pmix_status_t result = PMIx_Fence_nb(NULL, 0, &info, 1, on_fenced, answer);
    if (result == PMIX_SUCCESS) {
        status = await(pmix, answer, deadline_ns);
        result = status == PERSEUS_OK ? answer->status : PMIX_SUCCESS;
        leave_answer(answer);
    } else {
        destroy_answer(answer); /* no callback will come */
    }
    PMIX_INFO_DESTRUCT(&info);
    if (status == PERSEUS_TIMEOUT) {
        return say_late(pmix, key);
    }
    if (status == PERSEUS_OK && result != PMIX_SUCCESS) {
        /* With one of several words for it, PMIx ends a fence when all PEs that are left have come:
         * who has not is gone. */
        char missing[300];
        prs_log(&pmix->log, PERSEUS_LOG_INFO, "PMIx fence: %s", PMIx_Error_string(result));
        note_lost(pmix, list_missing(pmix, key, missing, sizeof missing));
        status = PERSEUS_PEER_LOST;
    }
    return status == PERSEUS_PEER_LOST ? say_lost(pmix) : status;
}

static enum perseus_status copy_value(const struct prs_pmix *pmix, int rank,
                                      const pmix_value_t *value, void *to, size_t bytes)
{
    const pmix_byte_object_t *object = &value->data.bo;
    size_t theirs = 0;
    bool is_ours = value->type == PMIX_BYTE_OBJECT && object->size >= PREFIX_BYTES;
    for (int i = 0; is_ours && i < PREFIX_BYTES; i++) {
        theirs |= (size_t)(unsigned char)object->bytes[i] << (8 * i);
    }
    if (!is_ours || object->size != PREFIX_BYTES + theirs) {
        return prs_fail(&pmix->log, PERSEUS_PROTOCOL, "PMIx has a malformed value of PE %d", rank);
    }
    if (theirs != bytes) {
        return prs_fail(&pmix->log, PERSEUS_INVALID_ARGUMENT,
                        "PE %d gathers %zu bytes, this PE %zu: every PE must make the same "
                        "collective calls in the same order",
                        rank, theirs, bytes);
    }
    if (bytes > 0) {
        memcpy(to, object->bytes + PREFIX_BYTES, bytes);
    }
    return PERSEUS_OK;
}

static enum perseus_status get(struct prs_pmix *pmix, int rank, const char *key, void *to,
                               size_t bytes)
{
    pmix_value_t *value = NULL;
    pmix_status_t result = look_up(pmix, rank, key, &value);
    if (result == PMIX_ERR_NOT_FOUND) {
        /* A fence without the PEs that are gone may even count as a success. */
        note_lost(pmix, rank);
        return say_lost(pmix);
    }
    if (result != PMIX_SUCCESS) {
        return prs_fail(&pmix->log, PERSEUS_IO, "PMIx does not give the value of PE %d: %s", rank,
                        PMIx_Error_string(result));
    }
    enum perseus_status status = copy_value(pmix, rank, value, to, bytes);
    PMIX_VALUE_RELEASE(value);
    return status;
}

static uint64_t deadline_of(const struct prs_pmix *pmix)
{
    return pmix->timeout_ms == PERSEUS_NO_TIMEOUT
               ? UINT64_MAX
               : prs_clock_now_ns(&pmix->clock) + (uint64_t)pmix->timeout_ms * 1000000u;
}

static enum perseus_status allgather(struct prs_bootstrap *bootstrap, const void *send, void *recv,
                                     size_t bytes)
{
    struct prs_pmix *pmix = (struct prs_pmix *)bootstrap;
    if (bytes > PRS_WIRE_GATHER_BYTES) {
        return prs_fail(&pmix->log, PERSEUS_LIMIT,
                        "a PE gathers at most %d bytes at once, not %zu: gather in pieces",
                        PRS_WIRE_GATHER_BYTES, bytes);
    }
    if (pmix->failure != PERSEUS_OK) {
        return pmix->failure;
    }
    uint64_t deadline_ns = deadline_of(pmix);
    char key[48];
    snprintf(key, sizeof key, "perseus.%u.%u", pmix->instance, pmix->n_calls++);
    enum perseus_status status = has_lost(pmix) ? say_lost(pmix) : put(pmix, key, send, bytes);
    if (status == PERSEUS_OK) {
        status = fence(pmix, key, deadline_ns);
    }
    for (int rank = 0; rank < bootstrap->size && status == PERSEUS_OK; rank++) {
        status = get(pmix, rank, key, (unsigned char *)recv + (size_t)rank * bytes, bytes);
    }
    pmix->failure = status;
    return status;
}

static enum perseus_status health(struct prs_bootstrap *bootstrap, int *out_rank)
{
    const struct prs_pmix *pmix = (const struct prs_pmix *)bootstrap;
    int lost = atomic_load_explicit(&pmix->lost, memory_order_relaxed);
    if (lost == NONE_LOST) {
        return PERSEUS_OK;
    }
    *out_rank = lost;
    return PERSEUS_PEER_LOST;
}

/* ---- life ---- */

static void abandon(struct prs_bootstrap *bootstrap)
{
    struct prs_pmix *pmix = (struct prs_pmix *)bootstrap;
    /* No PMIx_Finalize: to the runtime a process that ends without it has failed, and it ends the
     * others. */
    PMIx_Deregister_event_handler(pmix->handler, NULL, NULL);
    free(pmix);
}

static void leave(struct prs_bootstrap *bootstrap)
{
    abandon(bootstrap);
    PMIx_Finalize(NULL, 0);
}

static const struct prs_bootstrap_ops pmix_ops = {
    .name = "pmix",
    .allgather = allgather,
    .health = health,
    .close = leave,
    .abandon = abandon,
};

/* A number that is the same on every PE and that no earlier open had while PMIx stays initialized
 * (by MPI, say): some of its stores give the first value of a key for ever. Without that, opening
 * again is not safe anyway: PMIx takes a PE that disconnects to have left, and may end a fence of
 * the others without it. */
static enum perseus_status number_instance(struct prs_pmix *pmix)
{
    static const char key[] = "perseus.instance";
    pmix_value_t *value = NULL;
    if (look_up(pmix, (int)pmix->self.rank, key, &value) == PMIX_SUCCESS) {
        pmix->instance = value->type == PMIX_UINT32 ? value->data.uint32 + 1 : 0;
        PMIX_VALUE_RELEASE(value);
    }
    pmix_value_t next = {.type = PMIX_UINT32};
    next.data.uint32 = pmix->instance;
    pmix_status_t result = PMIx_Put(PMIX_GLOBAL, key, &next);
    return result == PMIX_SUCCESS
               ? PERSEUS_OK
               : prs_fail(&pmix->log, PERSEUS_IO, "PMIx does not take a value: %s",
                          PMIx_Error_string(result));
}

static enum perseus_status find_place(struct prs_pmix *pmix)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&job, pmix->self.nspace, PMIX_RANK_WILDCARD);
    pmix_status_t result = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (result != PMIX_SUCCESS) {
        return prs_fail(&pmix->log, PERSEUS_IO, "PMIx does not say how many PEs the job has: %s",
                        PMIx_Error_string(result));
    }
    uint32_t size = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
    PMIX_VALUE_RELEASE(value);
    if (size == 0 || size > PRS_WIRE_SIZE_MAX || pmix->self.rank >= size) {
        return prs_fail(&pmix->log, PERSEUS_PROTOCOL, "PMIx says: rank %u of %u PEs",
                        pmix->self.rank, size);
    }
    pmix->bootstrap.size = (int)size;
    pmix->bootstrap.rank = (int)pmix->self.rank;
    pmix->log.pe = pmix->bootstrap.rank;
    return PERSEUS_OK;
}

enum perseus_status prs_bootstrap_open_pmix(uint32_t timeout_ms, const struct prs_log *log,
                                            struct prs_bootstrap **out)
{
    struct prs_pmix *pmix = calloc(1, sizeof *pmix);
    if (pmix == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the bootstrap");
    }
    pmix->bootstrap.ops = &pmix_ops;
    pmix->log = log != NULL ? *log : (struct prs_log){.pe = -1};
    pmix->clock = prs_clock_monotonic();
    pmix->timeout_ms = timeout_ms;
    atomic_init(&pmix->lost, NONE_LOST);
    pmix_status_t result = prs_pmix_start(&pmix->self);
    if (result != PMIX_SUCCESS) {
        free(pmix);
        return prs_fail(log, PERSEUS_NOT_FOUND,
                        "no PMIx runtime answers (%s): start the program with mpirun or srun "
                        "--mpi=pmix, or use perseus run",
                        PMIx_Error_string(result));
    }
    enum perseus_status status = find_place(pmix);
    if (status == PERSEUS_OK) {
        status = number_instance(pmix);
    }
    if (status == PERSEUS_OK && !watch_deaths(pmix)) {
        status = prs_fail(log, PERSEUS_IO, "PMIx does not tell about the end of PEs");
    }
    if (status != PERSEUS_OK) {
        PMIx_Finalize(NULL, 0);
        free(pmix);
        return status;
    }
    *out = &pmix->bootstrap;
    return PERSEUS_OK;
}
