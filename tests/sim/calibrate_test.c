/* SPDX-License-Identifier: Apache-2.0 */
/* Times that a known fabric gave: the model is fitted to them and then knows others of that fabric,
 * which it was not shown. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "sim/calibrate.h"

#define ROWS 24

static struct sim_platform hidden(void)
{
    struct sim_platform platform;
    assert_int_equal(sim_platform_load("tcp-loopback", NULL, &platform), PERSEUS_OK);
    platform.pes_per_node = 1;
    platform.fabric.post_ns = 900;
    platform.fabric.put_ns = 300;
    platform.fabric.step_ns = 250;
    platform.fabric.event_ns = 120;
    platform.fabric.message_ns = 700;
    platform.fabric.receive_message_ns = 100;
    platform.fabric.hop_ns = 14000;
    platform.fabric.completion_ns = 9000;
    platform.fabric.tail_ns = 0;
    platform.fabric.line_gbit_s = platform.fabric.pcie_gbit_s = platform.fabric.receive_gbit_s = 40;
    return platform;
}

static struct sim_measured row_of(const struct sim_platform *platform, uint32_t transfers,
                                  uint64_t bytes, enum sim_exchange_kind kind,
                                  enum perseus_ordering ordering)
{
    const struct sim_exchange_config config = {.platform = platform,
                                               .nodes = 4,
                                               .transfers = transfers,
                                               .senders = 1,
                                               .bytes = bytes,
                                               .kind = kind,
                                               .ordering = ordering,
                                               .seed = 3};
    struct sim_exchange_result result;
    assert_int_equal(sim_exchange_run(&config, &result), PERSEUS_OK);
    return (struct sim_measured){.transfers = transfers,
                                 .peers = 3,
                                 .bytes = bytes,
                                 .kind = kind,
                                 .ordering = ordering,
                                 .ms = result.quiet_ms};
}

static uint32_t measure(const struct sim_platform *platform, struct sim_measured rows[ROWS])
{
    static const enum perseus_ordering orderings[] = {PERSEUS_ORDERING_DRAIN,
                                                      PERSEUS_ORDERING_FIFO};
    static const uint64_t sizes[] = {4096, 262144};
    static const uint32_t counts[] = {1, 96};
    uint32_t n = 0;
    for (int o = 0; o < 2; o++) {
        for (int s = 0; s < 2; s++) {
            for (int c = 0; c < 2; c++) {
                for (int kind = SIM_EXCHANGE_PUTS; kind <= SIM_EXCHANGE_DECOUPLED; kind++) {
                    rows[n++] = row_of(platform, counts[c], sizes[s], (enum sim_exchange_kind)kind,
                                       orderings[o]);
                }
            }
        }
    }
    return n;
}

static void test_known_fabric(void **state)
{
    (void)state;
    struct sim_platform known = hidden(), found;
    struct sim_measured rows[ROWS], other;
    double error;
    uint32_t n = measure(&known, rows);
    assert_int_equal(n, ROWS);
    assert_int_equal(sim_platform_load("tcp-loopback", NULL, &found), PERSEUS_OK);
    found.fabric.tail_ns = 0;
    assert_int_equal(sim_calibrate(rows, n, 600, 1, NULL, &found, &error), PERSEUS_OK);
    print_message("fitted to %.1f%%\n", 100 * error);
    assert_true(error < 0.10);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(fabs(rows[i].simulated_ms / rows[i].ms - 1) < 0.3);
    }
    found.pes_per_node = 1;
    other = row_of(&known, 32, 65536, SIM_EXCHANGE_COUPLED, PERSEUS_ORDERING_DEFERRED);
    double ms = row_of(&found, 32, 65536, SIM_EXCHANGE_COUPLED, PERSEUS_ORDERING_DEFERRED).ms;
    print_message("another: %.4f ms, predicted %.4f\n", other.ms, ms);
    assert_true(fabs(ms / other.ms - 1) < 0.15);
}

/* Modes that the platform cannot keep are left out; with no other, there is nothing to fit. */
static void test_modes(void **state)
{
    (void)state;
    struct sim_platform known = hidden(), found;
    struct sim_measured rows[2];
    double error;
    rows[0] = row_of(&known, 8, 4096, SIM_EXCHANGE_COUPLED, PERSEUS_ORDERING_DRAIN);
    rows[1] = rows[0];
    rows[1].ordering = PERSEUS_ORDERING_NIC_FENCE;
    assert_int_equal(sim_platform_load("tcp-loopback", NULL, &found), PERSEUS_OK);
    assert_int_equal(sim_calibrate(rows, 2, 30, 1, NULL, &found, &error), PERSEUS_OK);
    assert_true(isfinite(rows[0].simulated_ms) && isnan(rows[1].simulated_ms));
    assert_int_equal(sim_calibrate(rows + 1, 1, 30, 1, NULL, &found, &error),
                     PERSEUS_NOT_SUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_fabric),
                                       cmocka_unit_test(test_modes)};
    return cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
}
