/* SPDX-License-Identifier: Apache-2.0 */
/* States of the ring that calls alone reach only after days or by a rare interleaving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ring/ring.c" /* for the ring's inside */

#define LAPS_BEFORE_WRAP 3
#define LAPS             8

/* The ring after `lap` laps (a turn has 16 bits and wraps after 2^16 of them), as pushes and
 * releases would leave it. */
static struct prs_ring *ring_after(uint32_t slots, uint64_t lap)
{
    struct prs_ring *ring = NULL;
    assert_int_equal(prs_ring_create(slots, &ring), PERSEUS_OK);
    ring->producers->tail = ring->head->head = ring->producers->known_head = lap * slots;
    for (uint32_t i = 0; i < slots; i++) {
        for (uint32_t q = 0; q < PRS_DESC_QUARTERS; q++) {
            ring->slots[i].quarters[q].turn = (uint16_t)lap; /* of the lap before: 1 + (lap - 1) */
        }
    }
    return ring;
}

static void the_ring_works_across_the_wrap_of_turn(void **state)
{
    (void)state;
    for (uint32_t slots = 2; slots <= 8; slots *= 2) {
        struct prs_ring *ring = ring_after(slots, (UINT64_C(1) << 16) - LAPS_BEFORE_WRAP);
        for (uint64_t n = 0; n < LAPS * slots; n += slots) {
            assert_null(prs_ring_peek(ring, 0));
            for (uint64_t i = 0; i < slots; i++) {
                struct prs_desc desc = {.value = n + i};
                assert_int_equal(prs_ring_push(ring, &desc, NULL), PERSEUS_OK);
            }
            struct prs_desc refused = {.value = 0};
            assert_int_equal(prs_ring_push(ring, &refused, NULL), PERSEUS_AGAIN);
            for (uint32_t i = 0; i < slots; i++) {
                const struct prs_desc *desc = prs_ring_peek(ring, i);
                assert_non_null(desc);
                assert_int_equal(desc->value, n + i);
            }
            assert_null(prs_ring_peek(ring, slots));
            prs_ring_release(ring, slots);
        }
        prs_ring_destroy(ring);
    }
}

/* A producer that read tail, and was then overtaken by others and the proxy,
 * sees head beyond it. */
static void a_stale_tail_does_not_look_full(void **state)
{
    (void)state;
    struct prs_ring *ring = ring_after(4, 10);
    assert_true(has_room(ring, 40 + 4));
    assert_false(has_room(ring, 40 + 5));
    assert_true(has_room(ring, 40 - 3));
    prs_ring_destroy(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ring_works_across_the_wrap_of_turn),
        cmocka_unit_test(a_stale_tail_does_not_look_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
