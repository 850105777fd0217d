/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: every one reaches somebody, once, and none stops the proxy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/rig.h"

#define NO_TICKET PRS_DESC_NO_TICKET

static struct prs_desc put_to(uint32_t peer, uint32_t ticket)
{
    return (struct prs_desc){.kind = PRS_DESC_PUT, .peer = peer, .ticket = ticket, .bytes = 8};
}

static struct prs_desc quiet(uint32_t ticket)
{
    return (struct prs_desc){.kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS, .ticket = ticket};
}

/* Descriptors that cannot become requests, each its own way. */
static const struct prs_desc malformed[] = {
    {.kind = 0},
    {.kind = PRS_DESC_VALUES + 1},
    {.kind = 255},
    {.kind = PRS_DESC_PUT, .local_window = RIG_WINDOWS},
    {.kind = PRS_DESC_GET, .local_window = UINT16_MAX},
    {.kind = PRS_DESC_PUT_SIGNAL, .local_window = RIG_WINDOWS, .sub = PERSEUS_SIGNAL_SET},
    {.kind = PRS_DESC_PUT, .peer = FAKE_PEERS},
    {.kind = PRS_DESC_SIGNAL, .peer = PRS_DESC_ALL_PEERS, .sub = PERSEUS_SIGNAL_SET},
    {.kind = PRS_DESC_PUT_SIGNAL, .sub = 0},
    {.kind = PRS_DESC_SIGNAL, .sub = PERSEUS_SIGNAL_ADD + 1},
    {.kind = PRS_DESC_ATOMIC, .sub = PERSEUS_ATOMIC_COMPARE_SWAP + 1},
    {.kind = PRS_DESC_SIGNAL_VECTOR, .sub = PERSEUS_SIGNAL_SET, .bytes = 0},
    {.kind = PRS_DESC_SIGNAL_VECTOR, .sub = PERSEUS_SIGNAL_SET, .bytes = 12},
    {.kind = PRS_DESC_SIGNAL_VECTOR, .sub = PERSEUS_SIGNAL_SET, .bytes = 8 * (FAKE_VALUES_MAX + 1)},
    {.kind = PRS_DESC_SIGNAL_VECTOR, .sub = PERSEUS_SIGNAL_SET, .bytes = (UINT64_C(1) << 48) - 8},
    {.kind = PRS_DESC_SIGNAL_VECTOR, .sub = PERSEUS_SIGNAL_SET, .bytes = 8}, /* no values */
};
#define N_MALFORMED (sizeof malformed / sizeof malformed[0])

static void malformed_descriptors_fail_their_ticket_once(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    for (uint32_t i = 0; i < N_MALFORMED; i++) {
        struct prs_desc desc = malformed[i];
        desc.ticket = rig_ticket(rig);
        uint32_t after = rig_ticket(rig), end = rig_ticket(rig);
        rig_push(rig, desc);
        rig_push(rig, put_to(1, after));
        rig_push(rig, quiet(end));
        rig_step(rig);
        assert_int_equal(rig_status(rig, desc.ticket), PERSEUS_INVALID_ARGUMENT);
        assert_int_equal(rig_status(rig, after), PERSEUS_OK);
        assert_int_equal(rig_status(rig, end), PERSEUS_OK); /* its ticket told it already */
        assert_int_equal(rig->errors_logged, i + 1);
        assert_true(strlen(rig->last_error) > 10 || desc.peer >= FAKE_PEERS);
        assert_int_equal(rig->orderer->n_calls, 2 * (i + 1));
        /* What comes behind it to the same PE must not get through without it. */
        assert_int_equal(rig->orderer->refusals, i + 1);
        assert_int_equal(rig->orderer->refused_peer, desc.peer);
        assert_int_equal(rig->orderer->refusal, PERSEUS_INVALID_ARGUMENT);
    }
    rig_destroy(rig);
}

/* The orderer tells every quiet that covers it: the proxy keeps nothing. */
static void without_a_ticket_the_orderer_keeps_the_error(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    for (uint32_t i = 0; i < N_MALFORMED; i++) {
        struct prs_desc desc = malformed[i];
        desc.ticket = NO_TICKET;
        uint32_t end = rig_ticket(rig);
        rig_push(rig, desc);
        rig_push(rig, quiet(end));
        rig_step(rig);
        assert_int_equal(rig->orderer->refusals, i + 1);
        assert_int_equal(rig->orderer->refused_peer, desc.peer);
        assert_int_equal(rig->orderer->refusal, PERSEUS_INVALID_ARGUMENT);
        assert_int_equal(rig->errors_logged, i + 1);
        assert_int_equal(rig_status(rig, end), PERSEUS_OK); /* as the orderer said */
    }
    rig_destroy(rig);
}

static void a_ticket_that_does_not_exist_is_malformed(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    uint32_t end = rig_ticket(rig);
    rig_push(rig, put_to(1, RIG_TICKETS));
    rig_push(rig, put_to(1, NO_TICKET - 1));
    assert_true(
        rig_push_vector(rig, 1, RIG_TICKETS, 9, 0)); /* and its values are not taken for others */
    rig_push(rig, quiet(end));
    rig_step(rig);
    assert_int_equal(rig->orderer->n_calls, 1);
    assert_int_equal(rig->errors_logged, 3);
    assert_int_equal(rig->orderer->refusals, 3);
    assert_int_equal(rig->orderer->refused_peer, 1);
    assert_int_equal(rig_status(rig, end), PERSEUS_OK);
    rig_destroy(rig);
}

static void values_without_a_vector_are_dropped_and_told_once_a_run(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    union prs_desc_slot values; /* where a ticket would be is 0, which is one */
    prs_desc_take_values(&values, (const uint64_t[PRS_DESC_VALUES_MAX]){0}, PRS_DESC_VALUES_MAX);
    struct prs_desc stray = values.desc;
    uint32_t zero = rig_ticket(rig), end = rig_ticket(rig);
    assert_int_equal(zero, 0);
    rig_push(rig, stray);
    rig_push(rig, stray);
    rig_push(rig, put_to(1, NO_TICKET));
    rig_push(rig, stray);
    rig_push(rig, quiet(end));
    rig_step(rig);
    assert_int_equal(rig->errors_logged, 2);
    assert_int_equal(rig->orderer->n_calls, 2);
    assert_false(prs_ticket_poll(rig->tickets, zero, NULL, NULL));
    /* Whose they were, nobody knows: every quiet of all PEs tells. */
    assert_int_equal(rig->orderer->refusals, 2);
    assert_int_equal(rig->orderer->refused_peer, PRS_DESC_ALL_PEERS);
    assert_int_equal(rig_status(rig, end), PERSEUS_OK);
    rig_destroy(rig);
}

static void values_of_a_malformed_vector_go_with_it(void **state)
{
    (void)state;
    struct rig *rig = rig_create(64, 0);
    uint32_t too_long = rig_ticket(rig), wrong_op = rig_ticket(rig), cut = rig_ticket(rig);
    assert_true(rig_push_vector(rig, 1, too_long, FAKE_VALUES_MAX + 5, 0));
    rig_push(rig, put_to(1, NO_TICKET));
    struct prs_desc vector = {.kind = PRS_DESC_SIGNAL_VECTOR,
                              .sub = PERSEUS_SIGNAL_ADD,
                              .peer = 1,
                              .ticket = wrong_op,
                              .bytes = 16};
    union prs_desc_slot values;
    prs_desc_take_values(&values, (const uint64_t[]){0, 0}, 2);
    struct prs_desc part = values.desc;
    rig_push(rig, vector);
    rig_push(rig, part);
    vector.sub = PERSEUS_SIGNAL_SET;
    vector.ticket = cut;
    vector.bytes = 10 * sizeof(uint64_t);
    rig_push(rig, vector); /* ten values, two of which came */
    rig_push(rig, part);
    rig_push(rig, put_to(2, NO_TICKET));
    rig_step(rig);
    assert_int_equal(rig_status(rig, too_long), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(rig_status(rig, wrong_op), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(rig_status(rig, cut), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(rig->errors_logged, 3);
    assert_int_equal(rig->orderer->n_calls, 2);
    assert_int_equal(rig->orderer->calls[1].peer, 2);
    rig_destroy(rig);
}

static void values_that_do_not_add_up_are_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    for (uint8_t count = 0; count <= PRS_DESC_VALUES_MAX; count++) {
        uint32_t ticket = rig_ticket(rig);
        struct prs_desc descs[] = {{.kind = PRS_DESC_SIGNAL_VECTOR,
                                    .sub = PERSEUS_SIGNAL_SET,
                                    .ticket = ticket,
                                    .bytes = 3 * sizeof(uint64_t)},
                                   {.kind = PRS_DESC_VALUES, .sub = count}};
        assert_int_equal(prs_ring_push_many(rig->ring, descs, 2), PERSEUS_OK);
        rig_step(rig);
        assert_int_equal(rig_status(rig, ticket),
                         count == 3 ? PERSEUS_OK : PERSEUS_INVALID_ARGUMENT);
    }
    assert_int_equal(rig->orderer->n_calls, 1);
    assert_int_equal(rig->errors_logged, PRS_DESC_VALUES_MAX);
    rig_destroy(rig);
}

static void a_vector_that_the_ring_cannot_hold_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_create(2, 0); /* one vector descriptor and four values at most */
    uint32_t ticket = rig_ticket(rig);
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_SIGNAL_VECTOR,
                                    .sub = PERSEUS_SIGNAL_SET,
                                    .ticket = ticket,
                                    .bytes = 5 * sizeof(uint64_t)});
    rig_step(rig);
    assert_int_equal(rig_status(rig, ticket), PERSEUS_INVALID_ARGUMENT);
    assert_true(rig_push_vector(rig, 1, NO_TICKET, 4, 0));
    rig_step(rig);
    assert_int_equal(rig->orderer->n_calls, 1);
    rig_destroy(rig);
}

static void what_the_orderer_refuses_is_told_and_not_logged_again(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    uint32_t put = rig_ticket(rig), fence = rig_ticket(rig), end = rig_ticket(rig);
    rig->orderer->answer[4] = PERSEUS_PEER_LOST;
    rig->orderer->fence_answer = PERSEUS_LIMIT;
    rig_push(rig, put_to(4, put));
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_FENCE, .peer = 4, .ticket = fence});
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_FENCE, .peer = 4, .ticket = NO_TICKET});
    rig_push(rig, put_to(4, NO_TICKET));
    rig_push(rig, put_to(1, NO_TICKET));
    rig_push(rig, quiet(end));
    rig_step(rig);
    assert_int_equal(rig_status(rig, put), PERSEUS_PEER_LOST);
    assert_int_equal(rig_status(rig, fence), PERSEUS_LIMIT);
    assert_int_equal(rig->orderer->refusals, 4); /* the fences' too, which it does not know yet */
    assert_int_equal(rig_status(rig, end), PERSEUS_OK);
    assert_int_equal(rig->orderer->n_calls, 2);
    assert_int_equal(rig->errors_logged, 0); /* the orderer saw it first and logs it */
    rig_destroy(rig);
}

static void a_quiet_waits_through_again_and_tells_what_the_orderer_says(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    uint32_t first = rig_ticket(rig), second = rig_ticket(rig);
    rig->orderer->quiet_answer = PERSEUS_AGAIN;
    rig_push(rig, quiet(first));
    rig_step(rig);
    rig_step(rig);
    assert_false(prs_ticket_poll(rig->tickets, first, NULL, NULL));
    rig->orderer->quiet_answer = PERSEUS_LIMIT;
    rig_step(rig);
    assert_int_equal(rig_status(rig, first), PERSEUS_LIMIT);
    rig->orderer->quiet_answer = PERSEUS_OK;
    rig->orderer->completion = PERSEUS_IO;
    rig_push(rig, quiet(second));
    rig_step(rig);
    assert_int_equal(rig_status(rig, second), PERSEUS_IO);
    rig_destroy(rig);
}

static void a_broken_endpoint_ends_the_step_with_its_error(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    bool did = true;
    rig->orderer->progress_answer = PERSEUS_IO;
    assert_int_equal(prs_proxy_step(rig->proxy, &did), PERSEUS_IO);
    rig->orderer->progress_answer = PERSEUS_OK;
    rig->orderer->flush_answer = PERSEUS_PROTOCOL;
    rig_push(rig, put_to(1, NO_TICKET));
    assert_int_equal(prs_proxy_step(rig->proxy, &did), PERSEUS_PROTOCOL);
    assert_true(did); /* untouched */
    rig_destroy(rig);
}

static void a_proxy_without_its_parts_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    const struct prs_proxy_config config = {
        .sources = rig->sources, .orderer = rig->orderer, .log = &rig->log};
    struct prs_proxy *proxy = NULL;
    assert_int_equal(prs_proxy_create(&config, &proxy), PERSEUS_INVALID_ARGUMENT);
    assert_null(proxy);
    assert_int_equal(rig->errors_logged, 1);
    prs_proxy_destroy(NULL);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_descriptors_fail_their_ticket_once),
        cmocka_unit_test(without_a_ticket_the_orderer_keeps_the_error),
        cmocka_unit_test(a_ticket_that_does_not_exist_is_malformed),
        cmocka_unit_test(values_without_a_vector_are_dropped_and_told_once_a_run),
        cmocka_unit_test(values_of_a_malformed_vector_go_with_it),
        cmocka_unit_test(values_that_do_not_add_up_are_refused),
        cmocka_unit_test(a_vector_that_the_ring_cannot_hold_is_refused),
        cmocka_unit_test(what_the_orderer_refuses_is_told_and_not_logged_again),
        cmocka_unit_test(a_quiet_waits_through_again_and_tells_what_the_orderer_says),
        cmocka_unit_test(a_broken_endpoint_ends_the_step_with_its_error),
        cmocka_unit_test(a_proxy_without_its_parts_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
