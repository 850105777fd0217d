/* SPDX-License-Identifier: Apache-2.0 */
/* PEs of perseus_init whose heap is a GPU's memory, which no CPU may touch, on the scripted driver:
 * the calls of the host's threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu_heaps.h"

#define PES     3
#define WORDS   512
#define WAIT_MS 60000
#define ROUNDS  10

static void move_data(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)pes;
    (void)context;
    static uint64_t buffers[PES][2][WORDS];
    int self = perseus_my_pe(pe), right = (self + 1) % PES, left = (self + PES - 1) % PES;
    uint64_t *mine = buffers[self][0], *back = buffers[self][1], seen = 0;
    CHECK_OK(perseus_buffer_register(pe, buffers[self], sizeof buffers[self]));
    uint64_t *data = allocate(pe, WORDS * sizeof *data), *signal = allocate(pe, sizeof *signal);
    CHECK(!perseus_is_local(pe, self) && !perseus_is_local(pe, right));
    CHECK(perseus_ptr(pe, data, right) == NULL);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = 0; i < WORDS; i++) {
            mine[i] = round * 1000 + (uint64_t)self;
        }
        CHECK_OK(perseus_put_signal_nbi(pe, data, mine, WORDS * sizeof *mine, signal, round,
                                        PERSEUS_SIGNAL_SET, right));
        CHECK_OK(perseus_signal_wait_until(pe, signal, PERSEUS_CMP_EQ, round, WAIT_MS, &seen));
        CHECK(seen == round);
        CHECK_OK(perseus_get(pe, back, data, WORDS * sizeof *back, self)); /* of the own heap */
        for (uint32_t i = 0; i < WORDS; i++) {
            CHECK(back[i] == round * 1000 + (uint64_t)left);
        }
        CHECK_OK(perseus_barrier_all(pe));
    }
}

static void count_up(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)pes;
    (void)context;
    uint64_t *word = allocate(pe, sizeof *word), old = 0;
    for (int to = 0; to < PES; to++) {
        for (int i = 0; i < ROUNDS; i++) {
            CHECK_OK(perseus_atomic_fetch(pe, word, PERSEUS_ATOMIC_ADD, 1, 0, to, &old));
            CHECK(old < PES * ROUNDS);
        }
    }
    CHECK_OK(
        perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, (uint64_t)PES * ROUNDS, WAIT_MS, NULL));
    CHECK_OK(perseus_barrier_all(pe));
    CHECK_OK(perseus_free(pe, word));
    uint64_t *again = allocate(pe, sizeof *again); /* the same memory, zero again */
    CHECK(again == word);
    CHECK_OK(perseus_atomic_fetch(pe, again, PERSEUS_ATOMIC_ADD, 0, 0, perseus_my_pe(pe), &old));
    CHECK(old == 0);
    CHECK_OK(perseus_barrier_all(pe));
}

static void the_host_s_calls_never_touch_the_memory(void **state)
{
    (void)state;
    setenv("PERSEUS_SCRIPTED_GUARD", "1", 1);
    for (size_t i = 0; i < FABRICS; i++) {
        struct perseus_attr attr = gpu_attr(fabrics[i]);
        pes_with(PES, &attr, move_data, NULL);
        pes_with(PES, &attr, count_up, NULL);
    }
    unsetenv("PERSEUS_SCRIPTED_GUARD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_s_calls_never_touch_the_memory),
    };
    return cmocka_run_group_tests_name("heaps of GPU memory, from the host", tests, NULL, NULL);
}
