/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever can reach the port of a tcp job, but does not know its secret, changes nothing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "bootstrap/star.h"
#include "bootstrap/stream.h"
#include "bootstrap/unique_id.h"
#include "bootstrap/wire.h"
#include "job.h"

enum {
    HELLO_BYTES = PRS_WIRE_HEADER_BYTES + PRS_WIRE_HELLO_BYTES,
    CHALLENGE_BYTES = PRS_WIRE_HEADER_BYTES + PRS_WIRE_CHALLENGE_BYTES,
    PROOF_BYTES = PRS_WIRE_HEADER_BYTES + PRS_PROOF_BYTES
};

static struct prs_unique_id decode(const struct perseus_unique_id *id)
{
    struct prs_unique_id decoded;
    memset(&decoded, 0, sizeof decoded);
    prs_unique_id_decode(id, NULL, &decoded);
    return decoded;
}

static int connect_to(const struct job *job)
{
    const struct prs_unique_id id = decode(&job->id);
    return prs_stream_connect(&id.address, JOB_PATIENT_MS);
}

static struct prs_proof_terms terms_of(const struct job *job, uint32_t rank)
{
    return (struct prs_proof_terms){
        .rank = rank, .size = (uint32_t)job->size, .timeout_ms = JOB_PATIENT_MS};
}

static void make_hello(const struct prs_proof_terms *terms, unsigned char out[HELLO_BYTES])
{
    const struct prs_wire_header header = {PRS_WIRE_VERSION, PRS_WIRE_HELLO, terms->rank,
                                           PRS_WIRE_HELLO_BYTES};
    prs_wire_put_header(&header, out);
    prs_wire_put_hello(terms, out + PRS_WIRE_HEADER_BYTES);
}

/* Reads the hub's challenge and makes the proof; the caller breaks it. False: there was none. */
static bool make_proof(const struct job *job, int fd, struct prs_proof_terms *terms,
                       unsigned char out[PROOF_BYTES])
{
    const struct prs_unique_id id = decode(&job->id);
    const struct prs_wire_header header = {PRS_WIRE_VERSION, PRS_WIRE_PROOF, terms->rank,
                                           PRS_PROOF_BYTES};
    unsigned char bytes[CHALLENGE_BYTES];
    struct prs_proof_challenge challenge;
    size_t have = 0;
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    while (have < sizeof bytes && poll(&pollfd, 1, JOB_PATIENT_MS) == 1) {
        ssize_t n = recv(fd, bytes + have, sizeof bytes - have, 0);
        if (n <= 0) {
            return false;
        }
        have += (size_t)n;
    }
    prs_wire_get_challenge(bytes + PRS_WIRE_HEADER_BYTES, &challenge);
    memcpy(terms->nonce_of_hub, challenge.nonce, sizeof challenge.nonce);
    prs_wire_put_header(&header, out);
    prs_proof_make(id.secret, PRS_PROOF_OF_PE, terms, out + PRS_WIRE_HEADER_BYTES);
    return prs_proof_check(id.secret, PRS_PROOF_OF_HUB, terms, challenge.proof);
}

/* Waits until the hub closes. Returns how many bytes of `answer` it sent before. */
static size_t listen_to(int fd, unsigned char answer[64])
{
    size_t have = 0;
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    ssize_t n = 1;
    while (n > 0 && have < 64 && poll(&pollfd, 1, JOB_PATIENT_MS) == 1) {
        n = recv(fd, answer + have, 64 - have, 0);
        have += n > 0 ? (size_t)n : 0;
    }
    return have;
}

/* Sends, then waits until the hub closes. Returns how many bytes of `answer` it sent before. */
static size_t say(const struct job *job, const void *data, size_t bytes, unsigned char answer[64])
{
    size_t have = 0;
    int fd = connect_to(job);
    if (fd < 0) {
        return 0;
    }
    if (send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes) {
        have = listen_to(fd, answer);
    }
    close(fd);
    return have;
}

/* The detail of the refusal in `answer`, or 0 when it is none. */
static uint32_t detail_of(const unsigned char answer[64], size_t bytes)
{
    struct prs_wire_header header;
    struct prs_wire_failed failed;
    if (bytes != PRS_WIRE_HEADER_BYTES + PRS_WIRE_FAILED_BYTES ||
        prs_wire_get_header(answer, &header) != PERSEUS_OK || header.type != PRS_WIRE_FAILED) {
        return 0;
    }
    prs_wire_get_failed(answer + PRS_WIRE_HEADER_BYTES, &failed);
    return failed.status == PERSEUS_INVALID_ARGUMENT ? failed.detail
           : failed.status == PERSEUS_VERSION        ? 1000 + failed.detail
                                                     : 0;
}

/* Says hello with these terms and proves them, with one bit of the proof flipped unless it is
 * -1. */
static uint32_t refusal(const struct job *job, struct prs_proof_terms terms, int flipped_bit)
{
    unsigned char hello[HELLO_BYTES], proof[PROOF_BYTES], answer[64];
    size_t have = 0;
    int fd = connect_to(job);
    make_hello(&terms, hello);
    if (send(fd, hello, sizeof hello, MSG_NOSIGNAL) == HELLO_BYTES &&
        make_proof(job, fd, &terms, proof)) {
        if (flipped_bit >= 0) {
            proof[PRS_WIRE_HEADER_BYTES + flipped_bit / 8] ^= (unsigned char)(1 << flipped_bit % 8);
        }
        send(fd, proof, sizeof proof, MSG_NOSIGNAL);
        have = listen_to(fd, answer);
    }
    close(fd);
    return detail_of(answer, have);
}

/* The job: all ranks but the last join and wait for it while strangers come. */
struct stage {
    struct job job;
    atomic_int n_joined;
    atomic_bool may_end;
};

static void gather_twice(struct job_pe *pe)
{
    struct stage *stage = pe->job->context;
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    atomic_fetch_add(&stage->n_joined, 1);
    JOB_CHECK(pe, pe->opened == PERSEUS_OK && job_gather(pe->bootstrap, 0, 100) == PERSEUS_OK);
    while (!atomic_load(&stage->may_end)) {
        job_sleep_ms(1);
    }
    JOB_CHECK(pe, pe->opened == PERSEUS_OK && job_gather(pe->bootstrap, 1, 70000) == PERSEUS_OK);
    if (pe->opened == PERSEUS_OK) {
        pe->bootstrap->ops->close(pe->bootstrap);
        pe->bootstrap = NULL;
    }
}

static void set_stage(struct stage *stage)
{
    job_init(&stage->job, JOB_TCP, 3, JOB_PATIENT_MS, gather_twice, stage);
    atomic_init(&stage->n_joined, 0);
    atomic_init(&stage->may_end, true);
    job_start(&stage->job, 0);
    job_start(&stage->job, 1);
    while (atomic_load(&stage->n_joined) < 2) {
        job_sleep_ms(1);
    }
}

/* The job must end well, whatever came before. */
static void leave_stage(struct stage *stage)
{
    job_start(&stage->job, 2);
    job_finish(&stage->job);
}

static void whoever_cannot_prove_the_secret_is_refused_with_a_reason(void **state)
{
    (void)state;
    struct stage stage;
    struct job *job = &stage.job;
    unsigned char hello[HELLO_BYTES], answer[64];
    set_stage(&stage);
    struct prs_proof_terms terms = terms_of(job, 2);
    for (int bit = 0; bit < 8 * PRS_PROOF_BYTES; bit += 17) {
        assert_int_equal(refusal(job, terms, bit), PRS_WIRE_WRONG_SECRET);
    }
    assert_int_equal(refusal(job, terms_of(job, 3), 0), PRS_WIRE_WRONG_SECRET);
    assert_int_equal(refusal(job, terms_of(job, 3), -1), PRS_WIRE_WRONG_RANK);
    assert_int_equal(refusal(job, terms_of(job, UINT32_MAX), -1), PRS_WIRE_WRONG_RANK);
    /* Joins by its socket pair only. */
    assert_int_equal(refusal(job, terms_of(job, 0), -1), PRS_WIRE_DUPLICATE);
    terms.size ^= 1;
    assert_int_equal(refusal(job, terms, -1), PRS_WIRE_WRONG_SIZE);
    terms.size ^= 1;
    make_hello(&terms, hello);
    hello[4] ^= 1; /* the version: all that a stranger learns */
    assert_int_equal(detail_of(answer, say(job, hello, sizeof hello, answer)),
                     1000 + PRS_WIRE_VERSION);
    job_start(job, 2);
    job_join(job);
    assert_true(job_log_has(&job->log, "dropped a connection from 127.0.0.1:"));
    assert_true(job_log_has(&job->log, "it does not know this job's secret"));
    assert_true(job_log_has(&job->log, "more connections of strangers"));
    assert_true(job_log_warnings(&job->log) <= 8 + 1); /* limited, however many there were */
    job_finish(job);
}

static void a_second_pe_of_a_rank_is_refused(void **state)
{
    (void)state;
    struct stage stage;
    struct job_log log;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    set_stage(&stage);
    assert_int_equal(prs_bootstrap_open_tcp(&stage.job.id, 1, 3, JOB_PATIENT_MS, &sink, &bootstrap),
                     PERSEUS_INVALID_ARGUMENT);
    assert_true(job_log_has(&log, "another PE has joined as rank 1"));
    leave_stage(&stage);
}

static void a_pe_with_another_secret_is_told_so(void **state)
{
    (void)state;
    struct stage stage;
    struct job_log log;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    set_stage(&stage);
    struct prs_unique_id id = decode(&stage.job.id);
    struct perseus_unique_id other;
    id.secret[31] ^= 0x80;
    prs_unique_id_encode(&id, &other);
    assert_int_equal(prs_bootstrap_open_tcp(&other, 2, 3, JOB_PATIENT_MS, &sink, &bootstrap),
                     PERSEUS_INVALID_ARGUMENT);
    assert_true(job_log_has(&log, "its unique id is of another job"));
    leave_stage(&stage);
}

static void garbage_is_dropped_without_an_answer(void **state)
{
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const uint64_t seed = 20240607;
    struct prs_rng rng = prs_rng_seeded(seed);
    struct stage stage;
    unsigned char answer[64], noise[4096];
    set_stage(&stage);
    assert_int_equal(say(&stage.job, http, sizeof http, answer), 0);
    for (int i = 0; i < 50; i++) {
        size_t bytes = PRS_WIRE_HEADER_BYTES + prs_rng_below(&rng, sizeof noise / 2);
        for (size_t k = 0; k < bytes; k++) {
            noise[k] = (unsigned char)prs_rng_next(&rng);
        }
        if (say(&stage.job, noise, bytes, answer) != 0) {
            fail_msg("answered noise of seed %llu", (unsigned long long)seed);
        }
    }
    /* Good headers, but no hello: one that would gather much, and one that claims endless bytes. */
    struct prs_wire_header header = {PRS_WIRE_VERSION, PRS_WIRE_GATHER, 2, PRS_WIRE_GATHER_BYTES};
    prs_wire_put_header(&header, noise);
    assert_int_equal(say(&stage.job, noise, PRS_WIRE_HEADER_BYTES, answer), 0);
    header = (struct prs_wire_header){PRS_WIRE_VERSION, PRS_WIRE_HELLO, 2, UINT64_MAX};
    prs_wire_put_header(&header, noise);
    assert_int_equal(say(&stage.job, noise, PRS_WIRE_HEADER_BYTES, answer), 0);
    leave_stage(&stage);
}

/* More connections than there is room for, each with a part of a hello, and none says more. */
static void stalled_connections_do_not_keep_a_pe_out(void **state)
{
    (void)state;
    enum { STALLED = 3 * PRS_STAR_STRANGERS };
    struct stage stage;
    int fds[STALLED];
    unsigned char hello[HELLO_BYTES];
    set_stage(&stage);
    for (int i = 0; i < STALLED; i++) {
        fds[i] = connect_to(&stage.job);
        assert_true(fds[i] >= 0);
        const struct prs_proof_terms terms = terms_of(&stage.job, 2);
        make_hello(&terms, hello);
        size_t bytes = (size_t)i % (HELLO_BYTES + 1); /* a whole one without a proof, too */
        send(fds[i], hello, bytes, MSG_NOSIGNAL);
        if (i % 3 == 0) {
            shutdown(fds[i], SHUT_WR);
        }
    }
    leave_stage(&stage);
    for (int i = 0; i < STALLED; i++) {
        close(fds[i]);
    }
}

static void send_in_pieces(int fd, const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(send(fd, data + i, 1, MSG_NOSIGNAL), 1);
        job_sleep_ms(i % 10 == 0);
    }
}

static void frames_in_pieces_are_as_good(void **state)
{
    (void)state;
    struct stage stage;
    struct prs_wire_header header;
    unsigned char hello[HELLO_BYTES], proof[PROOF_BYTES], answer[PRS_WIRE_HEADER_BYTES];
    set_stage(&stage);
    struct prs_proof_terms terms = terms_of(&stage.job, 2);
    int fd = connect_to(&stage.job);
    make_hello(&terms, hello);
    send_in_pieces(fd, hello, sizeof hello);
    assert_true(make_proof(&stage.job, fd, &terms, proof));
    send_in_pieces(fd, proof, sizeof proof);
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&pollfd, 1, JOB_PATIENT_MS), 1);
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    assert_int_equal(prs_wire_get_header(answer, &header), PERSEUS_OK);
    assert_int_equal(header.type, PRS_WIRE_WELCOME);
    /* Now it is rank 2, and its loss is the job's. */
    close(fd);
    job_join(&stage.job);
    assert_true(job_log_has(&stage.job.log, "PE 0: PE 2 died"));
    assert_non_null(stage.job.failed_check); /* the PEs could not gather, as they must */
    stage.job.failed_check = NULL;
    job_finish(&stage.job);
}

static void a_complete_job_listens_no_more(void **state)
{
    (void)state;
    struct stage stage;
    set_stage(&stage);
    atomic_store(&stage.may_end, false);
    job_start(&stage.job, 2);
    int fd = connect_to(&stage.job);
    while (fd >= 0) {
        close(fd);
        job_sleep_ms(5);
        fd = connect_to(&stage.job);
    }
    assert_int_equal(errno, ECONNREFUSED);
    atomic_store(&stage.may_end, true);
    job_finish(&stage.job);
}

/* ---- a PE that is slow ---- */

enum { SLOW_SIZE = 6 };

static void gather_and_leave(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, pe->opened == PERSEUS_OK &&
                      job_gather(pe->bootstrap, 0, PRS_WIRE_GATHER_BYTES) == PERSEUS_OK);
    if (pe->opened == PERSEUS_OK) {
        pe->bootstrap->ops->close(pe->bootstrap);
        pe->bootstrap = NULL;
    }
}

static void expect_frame(int fd, enum prs_wire_type type, uint64_t bytes)
{
    unsigned char head[PRS_WIRE_HEADER_BYTES];
    struct prs_wire_header header;
    assert_int_equal(recv(fd, head, sizeof head, MSG_WAITALL), sizeof head);
    assert_int_equal(prs_wire_get_header(head, &header), PERSEUS_OK);
    assert_int_equal(header.type, type);
    assert_true(header.bytes == bytes);
}

/* Rank 0 is done long before the last one reads: it must not leave before that one has its result,
 * which is more than the sockets hold. */
static void rank_0_stays_until_the_slowest_has_its_result(void **state)
{
    (void)state;
    struct job job;
    unsigned char hello[HELLO_BYTES], proof[PROOF_BYTES], head[PRS_WIRE_HEADER_BYTES];
    const int last = SLOW_SIZE - 1, small = 65536;
    const size_t bytes = PRS_WIRE_GATHER_BYTES;
    unsigned char *data = malloc(SLOW_SIZE * bytes);
    job_init(&job, JOB_TCP, SLOW_SIZE, JOB_PATIENT_MS, gather_and_leave, NULL);
    for (int rank = 0; rank < last; rank++) {
        job_start(&job, rank);
    }
    int fd = connect_to(&job);
    fcntl(fd, F_SETFL, 0); /* blocking, for simple reads and writes */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    struct prs_proof_terms terms = terms_of(&job, (uint32_t)last);
    make_hello(&terms, hello);
    assert_int_equal(send(fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    assert_true(make_proof(&job, fd, &terms, proof));
    assert_int_equal(send(fd, proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    expect_frame(fd, PRS_WIRE_WELCOME, 0);
    const struct prs_wire_header header = {PRS_WIRE_VERSION, PRS_WIRE_GATHER, (uint32_t)last,
                                           bytes};
    prs_wire_put_header(&header, head);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = job_byte(0, last, i);
    }
    assert_int_equal(send(fd, head, sizeof head, MSG_NOSIGNAL), sizeof head);
    assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
    job_sleep_ms(500);
    expect_frame(fd, PRS_WIRE_RESULT, SLOW_SIZE * bytes);
    assert_int_equal(recv(fd, data, SLOW_SIZE * bytes, MSG_WAITALL), SLOW_SIZE * bytes);
    for (int rank = 0; rank < SLOW_SIZE; rank++) {
        assert_int_equal(data[(size_t)rank * bytes + 7], job_byte(0, rank, 7));
    }
    expect_frame(fd, PRS_WIRE_BYE, 0);
    close(fd);
    free(data);
    job_finish(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_cannot_prove_the_secret_is_refused_with_a_reason),
        cmocka_unit_test(a_second_pe_of_a_rank_is_refused),
        cmocka_unit_test(a_pe_with_another_secret_is_told_so),
        cmocka_unit_test(garbage_is_dropped_without_an_answer),
        cmocka_unit_test(stalled_connections_do_not_keep_a_pe_out),
        cmocka_unit_test(frames_in_pieces_are_as_good),
        cmocka_unit_test(a_complete_job_listens_no_more),
        cmocka_unit_test(rank_0_stays_until_the_slowest_has_its_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
