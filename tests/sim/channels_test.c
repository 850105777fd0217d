/* SPDX-License-Identifier: Apache-2.0 */
/* Several proxy channels of a PE: what is put on one and signaled on another is in order only if
 * whoever signals has waited for the other channel. One channel is what it was. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/cluster.h"
#include "sim/moe.h"

#define WORDS  64u
#define ROUNDS 24u
#define SEEDS  20u

/* PE 0 puts word 1 + n on one channel and signals word 0 on the other, round by round. */
struct relay {
    struct sim_cluster cluster;
    uint32_t round, ticket;
    bool waits;
    uint32_t early; /* signals that were seen before their puts */
};

static void send_put(struct relay *relay)
{
    struct sim_pe *channel = sim_cluster_channel(&relay->cluster, 0, 1 + relay->round % 2);
    uint64_t word = 1 + relay->round;
    const struct prs_desc put = {.kind = PRS_DESC_PUT,
                                 .peer = 1,
                                 .ticket = PRS_DESC_NO_TICKET,
                                 .local = word * 8,
                                 .remote = word * 8,
                                 .bytes = 8};
    struct prs_desc quiet = {.kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS};
    assert_int_equal(sim_pe_submit(channel, &put, 1), PERSEUS_OK);
    assert_int_equal(sim_pe_ticket(channel, &relay->ticket), PERSEUS_OK);
    quiet.ticket = relay->ticket;
    assert_int_equal(sim_pe_submit(channel, &quiet, 1), PERSEUS_OK);
}

static void send_signal(struct relay *relay)
{
    struct sim_pe *channel = sim_cluster_channel(&relay->cluster, 0, 2 + relay->round % 2);
    const struct prs_desc signal = {.kind = PRS_DESC_SIGNAL,
                                    .sub = PERSEUS_SIGNAL_SET,
                                    .peer = 1,
                                    .ticket = PRS_DESC_NO_TICKET,
                                    .value = 1 + relay->round};
    assert_int_equal(sim_pe_submit(channel, &signal, 1), PERSEUS_OK);
}

static void completed(void *context)
{
    struct relay *relay = context;
    enum perseus_status status;
    struct sim_pe *channel;
    if (relay == NULL || relay->round == ROUNDS) {
        return;
    }
    channel = sim_cluster_channel(&relay->cluster, 0, 1 + relay->round % 2);
    if (!sim_pe_poll_ticket(channel, relay->ticket, &status)) {
        return;
    }
    assert_int_equal(status, PERSEUS_OK);
    if (relay->waits) {
        send_signal(relay);
    }
    if (++relay->round < ROUNDS) {
        send_put(relay);
        if (!relay->waits) {
            send_signal(relay);
        }
    }
}

static void written(void *context, uint64_t offset, uint64_t bytes)
{
    struct relay *relay = context;
    const uint64_t *words = sim_pe_words(relay->cluster.pes[1]);
    (void)bytes;
    if (offset == 0) {
        relay->early += words[words[0]] == 0;
    }
}

static void *relay_of(void *context, uint32_t pe)
{
    (void)pe;
    return context;
}

static uint32_t run_relay(uint64_t seed, enum perseus_ordering ordering, bool waits)
{
    const struct sim_platform platform = {.pes_per_node = 1,
                                          .batch = 4,
                                          .fabric = {.step_ns = 50,
                                                     .post_ns = 100,
                                                     .hops = 1,
                                                     .hop_ns = 500,
                                                     .jitter_ns = 2000,
                                                     .ack_ns = 300,
                                                     .completion_ns = 900,
                                                     .inflight = 8,
                                                     .fence = true}};
    struct relay relay = {.waits = waits};
    const struct sim_cluster_config config = {.platform = &platform,
                                              .n_pes = 2,
                                              .job_pes = 2,
                                              .seed = seed,
                                              .ordering = ordering,
                                              .words_bytes = WORDS * 8,
                                              .heap_bytes = WORDS * 8,
                                              .ring_slots = 8,
                                              .channels = 2,
                                              .written = written,
                                              .completed = completed,
                                              .context_of = relay_of,
                                              .context = &relay};
    assert_int_equal(sim_cluster_create(&config, &relay.cluster), PERSEUS_OK);
    for (uint64_t i = 0; i < WORDS; i++) {
        sim_pe_words(relay.cluster.pes[0])[i] = i;
    }
    send_put(&relay);
    if (!waits) {
        send_signal(&relay);
    }
    while (prs_timeline_step(relay.cluster.timeline)) {
    }
    assert_int_equal(relay.round, ROUNDS);
    assert_int_equal(sim_pe_words(relay.cluster.pes[1])[0], ROUNDS);
    sim_cluster_destroy(&relay.cluster);
    return relay.early;
}

static void test_order_across_channels(void **state)
{
    static const enum perseus_ordering modes[] = {
        PERSEUS_ORDERING_DRAIN, PERSEUS_ORDERING_DRAIN_PEER, PERSEUS_ORDERING_NIC_FENCE};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        uint32_t early = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            assert_int_equal(run_relay(seed, modes[i], true), 0);
            early += run_relay(seed, modes[i], false);
        }
        assert_true(early > 0); /* a channel's own order says nothing of the other's puts */
    }
}

static struct sim_moe_config small(const struct sim_platform *platform, uint32_t channels)
{
    return (struct sim_moe_config){.platform = platform,
                                   .hidden = 256,
                                   .intermediate = 128,
                                   .experts = 32,
                                   .top_k = 4,
                                   .nodes = 3,
                                   .tokens = 300,
                                   .protocol = SIM_DECOUPLED,
                                   .channels = channels,
                                   .ordering = PERSEUS_ORDERING_DRAIN,
                                   .seed = 5};
}

/* Every protocol ends, with the same signals and puts; leaders pay for order across channels. */
static void test_forwards(void **state)
{
    struct sim_platform platform;
    struct sim_moe_result none, one, some;
    (void)state;
    assert_int_equal(sim_platform_load("slingshot11-a100", NULL, &platform), PERSEUS_OK);
    struct sim_moe_config config = small(&platform, 0);
    assert_int_equal(sim_moe_run(&config, &none), PERSEUS_OK);
    config = small(&platform, 1);
    assert_int_equal(sim_moe_run(&config, &one), PERSEUS_OK);
    assert_memory_equal(&none, &one, sizeof one);
    for (uint32_t channels = 2; channels <= 5; channels++) {
        for (int decoupled = 0; decoupled < 2; decoupled++) {
            config = small(&platform, channels);
            config.protocol = decoupled ? SIM_DECOUPLED : SIM_COUPLED;
            config.answers_decoupled = decoupled != 0;
            assert_int_equal(sim_moe_run(&config, &some), PERSEUS_OK);
            config.channels = 1;
            assert_int_equal(sim_moe_run(&config, &one), PERSEUS_OK);
            assert_true(some.puts == one.puts && some.signals == one.signals);
            assert_true(some.checksum != one.checksum);
        }
    }
}

static void test_refused(void **state)
{
    struct sim_platform platform;
    struct sim_moe_result result;
    (void)state;
    assert_int_equal(sim_platform_load("cx7-h100-ibrc-4qp", NULL, &platform), PERSEUS_OK);
    for (enum perseus_ordering mode = PERSEUS_ORDERING_DRAIN; mode <= PERSEUS_ORDERING_COUNTED;
         mode++) {
        struct sim_moe_config config = small(&platform, 2);
        bool is_kept = mode == PERSEUS_ORDERING_DRAIN || mode == PERSEUS_ORDERING_DRAIN_PEER ||
                       mode == PERSEUS_ORDERING_NIC_FENCE;
        config.ordering = mode;
        assert_int_equal(sim_moe_run(&config, &result),
                         is_kept ? PERSEUS_OK : PERSEUS_NOT_SUPPORTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_across_channels),
                                       cmocka_unit_test(test_forwards),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("several proxy channels", tests, NULL, NULL);
}
