/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody who is not of the job reaches a PE's port: an empty put with an immediate needs no key.
 * It sends random immediates, immediates of the job that it has recorded, and those with a bit
 * changed. No word of the heap changes, and the job goes on as if nothing had been. Where it has
 * recorded a counted put and sends that again before the put's epoch is over, the sender of the
 * epoch's signals hears at once that they are refused: an error, but no wait without end.
 */
#include "base/rng.h"
#include "fabric/loopback/loopback.h"
#ifdef PERSEUS_HAVE_LIBFABRIC
#include "fabric/libfabric/libfabric.h"
#endif
#include "order/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define WORDS       512
#define RECORDED    4096
#define RANDOM      1500
#define DEADLINE_NS 20000000000u
#define QUIET       7u
#define FETCH       8u

static const unsigned char secret[PRS_SECRET_BYTES] = "of this job only";

struct pe {
    struct prs_fabric *fabric;
    struct prs_orderer *orderer;
    struct prs_window *window;
    struct prs_window_remote *remote; /* the other's */
    uint64_t memory[WORDS];
    bool quiet_done;
    enum perseus_status quiet_status;
    uint64_t fetched;
};

struct stranger {
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint;
    struct prs_remote *remote;
    uint32_t peer, in_flight;
    uint32_t bits; /* of an immediate */
    uint64_t sent;
};

static struct pe pes[2];
static unsigned char directory[2][4 + PRS_ORDERER_ADDRESS_MAX];
static struct prs_fabric_ops tapped;
static enum perseus_status (*real_post)(struct prs_endpoint *, const struct prs_op *);
static uint64_t recorded[RECORDED];
static uint32_t recorded_count;

static enum perseus_status tapped_post(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    enum perseus_status status = real_post(endpoint, op);
    if (status == PERSEUS_OK && (op->flags & PRS_OP_IMMEDIATE) != 0 && recorded_count < RECORDED) {
        recorded[recorded_count++] = op->immediate;
    }
    return status;
}

static void on_complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct pe *pe = context;
    if (token == QUIET) {
        pe->quiet_done = true;
        pe->quiet_status = status;
    } else {
        assert_int_equal(status, PERSEUS_OK);
        pe->fetched = result;
    }
}

/* The loopback with short immediates, and so with short tags: a provider that is none. */
static char narrow[] = "narrow";

static enum perseus_status open_fabric(const char *provider, struct prs_fabric **out)
{
    bool is_narrow = provider == narrow;
    struct prs_fabric_config config = {
        .memory_kinds = PRS_MEMORY_HOST,
        .ungranted_mask = PRS_UNGRANT_WHOLE_SIGNALS | (is_narrow ? PRS_UNGRANT_WIDE_IMMEDIATE : 0),
        .clock = prs_clock_monotonic()};
    const struct prs_fabric_ops *ops = &prs_loopback_ops;
#ifdef PERSEUS_HAVE_LIBFABRIC
    if (provider != NULL && !is_narrow) {
        ops = &prs_libfabric_ops;
        config.provider = provider;
    }
#endif
    return ops->open(&config, out);
}

static void open_pe(uint32_t self, const char *provider, enum perseus_ordering ordering)
{
    struct pe *pe = &pes[self];
    *pe = (struct pe){0};
    assert_int_equal(open_fabric(provider, &pe->fabric), PERSEUS_OK);
    struct prs_endpoint *endpoint;
    assert_int_equal(pe->fabric->ops->endpoint_open(pe->fabric, &endpoint), PERSEUS_OK);
    struct prs_orderer_config config = {.endpoint = endpoint,
                                        .ordering = ordering,
                                        .self = self,
                                        .n_peers = 2,
                                        .immediate_signal = true,
                                        .secret = secret,
                                        .timeout_ns = DEADLINE_NS,
                                        .complete = on_complete,
                                        .context = pe,
                                        .clock = prs_clock_monotonic()};
    assert_int_equal(prs_orderer_create(&config, &pe->orderer), PERSEUS_OK);
    size_t bytes = PRS_ORDERER_ADDRESS_MAX;
    assert_int_equal(prs_orderer_address(pe->orderer, directory[self] + 4, &bytes), PERSEUS_OK);
    memcpy(directory[self], &(uint32_t){(uint32_t)bytes}, 4);
    prs_orderer_set_directory(pe->orderer, directory[0], sizeof directory[0]);
    assert_int_equal(
        prs_window_create(pe->orderer, pe->memory, sizeof pe->memory, PRS_MEMORY_HOST, &pe->window),
        PERSEUS_OK);
}

static void connect_pe(uint32_t self)
{
    unsigned char blob[PRS_WINDOW_BLOB_MAX];
    size_t bytes = sizeof blob;
    assert_int_equal(prs_window_export(pes[1 - self].window, blob, &bytes), PERSEUS_OK);
    assert_int_equal(prs_window_import(pes[self].orderer, 1 - self, blob, bytes, &pes[self].remote),
                     PERSEUS_OK);
}

/* It knows PE 0's address. Through this contract a put names a region; it writes no byte there, so
 * a provider's own call would need no key. */
static void open_stranger(struct stranger *stranger, const char *provider)
{
    *stranger = (struct stranger){0};
    assert_int_equal(open_fabric(provider, &stranger->fabric), PERSEUS_OK);
    stranger->bits = stranger->fabric->caps.immediate_bits;
    const struct prs_fabric_ops *ops = stranger->fabric->ops;
    assert_int_equal(ops->endpoint_open(stranger->fabric, &stranger->endpoint), PERSEUS_OK);
    uint32_t lengths[2];
    memcpy(lengths, directory[0] + 4, sizeof lengths);
    const unsigned char *address = directory[0] + 4 + sizeof lengths;
    assert_int_equal(ops->connect(stranger->endpoint, address, lengths[0], &stranger->peer),
                     PERSEUS_OK);
    assert_int_equal(ops->remote_import(stranger->endpoint, stranger->peer, address + lengths[0],
                                        lengths[1], &stranger->remote),
                     PERSEUS_OK);
}

static void close_all(struct stranger *stranger)
{
    const struct prs_fabric_ops *ops = stranger->fabric->ops;
    ops->remote_close(stranger->remote);
    ops->endpoint_close(stranger->endpoint);
    ops->close(stranger->fabric);
    for (int i = 0; i < 2; i++) {
        prs_window_remote_close(pes[i].remote);
        prs_window_destroy(pes[i].window);
        prs_orderer_destroy(pes[i].orderer);
        pes[i].fabric->ops->close(pes[i].fabric);
    }
}

static void poll_all(struct stranger *stranger)
{
    for (int i = 0; i < 2; i++) {
        bool did;
        assert_int_equal(prs_orderer_progress(pes[i].orderer, 256, &did), PERSEUS_OK);
    }
    struct prs_event events[16];
    uint32_t n;
    const struct prs_fabric_ops *ops = stranger->fabric->ops;
    assert_int_equal(ops->poll(stranger->endpoint, events, 16, &n), PERSEUS_OK);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(events[i].status, PERSEUS_OK);
        stranger->in_flight--;
    }
}

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

static void send_immediate(struct stranger *stranger, uint64_t immediate)
{
    struct prs_op op = {.kind = PRS_OP_PUT,
                        .flags = PRS_OP_IMMEDIATE,
                        .peer = stranger->peer,
                        .remote = stranger->remote,
                        .immediate = stranger->bits == 64
                                         ? immediate
                                         : immediate & ((UINT64_C(1) << stranger->bits) - 1)};
    uint64_t until_ns = now_ns() + DEADLINE_NS;
    enum perseus_status status;
    while ((status = stranger->fabric->ops->post(stranger->endpoint, &op)) == PERSEUS_AGAIN) {
        poll_all(stranger);
        assert_true(now_ns() < until_ns);
    }
    assert_int_equal(status, PERSEUS_OK);
    stranger->in_flight++;
    stranger->sent++;
}

/* ---- the job ---- */

static void submit(struct stranger *stranger, struct pe *pe, struct prs_request request)
{
    request.peer = (uint32_t)(pe == &pes[0]);
    request.remote = request.signal_remote = pe->remote;
    request.local = prs_window_region(pe->window);
    enum perseus_status status;
    uint64_t until_ns = now_ns() + DEADLINE_NS;
    while ((status = prs_orderer_submit(pe->orderer, &request)) == PERSEUS_AGAIN) {
        poll_all(stranger);
        assert_true(now_ns() < until_ns);
    }
    assert_int_equal(status, PERSEUS_OK);
}

/* Everything that a PE can send, ended by a quiet. Word 0 counts, words 1.. are signals, the upper
 * half is payload. */
static void run_phase(struct stranger *stranger, struct pe *pe, uint64_t phase)
{
    struct pe *other = pe == &pes[0] ? &pes[1] : &pes[0];
    uint64_t counted = other->memory[0];
    for (uint64_t i = 1; i <= 20; i++) {
        submit(stranger, pe,
               (struct prs_request){.kind = PRS_REQUEST_PUT_SIGNAL,
                                    .token = PRS_ORDER_NO_TOKEN,
                                    .bytes = 64,
                                    .local_offset = sizeof pe->memory / 2,
                                    .remote_offset = sizeof pe->memory / 2 + 64 * i,
                                    .signal_offset = 8 * i,
                                    .value = 100 * phase + i});
        submit(stranger, pe,
               (struct prs_request){.kind = PRS_REQUEST_PUT,
                                    .token = PRS_ORDER_NO_TOKEN,
                                    .bytes = 64,
                                    .local_offset = sizeof pe->memory / 2,
                                    .remote_offset = sizeof pe->memory / 2});
        submit(stranger, pe,
               (struct prs_request){.kind = PRS_REQUEST_SIGNAL,
                                    .token = PRS_ORDER_NO_TOKEN,
                                    .op = PERSEUS_SIGNAL_ADD,
                                    .value = 1});
    }
    submit(stranger, pe,
           (struct prs_request){.kind = PRS_REQUEST_ATOMIC_FETCH,
                                .token = FETCH,
                                .op = PERSEUS_ATOMIC_ADD,
                                .remote_offset = 8 * 30,
                                .value = 1});
    pe->quiet_done = false;
    assert_int_equal(prs_orderer_quiet(pe->orderer, PRS_ORDER_ALL_PEERS, QUIET), PERSEUS_OK);
    uint64_t until_ns = now_ns() + DEADLINE_NS;
    while (!pe->quiet_done) {
        poll_all(stranger);
        assert_true(now_ns() < until_ns);
    }
    assert_int_equal(pe->quiet_status, PERSEUS_OK);
    assert_int_equal(other->memory[0], counted + 20);
    assert_int_equal(pe->fetched, phase);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(other->memory[i], 100 * phase + i);
    }
}

/* ---- the attack ---- */

static void poll_for_a_while(struct stranger *stranger)
{
    uint64_t until_ns = now_ns() + DEADLINE_NS;
    while (stranger->in_flight > 0) {
        poll_all(stranger);
        assert_true(now_ns() < until_ns);
    }
    for (int i = 0; i < 1000; i++) {
        poll_all(stranger);
    }
}

static void attack(struct stranger *stranger, struct prs_rng *rng)
{
    uint64_t before[2][WORDS];
    memcpy(before[0], pes[0].memory, sizeof before[0]);
    memcpy(before[1], pes[1].memory, sizeof before[1]);
    uint64_t refused = pes[0].orderer->strangers, sent = stranger->sent;
    for (uint32_t i = 0; i < RANDOM; i++) {
        uint64_t bits = prs_rng_next(rng);
        send_immediate(stranger, bits);
        /* Of this sender, of each kind and number, with no tag and with a wrong one. */
        uint64_t number = i % PRS_NUMBERS << 3, kind = i % 4;
        send_immediate(stranger,
                       kind | 4u | number | (i % 2 != 0 ? bits << (stranger->bits - 24) : 0));
    }
    for (uint32_t i = 0; i < recorded_count; i++) {
        send_immediate(stranger, recorded[i]);
        send_immediate(stranger, recorded[i] ^ UINT64_C(1) << prs_rng_below(rng, stranger->bits));
    }
    sent = stranger->sent - sent;
    poll_for_a_while(stranger);
    refused = pes[0].orderer->strangers - refused;
    print_message("  %llu of %llu immediates refused\n", (unsigned long long)refused,
                  (unsigned long long)sent);
    assert_true(refused > sent - sent / 20); /* the last answers are genuine, and say nothing new */
    assert_memory_equal(before[0], pes[0].memory, sizeof before[0]);
    assert_memory_equal(before[1], pes[1].memory, sizeof before[1]);
}

/* PE 1's puts are at PE 0, its signal is not sent yet: the stranger sends the last put again. */
static void attack_inside_an_epoch(struct stranger *stranger, bool is_counted)
{
    struct pe *pe = &pes[1];
    uint32_t first = recorded_count;
    for (int i = 0; i < 3; i++) {
        submit(stranger, pe,
               (struct prs_request){.kind = PRS_REQUEST_PUT,
                                    .token = PRS_ORDER_NO_TOKEN,
                                    .bytes = 64,
                                    .local_offset = sizeof pe->memory / 2,
                                    .remote_offset = sizeof pe->memory / 2});
    }
    assert_int_equal(prs_orderer_flush(pe->orderer), PERSEUS_OK);
    poll_for_a_while(stranger);
    assert_int_equal(recorded_count - first, is_counted ? 3 : 0);
    if (is_counted) {
        send_immediate(stranger, recorded[recorded_count - 1]);
        poll_for_a_while(stranger);
    }
    uint64_t before = pes[0].memory[40];
    assert_int_equal(prs_orderer_fence(pe->orderer, 0), PERSEUS_OK);
    submit(stranger, pe,
           (struct prs_request){.kind = PRS_REQUEST_SIGNAL,
                                .token = PRS_ORDER_NO_TOKEN,
                                .remote_offset = 8 * 40,
                                .value = 77});
    pe->quiet_done = false;
    uint64_t begin_ns = now_ns();
    assert_int_equal(prs_orderer_quiet(pe->orderer, PRS_ORDER_ALL_PEERS, QUIET), PERSEUS_OK);
    assert_int_equal(prs_orderer_flush(pe->orderer), PERSEUS_OK);
    while (!pe->quiet_done) {
        poll_all(stranger);
        assert_true(now_ns() - begin_ns < DEADLINE_NS / 2);
    }
    assert_int_equal(pe->quiet_status, is_counted ? PERSEUS_INVALID_ARGUMENT : PERSEUS_OK);
    assert_int_equal(pes[0].memory[40], is_counted ? before : 77);
}

static void test_strangers(void **state)
{
    const char *provider = *state; /* NULL: the loopback */
    static const enum perseus_ordering modes[] = {PERSEUS_ORDERING_FIFO, PERSEUS_ORDERING_COUNTED,
                                                  PERSEUS_ORDERING_DEFERRED};
    struct prs_fabric *probe;
    assert_int_equal(open_fabric(provider, &probe), PERSEUS_OK);
    struct prs_caps caps = probe->caps;
    probe->ops->close(probe);
    struct prs_rng rng = prs_rng_seeded(11);
    uint32_t ran = 0;
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        char why[256];
        if (prs_ordering_check(modes[m], &caps, why, sizeof why) != PERSEUS_OK) {
            continue;
        }
        print_message("%s %s\n", provider != NULL ? provider : "loopback",
                      perseus_ordering_name(modes[m]));
        struct stranger stranger;
        open_pe(0, provider, modes[m]);
        open_pe(1, provider, modes[m]);
        connect_pe(0);
        connect_pe(1);
        open_stranger(&stranger, provider);
        real_post = pes[1].orderer->ops->post;
        tapped = *pes[1].orderer->ops;
        tapped.post = tapped_post;
        recorded_count = 0;
        pes[1].orderer->ops = &tapped;
        for (uint64_t phase = 0; phase < 4; phase++) {
            run_phase(&stranger, &pes[1], phase);
            run_phase(&stranger, &pes[0], phase);
            attack(&stranger, &rng);
        }
        assert_true(recorded_count > 20);
        attack_inside_an_epoch(&stranger, modes[m] == PERSEUS_ORDERING_COUNTED);
        close_all(&stranger);
        ran++;
    }
    assert_true(ran >= 2);
}

static int run(const char *name, char *provider)
{
    const struct CMUnitTest tests[] = {
        {.name = name, .test_func = test_strangers, .initial_state = provider}};
    return cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
}

/* The arguments are the providers. */
int main(int argc, char **argv)
{
    int failed = run("loopback", NULL) + run(narrow, narrow);
    for (int i = 1; i < argc; i++) {
        failed += run(argv[i], argv[i]);
    }
    return failed;
}
