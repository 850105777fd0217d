/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of the decorator's configuration. */
#include "fabric/faulty/faulty.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void keep_message(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    snprintf(user, 1024, "%s", text);
}

static void assert_same(const struct prs_faulty_config *a, const struct prs_faulty_config *b)
{
    assert_int_equal(a->seed, b->seed);
    assert_int_equal(a->latency_ns, b->latency_ns);
    assert_int_equal(a->jitter_ns, b->jitter_ns);
    assert_int_equal(a->bytes_per_second, b->bytes_per_second);
    assert_int_equal(a->reorder, b->reorder);
    assert_true(a->again_probability == b->again_probability);
    assert_true(a->error_probability == b->error_probability);
    assert_int_equal(a->fail_nth, b->fail_nth);
    assert_int_equal(a->fail_permanent, b->fail_permanent);
    assert_int_equal(a->refuse_nth, b->refuse_nth);
    assert_int_equal(a->busy_peer, b->busy_peer);
    assert_int_equal(a->busy_ns, b->busy_ns);
}

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct prs_faulty_config expected;
    } rows[] = {
        {"", {0}},
        {"latency=5us,bandwidth=25G,jitter=1us",
         {.latency_ns = 5000, .bytes_per_second = 25000000000, .jitter_ns = 1000}},
        {"seed=1,reorder=1,again=0.1,error=0,fail_nth=0",
         {.seed = 1, .reorder = true, .again_probability = 0.1}},
        {"latency=1.5ms", {.latency_ns = 1500000}},
        {"latency=2s,jitter=7ns", {.latency_ns = 2000000000, .jitter_ns = 7}},
        {"latency=0,bandwidth=0", {0}},
        {"bandwidth=12.5G", {.bytes_per_second = 12500000000}},
        {"bandwidth=100M", {.bytes_per_second = 100000000}},
        {"bandwidth=3K", {.bytes_per_second = 3000}},
        {"bandwidth=77", {.bytes_per_second = 77}},
        {"again=1,error=1.0", {.again_probability = 1, .error_probability = 1}},
        {"error=0.25", {.error_probability = 0.25}},
        {"fail_nth=12,fail_permanent=1", {.fail_nth = 12, .fail_permanent = true}},
        {"refuse_nth=3,busy_peer=2,busy=60s",
         {.refuse_nth = 3, .busy_peer = 2, .busy_ns = 60000000000}},
        {"seed=18446744073709551615", {.seed = UINT64_MAX}},
        {"seed=1,seed=2", {.seed = 2}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct prs_faulty_config config = {0};
        assert_int_equal(prs_faulty_parse(rows[i].text, NULL, &config), PERSEUS_OK);
        assert_same(&config, &rows[i].expected);
    }
}

static void test_unnamed_fields_stay(void **state)
{
    (void)state;
    struct prs_faulty_config config = {.seed = 9, .latency_ns = 3, .reorder = true};
    assert_int_equal(prs_faulty_parse("latency=5ns", NULL, &config), PERSEUS_OK);
    struct prs_faulty_config expected = {.seed = 9, .latency_ns = 5, .reorder = true};
    assert_same(&config, &expected);
}

/* Each is refused, the message holds the word that is wrong, and nothing has changed. */
static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
    } rows[] = {
        {"latency", "\"latency\""},
        {"latency=", "latency"},
        {"latency=5", "latency=\"5\""},
        {"latency=us", "latency=\"us\""},
        {"latency=5 us", "5 us"},
        {"latency=-5us", "-5us"},
        {"latency=5.us", "5.us"},
        {"latency=.5us", ".5us"},
        {"latency=1e3us", "1e3us"},
        {"latency=5min", "5min"},
        {"latency=99999999999999999999s", "99999999999999999999s"},
        {"latency=5us,,jitter=1us", "\"\""},
        {"latency=5us,", "\"\""},
        {",", "\"\""},
        {"bandwidth=25T", "25T"},
        {"bandwidth=25g", "25g"},
        {"again=1.1", "1.1"},
        {"again=-0", "-0"},
        {"again=0.1x", "0.1x"},
        {"error=nan", "nan"},
        {"reorder=2", "reorder=\"2\""},
        {"reorder=yes", "yes"},
        {"fail_nth=x", "fail_nth=\"x\""},
        {"seed=18446744073709551616", "18446744073709551616"},
        {"latecy=5us", "latecy"},
        {"latency=5us,seed=1,colour=red", "colour"},
        {"Latency=5us", "Latency"},
        {"seed=1;reorder=1", "1;reorder=1"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1", "aaaa"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char message[1024] = "";
        struct prs_log log = {.fn = keep_message, .user = message, .pe = -1};
        struct prs_faulty_config config = {.seed = 4, .latency_ns = 8}, before = config;
        assert_int_equal(prs_faulty_parse(rows[i].text, &log, &config), PERSEUS_INVALID_ARGUMENT);
        if (strstr(message, rows[i].named) == NULL) {
            fail_msg("\"%s\": the message does not name %s: %s", rows[i].text, rows[i].named,
                     message);
        }
        assert_same(&config, &before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_unnamed_fields_stay),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
