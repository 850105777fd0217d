/* SPDX-License-Identifier: Apache-2.0 */
/* What the proxy makes of well-formed descriptors, and how it behaves under back-pressure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/rig.h"

#define NO_TICKET PRS_DESC_NO_TICKET

static struct prs_desc put_to(uint32_t peer, uint64_t remote)
{
    return (struct prs_desc){
        .kind = PRS_DESC_PUT, .peer = peer, .ticket = NO_TICKET, .remote = remote, .bytes = 8};
}

static const struct prs_desc all_fields = {.local_window = 2,
                                           .peer = 3,
                                           .local = 100,
                                           .remote = 200,
                                           .bytes = 300,
                                           .signal = 400,
                                           .value = 500}; /* signal is compare, for an atomic */

static void every_kind_becomes_its_request(void **state)
{
    (void)state;
    const struct {
        uint8_t desc, sub, request;
        bool has_ticket, is_local;
    } kinds[] = {
        {PRS_DESC_PUT, 0, PRS_REQUEST_PUT, true, true},
        {PRS_DESC_GET, 0, PRS_REQUEST_GET, false, true},
        {PRS_DESC_PUT_SIGNAL, PERSEUS_SIGNAL_ADD, PRS_REQUEST_PUT_SIGNAL, false, true},
        {PRS_DESC_PUT_SIGNAL, PERSEUS_SIGNAL_SET, PRS_REQUEST_PUT_SIGNAL, true, true},
        {PRS_DESC_SIGNAL, PERSEUS_SIGNAL_ADD, PRS_REQUEST_SIGNAL, false, false},
        {PRS_DESC_SIGNAL, PERSEUS_SIGNAL_SET, PRS_REQUEST_SIGNAL, true, false},
        {PRS_DESC_ATOMIC, PERSEUS_ATOMIC_SET, PRS_REQUEST_ATOMIC, false, false},
        {PRS_DESC_ATOMIC, PERSEUS_ATOMIC_COMPARE_SWAP, PRS_REQUEST_ATOMIC_FETCH, true, false},
    };
    struct rig *rig = rig_create(16, 0);
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct prs_desc desc = all_fields;
        desc.kind = kinds[i].desc;
        desc.sub = kinds[i].sub;
        desc.ticket = kinds[i].has_ticket ? rig_ticket(rig) : NO_TICKET;
        rig_push(rig, desc);
        assert_true(rig_step(rig));
        assert_int_equal(rig->orderer->n_calls, i + 1);
        const struct prs_request *request = &rig->orderer->calls[i].request;
        assert_int_equal(request->kind, kinds[i].request);
        assert_int_equal(request->op, kinds[i].sub);
        assert_int_equal(request->peer, 3);
        assert_int_equal(request->token, desc.ticket);
        assert_ptr_equal(request->local, kinds[i].is_local ? &rig->regions[2] : NULL);
        assert_int_equal(request->local_offset, 100);
        assert_null(request->inline_source);
        assert_ptr_equal(request->remote, rig_remote(rig, 3));
        assert_int_equal(request->remote_offset, 200);
        assert_int_equal(request->bytes, 300);
        assert_ptr_equal(request->signal_remote,
                         kinds[i].desc == PRS_DESC_PUT_SIGNAL ? rig_remote(rig, 3) : NULL);
        bool is_atomic = kinds[i].desc == PRS_DESC_ATOMIC;
        assert_int_equal(request->signal_offset, kinds[i].desc == PRS_DESC_PUT_SIGNAL ? 400 : 0);
        assert_int_equal(request->value, 500);
        assert_int_equal(request->compare, is_atomic ? 400 : 0);
    }
    assert_int_equal(rig->errors_logged, 0);
    rig_destroy(rig);
}

static void results_and_statuses_reach_their_tickets(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    struct prs_desc desc = all_fields;
    desc.kind = PRS_DESC_ATOMIC;
    desc.sub = PERSEUS_ATOMIC_ADD;
    desc.ticket = rig_ticket(rig);
    rig->orderer->result = 42;
    rig_push(rig, desc);
    rig_step(rig);
    enum perseus_status status = PERSEUS_INTERNAL;
    uint64_t result = 0;
    assert_true(prs_ticket_poll(rig->tickets, desc.ticket, &status, &result));
    assert_int_equal(status, PERSEUS_OK);
    assert_int_equal(result, 42);
    rig->orderer->completion = PERSEUS_PEER_LOST;
    desc.ticket = rig_ticket(rig);
    rig_push(rig, desc);
    rig_step(rig);
    assert_int_equal(rig_status(rig, desc.ticket), PERSEUS_PEER_LOST);
    rig_destroy(rig);
}

static void fences_and_quiets_keep_their_place_and_peer(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    uint32_t fence_ticket = rig_ticket(rig), quiet_ticket = rig_ticket(rig);
    rig_push(rig, put_to(1, 8));
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_FENCE, .peer = 1, .ticket = NO_TICKET});
    rig_push(rig, (struct prs_desc){
                      .kind = PRS_DESC_FENCE, .peer = PRS_DESC_ALL_PEERS, .ticket = fence_ticket});
    rig_push(rig, (struct prs_desc){
                      .kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS, .ticket = quiet_ticket});
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_QUIET, .peer = 2, .ticket = NO_TICKET});
    rig_step(rig);
    const struct fake_call *calls = rig->orderer->calls;
    assert_int_equal(rig->orderer->n_calls, 5);
    assert_int_equal(calls[0].kind, FAKE_SUBMIT);
    assert_int_equal(calls[1].kind, FAKE_FENCE);
    assert_int_equal(calls[1].peer, 1);
    assert_int_equal(calls[2].kind, FAKE_FENCE);
    assert_int_equal(calls[2].peer, PRS_ORDER_ALL_PEERS);
    assert_int_equal(calls[3].kind, FAKE_QUIET);
    assert_int_equal(calls[3].peer, PRS_ORDER_ALL_PEERS);
    assert_int_equal(calls[3].token, quiet_ticket);
    assert_int_equal(calls[4].peer, 2);
    assert_int_equal(calls[4].token, PRS_ORDER_NO_TOKEN);
    assert_int_equal(rig_status(rig, fence_ticket), PERSEUS_OK);
    assert_int_equal(rig_status(rig, quiet_ticket), PERSEUS_OK);
    rig_destroy(rig);
}

static void a_step_is_bounded_and_flushes_and_polls_once(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 4);
    for (uint64_t i = 0; i < 10; i++) {
        rig_push(rig, put_to(0, i));
    }
    const uint32_t after[] = {4, 8, 10, 10};
    for (uint32_t step = 0; step < 4; step++) {
        assert_int_equal(rig_step(rig), step < 3);
        assert_int_equal(rig->orderer->n_calls, after[step]);
        assert_int_equal(rig->orderer->flushes, step < 3 ? step + 1 : 3);
        assert_int_equal(rig->orderer->progresses, step + 1);
        assert_true(rig->orderer->budget > 0);
    }
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(rig->orderer->calls[i].request.remote_offset, i);
    }
    rig_destroy(rig);
}

static void the_default_batch_is_bounded_too(void **state)
{
    (void)state;
    struct rig *rig = rig_create(256, 0);
    for (uint64_t i = 0; i < 256; i++) {
        rig_push(rig, put_to(0, i));
    }
    rig_step(rig);
    assert_int_equal(rig->orderer->n_calls, 64);
    rig_destroy(rig);
}

static void again_holds_the_head_and_all_behind_it(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    rig_push(rig, put_to(0, 1));
    rig_push(rig, put_to(5, 2));
    rig_push(rig, put_to(0, 3));
    rig_push(rig, put_to(5, 4));
    rig->orderer->answer[5] = PERSEUS_AGAIN;
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 1);
    for (uint32_t i = 2; i < 5; i++) {
        assert_false(rig_step(rig));
        assert_int_equal(rig->orderer->n_calls, 1);
        assert_int_equal(rig->orderer->refused, i); /* asked once a step */
    }
    assert_int_equal(rig->orderer->flushes, 1); /* nothing new to flush */
    rig_push(rig, put_to(0, 5));                /* one slot is free again, no more */
    struct prs_desc full = put_to(0, 6);
    assert_int_equal(prs_ring_push(rig->ring, &full, NULL), PERSEUS_AGAIN);
    rig->orderer->answer[5] = PERSEUS_OK;
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 5);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(rig->orderer->calls[i].request.remote_offset, i + 1);
    }
    assert_int_equal(rig->errors_logged, 0);
    rig_destroy(rig);
}

static void again_of_fence_quiet_and_import_holds_too(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    uint32_t ticket = rig_ticket(rig);
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_FENCE, .peer = 0, .ticket = NO_TICKET});
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_QUIET, .peer = 0, .ticket = ticket});
    rig_push(rig, put_to(1, 0));
    rig->orderer->fence_answer = PERSEUS_AGAIN;
    rig->orderer->quiet_answer = PERSEUS_AGAIN;
    rig->remote_answer = PERSEUS_AGAIN;
    assert_false(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 0);
    rig->orderer->fence_answer = PERSEUS_OK;
    assert_true(rig_step(rig));
    assert_false(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 1);
    rig->orderer->quiet_answer = PERSEUS_OK;
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 2);
    assert_int_equal(rig_status(rig, ticket), PERSEUS_OK);
    assert_false(rig_step(rig));
    rig->remote_answer = PERSEUS_OK;
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 3);
    assert_int_equal(rig->errors_logged, 0);
    rig_destroy(rig);
}

static void vectors_carry_their_values(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 1);
    const uint32_t counts[] = {1, 3, 4, 5, 8, 9, FAKE_VALUES_MAX};
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        assert_true(rig_push_vector(rig, 2, NO_TICKET, counts[i], 1000 * i));
        rig_push(rig, put_to(1, 5));
        rig_step(rig); /* a vector is one request of the batch */
        assert_int_equal(rig->orderer->n_calls, 2 * i + 1);
        const struct fake_call *call = &rig->orderer->calls[2 * i];
        assert_int_equal(call->request.kind, PRS_REQUEST_SIGNAL_VECTOR);
        assert_int_equal(call->request.peer, 2);
        assert_int_equal(call->request.remote_offset, 4096);
        assert_int_equal(call->request.bytes, counts[i] * sizeof(uint64_t));
        for (uint32_t k = 0; k < counts[i]; k++) {
            assert_int_equal(call->values[k], 1000 * i + k);
        }
        rig_step(rig);
        assert_int_equal(rig->orderer->calls[2 * i + 1].request.kind, PRS_REQUEST_PUT);
        assert_true(prs_ring_is_empty(rig->ring));
    }
    assert_int_equal(rig->errors_logged, 0);
    rig_destroy(rig);
}

static void a_vector_waits_until_all_values_are_published(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    struct prs_desc vector = {.kind = PRS_DESC_SIGNAL_VECTOR,
                              .sub = PERSEUS_SIGNAL_SET,
                              .peer = 1,
                              .ticket = NO_TICKET,
                              .bytes = 9 * sizeof(uint64_t)};
    union prs_desc_slot parts[3];
    const uint64_t values[] = {70, 71, 72, 73, 74, 75, 76, 77, 78};
    for (uint32_t i = 0, done = 0; i < 3; i++) {
        done += prs_desc_take_values(&parts[i], values + done, 9 - done);
    }
    rig_push(rig, put_to(0, 1));
    rig_push(rig, vector);
    assert_true(rig_step(rig));
    assert_false(rig_step(rig));
    for (uint32_t i = 0; i < 2; i++) {
        rig_push(rig, parts[i].desc);
        assert_false(rig_step(rig));
        assert_int_equal(rig->orderer->n_calls, 1);
    }
    rig_push(rig, parts[2].desc);
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 2);
    assert_int_equal(rig->orderer->calls[1].values[3], 73);
    assert_int_equal(rig->orderer->calls[1].values[8], 78);
    assert_int_equal(rig->errors_logged, 0);
    rig_destroy(rig);
}

static void a_refused_vector_is_submitted_again_whole(void **state)
{
    (void)state;
    struct rig *rig = rig_create(16, 0);
    uint32_t ticket = rig_ticket(rig);
    assert_true(rig_push_vector(rig, 2, ticket, 10, 7));
    rig_push(rig, put_to(0, 1));
    rig->orderer->answer[2] = PERSEUS_AGAIN;
    assert_false(rig_step(rig));
    assert_false(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 0);
    rig->orderer->answer[2] = PERSEUS_OK;
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 2);
    assert_int_equal(rig->orderer->calls[0].values[9], 16);
    assert_int_equal(rig_status(rig, ticket), PERSEUS_OK);
    rig_destroy(rig);
}

static void a_flush_that_got_again_is_repeated(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    rig_push(rig, put_to(0, 1));
    rig->orderer->flush_answer = PERSEUS_AGAIN;
    rig_step(rig);
    rig_step(rig);
    assert_int_equal(rig->orderer->flushes, 2);
    rig->orderer->flush_answer = PERSEUS_OK;
    rig_step(rig);
    rig_step(rig);
    assert_int_equal(rig->orderer->flushes, 3);
    rig_destroy(rig);
}

static void only_an_idle_proxy_may_sleep(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 0);
    rig_step(rig);
    assert_true(prs_proxy_may_sleep(rig->proxy));
    rig_push(rig, put_to(5, 1));
    assert_false(prs_proxy_may_sleep(rig->proxy)); /* came after the step */
    rig->orderer->answer[5] = PERSEUS_AGAIN;
    rig_step(rig);
    assert_true(prs_proxy_may_sleep(rig->proxy)); /* the fabric must move first */
    rig->orderer->answer[5] = PERSEUS_OK;
    rig_step(rig);
    assert_true(prs_proxy_may_sleep(rig->proxy));
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_becomes_its_request),
        cmocka_unit_test(results_and_statuses_reach_their_tickets),
        cmocka_unit_test(fences_and_quiets_keep_their_place_and_peer),
        cmocka_unit_test(a_step_is_bounded_and_flushes_and_polls_once),
        cmocka_unit_test(the_default_batch_is_bounded_too),
        cmocka_unit_test(again_holds_the_head_and_all_behind_it),
        cmocka_unit_test(again_of_fence_quiet_and_import_holds_too),
        cmocka_unit_test(vectors_carry_their_values),
        cmocka_unit_test(a_vector_waits_until_all_values_are_published),
        cmocka_unit_test(a_refused_vector_is_submitted_again_whole),
        cmocka_unit_test(a_flush_that_got_again_is_repeated),
        cmocka_unit_test(only_an_idle_proxy_may_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
