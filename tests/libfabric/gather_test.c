/* SPDX-License-Identifier: Apache-2.0 */
/* Writes posted with MORE, on an endpoint that gathers: which go as one message, and what becomes
 * of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "libfabric/fake.h"

static struct fake *fake_that_gathers(uint32_t peers)
{
    struct fake *fake = fake_create(0, peers);
    fake->fabric.base.caps.batching = true;
    fake->fabric.base.caps.immediate_bits = 64;
    fake->endpoint.gather_max = 3;
    return fake;
}

static struct prs_op more_put(struct prs_lf_remote *remote, uint64_t cookie)
{
    struct prs_op op = fake_put(remote, cookie);
    op.peer = remote->base.peer;
    op.flags |= PRS_OP_MORE;
    return op;
}

static void writes_of_a_batch_go_as_one_message_a_peer(void **state)
{
    (void)state;
    struct fake *fake = fake_that_gathers(2);
    struct prs_lf_remote remotes[] = {fake_remote(fake, 0), fake_remote(fake, 1)};
    for (uint64_t i = 0; i < 4; i++) { /* in turn */
        struct prs_op op = more_put(&remotes[i % 2], i);
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    }
    assert_int_equal(fake->post_count, 0);
    assert_int_equal(prs_lf_flush(&fake->endpoint.base), PERSEUS_OK);
    assert_int_equal(fake->post_count, 2);
    assert_int_equal(fake->posts[0].segments, 2);
    assert_int_equal(fake->posts[1].segments, 2);
    assert_true(fake->posts[0].peer != fake->posts[1].peer);
    assert_int_equal(fake->endpoint.peers[0].in_flight, 2);
    fake_complete(fake, 0, FI_RMA | FI_WRITE);
    fake_complete(fake, 1, FI_RMA | FI_WRITE);
    bool seen[4] = {false};
    struct prs_event events[3];
    for (uint32_t got = 0; got < 4;) { /* also when there is less room than there are outcomes */
        uint32_t n = fake_take(fake, events, 3);
        assert_true(n > 0);
        for (uint32_t i = 0; i < n; i++, got++) {
            assert_int_equal(events[i].status, PERSEUS_OK);
            assert_false(seen[events[i].cookie]);
            seen[events[i].cookie] = true;
        }
    }
    assert_int_equal(fake->endpoint.pool.lent, 0);
    assert_int_equal(fake->endpoint.peers[0].in_flight, 0);
    fake_destroy(fake);
}

static void a_message_ends_where_it_must(void **state)
{
    (void)state;
    struct fake *fake = fake_that_gathers(1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = more_put(&remote, 1), telling = op, fenced = op, last = op;
    telling.flags |= PRS_OP_IMMEDIATE;
    telling.immediate = 77;
    last.flags &= (uint8_t)~PRS_OP_MORE;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake_submit(fake, &telling), PERSEUS_OK);
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK); /* not behind an immediate */
    assert_int_equal(fake->post_count, 1);
    assert_int_equal(fake->posts[0].segments, 2);
    assert_int_equal(fake->posts[0].data, 77);
    assert_true(fake->posts[0].flags & FI_REMOTE_CQ_DATA);
    assert_int_equal(fake_submit(fake, &last),
                     PERSEUS_OK); /* without MORE: goes at once, with the others */
    assert_int_equal(fake->post_count, 2);
    assert_int_equal(fake->posts[1].segments, 2);
    fake->fabric.base.caps.fence_scope = PRS_FENCE_PEER;
    fenced.flags |= PRS_OP_FENCE;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake_submit(fake, &fenced),
                     PERSEUS_OK); /* alone, and behind what was gathered */
    assert_int_equal(fake->post_count, 4);
    assert_int_equal(fake->posts[2].segments, 1);
    assert_true(fake->posts[3].flags & FI_FENCE);
    for (int i = 0; i < 3; i++) { /* full */
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    }
    assert_int_equal(fake->post_count, 5);
    assert_int_equal(fake->posts[4].segments, 3);
    fake_destroy(fake);
}

/* The message completes as late as one of its parts asks. */
static void one_part_that_asks_for_its_delivery_asks_for_all(void **state)
{
    (void)state;
    struct fake *fake = fake_that_gathers(1);
    fake->fabric.base.caps.completes_early = true;
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op asking = more_put(&remote, 1), early = asking;
    early.flags |= PRS_OP_EARLY;
    const struct prs_op *batch[] = {&early, &asking, &early, &early, &early, &early};
    for (size_t i = 0; i < sizeof batch / sizeof batch[0]; i++) {
        assert_int_equal(fake_submit(fake, batch[i]), PERSEUS_OK);
    }
    assert_int_equal(fake->post_count, 2);
    assert_int_equal(fake->posts[0].flags, FI_COMPLETION | FI_DELIVERY_COMPLETE);
    assert_int_equal(fake->posts[1].flags, FI_COMPLETION | FI_INJECT_COMPLETE);
    fake_destroy(fake);
}

static void a_refused_message_stays_and_a_failed_one_fails_whole(void **state)
{
    (void)state;
    struct fake *fake = fake_that_gathers(1);
    struct prs_lf_remote remote = fake_remote(fake, 0);
    struct prs_op op = more_put(&remote, 1);
    fake->answer = -FI_EAGAIN;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    }
    assert_int_equal(fake_submit(fake, &op), PERSEUS_AGAIN); /* full, and nothing happened */
    assert_int_equal(prs_lf_flush(&fake->endpoint.base), PERSEUS_AGAIN);
    fake->answer = 0;
    assert_int_equal(prs_lf_flush(&fake->endpoint.base), PERSEUS_OK);
    assert_int_equal(fake->post_count, 1);
    fake_fail(fake, 0, FI_EIO);
    struct prs_event events[8];
    assert_int_equal(fake_take(fake, events, 8), 3);
    for (int i = 0; i < 3; i++) {
        assert_true(events[i].status != PERSEUS_OK);
    }
    assert_int_equal(fake->endpoint.pool.lent, 0);
    fake_destroy(fake);
}

/* Their posts returned OK: an error completion of each, and nothing gets through behind them. */
static void what_follows_a_message_that_is_refused_does_not_leave(void **state)
{
    (void)state;
    struct fake *fake = fake_that_gathers(2);
    struct prs_lf_remote remote = fake_remote(fake, 0), other = fake_remote(fake, 1);
    struct prs_op op = more_put(&remote, 1), telling = op, fenced = op;
    struct prs_op elsewhere = fake_put(&other, 2);
    telling.flags |= PRS_OP_IMMEDIATE;
    fake->fabric.base.caps.fence_scope = PRS_FENCE_PEER;
    fenced.flags |= PRS_OP_FENCE;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_OK);
    assert_int_equal(fake_submit(fake, &telling), PERSEUS_OK);
    fake->answer = -FI_EINVAL;
    assert_int_equal(fake_submit(fake, &fenced), PERSEUS_PEER_LOST);
    fake->answer = 0;
    assert_int_equal(fake_submit(fake, &op), PERSEUS_PEER_LOST);
    assert_int_equal(fake->post_count, 0);
    assert_int_equal(fake_submit(fake, &elsewhere), PERSEUS_OK);
    assert_int_equal(fake->post_count, 1);
    struct prs_event events[4];
    assert_int_equal(fake_take(fake, events, 4), 2);
    assert_true(events[0].status != PERSEUS_OK && events[1].status != PERSEUS_OK);
    fake_destroy(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_of_a_batch_go_as_one_message_a_peer),
        cmocka_unit_test(a_message_ends_where_it_must),
        cmocka_unit_test(one_part_that_asks_for_its_delivery_asks_for_all),
        cmocka_unit_test(a_refused_message_stays_and_a_failed_one_fails_whole),
        cmocka_unit_test(what_follows_a_message_that_is_refused_does_not_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
