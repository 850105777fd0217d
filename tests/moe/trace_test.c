/* SPDX-License-Identifier: Apache-2.0 */
/* The trace: valid JSON in Chrome's format, whatever was recorded, and full lanes say what they
 * lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <jansson.h>
#include <string.h>

#include "moe/trace.h"

static json_t *written(const struct prs_trace *trace)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bool is_first = true;
    assert_non_null(file);
    fputc('[', file);
    prs_trace_write(trace, file, 3, 1000, &is_first);
    prs_trace_write(trace, file, 4, 1000, &is_first);
    fputc(']', file);
    fclose(file);
    json_error_t error;
    json_t *events = json_loads(text, 0, &error);
    if (events == NULL) {
        fail_msg("%s at %d: %s", error.text, error.position, text);
    }
    free(text);
    return events;
}

static void test_events_are_what_was_recorded(void **state)
{
    (void)state;
    struct prs_trace *trace;
    assert_int_equal(prs_trace_create(2, 3, &trace), PERSEUS_OK);
    prs_trace_name_lane(trace, 0, "worker 0");
    prs_trace_name_lane(trace, 1, "proxy");
    prs_trace_span(trace, 0, "expert", 2500, 4000, 7);
    prs_trace_count(trace, 1, "in flight", 3001, 12);
    prs_trace_span(trace, 9, "no such lane", 1, 2, 0);
    prs_trace_span(NULL, 0, "no trace", 1, 2, 0);
    json_t *events = written(trace);
    assert_int_equal(json_array_size(events), 2 * (1 + 2 + 2));
    const char *name, *phase;
    int pid, tid, detail;
    double at, lasted;
    assert_int_equal(json_unpack(json_array_get(events, 2), "{s:s,s:s,s:i,s:i,s:F,s:F,s:{s:i}}",
                                 "name", &name, "ph", &phase, "pid", &pid, "tid", &tid, "ts", &at,
                                 "dur", &lasted, "args", "detail", &detail),
                     0);
    assert_string_equal(name, "expert");
    assert_string_equal(phase, "X");
    assert_true(pid == 3 && tid == 0 && detail == 7);
    assert_true(at > 1.4999 && at < 1.5001 && lasted > 1.4999 && lasted < 1.5001); /* us */
    assert_int_equal(json_unpack(json_array_get(events, 4), "{s:s,s:s,s:F,s:{s:i}}", "name", &name,
                                 "ph", &phase, "ts", &at, "args", "value", &detail),
                     0);
    assert_string_equal(phase, "C");
    assert_int_equal(detail, 12);
    json_decref(events);
    prs_trace_destroy(trace);
}

static void test_a_full_lane_counts_what_it_drops(void **state)
{
    (void)state;
    struct prs_trace *trace;
    assert_int_equal(prs_trace_create(1, 3, &trace), PERSEUS_OK);
    for (uint64_t i = 0; i < 10; i++) {
        prs_trace_span(trace, 0, "expert", 1000 + i, 1001 + i, i);
    }
    json_t *events = written(trace);
    int dropped;
    assert_int_equal(json_array_size(events), 2 * (1 + 1 + 3));
    assert_int_equal(
        json_unpack(json_array_get(events, 1), "{s:{s:i}}", "args", "dropped_events", &dropped), 0);
    assert_int_equal(dropped, 7);
    json_decref(events);
    prs_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_what_was_recorded),
        cmocka_unit_test(test_a_full_lane_counts_what_it_drops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
