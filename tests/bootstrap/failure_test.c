/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong ends every PE in time, with a message that names the cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "job.h"

static const enum job_kind kinds[] = {JOB_LOCAL, JOB_TCP};

/* ---- how long is short ---- */

enum { SHORT_MS = 1000, SHORT_SHARE = 5 };

static void gather_once(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, pe->opened != PERSEUS_OK || job_gather(pe->bootstrap, 0, 8) == PERSEUS_OK);
}

/* A deadline that what works keeps with ease on this machine, as busy as it is, and that is not
 * waited for longer than need be where something fails. */
static uint32_t short_ms(enum job_kind kind)
{
    struct prs_clock clock = prs_clock_monotonic();
    uint64_t begin_ns = prs_clock_now_ns(&clock);
    job_run(kind, 5, JOB_PATIENT_MS, gather_once, NULL);
    uint64_t ms = SHORT_SHARE * (prs_clock_now_ns(&clock) - begin_ns) / 1000000;
    return ms < SHORT_MS ? SHORT_MS : (uint32_t)ms;
}

/* ---- a PE that does not come ---- */

/* So that a slow machine does not make a PE late that should not be. */
struct start_line {
    atomic_int n_missing;
};

static void gather_in_vain(struct job_pe *pe)
{
    struct start_line *line = pe->job->context;
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    atomic_fetch_sub(&line->n_missing, 1);
    while (atomic_load(&line->n_missing) > 0) {
        job_sleep_ms(1);
    }
    if (pe->opened == PERSEUS_OK) {
        int rank;
        JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 8) == PERSEUS_TIMEOUT);
        /* For good, and at once. */
        JOB_CHECK(pe, job_gather(pe->bootstrap, 1, 8) == PERSEUS_TIMEOUT);
        /* Late is not lost. */
        JOB_CHECK(pe, pe->bootstrap->ops->health(pe->bootstrap, &rank) == PERSEUS_OK);
    }
}

static void missing_pes_are_named(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        struct job job;
        struct start_line line = {3};
        job_init(&job, kinds[kind], 5, short_ms(kinds[kind]), gather_in_vain, &line);
        job_start(&job, 0);
        job_start(&job, 1);
        job_start(&job, 3);
        job_join(&job);
        assert_true(job_log_has(&job.log, "2 of 5 PEs did not make the collective call before the "
                                          "deadline: 2 (never joined), 4 (never joined)"));
        assert_true(job_log_has(&job.log, "PE 1: 2 of 5 PEs did not make the collective call"));
        assert_true(job_log_has(&job.log, "the first of them PE 2"));
        job_finish(&job);
    }
}

static void gather_once_if_even(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 8) == PERSEUS_OK);
    if (pe->rank % 2 == 0) {
        JOB_CHECK(pe, job_gather(pe->bootstrap, 1, 8) == PERSEUS_TIMEOUT);
    }
}

static void pes_that_skip_a_call_are_named(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        struct job job;
        job_init(&job, kinds[kind], 4, short_ms(kinds[kind]), gather_once_if_even, NULL);
        for (int rank = 0; rank < 4; rank++) {
            job_start(&job, rank);
        }
        job_join(&job);
        assert_true(job_log_has(&job.log, "before the deadline: 1, 3."));
        job_finish(&job);
    }
}

static void fail_to_open(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_TIMEOUT);
}

static void without_rank_0_the_others_give_up(void **state)
{
    (void)state;
    struct job job;
    job_init(&job, JOB_TCP, 3, SHORT_MS, fail_to_open, NULL);
    job_start(&job, 1);
    job_start(&job, 2);
    job_join(&job);
    assert_true(job_log_has(&job.log, "PE 0"));
    job.timeout_ms = JOB_PATIENT_MS;
    job_finish(&job);
}

static void come_late(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_TIMEOUT);
    JOB_CHECK(pe, pe->bootstrap == NULL);
}

static void who_comes_too_late_is_told_so(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        struct job job;
        struct start_line line = {2};
        job_init(&job, kinds[kind], 3, short_ms(kinds[kind]), gather_in_vain, &line);
        job_start(&job, 0);
        job_start(&job, 1);
        job_join(&job);
        job.main = come_late;
        job.timeout_ms = JOB_PATIENT_MS; /* late as it is, it has time to be told */
        job_start(&job, 2);
        job_join(&job);
        assert_true(job_log_has(&job.log, "PE 2: 1 of 3 PEs did not make the collective call"));
        job_finish(&job);
    }
}

/* ---- a PE that dies ---- */

enum { VICTIM = 3 };

static void die_between_calls(struct job_pe *pe)
{
    int rank = -2;
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 8) == PERSEUS_OK);
    if (pe->rank == VICTIM) {
        pe->bootstrap->ops->abandon(pe->bootstrap);
        pe->bootstrap = NULL;
        return;
    }
    if (pe->rank % 2 == 0) {
        /* Those who only look learn of it as well. */
        while (pe->bootstrap->ops->health(pe->bootstrap, &rank) == PERSEUS_OK) {
            job_sleep_ms(1);
        }
        JOB_CHECK(pe, rank == VICTIM);
    }
    JOB_CHECK(pe, job_gather(pe->bootstrap, 1, 8) == PERSEUS_PEER_LOST);
    JOB_CHECK(pe, pe->bootstrap->ops->health(pe->bootstrap, &rank) == PERSEUS_PEER_LOST);
    JOB_CHECK(pe, rank == VICTIM);
}

static void a_dead_pe_is_named_to_all(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        struct job job;
        job_init(&job, kinds[kind], 5, JOB_PATIENT_MS, die_between_calls, NULL);
        for (int rank = 0; rank < 5; rank++) {
            job_start(&job, rank);
        }
        job_join(&job);
        assert_true(job_log_has(&job.log, "PE 0: PE 3 died"));
        assert_true(job_log_has(&job.log, "PE 4: PE 3 died"));
        job_finish(&job);
    }
}

/* In the second call: in the first, some may not have opened yet, and would be told there. */
static void die_in_a_call(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 16) == PERSEUS_OK);
    if (pe->rank == VICTIM) {
        /* Half a contribution: the others are waiting for the other half. */
        static const unsigned char half[] = {'P', 'R', 'S', 'B', 1, 0, 3, 0, VICTIM, 0, 0, 0,
                                             16,  0,   0,   0,   0, 0, 0, 0, 1,      2, 3};
        JOB_CHECK(pe, send(*(int *)pe->job->context, half, sizeof half, MSG_NOSIGNAL) ==
                          (ssize_t)sizeof half);
        job_sleep_ms(20);
        pe->bootstrap->ops->abandon(pe->bootstrap);
        pe->bootstrap = NULL;
        return;
    }
    JOB_CHECK(pe, job_gather(pe->bootstrap, 1, 16) == PERSEUS_PEER_LOST);
}

static void a_pe_that_dies_in_a_call_is_named(void **state)
{
    (void)state;
    struct job job;
    job_init(&job, JOB_LOCAL, 5, JOB_PATIENT_MS, die_in_a_call, NULL);
    int fd = job.pes[VICTIM].fd; /* stays its number when the bootstrap owns it */
    job.context = &fd;
    for (int rank = 0; rank < 5; rank++) {
        job_start(&job, rank);
    }
    job_join(&job);
    assert_true(job_log_has(&job.log, "PE 0: PE 3 died"));
    job_finish(&job);
}

static void lose_the_host(struct job_pe *pe)
{
    int rank = -2;
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 8) == PERSEUS_OK);
    if (pe->rank == 0) {
        pe->bootstrap->ops->abandon(pe->bootstrap);
        pe->bootstrap = NULL;
        return;
    }
    JOB_CHECK(pe, job_gather(pe->bootstrap, 1, 8) == PERSEUS_PEER_LOST);
    JOB_CHECK(pe, pe->bootstrap->ops->health(pe->bootstrap, &rank) == PERSEUS_PEER_LOST);
    JOB_CHECK(pe, rank == 0);
}

static void the_host_of_a_tcp_job_may_die_too(void **state)
{
    (void)state;
    job_run(JOB_TCP, 4, JOB_PATIENT_MS, lose_the_host, NULL);
}

struct brief_service {
    struct prs_hub *hub;
    uint32_t ms;
};

static void *serve_briefly(void *context)
{
    const struct brief_service *service = context;
    prs_hub_serve(service->hub, service->ms);
    return NULL;
}

static void a_lost_launcher_is_told(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_hub *hub;
    struct prs_bootstrap *bootstrap;
    pthread_t thread;
    int rank = -2;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(prs_hub_create(1, &sink, &hub), PERSEUS_OK);
    int fd = prs_hub_take_fd(hub, 0);
    struct brief_service service = {hub, short_ms(JOB_LOCAL)};
    assert_int_equal(pthread_create(&thread, NULL, serve_briefly, &service), 0);
    assert_int_equal(prs_bootstrap_open_local(fd, 0, 1, JOB_PATIENT_MS, &sink, &bootstrap),
                     PERSEUS_OK);
    pthread_join(thread, NULL);
    prs_hub_destroy(hub); /* as when its process ends */
    assert_int_equal(bootstrap->ops->health(bootstrap, &rank), PERSEUS_PEER_LOST);
    assert_int_equal(rank, -1);
    assert_true(job_log_has(&log, "the launcher is gone"));
    bootstrap->ops->close(bootstrap);
}

static void a_stopped_launcher_ends_the_wait(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_hub *hub;
    struct prs_bootstrap *bootstrap;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(prs_hub_create(1, &sink, &hub), PERSEUS_OK);
    int fd = prs_hub_take_fd(hub, 0);
    /* Nobody serves. */
    assert_int_equal(prs_bootstrap_open_local(fd, 0, 1, SHORT_MS, &sink, &bootstrap),
                     PERSEUS_TIMEOUT);
    assert_true(job_log_has(&log, "is the launcher running?"));
    close(fd);
    prs_hub_destroy(hub);
}

static void report_from_outside(struct job_pe *pe)
{
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 8) == PERSEUS_PEER_LOST);
}

/* The launcher may know of a death that the socket does not show: a grandchild holds it open. */
static void what_the_launcher_reports_is_told(void **state)
{
    (void)state;
    struct job_log log;
    struct job job = {.kind = JOB_LOCAL, .size = 2, .timeout_ms = JOB_PATIENT_MS};
    struct prs_log sink;
    int rank = -2;
    job_log_init(&log);
    job_log_init(&job.log);
    sink = job_log_sink(&log);
    job.main = report_from_outside;
    assert_int_equal(prs_hub_create(2, &sink, &job.hub), PERSEUS_OK);
    for (int i = 0; i < 2; i++) {
        job.pes[i] = (struct job_pe){.job = &job, .rank = i, .fd = prs_hub_take_fd(job.hub, i)};
    }
    uint32_t ms = short_ms(JOB_LOCAL);
    job_start(&job, 0);
    prs_hub_serve(job.hub, ms);
    prs_hub_report_death(job.hub, 1);
    prs_hub_report_death(job.hub, 1); /* once more does no harm */
    job_join(&job);
    assert_int_equal(job.pes[0].bootstrap->ops->health(job.pes[0].bootstrap, &rank),
                     PERSEUS_PEER_LOST);
    assert_int_equal(rank, 1);
    job.pes[0].bootstrap->ops->close(job.pes[0].bootstrap);
    close(job.pes[1].fd);
    assert_int_equal(prs_hub_serve(job.hub, JOB_PATIENT_MS), PERSEUS_OK);
    prs_hub_destroy(job.hub);
    assert_null(job.failed_check);
}

/* ---- PEs that disagree ---- */

static void leave_early(struct job_pe *pe)
{
    int rank;
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 8) == PERSEUS_OK);
    if (pe->rank == 1) {
        pe->bootstrap->ops->close(pe->bootstrap);
        pe->bootstrap = NULL;
        return;
    }
    if (pe->rank == 2) {
        /* Leaving is no loss, but nobody can gather any more. */
        job_sleep_ms(50);
        JOB_CHECK(pe, pe->bootstrap->ops->health(pe->bootstrap, &rank) == PERSEUS_OK);
        JOB_CHECK(pe, job_gather(pe->bootstrap, 1, 8) == PERSEUS_PEER_LOST);
        JOB_CHECK(pe, job_log_has(&pe->job->log, "PE 2: PE 1 has finalized, but another PE"));
    }
}

static void leaving_before_the_others_is_an_error_only_if_they_go_on(void **state)
{
    (void)state;
    job_run(JOB_LOCAL, 4, JOB_PATIENT_MS, leave_early, NULL);
    job_run(JOB_TCP, 4, JOB_PATIENT_MS, leave_early, NULL);
}

static void host_leaves_first(struct job_pe *pe)
{
    int rank;
    JOB_CHECK(pe, pe->opened == PERSEUS_OK);
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 100000) == PERSEUS_OK);
    if (pe->rank == 0) {
        pe->bootstrap->ops->close(pe->bootstrap);
        pe->bootstrap = NULL;
        return;
    }
    job_sleep_ms(50);
    JOB_CHECK(pe, pe->bootstrap->ops->health(pe->bootstrap, &rank) == PERSEUS_OK);
}

static void the_host_may_leave_first(void **state)
{
    (void)state;
    job_run(JOB_TCP, 5, JOB_PATIENT_MS, host_leaves_first, NULL);
}

static void gather_unequal(struct job_pe *pe)
{
    if (pe->opened != PERSEUS_OK) {
        JOB_CHECK(pe, pe->opened == PERSEUS_OK);
        return;
    }
    /* All are here; else who comes last would find the others gone already. */
    JOB_CHECK(pe, job_gather(pe->bootstrap, 0, 8) == PERSEUS_OK);
    /* Who is first decides what is right; with two of three alike the message names one rank. */
    JOB_CHECK(pe, job_gather(pe->bootstrap, 1, pe->rank == 2 ? 16 : 8) == PERSEUS_INVALID_ARGUMENT);
    JOB_CHECK(pe, job_log_has(&pe->job->log, "gathers another number of bytes than the others"));
}

static void unequal_sizes_are_an_error_for_all(void **state)
{
    (void)state;
    job_run(JOB_LOCAL, 3, JOB_PATIENT_MS, gather_unequal, NULL);
    job_run(JOB_TCP, 3, JOB_PATIENT_MS, gather_unequal, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_pes_are_named),
        cmocka_unit_test(pes_that_skip_a_call_are_named),
        cmocka_unit_test(without_rank_0_the_others_give_up),
        cmocka_unit_test(who_comes_too_late_is_told_so),
        cmocka_unit_test(a_dead_pe_is_named_to_all),
        cmocka_unit_test(a_pe_that_dies_in_a_call_is_named),
        cmocka_unit_test(the_host_of_a_tcp_job_may_die_too),
        cmocka_unit_test(a_lost_launcher_is_told),
        cmocka_unit_test(a_stopped_launcher_ends_the_wait),
        cmocka_unit_test(what_the_launcher_reports_is_told),
        cmocka_unit_test(leaving_before_the_others_is_an_error_only_if_they_go_on),
        cmocka_unit_test(the_host_may_leave_first),
        cmocka_unit_test(unequal_sizes_are_an_error_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
