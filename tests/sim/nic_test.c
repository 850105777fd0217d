/* SPDX-License-Identifier: Apache-2.0 */
/* What operations cost on the virtual fabric, to the nanosecond. */
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/rng.h"
#include "fabric/sim/sim.h"

#define PES   4u
#define WORDS 64u
#define BYTES (1u << 20) /* of a region; only the words are memory */

struct pe {
    struct cluster *cluster;
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint;
    struct prs_region *region;
    struct prs_remote *remote[PES];
    uint64_t words[WORDS];
    uint64_t written_ns[WORDS]; /* last time */
};

struct cluster {
    struct prs_timeline *timeline;
    struct prs_sim_net *net;
    struct pe pe[PES];
};

/* 10 ns of line for 100 bytes, and round numbers for the rest. */
static struct prs_sim_model plain(void)
{
    return (struct prs_sim_model){.line_gbit_s = 80,
                                  .hops = 2,
                                  .hop_ns = 500,
                                  .queues = 1,
                                  .inflight = 64,
                                  .ack_ns = 1000,
                                  .fence = true,
                                  .immediate_bits = 32};
}

static void on_written(void *context, uint64_t offset, uint64_t bytes)
{
    struct pe *pe = context;
    assert_int_equal(bytes, 8);
    pe->written_ns[offset / 8] = prs_timeline_now_ns(pe->cluster->timeline);
}

static void open_pe(struct cluster *cluster, struct pe *pe)
{
    struct prs_fabric_config config = {0};
    pe->cluster = cluster;
    assert_int_equal(prs_sim_fabric_open(cluster->net, &config, &pe->fabric), PERSEUS_OK);
    const struct prs_fabric_ops *ops = pe->fabric->ops;
    assert_int_equal(ops->endpoint_open(pe->fabric, &pe->endpoint), PERSEUS_OK);
    assert_int_equal(
        ops->region_register(pe->fabric, pe->words, BYTES, PRS_MEMORY_HOST, &pe->region),
        PERSEUS_OK);
    prs_sim_region_set_backed(pe->region, sizeof pe->words);
    prs_sim_region_on_written(pe->region, on_written, pe);
}

static struct cluster *open_cluster(const struct prs_sim_model *model)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    assert_int_equal(prs_timeline_create(&cluster->timeline), PERSEUS_OK);
    assert_int_equal(prs_sim_net_create(model, 1, cluster->timeline, &cluster->net), PERSEUS_OK);
    for (uint32_t i = 0; i < PES; i++) {
        open_pe(cluster, &cluster->pe[i]);
    }
    for (uint32_t i = 0; i < PES * PES; i++) {
        struct pe *pe = &cluster->pe[i / PES], *other = &cluster->pe[i % PES];
        unsigned char address[PRS_ADDRESS_MAX], blob[PRS_BLOB_MAX];
        size_t address_bytes = sizeof address, blob_bytes = sizeof blob;
        uint32_t peer;
        const struct prs_fabric_ops *ops = pe->fabric->ops;
        assert_int_equal(ops->endpoint_address(other->endpoint, address, &address_bytes),
                         PERSEUS_OK);
        assert_int_equal(ops->region_export(other->region, blob, &blob_bytes), PERSEUS_OK);
        assert_int_equal(ops->connect(pe->endpoint, address, address_bytes, &peer), PERSEUS_OK);
        assert_int_equal(
            ops->remote_import(pe->endpoint, peer, blob, blob_bytes, &pe->remote[i % PES]),
            PERSEUS_OK);
    }
    return cluster;
}

static void close_pe(struct pe *pe)
{
    const struct prs_fabric_ops *ops = pe->fabric->ops;
    for (uint32_t to = 0; to < PES; to++) {
        ops->remote_close(pe->remote[to]);
    }
    ops->endpoint_close(pe->endpoint);
    ops->region_close(pe->region);
    ops->close(pe->fabric);
    pe->fabric = NULL;
}

static void close_cluster(struct cluster *cluster)
{
    for (uint32_t i = 0; i < PES; i++) {
        if (cluster->pe[i].fabric != NULL) {
            close_pe(&cluster->pe[i]);
        }
    }
    while (prs_timeline_step(cluster->timeline)) {
    }
    prs_sim_net_destroy(cluster->net);
    prs_timeline_destroy(cluster->timeline);
    free(cluster);
}

static void post(struct cluster *cluster, uint32_t from, const struct prs_op *op)
{
    struct pe *pe = &cluster->pe[from];
    assert_int_equal(pe->fabric->ops->post(pe->endpoint, op), PERSEUS_OK);
}

static void put(struct cluster *cluster, uint32_t from, uint32_t to, uint64_t bytes)
{
    const struct prs_op op = {.kind = PRS_OP_PUT,
                              .peer = to,
                              .local = cluster->pe[from].region,
                              .local_offset = 4096,
                              .remote = cluster->pe[from].remote[to],
                              .remote_offset = 8192,
                              .bytes = bytes};
    post(cluster, from, &op);
}

static void set(struct cluster *cluster, uint32_t from, uint32_t to, uint32_t word, bool fenced)
{
    const struct prs_op op = {.kind = PRS_OP_SIGNAL_SET,
                              .flags = fenced ? PRS_OP_FENCE : 0,
                              .peer = to,
                              .remote = cluster->pe[from].remote[to],
                              .remote_offset = word * 8,
                              .value = 1};
    post(cluster, from, &op);
}

static void run(struct cluster *cluster)
{
    while (prs_timeline_step(cluster->timeline)) {
    }
}

/* One word: 8 bytes take 1 ns of line (0.8 rounded), and two hops. */
static void test_latency(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    struct cluster *cluster = open_cluster(&model);
    set(cluster, 0, 1, 3, false);
    run(cluster);
    assert_int_equal(cluster->pe[1].words[3], 1);
    assert_int_equal(cluster->pe[1].written_ns[3], 1001);
    close_cluster(cluster);
}

/* Connections share the line; of one, one message follows the other. */
static void test_line(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    struct cluster *cluster = open_cluster(&model);
    put(cluster, 0, 1, 10000);
    put(cluster, 0, 2, 10000);
    set(cluster, 0, 1, 0, false);
    set(cluster, 0, 3, 0, false); /* a third of the line until 3; then the puts have half each */
    run(cluster);
    assert_int_equal(cluster->pe[3].written_ns[0], 3 + 1000);
    assert_int_equal(cluster->pe[1].written_ns[0], 2001 + 1 + 1000);
    close_cluster(cluster);
}

/* A payload is read over PCIe, which may be what is slow. */
static void test_payload_read(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    model.pcie_ns = 700;
    model.pcie_gbit_s = 40;
    model.message_ns = 300;
    model.doorbell_ns = 50;
    model.post_ns = 20;
    struct cluster *cluster = open_cluster(&model);
    put(cluster, 0, 1, 10000); /* posted at 20, seen at 70, sent until 2070 */
    set(cluster, 0, 1, 0, false);
    set(cluster, 0, 1, 1, false); /* no earlier than message_ns after the last */
    run(cluster);
    assert_int_equal(cluster->pe[1].written_ns[0], 2070 + 1000 + 1);
    assert_int_equal(cluster->pe[1].written_ns[1], 2070 + 300 + 1000 + 1);
    close_cluster(cluster);
}

/* Several senders to one receiver: they share its line, and what is small is soon through. */
static void test_incast(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    model.receive_gbit_s = 80;
    struct cluster *cluster = open_cluster(&model);
    put(cluster, 0, 3, 10000);
    put(cluster, 1, 3, 2000); /* a half of the line from 1000 on: through at 1400 */
    set(cluster, 1, 3, 1, false);
    set(cluster, 0, 3, 0, false); /* all is through */
    prs_timeline_run_until(cluster->timeline, 600);
    set(cluster, 2, 3, 2, false); /* comes at 1600, when the first has 800 of its 1000 left */
    run(cluster);
    assert_int_equal(cluster->pe[3].written_ns[1], 1400 + 2);
    assert_int_equal(cluster->pe[3].written_ns[2], 1600 + 2);
    assert_int_equal(cluster->pe[3].written_ns[0], 1000 + 1000 + 200 + 3);
    close_cluster(cluster);
}

/* Whatever shares a line, none of it is lost and none is served twice: as long as there is work,
 * it is done; and messages of a connection stay in order where that is granted. */
static void test_shared_line(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    struct prs_rng rng = prs_rng_seeded(5);
    uint64_t last_ns = 0, bytes = 0;
    model.receive_gbit_s = 8; /* a byte a ns: the receiver is what all wait for */
    model.jitter_ns = 700;
    model.ordered = true;
    model.inflight = 4096;
    struct cluster *cluster = open_cluster(&model);
    for (uint32_t i = 0; i < WORDS; i++) {
        for (uint32_t n = 0; n < 20; n++) {
            uint64_t size = 1 + prs_rng_below(&rng, n % 5 == 0 ? 50000 : 500);
            put(cluster, i % 3, 3, size);
            bytes += size;
        }
        set(cluster, i % 3, 3, i, false);
        bytes += 8;
    }
    run(cluster);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint64_t at_ns = cluster->pe[3].written_ns[i];
        assert_true(at_ns > 0 && (i < 3 || at_ns > cluster->pe[3].written_ns[i - 3]));
        last_ns = at_ns > last_ns ? at_ns : last_ns;
    }
    assert_true(last_ns >= 1000 + bytes && last_ns <= 1000 + 700 + bytes);
    close_cluster(cluster);
}

/* What is on a line when either end closes is over in the end, and nothing of it is written. */
static void test_closing(void **state)
{
    (void)state;
    for (uint32_t closed = 0; closed < 2; closed++) {
        struct prs_sim_model model = plain();
        model.receive_gbit_s = 40;
        struct cluster *cluster = open_cluster(&model);
        for (uint32_t i = 0; i < 3 * 7; i++) {
            put(cluster, i % 3, 3, 10000);
            set(cluster, i % 3, 3, i, i % 2 == 0);
        }
        prs_timeline_run_until(cluster->timeline, 1500);
        close_pe(&cluster->pe[closed == 0 ? 0 : 3]);
        run(cluster);
        for (uint32_t i = 0; i < 3 * 7; i++) {
            bool is_over = closed == 1 || i % 3 == 0;
            assert_int_equal(cluster->pe[3].written_ns[i] == 0, is_over);
        }
        close_cluster(cluster);
    }
}

/* A fence flag waits for what is before it on its connection, not for another peer's, and holds
 * what is behind it in its queue, whoever it is for. */
static void test_fences(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    model.fence_ns = 7;
    struct cluster *cluster = open_cluster(&model);
    put(cluster, 0, 1, 10000);    /* delivered at 2000, known at 3000 */
    set(cluster, 0, 1, 0, true);  /* sent at 3007, delivered at 4008, known at 5008 */
    set(cluster, 0, 2, 0, true);  /* sent at 3014: nothing went to that peer before */
    set(cluster, 0, 3, 0, false); /* the same, and they share the line */
    set(cluster, 0, 1, 1, true);  /* sent at 5015 */
    set(cluster, 0, 3, 1, false); /* the same */
    run(cluster);
    assert_int_equal(cluster->pe[1].written_ns[0], 4008);
    assert_int_equal(cluster->pe[2].written_ns[0], 4016);
    assert_int_equal(cluster->pe[3].written_ns[0], 4016);
    assert_int_equal(cluster->pe[1].written_ns[1], 6017);
    assert_int_equal(cluster->pe[3].written_ns[1], 6017);
    close_cluster(cluster);
    cluster = open_cluster(&model);
    put(cluster, 0, 1, 10000);
    prs_timeline_run_until(cluster->timeline, 2500); /* delivered, but the NIC does not know yet */
    set(cluster, 0, 1, 0, true);
    run(cluster);
    assert_int_equal(cluster->pe[1].written_ns[0], 4008);
    close_cluster(cluster);
}

/* A flag that waits for all of its queue, not its connection only. */
static void test_queue_fence(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    model.fence_queue = true;
    model.queues = 2; /* peers 1 and 3 share one */
    struct cluster *cluster = open_cluster(&model);
    put(cluster, 0, 1, 10000); /* delivered at 2001, behind the word to 2, known at 3001 */
    set(cluster, 0, 3, 0, true);
    set(cluster, 0, 2, 0, true); /* nothing went before it in its queue */
    run(cluster);
    assert_int_equal(cluster->pe[3].written_ns[0], 4002);
    assert_int_equal(cluster->pe[2].written_ns[0], 1002);
    close_cluster(cluster);
}

/* With a queue for every peer, a fence to one holds no other. */
static void test_queues(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    model.queues = 0;
    struct cluster *cluster = open_cluster(&model);
    put(cluster, 0, 1, 10000);
    set(cluster, 0, 1, 0, true);
    set(cluster, 0, 2, 0, false);
    run(cluster);
    assert_int_equal(cluster->pe[1].written_ns[0], 4002);
    assert_int_equal(cluster->pe[2].written_ns[0], 1002);
    close_cluster(cluster);
    model.queues = 2; /* peers 1 and 3 share one */
    cluster = open_cluster(&model);
    put(cluster, 0, 1, 10000);
    set(cluster, 0, 1, 0, true);
    set(cluster, 0, 2, 0, false);
    set(cluster, 0, 3, 0, false);
    run(cluster);
    assert_int_equal(cluster->pe[2].written_ns[0], 1002);
    assert_int_equal(cluster->pe[3].written_ns[0], 4003);
    close_cluster(cluster);
}

static void post_on(struct cluster *cluster, uint32_t to, uint32_t word, uint64_t bytes,
                    uint8_t lane, bool fence)
{
    bool is_put = bytes > 0;
    const struct prs_op op = {.kind = is_put ? PRS_OP_PUT : PRS_OP_SIGNAL_SET,
                              .flags = fence ? PRS_OP_FENCE : 0,
                              .lane = lane,
                              .peer = to,
                              .local = is_put ? cluster->pe[0].region : NULL,
                              .local_offset = is_put ? BYTES / 2 : 0,
                              .remote = cluster->pe[0].remote[to],
                              .remote_offset = is_put ? BYTES / 2 : word * 8,
                              .bytes = bytes,
                              .value = 1};
    post(cluster, 0, &op);
}

/* A lane's fence waits for its own lane, and holds no other; its order is its own, too. */
static void test_lanes(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    model.queues = 0;
    model.lanes = 2;
    struct cluster *cluster = open_cluster(&model);
    assert_int_equal(cluster->pe[0].fabric->caps.lanes_max, 2);
    assert_int_equal(cluster->pe[0].fabric->caps.fence_scope, PRS_FENCE_LANE);
    post_on(cluster, 1, 0, 10000, 0, false);
    post_on(cluster, 1, 0, 0, 0, true);  /* behind the put: as with one lane */
    post_on(cluster, 1, 1, 0, 1, true);  /* nothing before it on its lane */
    post_on(cluster, 1, 2, 0, 0, false); /* held by the first fence */
    post_on(cluster, 1, 3, 0, 1, false); /* not held */
    run(cluster);
    assert_int_equal(cluster->pe[1].written_ns[0], 4003); /* the put shared its line */
    assert_int_equal(cluster->pe[1].written_ns[1], 1002);
    assert_int_equal(cluster->pe[1].written_ns[2], 4004);
    assert_int_equal(cluster->pe[1].written_ns[3], 1004);
    close_cluster(cluster);
    model.queues = 1; /* a command queue for all: what is behind a fence waits on any lane */
    cluster = open_cluster(&model);
    post_on(cluster, 1, 0, 10000, 0, false);
    post_on(cluster, 1, 0, 0, 0, true);
    post_on(cluster, 1, 1, 0, 1, false);
    run(cluster);
    assert_int_equal(cluster->pe[1].written_ns[1], 4002);
    close_cluster(cluster);
}

static void count_ready(void *context)
{
    ++*(uint32_t *)context;
}

/* The way back, by the number of destinations, and the CPU's own time. */
static void test_completion(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    model.completion_ns = 400;
    model.tail_ns = 10;
    model.tail_exponent = 2;
    model.step_ns = 30;
    model.event_ns = 5;
    model.post_ns = 100;
    struct cluster *cluster = open_cluster(&model);
    struct pe *pe = &cluster->pe[0];
    uint32_t ready = 0, n;
    prs_sim_endpoint_on_ready(pe->endpoint, count_ready, &ready);
    set(cluster, 0, 1, 0, false); /* posted at 100, delivered at 1101 */
    assert_int_equal(prs_sim_endpoint_free_ns(pe->endpoint), 100);
    run(cluster); /* four destinations: 160 */
    assert_int_equal(ready, 1);
    assert_int_equal(prs_timeline_now_ns(cluster->timeline), 1101 + 1000 + 400 + 160);
    struct prs_event events[4];
    assert_int_equal(pe->fabric->ops->poll(pe->endpoint, events, 4, &n), PERSEUS_OK);
    assert_int_equal(n, 1);
    assert_int_equal(prs_sim_endpoint_free_ns(pe->endpoint), 2661 + 30 + 5);
    close_cluster(cluster);
}

/* What is not backed has costs, but no contents. */
static void test_backed(void **state)
{
    (void)state;
    struct prs_sim_model model = plain();
    struct cluster *cluster = open_cluster(&model);
    struct prs_op op = {.kind = PRS_OP_PUT,
                        .peer = 1,
                        .local = cluster->pe[0].region,
                        .remote = cluster->pe[0].remote[1],
                        .remote_offset = sizeof cluster->pe[0].words - 8,
                        .bytes = 4096};
    cluster->pe[0].words[0] = 5;
    post(cluster, 0, &op); /* its first word is the target's last */
    run(cluster);
    assert_int_equal(cluster->pe[1].words[WORDS - 1], 5);
    close_cluster(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency),      cmocka_unit_test(test_line),
        cmocka_unit_test(test_payload_read), cmocka_unit_test(test_incast),
        cmocka_unit_test(test_fences),       cmocka_unit_test(test_queues),
        cmocka_unit_test(test_lanes),        cmocka_unit_test(test_completion),
        cmocka_unit_test(test_backed),       cmocka_unit_test(test_queue_fence),
        cmocka_unit_test(test_shared_line),  cmocka_unit_test(test_closing),
    };
    return cmocka_run_group_tests_name("virtual NIC", tests, NULL, NULL);
}
