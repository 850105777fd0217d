/* SPDX-License-Identifier: Apache-2.0 */
/* The ring against a plain array, one thread: every answer for every order of calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "layout_numbers.h"
#include "ring/ring.h"

#define SEEDS            2000
#define CALLS_PER_SEED   300
#define MODEL_SLOTS_LOG2 6
#define MODEL_SLOTS_MAX  (1 << MODEL_SLOTS_LOG2)

static struct prs_desc numbered(uint64_t number)
{
    struct prs_desc desc = {.turn = 0xdead, /* turns must be ignored */
                            .turn_1 = 0xbeef,
                            .turn_2 = 0xdead,
                            .turn_3 = 0xbeef,
                            .reserved_3 = {1, 2, 3},
                            .kind = PRS_DESC_PUT_SIGNAL,
                            .sub = (uint8_t)number,
                            .local_window = (uint16_t)(number + 1),
                            .peer = (uint32_t)(number + 2),
                            .ticket = (uint32_t)(number + 3),
                            .local = number + 4,
                            .remote = number + 5,
                            .bytes = ~number & UINT64_C(0xffffffffffff),
                            .signal = ~number,
                            .value = number};
    return desc;
}

static bool is_numbered(const struct prs_desc *desc, uint64_t number)
{
    union prs_desc_slot found = {.desc = *desc}, expected = {.desc = numbered(number)};
    for (int i = 0; i < PRS_DESC_QUARTERS; i++) {
        found.quarters[i].turn = expected.quarters[i].turn;
    }
    return memcmp(&found, &expected, sizeof expected) == 0;
}

static struct prs_ring *ring_of(uint32_t slots)
{
    struct prs_ring *ring = NULL;
    assert_int_equal(prs_ring_create(slots, &ring), PERSEUS_OK);
    return ring;
}

static void create_refuses_what_is_not_a_power_of_two_in_range(void **state)
{
    (void)state;
    struct prs_ring *ring = NULL;
    const uint32_t bad[] = {0, 1, 3, 100, (1u << 20) + 1, 1u << 21, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(prs_ring_create(bad[i], &ring), PERSEUS_INVALID_ARGUMENT);
        assert_null(ring);
    }
    for (uint32_t slots = 2; slots <= 1u << 20; slots *= 2) {
        ring = ring_of(slots);
        assert_int_equal(prs_ring_slots(ring), slots);
        assert_true(prs_ring_is_empty(ring));
        assert_null(prs_ring_peek(ring, 0));
        prs_ring_destroy(ring);
    }
    prs_ring_destroy(NULL);
}

static void full_is_again_and_changes_nothing(void **state)
{
    (void)state;
    struct prs_ring *ring = ring_of(4);
    struct prs_desc desc;
    uint64_t position = 99;
    for (uint64_t i = 0; i < 4; i++) {
        desc = numbered(i);
        assert_int_equal(prs_ring_push(ring, &desc, &position), PERSEUS_OK);
        assert_int_equal(position, i);
    }
    desc = numbered(4);
    position = 99;
    assert_int_equal(prs_ring_push(ring, &desc, &position), PERSEUS_AGAIN);
    assert_int_equal(position, 99);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(is_numbered(prs_ring_peek(ring, i), i));
    }
    assert_null(prs_ring_peek(ring, 4)); /* the same slot as index 0, one lap on */
    prs_ring_release(ring, 1);
    assert_int_equal(prs_ring_push(ring, &desc, NULL), PERSEUS_OK);
    assert_int_equal(prs_ring_push(ring, &desc, NULL), PERSEUS_AGAIN);
    assert_true(is_numbered(prs_ring_peek(ring, 3), 4));
    prs_ring_destroy(ring);
}

static void many_is_all_or_nothing(void **state)
{
    (void)state;
    struct prs_ring *ring = ring_of(8);
    struct prs_desc descs[9];
    for (uint64_t i = 0; i < 9; i++) {
        descs[i] = numbered(i);
    }
    assert_int_equal(prs_ring_push_many(ring, descs, 9), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_ring_push_many(ring, descs, 0), PERSEUS_OK);
    assert_true(prs_ring_is_empty(ring));
    assert_int_equal(prs_ring_push_many(ring, descs, 3), PERSEUS_OK);
    assert_int_equal(prs_ring_push_many(ring, descs, 6), PERSEUS_AGAIN);
    assert_null(prs_ring_peek(ring, 3));
    assert_int_equal(prs_ring_push_many(ring, descs + 3, 5), PERSEUS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(is_numbered(prs_ring_peek(ring, i), i));
    }
    prs_ring_release(ring, 8);
    assert_true(prs_ring_is_empty(ring));
    assert_int_equal(prs_ring_push_many(ring, descs, 8), PERSEUS_OK);
    prs_ring_destroy(ring);
}

/* What a GPU's quarters look like on their way: any of them may still be missing. */
static void a_descriptor_shows_only_when_every_quarter_has_come(void **state)
{
    (void)state;
    _Alignas(PRS_RING_ALIGN) unsigned char memory[128 + 4 * sizeof(union prs_desc_slot)];
    for (unsigned arrived = 0; arrived < 1u << PRS_DESC_QUARTERS; arrived++) {
        struct prs_ring ring;
        assert_int_equal(prs_ring_bytes(4), sizeof memory);
        assert_int_equal(prs_ring_place(4, memory, NULL, &ring), PERSEUS_OK);
        for (uint64_t position = 0; position < 12; position++) {
            union prs_desc_slot desc = {.desc = numbered(position)};
            union prs_desc_slot *slot = prs_ring_slot(&ring, position);
            for (int i = 0; i < PRS_DESC_QUARTERS; i++) {
                desc.quarters[i].turn = prs_ring_turn(&ring, position);
                if (arrived >> i & 1) {
                    slot->quarters[i] = desc.quarters[i];
                }
            }
            bool is_whole = arrived == (1u << PRS_DESC_QUARTERS) - 1;
            assert_int_equal(prs_ring_peek(&ring, 0) != NULL, is_whole);
            assert_int_equal(prs_ring_is_empty(&ring), !is_whole);
            *slot = desc;
            assert_true(is_numbered(prs_ring_peek(&ring, 0), position));
            prs_ring_release(&ring, 1);
        }
    }
}

static void place_zeroes_what_it_is_given(void **state)
{
    (void)state;
    _Alignas(PRS_RING_ALIGN) unsigned char memory[128 + 2 * sizeof(union prs_desc_slot)];
    struct prs_ring_producers producers = {.tail = 7, .known_head = 9};
    struct prs_ring ring;
    memset(memory, 0xff, sizeof memory);
    assert_int_equal(prs_ring_place(3, memory, &producers, &ring), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_ring_place(2, memory, &producers, &ring), PERSEUS_OK);
    assert_true(prs_ring_is_empty(&ring));
    struct prs_desc desc = numbered(0);
    assert_int_equal(prs_ring_push(&ring, &desc, NULL), PERSEUS_OK);
    assert_int_equal(prs_ring_push(&ring, &desc, NULL), PERSEUS_OK);
    assert_int_equal(prs_ring_push(&ring, &desc, NULL), PERSEUS_AGAIN);
}

/* A queue of consecutive numbers: what is in the ring is [head, tail). */
struct model {
    uint64_t head, tail;
    uint32_t slots;
};

static bool push_agrees(struct prs_ring *ring, struct model *model)
{
    struct prs_desc desc = numbered(model->tail);
    uint64_t position = model->tail;
    enum perseus_status status = prs_ring_push(ring, &desc, &position);
    bool fits = model->tail - model->head < model->slots;
    bool agrees = status == (fits ? PERSEUS_OK : PERSEUS_AGAIN) && position == model->tail;
    model->tail += fits ? 1 : 0;
    return agrees;
}

static bool push_many_agrees(struct prs_ring *ring, struct model *model, struct prs_rng *rng)
{
    struct prs_desc descs[MODEL_SLOTS_MAX];
    uint32_t n = prs_rng_below(rng, model->slots + 1);
    for (uint32_t i = 0; i < n; i++) {
        descs[i] = numbered(model->tail + i);
    }
    bool fits = model->tail - model->head + n <= model->slots;
    enum perseus_status status = prs_ring_push_many(ring, descs, n);
    model->tail += fits ? n : 0;
    return status == (fits ? PERSEUS_OK : PERSEUS_AGAIN);
}

static bool contents_agree(const struct prs_ring *ring, const struct model *model)
{
    uint32_t held = (uint32_t)(model->tail - model->head);
    bool agree = prs_ring_is_empty(ring) == (held == 0);
    for (uint32_t i = 0; i < model->slots + 2 && agree; i++) {
        const struct prs_desc *desc = prs_ring_peek(ring, i);
        agree = i < held ? desc != NULL && is_numbered(desc, model->head + i) : desc == NULL;
    }
    return agree;
}

static bool calls_agree(struct prs_ring *ring, struct model *model, struct prs_rng *rng)
{
    for (int i = 0; i < CALLS_PER_SEED; i++) {
        uint32_t n = prs_rng_below(rng, (uint32_t)(model->tail - model->head) + 1);
        bool agrees = true;
        switch (prs_rng_below(rng, 4)) {
        case 0:
        case 1:
            agrees = push_agrees(ring, model);
            break;
        case 2:
            agrees = push_many_agrees(ring, model, rng);
            break;
        default:
            prs_ring_release(ring, n);
            model->head += n;
        }
        if (!agrees || !contents_agree(ring, model)) {
            return false;
        }
    }
    return true;
}

static void every_order_of_calls_agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct prs_rng rng = prs_rng_seeded(seed);
        struct model model = {.slots = 2u << prs_rng_below(&rng, MODEL_SLOTS_LOG2)};
        struct prs_ring *ring = ring_of(model.slots);
        bool agree = calls_agree(ring, &model, &rng);
        prs_ring_destroy(ring);
        if (!agree) {
            fail_msg("seed %llu, %u slots", (unsigned long long)seed, model.slots);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_refuses_what_is_not_a_power_of_two_in_range),
        cmocka_unit_test(full_is_again_and_changes_nothing),
        cmocka_unit_test(many_is_all_or_nothing),
        cmocka_unit_test(a_descriptor_shows_only_when_every_quarter_has_come),
        cmocka_unit_test(place_zeroes_what_it_is_given),
        cmocka_unit_test(every_order_of_calls_agrees_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
