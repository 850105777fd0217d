/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of operation between two fabrics of one process, and between two endpoints of one
 * fabric: what arrives, where, and nothing beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libfabric/pair.h"
#include "libfabric/program.h"

#define BYTES (1 << 20)

static _Alignas(64) unsigned char memory_a[BYTES], memory_b[BYTES];

static void fill_memory(void)
{
    for (size_t i = 0; i < BYTES; i++) {
        memory_a[i] = (unsigned char)(i * 7 + (i >> 8));
        memory_b[i] = 0xee;
    }
}

static void open_pair(struct pair *pair, bool want_atomics)
{
    pair_open(pair, want_atomics, memory_a, memory_b, BYTES);
    fill_memory();
}

static void pair_do(struct pair *pair, const struct prs_op *op)
{
    uint32_t before = pair->done;
    enum perseus_status status = side_post(&pair->a, &pair->b, op, &pair->done);
    if (status != PERSEUS_OK) {
        side_fail("post: %s", pair->a.log_text.last);
    }
    side_wait(&pair->a, &pair->b, &pair->done, before + 1);
}

static const size_t sizes[] = {1,   7,    8,    63,   64,   65,    256,
                               257, 4095, 4096, 4097, 9001, 65536, 300001};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void puts_and_gets_move_exactly_their_bytes(struct pair *pair)
{
    for (size_t i = 0; i < SIZES; i++) {
        size_t bytes = sizes[i];
        struct prs_op put = side_put(&pair->a, 3, 101, bytes);
        pair_do(pair, &put);
        assert_memory_equal(memory_b + 101, memory_a + 3, bytes);
        assert_int_equal(memory_b[100], 0xee);
        assert_int_equal(memory_b[101 + bytes], 0xee);

        struct prs_op get = put;
        get.kind = PRS_OP_GET;
        get.local_offset = BYTES / 2 + 5;
        unsigned char after = memory_a[BYTES / 2 + 5 + bytes];
        pair_do(pair, &get);
        assert_memory_equal(memory_a + BYTES / 2 + 5, memory_b + 101, bytes);
        assert_int_equal(memory_a[BYTES / 2 + 5 + bytes], after);
        memset(memory_b, 0xee, BYTES);
    }
}

static void between_fabrics(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, false);
    puts_and_gets_move_exactly_their_bytes(&pair);
    pair_close(&pair);
}

static void between_endpoints_of_one_fabric(void **state)
{
    (void)state;
    struct pair pair;
    side_open(&pair.a, program_provider(), false, memory_a, BYTES);
    side_open_beside(&pair.b, &pair.a, memory_b, BYTES);
    pair_meet(&pair);
    fill_memory();
    puts_and_gets_move_exactly_their_bytes(&pair);
    pair_close(&pair);
}

static void the_whole_region_and_no_more(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, false);
    struct prs_op put = side_put(&pair.a, 0, 0, BYTES);
    pair_do(&pair, &put);
    assert_memory_equal(memory_b, memory_a, BYTES);
    pair_close(&pair);
}

static void inline_sources_are_copied_by_post(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, false);
    uint32_t most = pair.a.fabric->caps.inline_bytes;
    assert_true(most >= 8);
    unsigned char source[4096];
    for (uint32_t bytes = 1; bytes <= most; bytes += bytes < 16 ? 1 : 31) {
        memset(source, (int)bytes, sizeof source);
        struct prs_op put = side_put(&pair.a, 0, 4096, bytes);
        put.local = NULL;
        put.flags = PRS_OP_INLINE;
        put.inline_source = source;
        assert_int_equal(side_post(&pair.a, &pair.b, &put, &pair.done), PERSEUS_OK);
        memset(source, 0, sizeof source);
        side_wait(&pair.a, &pair.b, &pair.done, pair.done + 1);
        for (uint32_t i = 0; i < bytes; i++) {
            assert_int_equal(memory_b[4096 + i], bytes & 0xff);
        }
        assert_int_equal(memory_b[4096 + bytes], 0xee);
        memset(memory_b, 0xee, BYTES);
    }
    pair_close(&pair);
}

static void signals_write_their_word(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, false);
    static const uint64_t values[] = {1, 0, UINT64_MAX, UINT64_C(0x0123456789abcdef)};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct prs_op set = side_set(&pair.a, 4088, values[i]);
        pair_do(&pair, &set);
        assert_memory_equal(memory_b + 4088, &values[i], 8);
        assert_int_equal(memory_b[4087], 0xee);
        assert_int_equal(memory_b[4096], 0xee);
    }
    pair_close(&pair);
}

/* Waits for one immediate at b and one completion at a. The data must be there when the immediate
 * is seen. */
static void pair_wait_immediate(struct pair *pair, const struct prs_op *put)
{
    uint64_t deadline = side_now_ms() + 10000;
    bool arrived = false, completed = false;
    while (!arrived || !completed) {
        struct prs_event event;
        if (side_poll(&pair->b, &event, 1) == 1) {
            assert_int_equal(event.kind, PRS_EVENT_IMMEDIATE);
            assert_int_equal(event.immediate, put->immediate);
            assert_false(arrived);
            assert_memory_equal(memory_b + put->remote_offset, memory_a + put->local_offset,
                                put->bytes);
            arrived = true;
        }
        if (side_poll(&pair->a, &event, 1) == 1) {
            assert_int_equal(event.kind, PRS_EVENT_COMPLETION);
            assert_int_equal(event.status, PERSEUS_OK);
            assert_int_equal(event.cookie, put->cookie);
            assert_false(completed);
            completed = true;
        }
        if (side_now_ms() > deadline) {
            side_fail("%llu bytes: arrived %d, completed %d", (unsigned long long)put->bytes,
                      arrived, completed);
        }
    }
}

static void immediates_arrive_after_their_data(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, false);
    uint32_t bits = pair.a.fabric->caps.immediate_bits;
    if (bits == 0) {
        pair_close(&pair);
        skip();
    }
    struct prs_op first = side_put(&pair.a, 0, 0, 8);
    pair_do(&pair, &first); /* connects */
    uint64_t widest = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    static const size_t payloads[] = {0, 1, 8, 200, 5000, 70000};
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        memset(memory_b, 0xee, BYTES);
        struct prs_op put = side_put(&pair.a, i, 8192, payloads[i]);
        put.flags = PRS_OP_IMMEDIATE;
        put.cookie = 42 + i;
        put.immediate = widest - i * 3;
        uint32_t none = 0;
        assert_int_equal(side_post(&pair.a, NULL, &put, &none), PERSEUS_OK);
        pair_wait_immediate(&pair, &put);
        assert_int_equal(memory_b[8191], 0xee);
        assert_int_equal(memory_b[8192 + payloads[i]], 0xee);
    }
    pair_close(&pair);
}

/* What its delivery would take is not waited for, and nothing comes back for it. */
static void early_puts_complete_though_their_target_stands_still(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, false);
    if (!pair.a.fabric->caps.completes_early) {
        pair_close(&pair);
        skip();
    }
    struct prs_op put = side_put(&pair.a, 0, 0, 4096);
    pair_do(&pair, &put); /* the connection is made */
    put.flags |= PRS_OP_EARLY;
    uint32_t before = pair.done;
    assert_int_equal(side_post(&pair.a, NULL, &put, &pair.done), PERSEUS_OK);
    side_wait(&pair.a, NULL, &pair.done, before + 1);
    put.flags &= (uint8_t)~PRS_OP_EARLY;
    pair_do(&pair, &put); /* and one behind it still tells when it is there */
    assert_memory_equal(memory_b, memory_a, 4096);
    pair_close(&pair);
}

static void atomics_compute(void **state)
{
    (void)state;
    static const struct {
        enum perseus_atomic atomic;
        uint64_t old, operand, compare, result;
    } cases[] = {
        {PERSEUS_ATOMIC_SET, 5, UINT64_MAX - 1, 0, UINT64_MAX - 1},
        {PERSEUS_ATOMIC_ADD, UINT64_MAX, 3, 0, 2},
        {PERSEUS_ATOMIC_AND, 0xff00ff00ff00ff00, 0x0ff00ff00ff00ff0, 0, 0x0f000f000f000f00},
        {PERSEUS_ATOMIC_OR, 0xf000000000000001, 0x10, 0, 0xf000000000000011},
        {PERSEUS_ATOMIC_XOR, 0xff, 0x8000000000000001, 0, 0x80000000000000fe},
        {PERSEUS_ATOMIC_COMPARE_SWAP, 7, 9, 7, 9},
        {PERSEUS_ATOMIC_COMPARE_SWAP, 7, 9, 8, 7},
    };
    struct pair pair;
    open_pair(&pair, true);
    const struct prs_caps *caps = &pair.a.fabric->caps;
    assert_false(caps->atomics_cpu_coherent);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int fetches = 0; fetches < 2; fetches++) {
            uint32_t granted = fetches ? caps->atomics_fetch : caps->atomics;
            struct prs_op op = {
                .kind = fetches ? PRS_OP_ATOMIC_FETCH : PRS_OP_ATOMIC,
                .atomic = (uint8_t)cases[i].atomic,
                .peer = pair.a.peer,
                .local = pair.a.region,
                .local_offset = 128,
                .remote = pair.a.remote,
                .remote_offset = 256,
                .value = cases[i].operand,
                .compare = cases[i].compare,
            };
            if (!(granted >> cases[i].atomic & 1)) {
                uint32_t none = 0;
                assert_int_equal(side_post(&pair.a, &pair.b, &op, &none), PERSEUS_INVALID_ARGUMENT);
                continue;
            }
            memcpy(memory_b + 256, &cases[i].old, 8);
            pair_do(&pair, &op);
            assert_memory_equal(memory_b + 256, &cases[i].result, 8);
            if (fetches) {
                assert_memory_equal(memory_a + 128, &cases[i].old, 8);
            }
        }
    }
    pair_close(&pair);
}

static void atomics_are_not_bought_with_order(void **state)
{
    (void)state;
    struct pair with, without;
    open_pair(&without, false);
    uint32_t order = without.a.fabric->caps.order;
    pair_close(&without);
    open_pair(&with, true);
    assert_int_equal(with.a.fabric->caps.order & order, order);
    pair_close(&with);
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_fabrics),
        cmocka_unit_test(between_endpoints_of_one_fabric),
        cmocka_unit_test(the_whole_region_and_no_more),
        cmocka_unit_test(inline_sources_are_copied_by_post),
        cmocka_unit_test(signals_write_their_word),
        cmocka_unit_test(immediates_arrive_after_their_data),
        cmocka_unit_test(early_puts_complete_though_their_target_stands_still),
        cmocka_unit_test(atomics_compute),
        cmocka_unit_test(atomics_are_not_bought_with_order),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
