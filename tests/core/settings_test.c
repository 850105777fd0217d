/* SPDX-License-Identifier: Apache-2.0 */
/* What a PE is asked to be: attributes win over the environment, the environment over the defaults,
 * and every wrong value is refused with a message that names it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/env.h"
#include "core/messages.h"
#include "core/job/settings.h"

static struct messages messages;

static const struct prs_log *log_of_test(void)
{
    static struct prs_log log = {.fn = messages_take, .user = &messages, .pe = -1};
    return &log;
}

static int clear(void **state)
{
    (void)state;
    for (int id = 0; id < PRS_ENV_COUNT; id++) {
        unsetenv(prs_env_row((enum prs_env_id)id)->name);
    }
    messages_init(&messages);
    return 0;
}

static struct prs_settings read_ok(const struct perseus_attr *attr)
{
    struct prs_settings settings;
    memset(&settings, 0xff, sizeof settings);
    assert_int_equal(prs_settings_read(attr, log_of_test(), &settings), PERSEUS_OK);
    return settings;
}

static void read_bad(const struct perseus_attr *attr, const char *named)
{
    struct prs_settings settings = {.heap_bytes = 77};
    messages_clear(&messages);
    assert_int_equal(prs_settings_read(attr, log_of_test(), &settings), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(settings.heap_bytes, 77); /* outputs are set on success only */
    assert_int_equal(messages_errors(&messages), 1);
    assert_true(messages_have(&messages, named));
}

static void test_defaults(void **state)
{
    (void)state;
    struct prs_settings settings = read_ok(NULL);
    assert_string_equal(settings.link.fabric, "libfabric");
    assert_string_equal(settings.link.provider, "");
    assert_int_equal(settings.link.ordering, PERSEUS_ORDERING_AUTO);
    assert_int_equal(settings.heap_bytes, 64 << 20);
    assert_int_equal(settings.ring_slots, 4096);
    assert_int_equal(settings.timeout_ms, 30000);
    assert_int_equal(settings.pes_per_node, 0);
    assert_int_equal(settings.link.parked_max, 64);
    assert_true(settings.link.immediate_signal);
    assert_false(settings.link.native_atomics);
    assert_false(settings.link.is_faulty);
    assert_int_equal(settings.pin, PRS_PIN_NONE);
    assert_int_equal(settings.backoff.cpu, -1);
}

static void test_environment(void **state)
{
    (void)state;
    setenv("PERSEUS_FABRIC", "loopback", 1);
    setenv("PERSEUS_ORDERING", "counted", 1);
    setenv("PERSEUS_HEAP_BYTES", "1M", 1);
    setenv("PERSEUS_RING_SLOTS", "16", 1);
    setenv("PERSEUS_TIMEOUT_MS", "5", 1);
    setenv("PERSEUS_PES_PER_NODE", "3", 1);
    setenv("PERSEUS_PROXY_CPU", "1", 1);
    setenv("PERSEUS_LINK", "latency=5us", 1);
    setenv("PERSEUS_ADVERSARY", "seed=9,reorder=1", 1);
    struct prs_settings settings = read_ok(NULL);
    assert_string_equal(settings.link.fabric, "loopback");
    assert_int_equal(settings.link.ordering, PERSEUS_ORDERING_COUNTED);
    assert_int_equal(settings.heap_bytes, 1 << 20);
    assert_int_equal(settings.ring_slots, 16);
    assert_int_equal(settings.timeout_ms, 5);
    assert_int_equal(settings.pes_per_node, 3);
    assert_int_equal(settings.pin, PRS_PIN_CPU);
    assert_int_equal(settings.backoff.cpu, 1);
    assert_true(settings.link.is_faulty);
    assert_int_equal(settings.link.faulty.latency_ns, 5000);
    assert_int_equal(settings.link.faulty.seed, 9);
    assert_true(settings.link.faulty.reorder);
    setenv("PERSEUS_PROXY_CPU", "numa", 1);
    assert_int_equal(read_ok(NULL).pin, PRS_PIN_NUMA);
}

static void test_attributes_win(void **state)
{
    (void)state;
    setenv("PERSEUS_FABRIC", "libfabric", 1);
    setenv("PERSEUS_ORDERING", "counted", 1);
    setenv("PERSEUS_HEAP_BYTES", "1M", 1);
    setenv("PERSEUS_TIMEOUT_MS", "nonsense", 1); /* not even read */
    const struct perseus_attr attr = {.fabric = "loopback",
                                      .provider = "x",
                                      .ordering = PERSEUS_ORDERING_DRAIN,
                                      .heap_bytes = 1,
                                      .ring_slots = 2,
                                      .timeout_ms = PERSEUS_NO_TIMEOUT,
                                      .pes_per_node = 2};
    struct prs_settings settings = read_ok(&attr);
    assert_string_equal(settings.link.fabric, "loopback");
    assert_string_equal(settings.link.provider, "x");
    assert_int_equal(settings.link.ordering, PERSEUS_ORDERING_DRAIN);
    assert_int_equal(settings.heap_bytes, sysconf(_SC_PAGESIZE)); /* whole pages */
    assert_int_equal(settings.ring_slots, 2);
    assert_int_equal(settings.timeout_ms, PERSEUS_NO_TIMEOUT);
    assert_int_equal(settings.pes_per_node, 2);
}

static void test_wrong_attributes(void **state)
{
    (void)state;
    read_bad(&(struct perseus_attr){.ring_slots = 100}, "power of two");
    read_bad(&(struct perseus_attr){.ring_slots = 1}, "ring_slots");
    read_bad(&(struct perseus_attr){.ring_slots = 1u << 21}, "ring_slots");
    read_bad(&(struct perseus_attr){.heap_bytes = SIZE_MAX}, "heap_bytes");
    read_bad(&(struct perseus_attr){.pes_per_node = -1}, "pes_per_node");
    read_bad(&(struct perseus_attr){.ordering = PERSEUS_ORDERING_COUNT}, "ordering");
    read_bad(&(struct perseus_attr){.ordering = (enum perseus_ordering) - 1}, "ordering");
}

static void test_wrong_environment(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } wrong[] = {{"PERSEUS_ORDERING", "fast"},         {"PERSEUS_HEAP_BYTES", "0"},
                 {"PERSEUS_HEAP_BYTES", "64MB"},       {"PERSEUS_RING_SLOTS", "5000"},
                 {"PERSEUS_TIMEOUT_MS", "-1"},         {"PERSEUS_TIMEOUT_MS", "0"},
                 {"PERSEUS_PES_PER_NODE", "two"},      {"PERSEUS_PARKED", "3"},
                 {"PERSEUS_IMMEDIATE_SIGNAL", "yes"},  {"PERSEUS_NATIVE_ATOMICS", "2"},
                 {"PERSEUS_PROXY_CPU", "first"},       {"PERSEUS_PROXY_CPU", "70000"},
                 {"PERSEUS_PROXY_SPIN", "a"},          {"PERSEUS_PROXY_YIELD", "a"},
                 {"PERSEUS_PROXY_SLEEP_US", "2000000"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv(wrong[i].name, wrong[i].value, 1);
        read_bad(NULL, wrong[i].name);
        unsetenv(wrong[i].name);
    }
    setenv("PERSEUS_LINK", "speed=5", 1);
    read_bad(NULL, "speed");
    unsetenv("PERSEUS_LINK");
    setenv("PERSEUS_ADVERSARY", "mood=bad", 1);
    read_bad(NULL, "mood");
}

/* A proxy spins only where it does not spin in place of those that it waits for. */
static void test_crowded_proxies_do_not_spin(void **state)
{
    (void)state;
    struct prs_backoff backoff = {.spin_steps = PRS_STEPS_AUTO, .yield_steps = PRS_STEPS_AUTO};
    prs_backoff_decide(&backoff, 4, 7);
    assert_int_equal(backoff.spin_steps, 0);
    backoff.spin_steps = PRS_STEPS_AUTO;
    prs_backoff_decide(&backoff, 4, 8);
    assert_int_equal(backoff.spin_steps, 2000);
    assert_int_equal(backoff.yield_steps, 5); /* decided before, or by the user: stays */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, clear),
        cmocka_unit_test_setup(test_environment, clear),
        cmocka_unit_test_setup(test_attributes_win, clear),
        cmocka_unit_test_setup(test_wrong_attributes, clear),
        cmocka_unit_test_setup(test_wrong_environment, clear),
        cmocka_unit_test(test_crowded_proxies_do_not_spin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
