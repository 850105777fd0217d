/* SPDX-License-Identifier: Apache-2.0 */
/* What our code asks of a provider and makes of its answers, call by call. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "fabric/libfabric/provider/traits.h"
#include "libfabric/fake.h"

static void flags_are_passed_with_each_operation(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = fake_put(&remote, 1);
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    op.flags |= PRS_OP_FENCE;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    op.flags = PRS_OP_INLINE | PRS_OP_IMMEDIATE | PRS_OP_UNTRACKED;
    op.immediate = 0xfeed;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    fake->fabric.base.caps.completion = PRS_COMPLETION_TRANSMITTED;
    op.flags = PRS_OP_INLINE;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    fake->fabric.base.caps.completion = PRS_COMPLETION_DELIVERED;
    fake->fabric.base.caps.completes_early = true;
    op.flags |= PRS_OP_EARLY;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    const uint64_t delivered = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    assert_int_equal(fake->posts[0].flags, delivered);
    assert_int_equal(fake->posts[1].flags, delivered | FI_FENCE);
    assert_int_equal(fake->posts[2].flags, delivered | FI_REMOTE_CQ_DATA);
    assert_int_equal(fake->posts[2].data, 0xfeed);
    assert_int_equal(fake->posts[3].flags, FI_COMPLETION | FI_TRANSMIT_COMPLETE);
    /* Nothing that the target would have to answer. */
    assert_int_equal(fake->posts[4].flags, FI_COMPLETION | FI_INJECT_COMPLETE);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fake->posts[i].address, FAKE_ADDRESS + 64);
        assert_int_equal(fake->posts[i].key, FAKE_KEY);
        assert_int_equal(fake->posts[i].peer, 100);
        assert_memory_equal(fake->posts[i].source, "eight by", 8);
    }
    fake_destroy(fake);
}

static void sources_in_slots_are_registered_where_they_must_be(void **state)
{
    (void)state;
    struct fake *fake = fake_create(FI_MR_LOCAL, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = fake_put(&remote, 1);
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake->mr_count, 1);
    assert_ptr_equal(fake->posts[0].descriptor, fake->mrs[0].mr.mem_desc);
    fake_destroy(fake);
}

static void again_consumes_nothing(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = fake_put(&remote, 1);
    fake->answer = -FI_EAGAIN;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(fake_submit(fake, &op), PERSEUS_AGAIN);
    }
    fake->answer = 0;
    for (uint32_t i = 0; i < fake->endpoint.pool.limit; i++) {
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    }
    assert_int_equal(fake_submit(fake, &op), PERSEUS_AGAIN);
    struct prs_event event;
    fake_complete(fake, 3, FI_RMA | FI_WRITE);
    assert_int_equal(fake_take(fake, &event, 1), 1);
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake->errors, 0);
    fake_destroy(fake);
}

static void a_bad_operation_does_not_end_its_peer_but_a_bad_way_does(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 2);
    struct prs_lf_remote remote = fake_remote(fake, 0), other = fake_remote(fake, 1);
    struct prs_op op = fake_put(&remote, 1), to_other = fake_put(&other, 2);
    fake->answer = -FI_EINVAL;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_INVALID_ARGUMENT);
    fake->answer = 0;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    fake->answer = -FI_ENOENT; /* what sockets says of a peer that it cannot reach */
    assert_int_equal(fake_submit(fake, &op), PERSEUS_PEER_LOST);
    fake->answer = 0;
    uint32_t errors = fake->errors;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_PEER_LOST);
    assert_int_equal(fake->errors, errors); /* said once */
    assert_int_equal(fake_submit(fake, &to_other), PERSEUS_OK);
    fake_destroy(fake);
}

static void doorbells_ring_at_the_last(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    fake->fabric.base.caps.batching = true;
    struct prs_op more = fake_put(&remote, 1), last = more;
    more.flags |= PRS_OP_MORE;
    assert_int_equal(fake_submit(fake, &more), PERSEUS_OK);
    assert_int_equal(fake->post_count, 0);
    assert_int_equal(fake_submit(fake, &more), PERSEUS_OK);
    assert_int_equal(fake->post_count, 1);
    assert_true(fake->posts[0].flags & FI_MORE);
    assert_int_equal(fake_submit(fake, &last), PERSEUS_OK);
    assert_int_equal(fake->post_count, 3);
    assert_true(fake->posts[1].flags & FI_MORE);
    assert_false(fake->posts[2].flags & FI_MORE);
    assert_int_equal(fake_submit(fake, &more), PERSEUS_OK);
    fake->answer = -FI_EAGAIN;
    assert_int_equal(prs_lf_flush(&fake->endpoint.base), PERSEUS_AGAIN);
    assert_int_equal(fake_submit(fake, &more), PERSEUS_AGAIN);
    fake->answer = 0;
    assert_int_equal(prs_lf_flush(&fake->endpoint.base), PERSEUS_OK);
    assert_int_equal(prs_lf_flush(&fake->endpoint.base), PERSEUS_OK);
    assert_int_equal(fake->post_count, 4);
    assert_false(fake->posts[3].flags & FI_MORE);
    fake_destroy(fake);
}

/* The operation before went out with FI_MORE: somebody must ring for it. */
static ssize_t refuse_second(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags);
static struct fi_ops_rma refusing = {.size = sizeof refusing, .writemsg = refuse_second};
static struct fi_ops_rma *granting;
static int refuse_calls;

static ssize_t refuse_second(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return ++refuse_calls == 2 ? -FI_EAGAIN : granting->writemsg(ep, msg, flags);
}

static void a_refusal_behind_more_leaves_a_ringer(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    fake->fabric.base.caps.batching = true;
    granting = fake->ep.rma;
    fake->ep.rma = &refusing;
    refuse_calls = 0;
    struct prs_op more = fake_put(&remote, 1), last = fake_put(&remote, 2);
    more.flags |= PRS_OP_MORE;
    assert_int_equal(fake_submit(fake, &more), PERSEUS_OK);
    assert_int_equal(fake_submit(fake, &last),
                     PERSEUS_OK); /* taken, though the provider refused it */
    assert_int_equal(fake->post_count, 1);
    struct prs_event event;
    assert_int_equal(fake_take(fake, &event, 1), 0); /* poll rings, too */
    assert_int_equal(fake->post_count, 2);
    assert_false(fake->posts[1].flags & FI_MORE);
    fake_destroy(fake);
}

static void a_held_operation_that_fails_completes_with_the_error(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    fake->fabric.base.caps.batching = true;
    struct prs_op more = fake_put(&remote, 11);
    more.flags |= PRS_OP_MORE | PRS_OP_UNTRACKED;
    assert_int_equal(fake_submit(fake, &more), PERSEUS_OK);
    fake->answer = -FI_EIO;
    struct prs_event event;
    assert_int_equal(fake_take(fake, &event, 1), 1);
    assert_int_equal(event.status, PERSEUS_PEER_LOST);
    assert_int_equal(event.cookie, 11);
    assert_int_equal(fake->endpoint.pool.lent, 0);
    fake_destroy(fake);
}

/* A put that was accepted and then refused by the provider: the signal behind it must not leave. */
static void what_follows_a_held_operation_that_is_refused_does_not_leave(void **state)
{
    (void)state;
    static const ssize_t errors[] = {-FI_EINVAL, -FI_ENOMEM, -FI_EIO};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct fake *fake = fake_create(0, 2);
        struct prs_lf_remote remote = fake_remote(fake, 0), other = fake_remote(fake, 1);
        fake->fabric.base.caps.batching = true;
        struct prs_op put = fake_put(&remote, 11), signal = fake_put(&remote, 12);
        struct prs_op elsewhere = fake_put(&other, 13);
        put.flags |= PRS_OP_MORE;
        assert_int_equal(fake_submit(fake, &put), PERSEUS_OK);
        fake->answer = errors[i];
        assert_int_equal(fake_submit(fake, &signal), PERSEUS_PEER_LOST);
        fake->answer = 0;
        uint32_t posts = fake->post_count;
        assert_int_equal(fake_submit(fake, &signal), PERSEUS_PEER_LOST);
        assert_int_equal(fake->post_count, posts);
        assert_int_equal(fake_submit(fake, &elsewhere), PERSEUS_OK);
        assert_int_equal(fake->post_count, posts + 1);
        struct prs_event event;
        assert_int_equal(fake_take(fake, &event, 1), 1);
        assert_int_equal(event.cookie, 11);
        assert_int_not_equal(event.status, PERSEUS_OK);
        fake_destroy(fake);
    }
}

static void completions_are_told_apart(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = fake_put(&remote, 5), silent = fake_put(&remote, 6);
    silent.flags |= PRS_OP_UNTRACKED;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake_submit(fake, &silent), PERSEUS_OK);
    fake_complete(fake, 0, FI_RMA | FI_WRITE | FI_REMOTE_CQ_DATA); /* as sockets does */
    fake_complete(fake, 1, FI_RMA | FI_WRITE);
    fake->completions[2] = (struct fi_cq_data_entry){
        .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .data = 99};
    fake->completions[3] = (struct fi_cq_data_entry){.flags = FI_RMA | FI_REMOTE_WRITE};
    fake->completion_count = 4;
    struct prs_event events[8];
    assert_int_equal(fake_take(fake, events, 8), 2);
    assert_int_equal(events[0].kind, PRS_EVENT_COMPLETION);
    assert_int_equal(events[0].cookie, 5);
    assert_int_equal(events[1].kind, PRS_EVENT_IMMEDIATE);
    assert_int_equal(events[1].immediate, 99);
    assert_int_equal(events[1].peer, PRS_PEER_UNKNOWN);
    assert_int_equal(fake->endpoint.pool.lent, 0);
    fake_destroy(fake);
}

static void polling_is_bounded(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    for (uint32_t i = 0; i < 60; i++) {
        fake->completions[i] = (struct fi_cq_data_entry){.flags = FI_RMA | FI_REMOTE_WRITE};
    }
    fake->completion_count = 60;
    struct prs_event events[4];
    assert_int_equal(fake_take(fake, events, 4), 0);
    assert_int_equal(fake->entries_read, 4);
    assert_int_equal(fake_take(fake, events, 0), 0);
    assert_int_equal(fake->entries_read, 4);
    fake_destroy(fake);
}

static void an_error_ends_its_peer_and_names_it(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum perseus_status status;
    } cases[] = {{FI_ECONNRESET, PERSEUS_PEER_LOST},
                 {FI_ECANCELED, PERSEUS_PEER_LOST},
                 {FI_EIO, PERSEUS_IO},
                 {0, PERSEUS_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake *fake = fake_create(0, 3);
        struct prs_lf_remote remote = fake_remote(fake, 2), other = fake_remote(fake, 1);
        struct prs_op op = fake_put(&remote, 21), to_other = fake_put(&other, 22);
        op.flags |= PRS_OP_UNTRACKED;
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
        fake_fail(fake, 0, cases[i].error);
        struct prs_event event;
        assert_int_equal(fake_take(fake, &event, 1), 1);
        assert_int_equal(event.status, cases[i].status);
        assert_int_equal(event.cookie, 21);
        assert_int_equal(event.peer, 2);
        assert_int_equal(fake->errors, 1);
        assert_non_null(strstr(fake->last_error, "peer 2"));
        assert_int_equal(fake_submit(fake, &op), PERSEUS_PEER_LOST);
        assert_int_equal(fake_submit(fake, &to_other), PERSEUS_OK);
        assert_int_equal(fake->errors, 1);
        fake_destroy(fake);
    }
}

/* Every read of an empty queue makes progress, which costs system calls: a queue that has given
 * less than was asked for is empty, and is not read again. */
static void a_poll_does_not_read_an_emptied_queue_again(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_event events[64];
    for (uint32_t i = 0; i < 10; i++) {
        struct prs_op op = fake_put(&remote, i);
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
        fake_complete(fake, i, FI_RMA | FI_WRITE);
    }
    assert_int_equal(fake_take(fake, events, 64), 10);
    assert_int_equal(fake->reads, 1);
    assert_int_equal(fake_take(fake, events, 64), 0);
    assert_int_equal(fake->reads, 2);
    fake_destroy(fake);
}

static void a_broken_queue_breaks_the_endpoint(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    fake->cq_answer = -FI_EIO;
    struct prs_event event;
    uint32_t n = 9;
    assert_int_equal(prs_lf_poll(&fake->endpoint.base, &event, 1, &n), PERSEUS_IO);
    fake_destroy(fake);
}

static void what_a_dead_peer_leaves_is_stranded_once(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = fake_put(&remote, 0);
    struct prs_event events[32];
    for (uint32_t i = 0; i < 16; i++) {
        op.cookie = i;
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    }
    fake->endpoint.peers[0].ended = true;
    fake->endpoint.peers[0].since_ns = fake->now_ns = 1000;
    prs_lf_peers_watch(&fake->endpoint); /* the provider may still return them */
    assert_int_equal(fake_take(fake, events, 32), 0);
    fake->now_ns += 600000000;
    prs_lf_peers_watch(&fake->endpoint);
    prs_lf_peers_watch(&fake->endpoint);
    assert_int_equal(fake_take(fake, events, 10), 10);
    assert_int_equal(fake_take(fake, events + 10, 22), 6);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(events[i].status, PERSEUS_PEER_LOST);
        seen |= 1u << events[i].cookie;
    }
    assert_int_equal(seen, 0xffff);
    assert_int_equal(fake->endpoint.pool.stranded, 16);
    fake_complete(fake, 4, FI_RMA | FI_WRITE); /* and late, it does return one */
    assert_int_equal(fake_take(fake, events, 32), 0);
    assert_int_equal(fake->endpoint.pool.stranded, 15);
    assert_int_equal(fake->endpoint.pool.lent, 15);
    /* The room of the stranded is there again for others. */
    fake->endpoint.peers[0] = (struct prs_lf_peer){.address = 100, .process = -1};
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    }
    fake_destroy(fake);
}

static void a_peer_that_only_refuses_is_given_up_at_last(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = fake_put(&remote, 1);
    fake->now_ns = 5;
    fake->answer = -FI_EAGAIN;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_AGAIN);
    fake->now_ns += UINT64_C(59000000000);
    assert_int_equal(fake_submit(fake, &op), PERSEUS_AGAIN);
    fake->answer = 0; /* one success starts the clock anew */
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    fake->answer = -FI_EAGAIN;
    fake->now_ns += UINT64_C(61000000000);
    assert_int_equal(fake_submit(fake, &op),
                     PERSEUS_AGAIN); /* something is in flight: back-pressure */
    struct prs_event event;
    fake_complete(fake, 0, FI_RMA | FI_WRITE);
    assert_int_equal(fake_take(fake, &event, 1), 1);
    assert_int_equal(fake_submit(fake, &op), PERSEUS_AGAIN);
    fake->now_ns += UINT64_C(61000000000);
    assert_int_equal(fake_submit(fake, &op), PERSEUS_PEER_LOST);
    assert_int_equal(fake->errors, 1);
    fake_destroy(fake);
}

static void atomics_take_the_form_the_provider_can(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    unsigned char memory[64];
    struct prs_lf_region region = {
        .base = {.fabric = &fake->fabric.base, .base = memory, .bytes = sizeof memory},
        .mr = &fake->mrs[0].mr};
    struct prs_op op = {.kind = PRS_OP_ATOMIC,
                        .atomic = PERSEUS_ATOMIC_ADD,
                        .remote = &remote.base,
                        .remote_offset = 8,
                        .value = 41};
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    fake->fabric.traits = PRS_LF_SPOILS_ATOMICS;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    op.kind = PRS_OP_ATOMIC_FETCH;
    op.local = &region.base;
    op.local_offset = 16;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    op.atomic = PERSEUS_ATOMIC_COMPARE_SWAP;
    op.compare = 7;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    static const enum fake_call calls[] = {FAKE_ATOMIC, FAKE_FETCH, FAKE_FETCH, FAKE_COMPARE};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fake->posts[i].call, calls[i]);
        assert_int_equal(fake->posts[i].operand, 41);
        assert_int_equal(fake->posts[i].address, FAKE_ADDRESS + 8);
    }
    assert_ptr_not_equal(fake->posts[1].source, memory + 16); /* nobody asked for the result */
    assert_ptr_equal(fake->posts[2].source, memory + 16);
    assert_int_equal(fake->posts[3].compare, 7);
    fake_destroy(fake);
}

static void an_empty_put_goes_to_the_sink_where_there_is_one(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = {.kind = PRS_OP_PUT,
                        .flags = PRS_OP_IMMEDIATE,
                        .remote = &remote.base,
                        .remote_offset = 640,
                        .immediate = 3};
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake->posts[0].bytes, 0);
    fake->endpoint.peers[0].sink = (struct prs_lf_sink){.address = 0x51, .key = 5};
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake->posts[1].bytes, 8);
    assert_int_equal(fake->posts[1].address, 0x51);
    assert_int_equal(fake->posts[1].key, 5);
    assert_int_equal(fake->posts[1].data, 3);
    fake_destroy(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_are_passed_with_each_operation),
        cmocka_unit_test(sources_in_slots_are_registered_where_they_must_be),
        cmocka_unit_test(again_consumes_nothing),
        cmocka_unit_test(a_bad_operation_does_not_end_its_peer_but_a_bad_way_does),
        cmocka_unit_test(doorbells_ring_at_the_last),
        cmocka_unit_test(a_refusal_behind_more_leaves_a_ringer),
        cmocka_unit_test(a_held_operation_that_fails_completes_with_the_error),
        cmocka_unit_test(what_follows_a_held_operation_that_is_refused_does_not_leave),
        cmocka_unit_test(completions_are_told_apart),
        cmocka_unit_test(polling_is_bounded),
        cmocka_unit_test(an_error_ends_its_peer_and_names_it),
        cmocka_unit_test(a_poll_does_not_read_an_emptied_queue_again),
        cmocka_unit_test(a_broken_queue_breaks_the_endpoint),
        cmocka_unit_test(what_a_dead_peer_leaves_is_stranded_once),
        cmocka_unit_test(a_peer_that_only_refuses_is_given_up_at_last),
        cmocka_unit_test(atomics_take_the_form_the_provider_can),
        cmocka_unit_test(an_empty_put_goes_to_the_sink_where_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
