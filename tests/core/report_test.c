/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of many threads: the callback is never entered twice at once, every thread finds its own
 * last error, and nothing is leaked when threads or the PE end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/messages.h"
#include "core/report.h"

#define THREADS 4
#define ERRORS  500

struct talker {
    struct prs_report *report;
    int number;
    pthread_t thread;
    int mistakes;
};

static void *talk(void *context)
{
    struct talker *talker = context;
    char expected[64];
    talker->mistakes += strcmp(prs_report_last(talker->report), "") != 0;
    for (int i = 0; i < ERRORS; i++) {
        prs_fail(&talker->report->log, PERSEUS_IO, "thread %d error %d", talker->number, i);
        snprintf(expected, sizeof expected, "PE 3: thread %d error %d", talker->number, i);
        talker->mistakes += strcmp(prs_report_last(talker->report), expected) != 0;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct messages messages;
    struct prs_report report;
    struct talker talkers[THREADS];
    messages_init(&messages);
    assert_int_equal(prs_report_init(&report, messages_take, &messages, PERSEUS_LOG_ERROR),
                     PERSEUS_OK);
    report.log.pe = 3;
    for (int i = 0; i < THREADS; i++) {
        talkers[i] = (struct talker){.report = &report, .number = i};
        assert_int_equal(pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(talkers[i].thread, NULL);
        assert_int_equal(talkers[i].mistakes, 0);
    }
    assert_int_equal(messages_errors(&messages), THREADS * ERRORS);
    assert_int_equal(messages.overlapped, 0);
    assert_string_equal(prs_report_last(&report), ""); /* this thread saw none */
    prs_report_finish(&report);
}

static void test_levels(void **state)
{
    (void)state;
    struct messages messages;
    struct prs_report report;
    messages_init(&messages);
    assert_int_equal(prs_report_init(&report, messages_take, &messages, PERSEUS_LOG_WARN),
                     PERSEUS_OK);
    prs_log(&report.log, PERSEUS_LOG_INFO, "quiet");
    assert_int_equal(messages.used, 0);
    prs_log(&report.log, PERSEUS_LOG_WARN, "loud");
    assert_true(messages_have(&messages, "loud"));
    assert_string_equal(prs_report_last(&report), ""); /* a warning is no error */
    prs_report_finish(&report);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct prs_report report;
    assert_int_equal(prs_report_init(&report, NULL, NULL, PERSEUS_LOG_DEBUG), PERSEUS_OK);
    assert_int_equal(prs_fail(&report.log, PERSEUS_IO, "kept"), PERSEUS_IO);
    assert_string_equal(prs_report_last(&report), "kept");
    prs_report_finish(&report);
}

static void *fail_elsewhere(void *report)
{
    prs_fail(&((struct prs_report *)report)->log, PERSEUS_PEER_LOST, "PE 9 hung up");
    return NULL;
}

static void test_adopt(void **state)
{
    (void)state;
    struct messages messages;
    struct prs_report report;
    pthread_t thread;
    messages_init(&messages);
    assert_int_equal(prs_report_init(&report, messages_take, &messages, PERSEUS_LOG_ERROR),
                     PERSEUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &report), 0);
    pthread_join(thread, NULL);
    assert_int_equal(prs_report_adopt(&report, PERSEUS_PEER_LOST, "quiet failed"),
                     PERSEUS_PEER_LOST);
    assert_string_equal(prs_report_last(&report),
                        "quiet failed; the latest error reported: PE 9 hung up");
    assert_int_equal(messages_errors(&messages), 1); /* reported once, by who saw it first */
    prs_report_finish(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_adopt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
