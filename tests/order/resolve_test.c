/* SPDX-License-Identifier: Apache-2.0 */
/* What each mode needs of a fabric, and what `auto` picks. */
#include "order/order.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static const struct prs_caps everything = {.order = PRS_ORDER_EVERY_PAIR,
                                           .fence_scope = PRS_FENCE_PEER,
                                           .completion = PRS_COMPLETION_DELIVERED,
                                           .completion_per_operation = true,
                                           .immediate_bits = 64,
                                           .provider = "test"};

struct verdict {
    enum perseus_status status;
    enum perseus_ordering mode;
    char why[256];
};

static struct verdict resolve(enum perseus_ordering asked, const struct prs_caps *caps)
{
    struct verdict verdict = {0};
    verdict.status =
        prs_ordering_resolve(asked, caps, NULL, &verdict.mode, verdict.why, sizeof verdict.why);
    return verdict;
}

static void test_auto_takes_the_cheapest_that_is_granted(void **state)
{
    (void)state;
    struct prs_caps caps = everything;
    assert_int_equal(resolve(PERSEUS_ORDERING_AUTO, &caps).mode, PERSEUS_ORDERING_FIFO);
    caps.order &= ~(uint32_t)PRS_ORDER_SET_SET;
    assert_int_equal(resolve(PERSEUS_ORDERING_AUTO, &caps).mode, PERSEUS_ORDERING_NIC_FENCE);
    caps.fence_scope = PRS_FENCE_ENDPOINT; /* one slow peer would stall all */
    assert_int_equal(resolve(PERSEUS_ORDERING_AUTO, &caps).mode, PERSEUS_ORDERING_COUNTED);
    caps.immediate_bits = 16;
    assert_int_equal(resolve(PERSEUS_ORDERING_AUTO, &caps).mode, PERSEUS_ORDERING_NIC_FENCE);
    caps.immediate_bits = 64;
    caps.fence_scope = PRS_FENCE_NONE;
    assert_int_equal(resolve(PERSEUS_ORDERING_AUTO, &caps).mode, PERSEUS_ORDERING_COUNTED);
    assert_non_null(strstr(resolve(PERSEUS_ORDERING_AUTO, &caps).why, "the cheapest kept here"));
    caps.immediate_bits = 16;
    assert_int_equal(resolve(PERSEUS_ORDERING_AUTO, &caps).mode, PERSEUS_ORDERING_DEFERRED);
    caps.completion = PRS_COMPLETION_TRANSMITTED;
    struct verdict none = resolve(PERSEUS_ORDERING_AUTO, &caps);
    assert_int_equal(none.status, PERSEUS_NOT_SUPPORTED);
}

static void test_forcing_what_is_not_granted_is_refused_with_the_reason(void **state)
{
    (void)state;
    struct prs_caps caps = everything;
    caps.fence_scope = PRS_FENCE_NONE;
    strcpy(caps.fence_word, "FI_FENCE not in tx_attr->caps");
    struct verdict verdict = resolve(PERSEUS_ORDERING_NIC_FENCE, &caps);
    assert_int_equal(verdict.status, PERSEUS_NOT_SUPPORTED);
    assert_non_null(strstr(verdict.why, "FI_FENCE not in tx_attr->caps"));
    caps.completion = PRS_COMPLETION_TRANSMITTED;
    for (int mode = PERSEUS_ORDERING_DRAIN; mode <= PERSEUS_ORDERING_DEFERRED; mode++) {
        assert_int_equal(resolve((enum perseus_ordering)mode, &caps).status, PERSEUS_NOT_SUPPORTED);
    }
    assert_int_equal(resolve(PERSEUS_ORDERING_COUNTED, &caps).status, PERSEUS_NOT_SUPPORTED);
    assert_int_equal(resolve(PERSEUS_ORDERING_FIFO, &caps).status, PERSEUS_OK);
}

static void test_the_reason_says_what_becomes_of_lanes(void **state)
{
    (void)state;
    struct prs_caps caps = everything;
    assert_null(strstr(resolve(PERSEUS_ORDERING_COUNTED, &caps).why, "lanes"));
    caps.lanes_useful = 4;
    assert_non_null(
        strstr(resolve(PERSEUS_ORDERING_COUNTED, &caps).why, "puts take 4 lanes in turn"));
    assert_non_null(strstr(resolve(PERSEUS_ORDERING_AUTO, &caps).why, "one of 4 lanes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_takes_the_cheapest_that_is_granted),
        cmocka_unit_test(test_forcing_what_is_not_granted_is_refused_with_the_reason),
        cmocka_unit_test(test_the_reason_says_what_becomes_of_lanes),
    };
    return cmocka_run_group_tests_name("choice of mode", tests, NULL, NULL);
}
