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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_late)};
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
