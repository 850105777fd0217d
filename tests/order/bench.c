/* SPDX-License-Identifier: Apache-2.0 */
#include "order/bench.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void on_complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct bench *bench = context;
    assert_true(token < BENCH_TOKENS);
    assert_false(bench->done[token]);
    bench->done[token] = true;
    bench->status[token] = status;
    bench->result[token] = result;
}

static void init(struct bench *bench, enum perseus_ordering ordering, const struct prs_caps *caps,
                 const struct prs_mode *mode, const struct bench_sizes *sizes)
{
    memset(bench, 0, sizeof *bench);
    bench->fake = fake_fabric_create();
    if (caps != NULL) {
        bench->fake->fabric.caps = *caps;
    }
    bench->fake->fabric.caps.completes_early = sizes->completes_early;
    struct prs_orderer_config config = {.endpoint = &bench->fake->endpoint,
                                        .ordering = ordering,
                                        .self = 0,
                                        .n_peers = BENCH_PEERS,
                                        .parked_max = sizes->parked_max,
                                        .pools = sizes->pools,
                                        .timeout_ns = sizes->timeout_ns,
                                        .immediate_signal = true,
                                        .complete = on_complete,
                                        .context = bench,
                                        .clock = fake_clock(bench->fake)};
    enum perseus_status status = mode != NULL
                                     ? prs_orderer_create_with_mode(&config, mode, &bench->orderer)
                                     : prs_orderer_create(&config, &bench->orderer);
    assert_int_equal(status, PERSEUS_OK);
    for (uint32_t i = 0; i < BENCH_PEERS; i++) {
        size_t bytes = PRS_ORDERER_ADDRESS_MAX;
        assert_int_equal(prs_orderer_address(bench->orderer, bench->directory[i] + 4, &bytes),
                         PERSEUS_OK);
        memcpy(bench->directory[i], &(uint32_t){(uint32_t)bytes}, 4);
    }
    prs_orderer_set_directory(bench->orderer, bench->directory[0], sizeof bench->directory[0]);
    assert_int_equal(prs_window_create(bench->orderer, bench->memory, sizeof bench->memory,
                                       PRS_MEMORY_HOST, &bench->window),
                     PERSEUS_OK);
    for (uint32_t i = 0; i < BENCH_PEERS; i++) {
        unsigned char blob[PRS_WINDOW_BLOB_MAX];
        size_t bytes = sizeof blob;
        assert_int_equal(prs_window_export(bench->window, blob, &bytes), PERSEUS_OK);
        assert_int_equal(prs_window_import(bench->orderer, i, blob, bytes, &bench->remotes[i]),
                         PERSEUS_OK);
    }
}

void bench_init(struct bench *bench, enum perseus_ordering ordering, const struct prs_caps *caps,
                const struct prs_mode *mode)
{
    init(bench, ordering, caps, mode, &(struct bench_sizes){.parked_max = 8});
}

void bench_init_sized(struct bench *bench, enum perseus_ordering ordering,
                      const struct bench_sizes *sizes)
{
    struct bench_sizes own = *sizes;
    own.parked_max = sizes->parked_max == 0 ? 8 : sizes->parked_max;
    init(bench, ordering, NULL, NULL, &own);
}

void bench_finish(struct bench *bench)
{
    for (uint32_t i = 0; i < BENCH_PEERS; i++) {
        prs_window_remote_close(bench->remotes[i]);
    }
    prs_window_destroy(bench->window);
    prs_orderer_destroy(bench->orderer);
    assert_true(bench->fake->closed);
    fake_fabric_destroy(bench->fake);
}

/* Every request is a batch of its own. */
static enum perseus_status submit(struct bench *bench, const struct prs_request *one)
{
    enum perseus_status status = prs_orderer_submit(bench->orderer, one);
    assert_int_equal(prs_orderer_flush(bench->orderer), PERSEUS_OK);
    return status;
}

static struct prs_request request(struct bench *bench, enum prs_request_kind kind, uint32_t peer)
{
    return (struct prs_request){.kind = (uint8_t)kind,
                                .peer = peer,
                                .token = PRS_ORDER_NO_TOKEN,
                                .local = prs_window_region(bench->window),
                                .remote = bench->remotes[peer],
                                .remote_offset = 128,
                                .bytes = 64,
                                .signal_remote = bench->remotes[peer],
                                .signal_offset = 16};
}

enum perseus_status bench_put_token(struct bench *bench, uint32_t peer, uint32_t token)
{
    struct prs_request put = request(bench, PRS_REQUEST_PUT, peer);
    put.token = token;
    return submit(bench, &put);
}

enum perseus_status bench_put(struct bench *bench, uint32_t peer)
{
    return bench_put_token(bench, peer, PRS_ORDER_NO_TOKEN);
}

enum perseus_status bench_put_inline(struct bench *bench, uint32_t peer, uint64_t value)
{
    struct prs_request put = request(bench, PRS_REQUEST_PUT, peer);
    put.bytes = sizeof value;
    put.inline_source = &value;
    return submit(bench, &put);
}

static enum perseus_status signal_with(struct bench *bench, enum prs_request_kind kind,
                                       enum perseus_signal_op op, uint32_t peer, uint64_t value)
{
    struct prs_request signal = request(bench, kind, peer);
    if (kind == PRS_REQUEST_SIGNAL) {
        signal.remote_offset = 16;
    }
    signal.op = (uint8_t)op;
    signal.value = value;
    return submit(bench, &signal);
}

enum perseus_status bench_signal(struct bench *bench, uint32_t peer, uint64_t value)
{
    return signal_with(bench, PRS_REQUEST_SIGNAL, PERSEUS_SIGNAL_SET, peer, value);
}

enum perseus_status bench_signal_at(struct bench *bench, uint32_t peer, uint64_t offset)
{
    struct prs_request signal = request(bench, PRS_REQUEST_SIGNAL, peer);
    signal.remote_offset = offset;
    return submit(bench, &signal);
}

enum perseus_status bench_put_signal_at(struct bench *bench, uint32_t peer, uint64_t offset)
{
    struct prs_request put = request(bench, PRS_REQUEST_PUT_SIGNAL, peer);
    put.signal_offset = offset;
    return submit(bench, &put);
}

enum perseus_status bench_batch_put_signal(struct bench *bench, uint32_t peer, uint64_t offset,
                                           uint64_t value)
{
    struct prs_request put = request(bench, PRS_REQUEST_PUT_SIGNAL, peer);
    put.signal_offset = offset;
    put.value = value;
    return prs_orderer_submit(bench->orderer, &put);
}

enum perseus_status bench_batch_signal(struct bench *bench, uint32_t peer, uint64_t offset,
                                       uint64_t value)
{
    struct prs_request signal = request(bench, PRS_REQUEST_SIGNAL, peer);
    signal.remote_offset = offset;
    signal.value = value;
    return prs_orderer_submit(bench->orderer, &signal);
}

enum perseus_status bench_add(struct bench *bench, uint32_t peer, uint64_t value)
{
    return signal_with(bench, PRS_REQUEST_SIGNAL, PERSEUS_SIGNAL_ADD, peer, value);
}

enum perseus_status bench_put_signal(struct bench *bench, uint32_t peer, uint64_t value)
{
    return signal_with(bench, PRS_REQUEST_PUT_SIGNAL, PERSEUS_SIGNAL_SET, peer, value);
}

enum perseus_status bench_fetch(struct bench *bench, uint32_t peer, uint32_t token)
{
    struct prs_request fetch = request(bench, PRS_REQUEST_ATOMIC_FETCH, peer);
    fetch.op = PERSEUS_ATOMIC_ADD;
    fetch.value = 5;
    fetch.token = token;
    return submit(bench, &fetch);
}

void bench_progress(struct bench *bench)
{
    bool did = true;
    for (int i = 0; i < 16 && did; i++) {
        assert_int_equal(prs_orderer_progress(bench->orderer, 64, &did), PERSEUS_OK);
    }
}

uint32_t bench_posts(const struct bench *bench)
{
    return bench->fake->posts_count;
}

const struct prs_op *bench_post(const struct bench *bench, uint32_t index)
{
    assert_true(index < bench->fake->posts_count);
    return &bench->fake->posts[index].op;
}

struct perseus_stats bench_stats(const struct bench *bench, uint32_t peer)
{
    struct perseus_stats stats;
    prs_orderer_stats(bench->orderer, peer, &stats);
    return stats;
}

struct prs_immediate bench_decode(const struct bench *bench, uint32_t post)
{
    struct prs_immediate what;
    const struct prs_op *op = bench_post(bench, post);
    assert_true((op->flags & PRS_OP_IMMEDIATE) != 0);
    prs_immediate_decode(&bench->orderer->immediate, op->immediate, &what);
    return what;
}

void bench_arrive(struct bench *bench, uint32_t sender, enum prs_immediate_kind kind,
                  uint64_t number, uint32_t code)
{
    struct prs_immediate what = {.kind = kind, .sender = sender, .number = number, .code = code};
    fake_arrive(bench->fake,
                prs_immediate_encode(&bench->orderer->immediate, bench->orderer->secret, 0, &what));
}

void bench_acknowledge(struct bench *bench, uint32_t peer, uint64_t acked)
{
    bench_arrive(bench, peer, PRS_IMMEDIATE_ANSWER, acked, PRS_ANSWER_ACK);
    bench_progress(bench);
}

const struct prs_record *bench_record(const struct bench *bench, uint32_t post)
{
    return (const void *)bench->fake->posts[post].data;
}
