/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy engines with one defect each in the place of an operation. Puts and the signals behind
 * their fences, to two peers, on the scripted driver: a signal must never show before its payload.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "fabric/cudadma/cudadma.h"

#define PES     3 /* 0 sends to the others */
#define ROUNDS  40
#define PUTS    4
#define WORDS   64 /* of a round's payload */
#define SEEDS   60
#define BYTES   ((ROUNDS * (WORDS + 1)) * sizeof(uint64_t))
#define POLLS   100000
#define SIGNALS (ROUNDS * WORDS) /* words from here on */

/* ---- mutants ---- */

static uint64_t signal_before_the_copies(uint32_t order, struct prs_cudadma_order *state,
                                         const struct prs_op *op, uint64_t next)
{
    return op->kind == PRS_OP_SIGNAL_SET ? next : prs_cudadma_place(order, state, op, next);
}

static uint64_t flag_to_another_stream(uint32_t order, struct prs_cudadma_order *state,
                                       const struct prs_op *op, uint64_t next)
{
    struct prs_op unflagged = *op;
    struct prs_cudadma_order other = *state; /* the flag raises a floor, but not this one's */
    unflagged.flags &= (uint8_t)~PRS_OP_FENCE;
    (void)prs_cudadma_place(order, &other, op, next);
    return prs_cudadma_place(order, state, &unflagged, next);
}

/* Right for the operation with the flag, but not for what is posted behind it. */
static uint64_t flag_for_one_operation(uint32_t order, struct prs_cudadma_order *state,
                                       const struct prs_op *op, uint64_t next)
{
    uint64_t floor = state->floor;
    uint64_t level = prs_cudadma_place(order, state, op, next);
    state->floor = floor;
    return level;
}

/* ---- the program ---- */

struct pe {
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint;
    struct prs_region *region;
    uint64_t *memory;
};

struct run {
    struct pe pe[PES];
    uint32_t peer[PES];
    struct prs_remote *remote[PES];
    struct prs_rng rng;
};

static void open_run(struct run *run, const char *provider, prs_cudadma_place_fn place)
{
    for (uint32_t i = 0; i < PES; i++) {
        struct pe *pe = &run->pe[i];
        struct prs_fabric_config config = {.provider = provider};
        assert_int_equal(prs_cudadma_ops.open(&config, &pe->fabric), PERSEUS_OK);
        ((struct prs_cudadma_fabric *)pe->fabric)->place = place;
        assert_int_equal(prs_cudadma_ops.endpoint_open(pe->fabric, &pe->endpoint), PERSEUS_OK);
        pe->memory = calloc(1, BYTES);
        assert_int_equal(prs_cudadma_ops.region_register(pe->fabric, pe->memory, BYTES,
                                                         PRS_MEMORY_CUDA, &pe->region),
                         PERSEUS_OK);
    }
    for (uint32_t i = 1; i < PES; i++) {
        unsigned char bytes[PRS_ADDRESS_MAX];
        size_t n = sizeof bytes;
        prs_cudadma_ops.endpoint_address(run->pe[i].endpoint, bytes, &n);
        assert_int_equal(prs_cudadma_ops.connect(run->pe[0].endpoint, bytes, n, &run->peer[i]),
                         PERSEUS_OK);
        n = sizeof bytes;
        prs_cudadma_ops.region_export(run->pe[i].region, bytes, &n);
        assert_int_equal(prs_cudadma_ops.remote_import(run->pe[0].endpoint, run->peer[i], bytes, n,
                                                       &run->remote[i]),
                         PERSEUS_OK);
    }
}

static void close_run(struct run *run)
{
    for (uint32_t i = 0; i < PES; i++) {
        if (i > 0) {
            prs_cudadma_ops.remote_close(run->remote[i]);
        }
        prs_cudadma_ops.endpoint_close(run->pe[i].endpoint);
        prs_cudadma_ops.region_close(run->pe[i].region);
        prs_cudadma_ops.close(run->pe[i].fabric);
        free(run->pe[i].memory);
    }
}

/* What shows of a round, payload or signal, has the payload of all rounds before; a signal has also
 * its own. */
static bool is_ordered(const struct run *run)
{
    for (uint32_t i = 1; i < PES; i++) {
        const uint64_t *words = run->pe[i].memory, *signals = words + SIGNALS;
        uint32_t whole = 0; /* words, from the first on */
        while (whole < SIGNALS && words[whole] != 0) {
            whole++;
        }
        for (uint32_t word = whole; word < SIGNALS; word++) {
            if (words[word] != 0 && word / WORDS > whole / WORDS) {
                return false;
            }
        }
        for (uint32_t round = whole / WORDS; round < ROUNDS; round++) {
            if (signals[round] != 0) {
                return false;
            }
        }
    }
    return true;
}

static bool post(struct run *run, struct prs_op op)
{
    for (uint32_t polls = 0; polls < POLLS; polls++) {
        struct prs_event events[8];
        uint32_t n = 0;
        enum perseus_status status = prs_cudadma_ops.post(run->pe[0].endpoint, &op);
        if (status != PERSEUS_OK || prs_rng_below(&run->rng, 3) == 0) {
            assert_int_equal(prs_cudadma_ops.poll(run->pe[0].endpoint, events, 8, &n), PERSEUS_OK);
        }
        if (status == PERSEUS_OK) {
            return is_ordered(run);
        }
        assert_int_equal(status, PERSEUS_AGAIN);
    }
    fail_msg("the endpoint takes nothing more");
    return false;
}

static bool send_round(struct run *run, uint32_t target, uint32_t round, bool fences)
{
    struct prs_op op = {.kind = PRS_OP_PUT,
                        .flags = PRS_OP_MORE | PRS_OP_UNTRACKED,
                        .peer = run->peer[target],
                        .remote = run->remote[target],
                        .local = run->pe[0].region,
                        .bytes = WORDS / PUTS * sizeof(uint64_t)};
    for (uint32_t i = 0; i < PUTS; i++) {
        op.local_offset = op.remote_offset = (round * WORDS + i * WORDS / PUTS) * sizeof(uint64_t);
        if (!post(run, op)) {
            return false;
        }
    }
    op.kind = PRS_OP_SIGNAL_SET;
    op.flags = (uint8_t)(PRS_OP_UNTRACKED | (fences ? PRS_OP_FENCE : 0) |
                         (prs_rng_below(&run->rng, 4) > 0 ? PRS_OP_MORE : 0));
    op.remote_offset = (SIGNALS + round) * sizeof(uint64_t);
    op.value = 1;
    return post(run, op);
}

static bool keeps_order(const char *provider, bool fences, prs_cudadma_place_fn place,
                        uint64_t seed)
{
    struct run run = {.rng = prs_rng_seeded(seed)};
    bool ordered = true;
    open_run(&run, provider, place);
    memset(run.pe[0].memory, 1, BYTES);
    for (uint32_t round = 0; round < ROUNDS && ordered; round++) {
        for (uint32_t target = 1; target < PES && ordered; target++) {
            ordered = send_round(&run, target, round, fences);
        }
    }
    prs_cudadma_ops.flush(run.pe[0].endpoint);
    for (uint32_t polls = 0; polls < 200 && ordered; polls++) {
        struct prs_event events[8];
        uint32_t n = 0;
        assert_int_equal(prs_cudadma_ops.poll(run.pe[0].endpoint, events, 8, &n), PERSEUS_OK);
        ordered = is_ordered(&run);
    }
    close_run(&run);
    return ordered;
}

static void the_fabric_itself_keeps_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_true(keeps_order("batch", true, prs_cudadma_place, seed));
        assert_true(keeps_order("stream:1", false, prs_cudadma_place, seed));
    }
}

static void every_mutant_is_caught(void **state)
{
    (void)state;
    const struct {
        const char *name, *provider;
        bool fences;
        prs_cudadma_place_fn place;
    } mutants[] = {
        {"batch without a fence flag", "batch", false, prs_cudadma_place},
        {"signal written before the copies' stream order", "batch", true, signal_before_the_copies},
        {"signal before the copies, stream", "stream", false, signal_before_the_copies},
        {"flag applied to another stream", "batch", true, flag_to_another_stream},
        {"flag for one operation only", "batch", true, flag_for_one_operation},
    };
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        uint64_t seed = 1;
        while (seed <= SEEDS &&
               keeps_order(mutants[i].provider, mutants[i].fences, mutants[i].place, seed)) {
            seed++;
        }
        if (seed > SEEDS) {
            fail_msg("the mutant \"%s\" survived %d seeds", mutants[i].name, SEEDS);
        }
        print_message("%s: caught at seed %llu\n", mutants[i].name, (unsigned long long)seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fabric_itself_keeps_order),
        cmocka_unit_test(every_mutant_is_caught),
    };
    return cmocka_run_group_tests_name("copy engine mutants", tests, NULL, NULL);
}
