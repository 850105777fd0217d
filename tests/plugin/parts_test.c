/* SPDX-License-Identifier: Apache-2.0 */
/* parts_test.c: the transport's pure parts: versions, handles, atomic codes, implied fences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fabric/word.h"
#include "host/amo.h"
#include "host/handle.h"
#include "plugin.h"
#include "route/sequence.h"
#include "staging/stage_ring.h"
#include "host/status.h"
#include "host/interface.h"

struct heard {
    int count;
    char text[1024];
};

static void hear(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    struct heard *heard = user;
    heard->count++;
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

static void test_version_is_the_lesser_within_a_major(void **state)
{
    (void)state;
    static const struct {
        int host, expected; /* 0: refused */
    } rows[] = {{30000, 30000}, {30102, 30000}, {39999, 30000}, {40000, 40000}, {40100, 40000},
                {50000, 50000}, {60201, 60000}, {70000, 70000}, {79999, 70000}, {80000, 0},
                {20000, 0},     {29999, 0},     {0, 0},         {-1, 0},        {3, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct heard heard = {0};
        struct prs_log log = {.fn = hear, .user = &heard, .pe = -1};
        int version = 12345;
        const struct prs_interface *interface = NULL;
        enum perseus_status status =
            prs_interface_negotiate(rows[i].host, &log, &interface, &version);
        assert_int_equal(status, rows[i].expected != 0 ? PERSEUS_OK : PERSEUS_VERSION);
        assert_int_equal(version, rows[i].expected != 0 ? rows[i].expected : 12345);
        assert_int_equal(heard.count, rows[i].expected != 0 ? 0 : 1);
        assert_int_equal(interface != NULL ? interface->major : 0, rows[i].expected / 10000);
    }
    struct heard heard = {0};
    struct prs_log log = {.fn = hear, .user = &heard, .pe = -1};
    int version;
    const struct prs_interface *interface;
    prs_interface_negotiate(80100, &log, &interface, &version);
    assert_non_null(strstr(heard.text, "8.1"));
    assert_non_null(strstr(heard.text, "3.0 to 7.0"));
}

/* Where NVSHMEM looks, by measured offsets; neighbours do not overlap, and the block ends where it
 * must. */
static void test_the_parts_of_a_block_fill_it(void **state)
{
    (void)state;
    static const struct {
        int major;
        size_t bytes, fields, rma, put_signal, tail, hints, mode;
    } rows[] = {
        {3, 240, 128, 16 + 56, 0, 104, 0, 0},       {4, 248, 16, 128 + 56, 216, 224, 0, 0},
        {5, 248, 16, 128 + 56, 216, 224, 0, 0},     {6, 256, 16, 128 + 56, 216, 224, 0, 248},
        {7, 272, 16, 128 + 56, 216, 224, 248, 264},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct prs_interface *interface = prs_interface_find(rows[i].major);
        char block[PRS_INTERFACE_BYTES_MAX];
        assert_int_equal(interface->major, rows[i].major);
        assert_int_equal(interface->bytes, rows[i].bytes);
        assert_int_equal(interface->fields_at, rows[i].fields);
        assert_ptr_equal(&prs_interface_head(interface, block)->rma, block + rows[i].rma);
        assert_int_equal(interface->put_signal_at, rows[i].put_signal);
        assert_int_equal(interface->tail_at, rows[i].tail);
        assert_int_equal(interface->hints_at, rows[i].hints);
        assert_int_equal(interface->device_mode_at, rows[i].mode);
        assert_int_equal(interface->has_floats, rows[i].major >= 6);
        assert_int_equal(interface->has_cuda_table, rows[i].major <= 5);
    }
    assert_null(prs_interface_find(2));
    assert_null(prs_interface_find(8));
}

static void test_handle_is_read_at_any_address_and_checked(void **state)
{
    (void)state;
    struct prs_handle handle = {.magic = PRS_HANDLE_MAGIC,
                                .base = 4096,
                                .bytes = 100,
                                .owner = 3,
                                .number = 9,
                                .kind = PRS_HANDLE_WINDOW,
                                .blob_bytes = {10, 20}};
    handle.blobs[0] = 1;
    handle.blobs[10] = 2;
    unsigned char copy[PRS_ABI_HANDLE_BYTES + 1];
    memcpy(copy + 1, &handle, sizeof handle);
    struct prs_handle read;
    assert_true(prs_handle_read(copy + 1, &read));
    assert_int_equal(read.number, 9);
    assert_int_equal(*prs_handle_blob(&read, PRS_SIDE_HOST), 1);
    assert_int_equal(*prs_handle_blob(&read, PRS_SIDE_PROXY), 2);
    assert_false(prs_handle_read(NULL, &read));
    memset(copy, 0, sizeof copy);
    assert_false(prs_handle_read(copy, &read));
    struct prs_handle bad = handle;
    bad.blob_bytes[1] = 60000;
    assert_false(prs_handle_read((unsigned char *)&bad, &read));
    bad = handle;
    bad.kind = 77;
    assert_false(prs_handle_read((unsigned char *)&bad, &read));
    bad = handle;
    bad.base = UINT64_MAX - 50;
    assert_false(prs_handle_read((unsigned char *)&bad, &read));
}

static bool decode(int desc, int bytes, uint64_t value, uint64_t compare, struct prs_amo *out)
{
    const struct prs_abi_amo_verb verb = {desc, -1, -1, -1, 0};
    return prs_amo_decode(&verb, bytes, value, compare, out);
}

static void test_amo_codes(void **state)
{
    (void)state;
    struct prs_amo amo;
    static const int unknown[] = {-1, 0, 1, 11, 20, 108, 1 << 30};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_false(decode(unknown[i], 8, 0, 0, &amo));
    }
    for (int code = 2; code <= 19; code++) {
        if (code == 11) {
            continue;
        }
        assert_true(decode(code, 8, 77, 5, &amo));
        assert_int_equal(amo.fetch, code > 11);
        assert_false(decode(code, 3, 77, 5, &amo));
        assert_false(decode(code, 16, 77, 5, &amo));
    }
    /* INC adds one whatever the value says; FETCH adds nothing. */
    assert_true(decode(PRS_ABI_AMO_FETCH_INC, 4, 77, 0, &amo));
    assert_true(amo.op == PERSEUS_ATOMIC_ADD && amo.operand == 1 && amo.bytes == 4);
    assert_true(decode(PRS_ABI_AMO_FETCH, 4, 77, 0, &amo));
    assert_true(amo.op == PERSEUS_ATOMIC_ADD && amo.operand == 0);
    assert_true(decode(PRS_ABI_AMO_SIGNAL, 8, 77, 0, &amo));
    assert_true(amo.op == PERSEUS_ATOMIC_SET && amo.operand == 77);
    assert_true(decode(PRS_ABI_AMO_COMPARE_SWAP, 8, 77, 5, &amo));
    assert_true(amo.op == PERSEUS_ATOMIC_COMPARE_SWAP && amo.operand == 77 && amo.compare == 5);
}

static void test_float_codes(void **state)
{
    (void)state;
    static const struct {
        int bytes, op;
    } rows[] = {{2, PRS_ATOMIC_ADD_HALF}, {4, PRS_ATOMIC_ADD_FLOAT}, {8, PRS_ATOMIC_ADD_DOUBLE}};
    static const int adds[] = {PRS_ABI_AMO_ADD, PRS_ABI_AMO_FETCH_ADD};
    static const int copies[] = {PRS_ABI_AMO_SET, PRS_ABI_AMO_SWAP};
    struct prs_amo amo;
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 2; j++) {
            struct prs_abi_amo_verb verb = {adds[j], -1, -1, -1, 1};
            assert_true(prs_amo_decode(&verb, rows[i].bytes, 7, 0, &amo));
            assert_int_equal(amo.op, rows[i].op);
            assert_int_equal(amo.fetch, j == 1);
            verb.desc = copies[j];
            assert_true(prs_amo_decode(&verb, rows[i].bytes, 7, 0, &amo));
            assert_int_equal(amo.op, PERSEUS_ATOMIC_SET);
        }
        /* A fetch arrives as FETCH_OR, an older one as FETCH: neither adds. */
        const struct prs_abi_amo_verb fetch = {PRS_ABI_AMO_FETCH, -1, -1, -1, 1};
        assert_true(prs_amo_decode(&fetch, rows[i].bytes, 7, 0, &amo));
        assert_true(amo.op == PERSEUS_ATOMIC_ADD && amo.operand == 0);
    }
}

/* ---- implied fences ---- */

static bool needs_with(bool records, enum perseus_ordering mode, uint32_t order, bool host_fences,
                       enum prs_class first, uint64_t first_word, enum prs_class second,
                       uint64_t second_word)
{
    struct prs_caps caps = {.order = order};
    struct prs_sequence_rules rules;
    struct prs_sequence sequence = {0};
    prs_sequence_rules_init(&rules, mode, &caps, records, host_fences);
    assert_false(prs_sequence_needs_fence(&rules, &sequence, first, first_word));
    prs_sequence_add(&sequence, first, first_word);
    bool answer = prs_sequence_needs_fence(&rules, &sequence, second, second_word);
    prs_sequence_fenced(&sequence);
    assert_false(prs_sequence_needs_fence(&rules, &sequence, second, second_word));
    return answer;
}

static bool needs(enum perseus_ordering mode, uint32_t order, bool host_fences,
                  enum prs_class first, uint64_t first_word, enum prs_class second,
                  uint64_t second_word)
{
    return needs_with(false, mode, order, host_fences, first, first_word, second, second_word);
}

static void test_puts_may_not_pass_signals_that_are_records(void **state)
{
    (void)state;
    assert_true(needs_with(true, PERSEUS_ORDERING_FIFO, PRS_ORDER_EVERY_PAIR, false, PRS_CLASS_SET,
                           8, PRS_CLASS_PUT, 0));
    assert_true(needs_with(true, PERSEUS_ORDERING_FIFO, PRS_ORDER_EVERY_PAIR, false, PRS_CLASS_SET,
                           8, PRS_CLASS_FLAG, 0));
    assert_false(needs_with(true, PERSEUS_ORDERING_DEFERRED, 0, false, PRS_CLASS_SET, 8,
                            PRS_CLASS_SET, 16)); /* the mailbox keeps these */
    struct prs_caps caps = {.order = PRS_ORDER_EVERY_PAIR};
    assert_false(prs_sequence_is_natural(PERSEUS_ORDERING_FIFO, &caps, true));
}

static void test_a_fencing_host_is_trusted_but_for_one_word(void **state)
{
    (void)state;
    for (int first = 0; first < PRS_CLASS_COUNT; first++) {
        for (int second = 0; second < PRS_CLASS_COUNT; second++) {
            assert_false(needs(PERSEUS_ORDERING_NIC_FENCE, 0, true, (enum prs_class)first, 800,
                               (enum prs_class)second, 808));
        }
    }
    assert_true(needs(PERSEUS_ORDERING_NIC_FENCE, 0, true, PRS_CLASS_SET, 800, PRS_CLASS_SET, 800));
    assert_true(
        needs(PERSEUS_ORDERING_NIC_FENCE, 0, true, PRS_CLASS_SET, 800, PRS_CLASS_ATOMIC, 800));
    assert_true(
        needs(PERSEUS_ORDERING_DEFERRED, 0, true, PRS_CLASS_SIGNALED, 800, PRS_CLASS_SET, 800));
}

static void test_a_host_that_drops_fences_gets_flags_in_order(void **state)
{
    (void)state;
    static const enum prs_class flags[] = {PRS_CLASS_FLAG, PRS_CLASS_SET, PRS_CLASS_ATOMIC};
    for (int first = 0; first < PRS_CLASS_COUNT; first++) {
        for (int i = 0; i < 3; i++) {
            assert_true(
                needs(PERSEUS_ORDERING_DEFERRED, 0, false, (enum prs_class)first, 8, flags[i], 16));
        }
    }
    for (int i = 0; i < 3; i++) { /* and what follows a flag stays behind it */
        assert_true(needs(PERSEUS_ORDERING_DEFERRED, 0, false, flags[i], 8, PRS_CLASS_PUT, 0));
    }
    assert_false(needs(PERSEUS_ORDERING_DEFERRED, 0, false, PRS_CLASS_PUT, 0, PRS_CLASS_PUT, 0));
    /* Signals in a row cost no fence where the fabric keeps them in order. */
    assert_false(needs(PERSEUS_ORDERING_NIC_FENCE, PRS_ORDER_SET_SET, false, PRS_CLASS_SET, 8,
                       PRS_CLASS_SET, 16));
    assert_true(needs(PERSEUS_ORDERING_NIC_FENCE, PRS_ORDER_EVERY_PAIR, false, PRS_CLASS_PUT, 0,
                      PRS_CLASS_SET, 16));
}

static void test_fifo_needs_fences_around_records_only(void **state)
{
    (void)state;
    struct prs_caps caps = {.order = PRS_ORDER_EVERY_PAIR};
    assert_true(prs_sequence_is_natural(PERSEUS_ORDERING_FIFO, &caps, false));
    assert_false(prs_sequence_is_natural(PERSEUS_ORDERING_COUNTED, &caps, false));
    caps.order &= ~(uint32_t)PRS_ORDER_SET_SET;
    assert_false(prs_sequence_is_natural(PERSEUS_ORDERING_FIFO, &caps, false));
    for (int first = 0; first < PRS_CLASS_COUNT; first++) {
        for (int second = 0; second < PRS_CLASS_COUNT; second++) {
            bool records = first == PRS_CLASS_ATOMIC || second == PRS_CLASS_ATOMIC;
            assert_int_equal(needs(PERSEUS_ORDERING_FIFO, PRS_ORDER_EVERY_PAIR, false,
                                   (enum prs_class)first, 8, (enum prs_class)second, 8),
                             records);
        }
    }
}

static void test_every_failure_is_nonzero_for_the_host(void **state)
{
    (void)state;
    for (int status = PERSEUS_AGAIN; status <= PERSEUS_INTERNAL; status++) {
        assert_int_not_equal(prs_abi_status((enum perseus_status)status), PRS_ABI_SUCCESS);
    }
    assert_int_equal(prs_abi_status(PERSEUS_OK), PRS_ABI_SUCCESS);
}

/* ---- staging rings ---- */

static void test_padding_fills_a_lap(void **state)
{
    (void)state;
    assert_int_equal(prs_lap_padding(0, 1024, 1024), 0);
    assert_int_equal(prs_lap_padding(512, 512, 1024), 0);
    assert_int_equal(prs_lap_padding(512, 576, 1024), 512);
    assert_int_equal(prs_lap_padding(1024 * 7 + 960, 128, 1024), 64);
    assert_int_equal(prs_slot_span(0), 64);
    assert_int_equal(prs_slot_span(1), 128);
    assert_int_equal(prs_slot_span(64), 128);
}

static void test_marks_pass_in_order_and_never_early(void **state)
{
    (void)state;
    struct prs_marks marks = {0};
    uint64_t position = 0;
    prs_marks_add(&marks, 64, 0, 0); /* needs no copy */
    assert_true(prs_marks_pass(&marks, 0, &position));
    assert_int_equal(position, 64);
    prs_marks_add(&marks, 128, 1, 0);
    prs_marks_add(&marks, 192, 0, 0); /* stays behind the copy before it */
    assert_false(prs_marks_pass(&marks, 0, &position));
    assert_true(prs_marks_pass(&marks, 1, &position));
    assert_int_equal(position, 192);
    /* More marks than the list holds, each with an event of its own: late is right, early is
     * not. */
    for (uint64_t ticket = 2; ticket < 1000; ticket++) {
        prs_marks_add(&marks, 192 + ticket * 64, ticket, ticket);
        assert_true(marks.count <= PRS_MARKS);
    }
    uint64_t end = 192 + 999 * 64;
    for (uint64_t done = 2; done < 1000; done++) {
        prs_marks_pass(&marks, done, &position);
        assert_true(position <= 192 + done * 64);
    }
    assert_int_equal(position, end);
}

static void test_unsound_slots_are_seen(void **state)
{
    (void)state;
    const struct prs_slot good = {.kind = PRS_SLOT_PUT, .span = 192, .bytes = 100};
    assert_true(prs_slot_is_sound(&good, 1024, 4096));
    struct prs_slot bad = good;
    bad.bytes = 129;
    assert_false(prs_slot_is_sound(&bad, 1024, 4096));
    bad.bytes = UINT32_MAX;
    assert_false(prs_slot_is_sound(&bad, 1024, 4096));
    bad = good;
    assert_false(prs_slot_is_sound(&bad, 4096 - 128, 4096)); /* beyond the lap */
    bad.kind = 99;
    assert_false(prs_slot_is_sound(&bad, 1024, 4096));
    const struct prs_slot odd[] = {{.kind = PRS_SLOT_VALUE, .span = 64, .bytes = 9},
                                   {.kind = PRS_SLOT_FETCH, .span = 64, .word_bytes = 3},
                                   {.kind = PRS_SLOT_PADDING, .span = 64},
                                   {.kind = PRS_SLOT_GET, .span = 64},
                                   {.kind = PRS_SLOT_ATOMIC, .span = 0, .word_bytes = 8},
                                   {.kind = PRS_SLOT_ATOMIC, .span = 65, .word_bytes = 8}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        assert_false(prs_slot_is_sound(&odd[i], 1024, 4096));
    }
}

/* ---- a fabric that cannot pin ---- */

struct unpinnable {
    struct prs_fabric base;
    const struct prs_log *log;
};

static enum perseus_status cannot_pin(struct prs_fabric *fabric, void *base, size_t bytes,
                                      enum prs_memory_kind kind, struct prs_region **out)
{
    (void)kind;
    (void)out;
    return prs_fail(((struct unpinnable *)fabric)->log, PERSEUS_OUT_OF_MEMORY,
                    "cannot register %zu bytes at %p", bytes, base);
}

static void test_what_cannot_be_pinned_is_refused_in_the_fabrics_own_words(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct prs_log log = {.fn = hear, .user = &heard, .pe = 0};
    struct prs_route routes[PRS_SIDE_COUNT] = {{.log = NULL}};
    struct prs_memory memory = {.log = &log, .routes = routes};
    const struct prs_fabric_ops ops = {.region_register = cannot_pin};
    struct unpinnable fabric = {.base = {.ops = &ops}, .log = &log};
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        routes[side].link.fabric = &fabric.base;
    }
    unsigned char buffer[4096], blob[PRS_ABI_HANDLE_BYTES] = {0};
    for (int again = 1; again <= 2; again++) { /* nothing of the first try stays */
        assert_int_equal(prs_memory_register(&memory, buffer, sizeof buffer, false, true, blob),
                         PERSEUS_OUT_OF_MEMORY);
        assert_int_equal(heard.count, again);
        assert_non_null(strstr(heard.text, "cannot register 4096 bytes"));
        assert_int_equal(memory.count, 0);
        assert_int_equal(blob[0], 0);
    }
    prs_memory_finish(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_is_the_lesser_within_a_major),
        cmocka_unit_test(test_the_parts_of_a_block_fill_it),
        cmocka_unit_test(test_handle_is_read_at_any_address_and_checked),
        cmocka_unit_test(test_amo_codes),
        cmocka_unit_test(test_float_codes),
        cmocka_unit_test(test_puts_may_not_pass_signals_that_are_records),
        cmocka_unit_test(test_a_fencing_host_is_trusted_but_for_one_word),
        cmocka_unit_test(test_a_host_that_drops_fences_gets_flags_in_order),
        cmocka_unit_test(test_fifo_needs_fences_around_records_only),
        cmocka_unit_test(test_every_failure_is_nonzero_for_the_host),
        cmocka_unit_test(test_padding_fills_a_lap),
        cmocka_unit_test(test_marks_pass_in_order_and_never_early),
        cmocka_unit_test(test_unsound_slots_are_seen),
        cmocka_unit_test(test_what_cannot_be_pinned_is_refused_in_the_fabrics_own_words),
    };
    return cmocka_run_group_tests_name("NVSHMEM transport parts", tests, NULL, NULL);
}
