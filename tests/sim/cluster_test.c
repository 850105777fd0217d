/* SPDX-License-Identifier: Apache-2.0 */
/* The same seed gives the same events at the same times; another seed others, where chance is in
 * the model. Every protocol under every mode ends, with what it must have sent. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/exchange.h"
#include "sim/moe.h"

#define KNOWN_CHECKSUM 0xf869ee0162581349u

static struct sim_platform preset(const char *name)
{
    struct sim_platform platform;
    assert_int_equal(sim_platform_load(name, NULL, &platform), PERSEUS_OK);
    return platform;
}

static struct sim_moe_config small(const struct sim_platform *platform)
{
    return (struct sim_moe_config){.platform = platform,
                                   .hidden = 256,
                                   .intermediate = 128,
                                   .experts = 32,
                                   .top_k = 4,
                                   .nodes = 3,
                                   .tokens = 300,
                                   .protocol = SIM_DECOUPLED,
                                   .ordering = PERSEUS_ORDERING_NIC_FENCE,
                                   .seed = 5};
}

static void test_same_seed(void **state)
{
    (void)state;
    struct sim_platform platform = preset("slingshot11-a100");
    struct sim_moe_config config = small(&platform);
    struct sim_moe_result first, again, other;
    assert_int_equal(sim_moe_run(&config, &first), PERSEUS_OK);
    assert_int_equal(sim_moe_run(&config, &again), PERSEUS_OK);
    assert_memory_equal(&first, &again, sizeof first);
    config.seed = 6;
    assert_int_equal(sim_moe_run(&config, &other), PERSEUS_OK);
    assert_true(first.checksum != other.checksum);
}

/* A known run, so that builds, machines and sanitizers agree. Chance and fractions are in it. */
static void test_known_bytes(void **state)
{
    (void)state;
    struct sim_platform platform = {.fabric = {.step_ns = 33,
                                               .post_ns = 71.5,
                                               .event_ns = 12,
                                               .line_gbit_s = 97,
                                               .hops = 3,
                                               .hop_ns = 111,
                                               .jitter_ns = 900,
                                               .receive_gbit_s = 91,
                                               .ack_ns = 345,
                                               .tail_ns = 17,
                                               .tail_exponent = 0.7,
                                               .inflight = 32,
                                               .immediate_bits = 32},
                                    .pes_per_node = 2,
                                    .batch = 4};
    struct sim_exchange_config config = {.platform = &platform,
                                         .nodes = 3,
                                         .transfers = 40,
                                         .bytes = 4001,
                                         .kind = SIM_EXCHANGE_COUPLED,
                                         .ordering = PERSEUS_ORDERING_COUNTED,
                                         .seed = 1};
    struct sim_exchange_result result;
    assert_int_equal(sim_exchange_run(&config, &result), PERSEUS_OK);
    print_message("checksum %llx, quiet after %.6f ms\n", (unsigned long long)result.checksum,
                  result.quiet_ms);
    assert_true(result.checksum == KNOWN_CHECKSUM);
}

/* Which modes a preset's fabric can keep. */
static bool keeps(const struct sim_platform *platform, enum perseus_ordering ordering)
{
    return ordering == PERSEUS_ORDERING_NIC_FENCE ? platform->fabric.fence
           : ordering == PERSEUS_ORDERING_FIFO    ? platform->fabric.ordered
           : ordering == PERSEUS_ORDERING_COUNTED ? platform->fabric.immediate_bits >= 32
                                                  : true;
}

static void run_mode(const struct sim_platform *platform, enum perseus_ordering ordering, int way)
{
    struct sim_moe_config config = small(platform);
    struct sim_moe_result result;
    config.ordering = ordering;
    config.protocol = way == 0 ? SIM_COUPLED : SIM_DECOUPLED;
    config.answers_decoupled = way >= 2;
    config.vector = way == 3;
    config.bulk = way == 4;
    config.group_experts = way == 2 ? 7 : 0;
    config.skew = way == 3 ? 1.1 : 0;
    if (!keeps(platform, ordering)) {
        return;
    }
    enum perseus_status status = sim_moe_run(&config, &result);
    if (status != PERSEUS_OK) {
        fail_msg("%s, %s, way %d: %s", platform->name, perseus_ordering_name(ordering), way,
                 perseus_status_name(status));
    }
    assert_true(result.total_ms >= result.compute_floor_ms);
    assert_true(result.total_ms >= result.bytes_floor_ms);
    assert_true(result.busy > 0 && result.busy <= 1);
    assert_true(result.puts > 0 && result.signals > 0);
}

static void test_all_end(void **state)
{
    (void)state;
    const char *name;
    for (uint32_t i = 0; (name = sim_preset_name(i)) != NULL; i++) {
        struct sim_platform platform = preset(name);
        for (int mode = PERSEUS_ORDERING_DRAIN; mode <= PERSEUS_ORDERING_COUNTED; mode++) {
            for (int way = 0; way < 5; way++) {
                run_mode(&platform, (enum perseus_ordering)mode, way);
            }
        }
    }
}

/* Vanilla's fences: one for every remote expert, and one for every block of rows answered. */
static void test_counts(void **state)
{
    (void)state;
    struct sim_platform platform = preset("slingshot11-a100");
    struct sim_moe_config config = small(&platform);
    struct sim_moe_result result;
    config.protocol = SIM_COUPLED;
    config.ordering = PERSEUS_ORDERING_DRAIN;
    config.experts = 24; /* two on each of 12 PEs: 16 remote; 50 rows each, one block */
    assert_int_equal(sim_moe_run(&config, &result), PERSEUS_OK);
    assert_true(result.drains == 32 && result.fences == 32);
    assert_true(result.puts == 32 && result.signals == 32);
    config.protocol = SIM_DECOUPLED;
    assert_int_equal(sim_moe_run(&config, &result), PERSEUS_OK);
    assert_true(result.drains == 8 + 16); /* eight remote PEs, and the answers as before */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed), cmocka_unit_test(test_known_bytes),
        cmocka_unit_test(test_counts), cmocka_unit_test(test_all_end)};
    return cmocka_run_group_tests_name("virtual cluster", tests, NULL, NULL);
}
