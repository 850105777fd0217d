/* SPDX-License-Identifier: Apache-2.0 */
/* The collective that start-up needs, over every bootstrap that threads can make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job.h"

static const enum job_kind kinds[] = {JOB_LOCAL, JOB_TCP};
static const int sizes[] = {1, 2, 5, 16};
enum { LIMIT_BYTES = 1 << 20 };

static void gather_sizes(struct job_pe *pe)
{
    static const size_t bytes[] = {0, 1, 8, 4097, LIMIT_BYTES};
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    if (pe->opened != PERSEUS_OK) {
        return;
    }
    JOB_CHECK(pe, pe->bootstrap->rank == pe->rank && pe->bootstrap->size == pe->job->size);
    for (int i = 0; i < (int)(sizeof bytes / sizeof *bytes); i++) {
        JOB_CHECK(pe, job_gather(pe->bootstrap, i, bytes[i]) == PERSEUS_OK);
    }
    /* At once: rank 0 of a tcp job still owes the last result, a large one, to the others. */
    pe->bootstrap->ops->close(pe->bootstrap);
    pe->bootstrap = NULL;
}

static void every_size_arrives_in_rank_order(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            job_run(kinds[kind], sizes[i], JOB_PATIENT_MS, gather_sizes, NULL);
        }
    }
}

/* PEs at different speeds: some are a round ahead while others still read. */
static void gather_unevenly(struct job_pe *pe)
{
    int rank = -2;
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    for (int round = 0; round < 60 && pe->opened == PERSEUS_OK; round++) {
        if ((round + pe->rank) % 23 == 0) {
            job_sleep_ms(1);
        }
        JOB_CHECK(pe, job_gather(pe->bootstrap, round, (size_t)(round * 37 % 1000)) == PERSEUS_OK);
        JOB_CHECK(pe, pe->bootstrap->ops->health(pe->bootstrap, &rank) == PERSEUS_OK);
    }
    JOB_CHECK(pe, rank == -2);
    if (pe->opened == PERSEUS_OK) {
        /* Each at once: nobody waits for another to leave, and leaving is no loss. */
        pe->bootstrap->ops->close(pe->bootstrap);
        pe->bootstrap = NULL;
    }
}

static void many_rounds_follow_each_other(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        job_run(kinds[kind], 5, JOB_PATIENT_MS, gather_unevenly, NULL);
        job_run(kinds[kind], 16, JOB_PATIENT_MS, gather_unevenly, NULL);
    }
}

static void ask_too_much(struct job_pe *pe)
{
    unsigned char *send = calloc(1, LIMIT_BYTES + 1), *recv = calloc(2, LIMIT_BYTES + 1);
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    if (pe->opened == PERSEUS_OK) {
        JOB_CHECK(pe, pe->bootstrap->ops->allgather(pe->bootstrap, send, recv, LIMIT_BYTES + 1) ==
                          PERSEUS_LIMIT);
        JOB_CHECK(pe, job_log_has(&pe->job->log, "gather in pieces"));
        /* Nothing was lost by that. */
        JOB_CHECK(pe, job_gather(pe->bootstrap, 1, 100) == PERSEUS_OK);
    }
    free(send);
    free(recv);
}

static void too_many_bytes_are_refused_and_harmless(void **state)
{
    (void)state;
    job_run(JOB_LOCAL, 2, JOB_PATIENT_MS, ask_too_much, NULL);
    job_run(JOB_TCP, 2, JOB_PATIENT_MS, ask_too_much, NULL);
}

static void look_for_ever(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    for (int round = 0; round < 20 && pe->opened == PERSEUS_OK; round++) {
        JOB_CHECK(pe, job_gather(pe->bootstrap, round, 8) == PERSEUS_OK);
    }
}

static void a_job_without_deadline_works(void **state)
{
    (void)state;
    job_run(JOB_LOCAL, 3, PERSEUS_NO_TIMEOUT, look_for_ever, NULL);
    job_run(JOB_TCP, 3, PERSEUS_NO_TIMEOUT, look_for_ever, NULL);
}

static void one_pe_alone_gathers_from_itself(void **state)
{
    (void)state;
    struct prs_bootstrap *bootstrap;
    unsigned char *send = calloc(1, LIMIT_BYTES + 1), *recv = calloc(1, LIMIT_BYTES + 1);
    int rank;
    assert_int_equal(prs_bootstrap_open_single(&bootstrap), PERSEUS_OK);
    assert_int_equal(bootstrap->rank, 0);
    assert_int_equal(bootstrap->size, 1);
    assert_int_equal(job_gather(bootstrap, 0, 0), PERSEUS_OK);
    assert_int_equal(job_gather(bootstrap, 1, LIMIT_BYTES), PERSEUS_OK);
    assert_int_equal(bootstrap->ops->allgather(bootstrap, send, recv, LIMIT_BYTES + 1),
                     PERSEUS_LIMIT);
    assert_int_equal(bootstrap->ops->health(bootstrap, &rank), PERSEUS_OK);
    bootstrap->ops->close(bootstrap);
    free(send);
    free(recv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_arrives_in_rank_order),
        cmocka_unit_test(many_rounds_follow_each_other),
        cmocka_unit_test(too_many_bytes_are_refused_and_harmless),
        cmocka_unit_test(a_job_without_deadline_works),
        cmocka_unit_test(one_pe_alone_gathers_from_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
