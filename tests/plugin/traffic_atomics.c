/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/rng.h"
#include "fabric/float_add.h" /* tests/fabric/float_add_test.c */
#include "traffic.h"

#define FLAGS    4096
#define FETCHES  8192
#define WORDS    12288
#define TICKETS  (WORDS + 1024) /* who got which number of a FETCH_INC */
#define COUNTERS (WORDS + 512)
#define RIVALS   (WORDS + 640)
#define FLOATS   (WORDS + 256)
#define SUMS     (WORDS + 704)

struct code {
    int desc;
    bool fetch;
};
static const struct code codes[] = {
    {PRS_ABI_AMO_INC, false},         {PRS_ABI_AMO_SET, false},
    {PRS_ABI_AMO_ADD, false},         {PRS_ABI_AMO_AND, false},
    {PRS_ABI_AMO_OR, false},          {PRS_ABI_AMO_XOR, false},
    {PRS_ABI_AMO_SIGNAL, false},      {PRS_ABI_AMO_SIGNAL_SET, false},
    {PRS_ABI_AMO_SIGNAL_ADD, false},  {PRS_ABI_AMO_FETCH, true},
    {PRS_ABI_AMO_FETCH_INC, true},    {PRS_ABI_AMO_FETCH_ADD, true},
    {PRS_ABI_AMO_FETCH_AND, true},    {PRS_ABI_AMO_FETCH_OR, true},
    {PRS_ABI_AMO_FETCH_XOR, true},    {PRS_ABI_AMO_SWAP, true},
    {PRS_ABI_AMO_COMPARE_SWAP, true},
};

/* The specification, apart from the transport's own table. */
static uint64_t model(int desc, uint64_t old, uint64_t value, uint64_t compare)
{
    switch (desc) {
    case PRS_ABI_AMO_INC:
    case PRS_ABI_AMO_FETCH_INC:
        return old + 1;
    case PRS_ABI_AMO_ADD:
    case PRS_ABI_AMO_SIGNAL_ADD:
    case PRS_ABI_AMO_FETCH_ADD:
        return old + value;
    case PRS_ABI_AMO_AND:
    case PRS_ABI_AMO_FETCH_AND:
        return old & value;
    case PRS_ABI_AMO_OR:
    case PRS_ABI_AMO_FETCH_OR:
        return old | value;
    case PRS_ABI_AMO_XOR:
    case PRS_ABI_AMO_FETCH_XOR:
        return old ^ value;
    case PRS_ABI_AMO_FETCH:
        return old;
    case PRS_ABI_AMO_COMPARE_SWAP:
        return old == compare ? value : old;
    default:
        return value;
    }
}

static uint64_t low(uint64_t value, int bytes)
{
    return bytes == 8 ? value : value & ((UINT64_C(1) << (8 * bytes)) - 1);
}

/* One word of the target that nobody else touches, through every code in a seeded order. */
static void check_codes(struct host_pe *pe, const struct traffic *traffic, int target, int bytes)
{
    struct prs_rng rng =
        prs_rng_seeded(traffic->seed + (uint64_t)(pe->rank * 100 + target + bytes));
    size_t word = WORDS + (size_t)pe->rank * 24 + (bytes == 8 ? 0 : bytes == 4 ? 12 : 18);
    uint64_t expected = low(0, bytes), old;
    for (int i = 0; i < 3 * (int)(sizeof codes / sizeof codes[0]); i++) {
        const struct code *code = &codes[prs_rng_below(&rng, sizeof codes / sizeof codes[0])];
        uint64_t value = low(prs_rng_next(&rng), bytes);
        uint64_t compare = prs_rng_below(&rng, 2) == 0 ? expected : low(prs_rng_next(&rng), bytes);
        if (code->desc == PRS_ABI_AMO_FETCH_INC) {
            value = 1;
        }
        if (code->fetch) {
            CHECK(pe, device_fetch(pe, target, code->desc, word, bytes, value, compare,
                                   FETCHES + 16 * (size_t)(i % 8), &old) == 0);
            CHECK(pe, old == expected);
        } else {
            CHECK(pe, device_amo(pe, target, code->desc, word, bytes, value, compare) == 0);
            CHECK(pe, device_fence(pe) == 0);
        }
        expected = low(model(code->desc, expected, value, compare), bytes);
    }
    CHECK(pe, device_fetch(pe, target, PRS_ABI_AMO_FETCH, word, bytes, 0, 0, FETCHES, &old) == 0);
    CHECK(pe, old == expected);
}

static void count_together(struct host_pe *pe, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        for (int target = 0; target < pe->n_pes; target++) {
            CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_ADD, COUNTERS, 8, 3, 0) == 0);
            CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_INC, COUNTERS + 8, 4, 1, 0) == 0);
            CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_ADD, COUNTERS + 12, 4, 5, 0) == 0);
        }
        uint64_t ticket = 0;
        CHECK(pe, device_fetch(pe, 0, PRS_ABI_AMO_FETCH_INC, COUNTERS + 16, 8, 1, 0, FETCHES,
                               &ticket) == 0);
        /* Every number is given once: its owner writes where nobody else does. */
        uint64_t found = 1;
        CHECK(pe, device_fetch(pe, 0, PRS_ABI_AMO_SWAP, TICKETS + 8 * (size_t)ticket, 8, 7, 0,
                               FETCHES, &found) == 0);
        CHECK(pe, found == 0);
    }
}

/* One PE sets the high half while the others add to the low one: no SET is lost in the middle of an
 * ADD. */
static void set_against_adds(struct host_pe *pe, int rounds)
{
    int owner = pe->n_pes - 1;
    for (uint64_t i = 1; i <= (uint64_t)rounds; i++) {
        if (pe->rank != 0) {
            CHECK(pe, device_amo(pe, owner, PRS_ABI_AMO_ADD, RIVALS, 8, 1, 0) == 0);
            continue;
        }
        uint64_t seen = 0;
        CHECK(pe, device_amo(pe, owner, PRS_ABI_AMO_SET, RIVALS, 8, i << 32, 0) == 0);
        CHECK(pe, device_quiet(pe) == 0);
        CHECK(pe, device_fetch(pe, owner, PRS_ABI_AMO_FETCH, RIVALS, 8, 0, 0, FETCHES, &seen) == 0);
        CHECK(pe, seen >> 32 == i);
    }
}

/* ---- floats ---- */

static uint64_t add_of(int bytes, uint64_t a, uint64_t b)
{
    return bytes == 2   ? prs_add_halves(a, b)
           : bytes == 4 ? prs_add_floats(a, b)
                        : prs_add_doubles(a, b);
}

/* Of every kind: ordinary, subnormal, infinite, NaN. */
static uint64_t some_float(struct prs_rng *rng, int bytes)
{
    static const uint64_t special[3][5] = {
        {0x0001, 0x7bff, 0xfc00, 0x7e00, 0x8000},
        {0x00000001, 0x7f7fffff, 0xff800000, 0x7fc00000, 0x80000000},
        {1, 0x7fefffffffffffff, 0xfff0000000000000, 0x7ff8000000000000, 0x8000000000000000}};
    if (prs_rng_below(rng, 8) == 0) {
        return special[bytes == 2 ? 0 : bytes == 4 ? 1 : 2][prs_rng_below(rng, 5)];
    }
    /* Exponents near each other, so that sums are rounded. */
    uint64_t bits = prs_rng_next(rng);
    return bytes == 2   ? (bits & 0x83ff) | (15 + bits % 5) << 10
           : bytes == 4 ? (bits & 0x807fffff) | (127 + bits % 5) << 23
                        : (bits & 0x800fffffffffffff) | (1023 + bits % 5) << 52;
}

/* One word that nobody else touches. Also what sets and swaps a float, which copies bits, and what
 * adds integers to the same word. */
static void check_floats(struct host_pe *pe, const struct traffic *traffic, int target, int bytes)
{
    static const int descs[] = {PRS_ABI_AMO_ADD | DEVICE_FLOAT,
                                PRS_ABI_AMO_FETCH_ADD | DEVICE_FLOAT,
                                PRS_ABI_AMO_SET | DEVICE_FLOAT,
                                PRS_ABI_AMO_SWAP | DEVICE_FLOAT,
                                PRS_ABI_AMO_ADD,
                                PRS_ABI_AMO_ADD | DEVICE_FLOAT};
    struct prs_rng rng = prs_rng_seeded(traffic->seed + (uint64_t)(pe->rank * 10 + target + bytes));
    size_t word = FLOATS + (size_t)pe->rank * 24 + (bytes == 8 ? 0 : bytes == 4 ? 12 : 18);
    uint64_t expected = 0, old;
    for (int i = 0; i < 60; i++) {
        int desc = descs[prs_rng_below(&rng, 6)];
        uint64_t value = some_float(&rng, bytes);
        bool fetch = (desc & ~DEVICE_FLOAT) > 11, adds = (desc & ~DEVICE_FLOAT) % 10 == 4;
        if (fetch) {
            CHECK(pe, device_fetch(pe, target, desc, word, bytes, value, 0, FETCHES, &old) == 0);
            CHECK(pe, old == expected);
        } else {
            CHECK(pe, device_amo(pe, target, desc, word, bytes, value, 0) == 0);
            CHECK(pe, device_fence(pe) == 0);
        }
        expected = !adds                        ? value
                   : (desc & DEVICE_FLOAT) != 0 ? add_of(bytes, expected, value)
                                                : low(expected + value, bytes);
    }
    CHECK(pe,
          device_fetch(pe, target, PRS_ABI_AMO_FETCH_OR, word, bytes, 0, 0, FETCHES, &old) == 0);
    CHECK(pe, old == expected);
    CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_SET, word, bytes, 0, 0) == 0);
}

/* Everybody adds one to everybody's three sums: small numbers, so the sums are exact. */
static void add_floats_together(struct host_pe *pe, int rounds)
{
    const int add = PRS_ABI_AMO_ADD | DEVICE_FLOAT;
    for (int i = 0; i < rounds; i++) {
        for (int target = 0; target < pe->n_pes; target++) {
            CHECK(pe, device_amo(pe, target, add, SUMS, 8, 0x3ff0000000000000, 0) == 0);
            CHECK(pe, device_amo(pe, target, add, SUMS + 8, 4, 0x3f800000, 0) == 0);
            CHECK(pe, device_amo(pe, target, add, SUMS + 12, 2, 0x3c00, 0) == 0);
        }
    }
}

static void check_sums(struct host_pe *pe, int times)
{
    uint64_t wide = host_word(pe, SUMS), narrow = host_word(pe, SUMS + 8);
    double sum;
    float half_of_it;
    uint32_t bits = (uint32_t)narrow;
    memcpy(&sum, &wide, sizeof sum);
    memcpy(&half_of_it, &bits, sizeof bits);
    CHECK(pe, (int)sum == times && (int)half_of_it == times);
    CHECK(pe, (int)prs_float_of_half((uint16_t)(narrow >> 32)) == times && narrow >> 48 == 0);
}

static void atomics_kernel(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    static const int widths[] = {8, 4, 2};
    uint64_t barriers = 0;
    for (int target = 0; target < pe->n_pes && pe->failures == 0; target++) {
        for (int i = 0; i < 3; i++) {
            check_codes(pe, traffic, target, widths[i]);
            if (pe->interface->has_floats) {
                check_floats(pe, traffic, target, widths[i]);
            }
        }
    }
    CHECK(pe, device_barrier(pe, FLAGS, &barriers));
    int rounds = traffic->rounds < 40 ? traffic->rounds : 40;
    count_together(pe, rounds);
    set_against_adds(pe, 4 * rounds);
    if (pe->interface->has_floats) {
        add_floats_together(pe, rounds);
    }
    CHECK(pe, device_barrier(pe, FLAGS, &barriers));
    uint64_t times = (uint64_t)rounds * (uint64_t)pe->n_pes, halves = host_word(pe, COUNTERS + 8);
    CHECK(pe, host_word(pe, COUNTERS) == 3 * times);
    if (pe->interface->has_floats) {
        check_sums(pe, (int)times);
    }
    CHECK(pe, (halves & UINT32_MAX) == times && halves >> 32 == 5 * times);
    if (pe->rank == 0) {
        CHECK(pe, host_word(pe, COUNTERS + 16) == times);
    }
}

void traffic_atomics(struct host_pe *pe, void *traffic)
{
    host_on_proxy(pe, atomics_kernel, traffic);
}
