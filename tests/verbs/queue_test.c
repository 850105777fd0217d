/* SPDX-License-Identifier: Apache-2.0 */
/* What no healthy device shows: connections whose messages are lost or forged, full
 * queues, errors. */
#include "fabric/verbs/internal.h"
#include "fake.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define BYTES  4096
#define EVENTS 512

/* One endpoint that connects twice to another of the same fabric: peers 0 and 1. */
struct pair {
    struct prs_fabric *fabric;
    struct prs_endpoint *from, *to;
    struct prs_region *region;
    struct prs_remote *remote[2];
    unsigned char memory[BYTES];
    uint64_t now_ns;
    struct prs_log log;
    char said[1024];
};

static uint64_t now(void *context)
{
    return ((struct pair *)context)->now_ns;
}

static void listen(void *user, enum perseus_log_level level, const char *text)
{
    struct pair *pair = user;
    (void)level;
    snprintf(pair->said, sizeof pair->said, "%s", text);
}

/* Often enough for a request and its answer, with room for one event at a time. */
static void poll_both(struct pair *pair)
{
    for (uint32_t i = 0; i < 8; i++) {
        struct prs_event events[1];
        uint32_t n;
        prs_verbs_poll(i % 2 == 0 ? pair->from : pair->to, events, 1, &n);
        assert_int_equal(n, 0);
    }
}

static void open_pair(struct pair *pair)
{
    *pair = (struct pair){.now_ns = 1};
    pair->log = (struct prs_log){.fn = listen, .user = pair, .level = PERSEUS_LOG_DEBUG, .pe = -1};
    const struct prs_fabric_config config = {.log = &pair->log,
                                             .clock = {.now_ns = now, .context = pair}};
    assert_int_equal(prs_verbs_open_with(&config, fake_library(), &pair->fabric), PERSEUS_OK);
    assert_int_equal(prs_verbs_endpoint_open(pair->fabric, &pair->from), PERSEUS_OK);
    assert_int_equal(prs_verbs_endpoint_open(pair->fabric, &pair->to), PERSEUS_OK);
    assert_int_equal(prs_verbs_region_register(pair->fabric, pair->memory, BYTES, PRS_MEMORY_HOST,
                                               &pair->region),
                     PERSEUS_OK);
}

static void connect_pair(struct pair *pair, uint32_t number)
{
    unsigned char address[PRS_ADDRESS_MAX], blob[PRS_BLOB_MAX];
    size_t bytes = sizeof address, blob_bytes = sizeof blob;
    uint32_t peer;
    assert_int_equal(prs_verbs_endpoint_address(pair->to, address, &bytes), PERSEUS_OK);
    assert_int_equal(prs_verbs_connect(pair->from, address, bytes, &peer), PERSEUS_OK);
    assert_int_equal(peer, number);
    prs_verbs_region_export(pair->region, blob, &blob_bytes);
    assert_int_equal(prs_verbs_import(pair->from, peer, blob, blob_bytes, &pair->remote[number]),
                     PERSEUS_OK);
}

/* With so many connections, ready. */
static void open_connected(struct pair *pair, uint32_t connections)
{
    open_pair(pair);
    for (uint32_t number = 0; number < connections; number++) {
        connect_pair(pair, number);
    }
    poll_both(pair);
}

static void close_pair(struct pair *pair)
{
    prs_verbs_remote_close(pair->remote[0]);
    prs_verbs_remote_close(pair->remote[1]);
    prs_verbs_endpoint_close(pair->from);
    prs_verbs_endpoint_close(pair->to);
    prs_verbs_region_close(pair->region);
    pair->fabric->ops->close(pair->fabric);
}

static struct prs_op put(const struct pair *pair, uint32_t peer, uint64_t cookie)
{
    return (struct prs_op){.kind = PRS_OP_PUT,
                           .peer = peer,
                           .local = pair->region,
                           .remote = pair->remote[peer],
                           .bytes = 64,
                           .cookie = cookie};
}

static struct fake_qp *qp_of(const struct pair *pair, uint32_t peer)
{
    const struct prs_verbs_endpoint *endpoint = (const struct prs_verbs_endpoint *)pair->from;
    return fake_qp(endpoint->peers[peer]->queues[0]->qp->qp_num);
}

static uint32_t take(struct pair *pair, struct prs_event *events)
{
    uint32_t n = 0;
    assert_int_equal(prs_verbs_poll(pair->from, events, EVENTS, &n), PERSEUS_OK);
    return n;
}

/* ---- connections ---- */

static void test_lost_messages(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    fake_lose_datagrams(2); /* the request; then the answer to the second one */
    connect_pair(&pair, 0);
    struct prs_op op = put(&pair, 0, 0);
    for (uint32_t i = 0; i < 2; i++) {
        poll_both(&pair);
        assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_AGAIN);
        pair.now_ns += 50000000;
        poll_both(&pair);
    }
    uint32_t made = fake_qps_made();
    pair.now_ns += 1000000000;
    poll_both(&pair);
    poll_both(&pair);
    assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK);
    assert_int_equal(fake_qps_made(), made); /* asked again, it has not made another one */
    close_pair(&pair);
}

static void test_nobody_answers(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    fake_lose_datagrams(UINT32_MAX);
    connect_pair(&pair, 0);
    struct prs_op op = put(&pair, 0, 0);
    pair.now_ns += UINT64_C(60000000000);
    poll_both(&pair);
    assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_PEER_LOST);
    assert_non_null(strstr(pair.said, "peer 0 is lost: it has not answered"));
    close_pair(&pair);
}

static void test_strangers(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    const struct prs_verbs_endpoint *to = (const struct prs_verbs_endpoint *)pair.to;
    uint32_t talk = to->talk->qp->qp_num, made = fake_qps_made();
    struct prs_verbs_message message = {
        .magic = PRS_VERBS_MAGIC, .kind = PRS_VERBS_REQUEST, .lanes = 1, .from = 99, .to = to->id};
    const unsigned char guessed[PRS_VERBS_KEY_BYTES] = {0};
    for (uint8_t kind = 0; kind < 6; kind++) {
        message.kind = kind;
        prs_verbs_message_sign(&message, guessed);
        fake_datagram(talk, &message, sizeof message);
        fake_datagram(talk, &message, sizeof message - 1);
        poll_both(&pair);
    }
    assert_int_equal(fake_qps_made(), made);
    connect_pair(&pair, 0); /* and it is as good as before */
    poll_both(&pair);
    struct prs_op op = put(&pair, 0, 0);
    assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK);
    close_pair(&pair);
}

/* ---- queues ---- */

static void test_one_doorbell(void **state)
{
    (void)state;
    struct pair pair;
    open_connected(&pair, 1);
    struct prs_event events[EVENTS];
    for (uint32_t round = 0; round < 20; round++) { /* past the ring's wrap */
        uint32_t before = qp_of(&pair, 0)->doorbells;
        for (uint64_t i = 0; i < 96; i++) {
            struct prs_op op = put(&pair, 0, i);
            op.flags = PRS_OP_MORE;
            assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK);
        }
        assert_int_equal(qp_of(&pair, 0)->doorbells, before);
        prs_verbs_flush(pair.from);
        assert_int_equal(qp_of(&pair, 0)->doorbells, before + 1);
        assert_int_equal(take(&pair, events), 0);
        fake_complete(qp_of(&pair, 0), 95); /* the last one asks for its completion */
        assert_in_range(take(&pair, events), 64, 95);
        fake_complete(qp_of(&pair, 0), 1);
        take(&pair, events);
        assert_int_equal(((struct prs_verbs_endpoint *)pair.from)->in_flight, 0);
    }
    close_pair(&pair);
}

static void test_full(void **state)
{
    (void)state;
    struct pair pair;
    open_connected(&pair, 2);
    struct prs_event events[EVENTS];
    uint64_t cookie = 0, seen = 0;
    for (uint32_t round = 0; round < 5; round++) {
        struct prs_op op = put(&pair, 0, cookie);
        while (prs_verbs_post(pair.from, &op) == PERSEUS_OK) {
            op.cookie = ++cookie;
        }
        assert_int_equal(cookie - seen, PRS_VERBS_DEPTH);
        assert_int_equal(qp_of(&pair, 0)->posted - qp_of(&pair, 0)->completed, PRS_VERBS_DEPTH);
        struct prs_op other = put(&pair, 1, 7); /* a full queue pair is nobody else's trouble */
        assert_int_equal(prs_verbs_post(pair.from, &other), PERSEUS_OK);
        fake_complete(qp_of(&pair, 1), 1);
        assert_int_equal(take(&pair, events), 1);
        assert_int_equal(events[0].peer, 1);
        fake_complete(qp_of(&pair, 0), PRS_VERBS_DEPTH);
        for (uint32_t n; (n = take(&pair, events)) > 0;) {
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(events[i].cookie, seen++);
            }
        }
        assert_int_equal(seen, cookie);
    }
    close_pair(&pair);
}

/* ---- errors ---- */

static void test_retry_exceeded(void **state)
{
    (void)state;
    struct pair pair;
    open_connected(&pair, 2);
    for (uint64_t i = 0; i < 4; i++) {
        struct prs_op op = put(&pair, 0, i);
        op.flags = i == 3 ? PRS_OP_UNTRACKED : 0; /* its error is told all the same */
        assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK);
    }
    fake_complete(qp_of(&pair, 0), 1);
    fake_fail(qp_of(&pair, 0), IBV_WC_RETRY_EXC_ERR, 0x81);
    struct prs_event events[EVENTS];
    assert_int_equal(take(&pair, events), 4);
    assert_int_equal(events[0].status, PERSEUS_OK);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(events[i].status, PERSEUS_PEER_LOST);
        assert_int_equal(events[i].cookie, i);
    }
    char expected[64];
    snprintf(expected, sizeof expected, "queue pair %u", qp_of(&pair, 0)->qp.qp_num);
    assert_non_null(strstr(pair.said, "peer 0 is lost"));
    assert_non_null(strstr(pair.said, expected));
    assert_non_null(strstr(pair.said, "transport retry counter exceeded"));
    assert_non_null(strstr(pair.said, "0x81"));
    assert_int_equal(qp_of(&pair, 0)->qp.state, IBV_QPS_ERR);
    struct prs_op op = put(&pair, 0, 9);
    assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_PEER_LOST);
    op = put(&pair, 1, 9);
    assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK); /* others live on */
    close_pair(&pair);
}

static void test_device_refuses(void **state)
{
    (void)state;
    for (uint32_t at = 1; at <= 8; at++) {
        struct pair pair;
        open_connected(&pair, 1);
        fake_refuse_at(at);
        for (uint64_t i = 0; i < 8; i++) {
            struct prs_op op = put(&pair, 0, i);
            op.flags = PRS_OP_MORE;
            assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK);
        }
        prs_verbs_flush(pair.from);
        fake_fail(qp_of(&pair, 0), IBV_WC_WR_FLUSH_ERR, 0); /* what it has taken comes back */
        struct prs_event events[EVENTS];
        uint32_t n = take(&pair, events);
        assert_int_equal(n, 8); /* each once, and none as if it had arrived */
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(events[i].cookie, i);
            assert_int_not_equal(events[i].status, PERSEUS_OK);
        }
        close_pair(&pair);
    }
}

static void test_goodbye(void **state)
{
    (void)state;
    struct pair pair;
    open_connected(&pair, 1);
    struct prs_op op = put(&pair, 0, 5);
    assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK);
    prs_verbs_endpoint_close(pair.to);
    pair.to = NULL;
    struct prs_event events[EVENTS];
    assert_int_equal(take(&pair, events), 0);
    fake_complete(qp_of(&pair, 0), 1); /* its acknowledgment was on its way */
    assert_int_equal(take(&pair, events), 1);
    assert_int_equal(events[0].status, PERSEUS_OK);
    assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_PEER_LOST);
    assert_non_null(strstr(pair.said, "it has closed its endpoint"));
    close_pair(&pair);
}

static void test_atomics_masked(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    assert_true((pair.fabric->caps.atomics >> PERSEUS_ATOMIC_ADD & 1) != 0);
    assert_false(pair.fabric->caps.atomics_cpu_coherent);
    close_pair(&pair);
    setenv("PERSEUS_IB_ATOMICS", "0", 1);
    open_pair(&pair);
    unsetenv("PERSEUS_IB_ATOMICS");
    assert_int_equal(pair.fabric->caps.atomics, 0);
    close_pair(&pair);
}

static bool is_readable(const struct pair *pair)
{
    struct pollfd watched = {.fd = prs_verbs_wait_fd(pair->from), .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

/* Not before a poll behind the arming has found nothing. */
static void fall_asleep(struct pair *pair)
{
    uint64_t limit_ns = 0;
    struct prs_event event;
    assert_int_equal(prs_verbs_arm(pair->from, &limit_ns), PERSEUS_AGAIN);
    assert_int_equal(prs_verbs_arm(pair->from, &limit_ns), PERSEUS_AGAIN);
    assert_int_equal(take(pair, &event), 0);
    assert_int_equal(prs_verbs_arm(pair->from, &limit_ns), PERSEUS_OK);
    assert_true(limit_ns == UINT64_MAX);
    assert_false(is_readable(pair));
}

static void test_sleep(void **state)
{
    (void)state;
    struct pair pair;
    struct prs_event events[EVENTS];
    uint64_t limit_ns;
    open_connected(&pair, 1);
    fall_asleep(&pair);
    for (uint64_t i = 0; i < 3; i++) {
        struct prs_op op = put(&pair, 0, i);
        assert_int_equal(prs_verbs_post(pair.from, &op), PERSEUS_OK);
    }
    fake_complete(qp_of(&pair, 0), 1); /* wakes */
    assert_true(is_readable(&pair));
    assert_int_equal(take(&pair, events), 1);
    fake_complete(qp_of(&pair, 0), 1); /* comes while nothing is armed, and is found */
    assert_int_equal(prs_verbs_arm(pair.from, &limit_ns), PERSEUS_AGAIN);
    assert_int_equal(take(&pair, events), 1);
    assert_int_equal(prs_verbs_arm(pair.from, &limit_ns), PERSEUS_AGAIN);
    fake_complete(qp_of(&pair, 0), 1); /* on the way to sleep; its event comes, but is old then */
    assert_int_equal(take(&pair, events), 1);
    assert_true(is_readable(&pair));
    fall_asleep(&pair);
    connect_pair(&pair, 1); /* a handshake has its times */
    assert_int_equal(prs_verbs_arm(pair.from, &limit_ns), PERSEUS_AGAIN);
    assert_int_not_equal(limit_ns, UINT64_MAX);
    poll_both(&pair);
    fall_asleep(&pair);
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_messages),  cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_strangers),      cmocka_unit_test(test_one_doorbell),
        cmocka_unit_test(test_full),           cmocka_unit_test(test_retry_exceeded),
        cmocka_unit_test(test_device_refuses), cmocka_unit_test(test_goodbye),
        cmocka_unit_test(test_atomics_masked), cmocka_unit_test(test_sleep),
    };
    return cmocka_run_group_tests_name("verbs queues", tests, NULL, NULL);
}
