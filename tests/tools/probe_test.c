/* SPDX-License-Identifier: Apache-2.0 */
/* A probe of a library that answers, refuses, ends the process, or never comes back. */
#include "kit/probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define SHORT_MS 200u
#define LONG_MS  20000u

static enum perseus_status answer(const struct perseus_attr *asked, const struct prs_log *log,
                                  struct prs_probe *probe)
{
    (void)log;
    snprintf(probe->caps.provider, sizeof probe->caps.provider, "%s", asked->provider);
    return PERSEUS_OK;
}

static enum perseus_status refuse(const struct perseus_attr *asked, const struct prs_log *log,
                                  struct prs_probe *probe)
{
    (void)asked, (void)probe;
    prs_log(log, PERSEUS_LOG_ERROR, "the first reason");
    return prs_fail(log, PERSEUS_NOT_FOUND, "a later one");
}

static enum perseus_status end(const struct perseus_attr *asked, const struct prs_log *log,
                               struct prs_probe *probe)
{
    (void)asked, (void)log, (void)probe;
    _exit(0);
}

static enum perseus_status hang(const struct perseus_attr *asked, const struct prs_log *log,
                                struct prs_probe *probe)
{
    (void)asked, (void)log, (void)probe;
    pause();
    return PERSEUS_OK;
}

/* It is quick to tell, the child is gone, and what follows is not disturbed. */
static struct prs_probe ask(prs_probe_fn fn, uint32_t timeout_ms)
{
    const struct perseus_attr asked = {.provider = "some"};
    struct prs_clock clock = prs_clock_monotonic();
    uint64_t began_ns = prs_clock_now_ns(&clock);
    struct prs_probe probe;
    assert_int_equal(prs_probe_ask(fn, &asked, timeout_ms, &probe), PERSEUS_OK);
    assert_true(prs_clock_now_ns(&clock) - began_ns < LONG_MS / 2 * UINT64_C(1000000));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    return probe;
}

static void test_answers(void **state)
{
    (void)state;
    struct prs_probe probe = ask(answer, LONG_MS);
    assert_int_equal(probe.status, PERSEUS_OK);
    assert_string_equal(probe.caps.provider, "some");
    probe = ask(refuse, LONG_MS);
    assert_int_equal(probe.status, PERSEUS_NOT_FOUND);
    assert_string_equal(probe.error, "the first reason");
}

static void test_the_process_ends(void **state)
{
    (void)state;
    struct prs_probe probe = ask(end, LONG_MS);
    assert_int_equal(probe.status, PERSEUS_IO);
    assert_string_equal(probe.error, "its library ends the process");
}

static void test_never_comes_back(void **state)
{
    (void)state;
    struct prs_probe probe = ask(hang, SHORT_MS);
    assert_int_equal(probe.status, PERSEUS_TIMEOUT);
    assert_string_equal(probe.error, "its library does not answer within 200 ms");
    assert_int_equal(ask(answer, LONG_MS).status, PERSEUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_the_process_ends),
        cmocka_unit_test(test_never_comes_back),
    };
    alarm(LONG_MS / 1000 * 4); /* a probe without its deadline */
    return cmocka_run_group_tests_name("probes of fabrics", tests, NULL, NULL);
}
