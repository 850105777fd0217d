/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h: the benchmarks with kernels as producers, for scripts/gpu/put-signal and for `perseus
 * bench --device cuda`. They print their tables, and hand every row to whoever wants it. What CUDA
 * refuses ends the program with a message.
 */
#ifndef BENCH_GPU_BENCH_H
#define BENCH_GPU_BENCH_H

#include <perseus/perseus.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many GPUs there are, or 0 and why not in *out_why. */
int bench_gpus(const char **out_why);

struct bench_put_signal_row {
    const char *protocol, *provider;
    enum perseus_ordering ordering;
    uint32_t bytes;
    int gpus;
    double us;        /* until a quiet behind everything is answered; medians of the rounds */
    double share;     /* of put-only's rate */
    double seen_us;   /* until every payload was seen and checked at its target */
    double submit_us; /* until everything was in the ring */
    double fence_us;  /* that the proxy stood still for fences, of a round */
    uint64_t fences, drains, messages; /* of a round */
    bool failed;
};
typedef void (*bench_put_signal_fn)(void *context, const struct bench_put_signal_row *row);
/* 96 transfers of each of `n` sizes from PE 0 to 7 PEs, of the same GPU (gpus 1) or of another one
 * (2): every protocol under every ordering that is real there. `each` may be NULL. False: a payload
 * was wrong, or a wait failed. */
bool bench_put_signal(int gpus, const uint32_t *bytes, int n, bench_put_signal_fn each,
                      void *context);

struct bench_ring_row {
    const char *scope;
    uint32_t ctas;
    double rate;     /* descriptors a second */
    uint64_t cycles; /* of a caller, for one */
    uint64_t wrong;  /* descriptors that were lost, doubled or changed */
};
typedef void (*bench_ring_fn)(void *context, const struct bench_ring_row *row);
bool bench_ring(bench_ring_fn each, void *context);

#ifdef __cplusplus
}
#endif
#endif
