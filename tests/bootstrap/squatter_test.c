/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever has taken the port of a unique id learns no secret, and is not taken for the hub. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/stream.h"
#include "bootstrap/unique_id.h"
#include "bootstrap/wire.h"
#include "job.h"

enum { TAKEN_BYTES = 4096 };

/* A local process that was faster than PE 0: it takes one connection, says what it has prepared,
 * and keeps what comes in. */
struct squatter {
    struct prs_unique_id id;
    struct perseus_unique_id encoded;
    pthread_t thread;
    size_t (*answer)(struct squatter *squatter, unsigned char *out); /* to the hello */
    unsigned char taken[TAKEN_BYTES];
    size_t n_taken;
};

static void read_some(struct squatter *squatter, int fd, int wait_ms)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    while (poll(&pollfd, 1, wait_ms) == 1) {
        ssize_t n = recv(fd, squatter->taken + squatter->n_taken,
                         sizeof squatter->taken - squatter->n_taken, 0);
        if (n <= 0) {
            return;
        }
        squatter->n_taken += (size_t)n;
    }
}

static void *squat(void *context)
{
    struct squatter *squatter = context;
    char name[PRS_STREAM_NAME_BYTES];
    unsigned char answer[512];
    struct pollfd pollfd = {.fd = squatter->id.listen_fd, .events = POLLIN};
    poll(&pollfd, 1, JOB_PATIENT_MS);
    int fd = prs_stream_accept(squatter->id.listen_fd, name);
    if (fd < 0) {
        return NULL;
    }
    read_some(squatter, fd, 200);
    size_t bytes = squatter->answer(squatter, answer);
    send(fd, answer, bytes, MSG_NOSIGNAL);
    read_some(squatter, fd, 200);
    close(fd);
    return NULL;
}

static void squat_start(struct squatter *squatter,
                        size_t (*answer)(struct squatter *squatter, unsigned char *out))
{
    memset(squatter, 0, sizeof *squatter);
    assert_int_equal(perseus_unique_id_create("127.0.0.1", &squatter->encoded), PERSEUS_OK);
    assert_int_equal(prs_unique_id_decode(&squatter->encoded, NULL, &squatter->id), PERSEUS_OK);
    squatter->answer = answer;
    assert_int_equal(pthread_create(&squatter->thread, NULL, squat, squatter), 0);
}

/* The PE that comes must not take it for the hub, and must not have told it the secret. */
static void squat_finish(struct squatter *squatter, enum perseus_status expected, const char *said)
{
    struct job_log log;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(prs_bootstrap_open_tcp(&squatter->encoded, 1, 2, 1000, &sink, &bootstrap),
                     expected);
    assert_true(job_log_has(&log, said));
    pthread_join(squatter->thread, NULL);
    close(squatter->id.listen_fd);
    assert_true(squatter->n_taken >= PRS_WIRE_HEADER_BYTES);
    assert_null(memmem(squatter->taken, squatter->n_taken, squatter->id.secret, 8));
    assert_null(memmem(squatter->taken, squatter->n_taken,
                       squatter->id.secret + sizeof squatter->id.secret - 8, 8));
}

static size_t say_nothing(struct squatter *squatter, unsigned char *out)
{
    (void)squatter;
    (void)out;
    return 0;
}

static size_t say_welcome(struct squatter *squatter, unsigned char *out)
{
    (void)squatter;
    const struct prs_wire_header header = {PRS_WIRE_VERSION, PRS_WIRE_WELCOME, 1, 0};
    prs_wire_put_header(&header, out);
    return PRS_WIRE_HEADER_BYTES;
}

static size_t put_challenge(const struct prs_proof_challenge *challenge, unsigned char *out)
{
    const struct prs_wire_header header = {PRS_WIRE_VERSION, PRS_WIRE_CHALLENGE, 1,
                                           PRS_WIRE_CHALLENGE_BYTES};
    prs_wire_put_header(&header, out);
    prs_wire_put_challenge(challenge, out + PRS_WIRE_HEADER_BYTES);
    return PRS_WIRE_HEADER_BYTES + PRS_WIRE_CHALLENGE_BYTES;
}

static size_t say_made_up_challenge(struct squatter *squatter, unsigned char *out)
{
    (void)squatter;
    const struct prs_proof_challenge challenge = {.nonce = "made up", .proof = "made up too"};
    return put_challenge(&challenge, out);
}

/* What the hub proved to another connection: the hello's nonce is not this one. */
static size_t say_recorded_challenge(struct squatter *squatter, unsigned char *out)
{
    const struct prs_proof_terms recorded = {
        .nonce_of_pe = "an earlier one", .rank = 1, .size = 2, .timeout_ms = 1000};
    struct prs_proof_challenge challenge = {.nonce = ""};
    prs_proof_make(squatter->id.secret, PRS_PROOF_OF_HUB, &recorded, challenge.proof);
    return put_challenge(&challenge, out);
}

/* A proof that the secret's knower made for these very nonces, but as a PE. */
static size_t say_reflected_proof(struct squatter *squatter, unsigned char *out)
{
    struct prs_proof_terms terms = {.rank = 1};
    struct prs_proof_challenge challenge = {.nonce = ""};
    prs_wire_get_hello(squatter->taken + PRS_WIRE_HEADER_BYTES, &terms);
    prs_proof_make(squatter->id.secret, PRS_PROOF_OF_PE, &terms, challenge.proof);
    return put_challenge(&challenge, out);
}

static void a_silent_squatter_learns_nothing(void **state)
{
    (void)state;
    struct squatter squatter;
    squat_start(&squatter, say_nothing);
    squat_finish(&squatter, PERSEUS_TIMEOUT, "within 1000 ms");
}

static void a_welcome_without_proof_is_none(void **state)
{
    (void)state;
    struct squatter squatter;
    squat_start(&squatter, say_welcome);
    squat_finish(&squatter, PERSEUS_PROTOCOL, "not the hub of a Perseus job");
}

static void a_challenge_of_whoever_does_not_know_the_secret_is_refused(void **state)
{
    (void)state;
    size_t (*const answers[])(struct squatter *, unsigned char *) = {
        say_made_up_challenge, say_recorded_challenge, say_reflected_proof};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct squatter squatter;
        squat_start(&squatter, answers[i]);
        squat_finish(&squatter, PERSEUS_INVALID_ARGUMENT,
                     "another process has taken the id's port");
        /* It has the hello and nothing behind it. */
        assert_int_equal(squatter.n_taken, PRS_WIRE_HEADER_BYTES + PRS_WIRE_HELLO_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_squatter_learns_nothing),
        cmocka_unit_test(a_welcome_without_proof_is_none),
        cmocka_unit_test(a_challenge_of_whoever_does_not_know_the_secret_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
