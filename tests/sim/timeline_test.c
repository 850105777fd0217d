/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/rng.h"
#include "fabric/sim/timeline.h"

#define THINGS 5000u

struct thing {
    struct prs_timeline *timeline;
    uint64_t at_ns;
    uint32_t number, *count, *order;
    struct thing *then; /* added when this one happens */
};

static void happen(void *context)
{
    struct thing *thing = context;
    assert_true(prs_timeline_now_ns(thing->timeline) >= thing->at_ns);
    thing->order[(*thing->count)++] = thing->number;
    if (thing->then != NULL) {
        prs_timeline_add(thing->timeline, thing->then->at_ns, happen, thing->then);
    }
}

static void test_order(void **state)
{
    (void)state;
    struct prs_timeline *timeline;
    assert_int_equal(prs_timeline_create(&timeline), PERSEUS_OK);
    assert_int_equal(prs_timeline_reserve(timeline, THINGS), PERSEUS_OK);
    struct thing *things = calloc(THINGS, sizeof *things);
    uint32_t *order = calloc(THINGS, sizeof *order), count = 0;
    struct prs_rng rng = prs_rng_seeded(7);
    for (uint32_t i = 0; i < THINGS; i++) {
        things[i] = (struct thing){.timeline = timeline,
                                   .at_ns = prs_rng_below(&rng, 500),
                                   .number = i,
                                   .count = &count,
                                   .order = order};
        prs_timeline_add(timeline, things[i].at_ns, happen, &things[i]);
    }
    prs_timeline_run_until(timeline, 249);
    assert_int_equal(prs_timeline_now_ns(timeline), 249);
    assert_true(count > THINGS / 4 && count < THINGS);
    while (prs_timeline_step(timeline)) {
    }
    assert_int_equal(count, THINGS);
    assert_int_equal(prs_timeline_count(timeline), THINGS);
    for (uint32_t i = 1; i < THINGS; i++) {
        const struct thing *a = &things[order[i - 1]], *b = &things[order[i]];
        assert_true(a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->number < b->number));
    }
    prs_timeline_destroy(timeline);
    free(things);
    free(order);
}

/* What is added for a time that has passed happens now, behind what is due now. */
static void test_late(void **state)
{
    (void)state;
    struct prs_timeline *timeline;
    assert_int_equal(prs_timeline_create(&timeline), PERSEUS_OK);
    assert_int_equal(prs_timeline_reserve(timeline, 3), PERSEUS_OK);
    uint32_t order[3], count = 0;
    struct thing late = {timeline, 0, 2, &count, order, NULL};
    struct thing first = {timeline, 10, 0, &count, order, &late};
    struct thing second = {timeline, 10, 1, &count, order, NULL};
    prs_timeline_add(timeline, 10, happen, &first);
    prs_timeline_add(timeline, 10, happen, &second);
    while (prs_timeline_step(timeline)) {
    }
    assert_int_equal(prs_timeline_now_ns(timeline), 10);
    assert_int_equal(count, 3);
    assert_true(order[0] == 0 && order[1] == 1 && order[2] == 2);
    prs_timeline_destroy(timeline);
}

/* Each thing that happens adds the next, at any distance, beside what the driver adds between two
 * runs to a given time: nothing is lost, early or late, and equal times keep their order. */
struct far {
    struct prs_timeline *timeline;
    struct prs_rng rng;
    uint64_t due_ns[64], last_ns, added[64], last_added, count;
    uint32_t happened, left;
};

struct far_thing {
    struct far *far;
    uint32_t index;
};

static void add_far(struct far_thing *thing)
{
    struct far *far = thing->far;
    uint32_t bits = prs_rng_below(&far->rng, 45);
    uint64_t distance = prs_rng_next(&far->rng) & ((1ull << bits) - 1);
    far->due_ns[thing->index] = prs_timeline_now_ns(far->timeline) + distance;
    far->added[thing->index] = far->count++;
}

static void happen_far(void *context)
{
    struct far_thing *thing = context;
    struct far *far = thing->far;
    uint64_t now_ns = prs_timeline_now_ns(far->timeline);
    assert_true(now_ns == far->due_ns[thing->index]);
    assert_true(now_ns > far->last_ns || far->added[thing->index] > far->last_added);
    far->last_ns = now_ns;
    far->last_added = far->added[thing->index];
    far->happened++;
    if (far->left > 0) {
        far->left--;
        add_far(thing);
        prs_timeline_add(far->timeline, far->due_ns[thing->index], happen_far, thing);
    }
}

static void test_far(void **state)
{
    (void)state;
    struct far far = {.rng = prs_rng_seeded(3), .left = 200000};
    struct far_thing things[64];
    assert_int_equal(prs_timeline_create(&far.timeline), PERSEUS_OK);
    assert_int_equal(prs_timeline_reserve(far.timeline, 64), PERSEUS_OK);
    for (uint32_t i = 0; i < 64; i++) {
        things[i] = (struct far_thing){&far, i};
        add_far(&things[i]);
        prs_timeline_add(far.timeline, far.due_ns[i], happen_far, &things[i]);
        prs_timeline_run_until(far.timeline,
                               prs_timeline_now_ns(far.timeline) + prs_rng_below(&far.rng, 100000));
    }
    while (prs_timeline_step(far.timeline)) {
    }
    assert_int_equal(far.happened, 200000 + 64);
    prs_timeline_destroy(far.timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_late),
                                       cmocka_unit_test(test_far)};
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
