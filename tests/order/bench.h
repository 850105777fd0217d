/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: an orderer on the fake fabric, with a few words to say requests in. */
#ifndef TESTS_ORDER_BENCH_H
#define TESTS_ORDER_BENCH_H

#include "order/engine.h"
#include "support/fake_fabric.h"

#define BENCH_PEERS  4
#define BENCH_TOKENS 64

struct bench {
    struct fake_fabric *fake;
    struct prs_orderer *orderer;
    struct prs_window *window;
    struct prs_window_remote *remotes[BENCH_PEERS];
    unsigned char directory[BENCH_PEERS][4 + PRS_ORDERER_ADDRESS_MAX];
    uint64_t memory[512];
    bool done[BENCH_TOKENS];
    enum perseus_status status[BENCH_TOKENS];
    uint64_t result[BENCH_TOKENS];
};

/* caps may be NULL: all granted. mode NULL: the registry's. Every PE's address and window are this
 * one's own. */
void bench_init(struct bench *bench, enum perseus_ordering ordering, const struct prs_caps *caps,
                const struct prs_mode *mode);
struct bench_sizes {
    struct prs_order_pools pools;
    uint32_t parked_max; /* 0: 8 */
    uint64_t timeout_ns;
    bool completes_early; /* of the fabric's caps */
};
void bench_init_sized(struct bench *bench, enum perseus_ordering ordering,
                      const struct bench_sizes *sizes);
void bench_finish(struct bench *bench);

enum perseus_status bench_put(struct bench *bench, uint32_t peer);
enum perseus_status bench_put_token(struct bench *bench, uint32_t peer, uint32_t token);
/* Its 8 bytes are `value`, from the stack. */
enum perseus_status bench_put_inline(struct bench *bench, uint32_t peer, uint64_t value);
enum perseus_status bench_signal(struct bench *bench, uint32_t peer, uint64_t value);
/* To the word at this offset, whatever it is. */
enum perseus_status bench_signal_at(struct bench *bench, uint32_t peer, uint64_t offset);
enum perseus_status bench_put_signal_at(struct bench *bench, uint32_t peer, uint64_t offset);
/* The batch goes on: no flush. */
enum perseus_status bench_batch_put_signal(struct bench *bench, uint32_t peer, uint64_t offset,
                                           uint64_t value);
enum perseus_status bench_batch_signal(struct bench *bench, uint32_t peer, uint64_t offset,
                                       uint64_t value);
enum perseus_status bench_add(struct bench *bench, uint32_t peer, uint64_t value);
enum perseus_status bench_put_signal(struct bench *bench, uint32_t peer, uint64_t value);
enum perseus_status bench_fetch(struct bench *bench, uint32_t peer, uint32_t token);
void bench_progress(struct bench *bench);
/* Posts so far; and the index-th post's op. */
uint32_t bench_posts(const struct bench *bench);
const struct prs_op *bench_post(const struct bench *bench, uint32_t index);
struct prs_immediate bench_decode(const struct bench *bench, uint32_t post);
const struct prs_record *bench_record(const struct bench *bench, uint32_t post);
/* A genuine immediate of `sender` comes. */
void bench_arrive(struct bench *bench, uint32_t sender, enum prs_immediate_kind kind,
                  uint64_t number, uint32_t code);
/* The target has applied the records below `acked`. */
void bench_acknowledge(struct bench *bench, uint32_t peer, uint64_t acked);
struct perseus_stats bench_stats(const struct bench *bench, uint32_t peer);

#endif
