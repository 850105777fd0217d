/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges: every PE computes the same picture, nothing overlaps, and payload of another round, of
 * a neighbour, or with one wrong byte never passes for right. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "bench/exchange.h"

enum { PES = 5, CELLS = 8, TRANSFERS = 24, BYTES_MAX = 40000 };

/* Any pattern, from the seed that is the context: also nothing at all, and empty transfers. */
static uint32_t sends(const void *context, uint32_t cell, uint32_t sender,
                      struct prs_bench_transfer *out)
{
    const uint64_t *seed = context;
    struct prs_rng rng = prs_rng_seeded(*seed + cell * 100 + sender);
    uint32_t n = prs_rng_below(&rng, TRANSFERS + 1);
    for (uint32_t i = 0; i < n; i++) {
        out[i].target = (sender + 1 + prs_rng_below(&rng, PES - 1)) % PES;
        out[i].bytes = prs_rng_below(&rng, BYTES_MAX / 8) * 8;
    }
    return n;
}

static struct prs_bench_workload workload_of(const uint64_t *seed)
{
    return (struct prs_bench_workload){
        .n_pes = PES,
        .n_cells = CELLS,
        .transfers_max = TRANSFERS,
        .bytes_max = BYTES_MAX,
        .context = seed,
        .sends = sends,
    };
}

static bool is_same(const struct prs_bench_transfer *a, const struct prs_bench_transfer *b)
{
    return a->sender == b->sender && a->target == b->target && a->index == b->index &&
           a->slot == b->slot && a->offset == b->offset && a->bytes == b->bytes;
}

/* What the senders think they send is what the receivers expect, in whole and in order. */
static void check_cell(const struct prs_bench_workload *workload, uint32_t cell)
{
    struct prs_bench_exchange of[PES];
    uint32_t n_outgoing = 0, n_incoming = 0;
    for (uint32_t pe = 0; pe < PES; pe++) {
        assert_true(prs_bench_exchange_create(workload, cell, pe, &of[pe]));
        n_outgoing += of[pe].n_outgoing;
        n_incoming += of[pe].n_incoming;
    }
    assert_int_equal(n_outgoing, n_incoming);
    for (uint32_t pe = 0; pe < PES; pe++) {
        uint64_t end = 0;
        for (uint32_t i = 0; i < of[pe].n_incoming; i++) {
            const struct prs_bench_transfer *in = &of[pe].incoming[i];
            assert_int_equal(in->target, pe);
            assert_true(is_same(in, &of[in->sender].outgoing[in->index]));
            assert_int_equal(in->offset, end); /* gapless, so nothing overlaps */
            assert_int_equal(in->slot, i);
            end += in->bytes;
        }
        assert_true(end <= of[pe].payload_bytes_max);
        assert_true(of[pe].n_incoming <= of[pe].slots_max);
    }
    for (uint32_t pe = 0; pe < PES; pe++) {
        prs_bench_exchange_destroy(&of[pe]);
    }
}

static void test_everybody_agrees(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        struct prs_bench_workload workload = workload_of(&seed);
        uint64_t payload_bytes = 0;
        uint32_t slots = 0;
        assert_true(prs_bench_space(&workload, &payload_bytes, &slots));
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            check_cell(&workload, cell);
            struct prs_bench_exchange exchange;
            assert_true(prs_bench_exchange_create(&workload, cell, 0, &exchange));
            assert_true(exchange.payload_bytes_max <= payload_bytes);
            assert_true(exchange.slots_max <= slots);
            prs_bench_exchange_destroy(&exchange);
        }
    }
}

static void test_windows_differ(void **state)
{
    (void)state;
    for (uint64_t round = 1; round < 3000; round++) {
        struct prs_bench_transfer a = {.sender = 1, .index = 5}, b = {.sender = 1, .index = 6};
        struct prs_bench_transfer c = {.sender = 2, .index = 5};
        uint64_t now = prs_bench_window(&a, round);
        assert_int_not_equal(now, prs_bench_window(&a, round - 1));
        assert_int_not_equal(now, prs_bench_window(&b, round));
        assert_int_not_equal(now, prs_bench_window(&c, round));
        assert_true(now / PRS_BENCH_WINDOW_STEP < PRS_BENCH_WINDOW_STARTS);
    }
}

static void test_payload_check(void **state)
{
    (void)state;
    enum { BYTES = 64 * 1024 };
    unsigned char *a = malloc(BYTES), *b = malloc(BYTES);
    struct prs_rng rng = prs_rng_seeded(3);
    for (size_t i = 0; i < BYTES; i++) {
        a[i] = b[i] = (unsigned char)prs_rng_next(&rng);
    }
    assert_true(prs_bench_payload_matches(a, b, BYTES, true));
    assert_true(prs_bench_payload_matches(a, b, BYTES, false));
    assert_true(prs_bench_payload_matches(a, b, 0, true));
    /* Any byte, when the whole is looked at, and always of a small payload. */
    for (size_t i = 0; i < BYTES; i += 997) {
        a[i] ^= 1;
        assert_false(prs_bench_payload_matches(a, b, BYTES, true));
        if (i < 8192) {
            assert_false(prs_bench_payload_matches(a, b, 8192, false));
        }
        a[i] ^= 1;
    }
    /* A sample still sees a missing head, tail or 4 KiB in between. */
    for (size_t i = 0; i + 4096 <= BYTES; i += 1000) {
        unsigned char kept[4096];
        memcpy(kept, a + i, sizeof kept);
        memset(a + i, 0, sizeof kept);
        assert_false(prs_bench_payload_matches(a, b, BYTES, false));
        memcpy(a + i, kept, sizeof kept);
    }
    a[BYTES - 1] ^= 1;
    assert_false(prs_bench_payload_matches(a, b, BYTES, false));
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_agrees),
        cmocka_unit_test(test_windows_differ),
        cmocka_unit_test(test_payload_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
