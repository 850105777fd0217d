/* SPDX-License-Identifier: Apache-2.0 */
/* The .npy reader: what it takes, and that everything else is an error that names the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rng.h"
#include "model/capture.h"
#include "model/npy.h"

struct blob {
    unsigned char bytes[1024];
    size_t size;
};

/* A file with this dictionary and `items` bytes 0, 1, 2, ... */
static struct blob make(int version, const char *dictionary, size_t items)
{
    struct blob blob = {0};
    size_t length = strlen(dictionary), at = 8;
    memcpy(blob.bytes, "\x93NUMPY", 6);
    blob.bytes[6] = (unsigned char)version;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++) {
        blob.bytes[at++] = (unsigned char)(length >> (8 * i));
    }
    memcpy(blob.bytes + at, dictionary, length);
    for (size_t i = 0; i < items; i++) {
        blob.bytes[at + length + i] = (unsigned char)i;
    }
    blob.size = at + length + items;
    return blob;
}

static enum perseus_status parse(const struct blob *blob, struct capture *capture,
                                 struct prs_npy *out)
{
    /* An exact heap copy, so that a sanitizer sees a read past the end. */
    unsigned char *copy = malloc(blob->size + 1);
    assert_non_null(copy);
    memcpy(copy, blob->bytes, blob->size);
    capture_init(capture);
    enum perseus_status status = prs_npy_parse("routing.npy", copy, blob->size, &capture->log, out);
    free(copy);
    return status;
}

static void test_reads_types_and_shapes(void **state)
{
    (void)state;
    static const struct {
        int version;
        const char *dictionary;
        size_t items;
        uint32_t dims;
        uint64_t shape[3];
        int64_t second;
    } good[] = {
        {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", 6, 2, {2, 3, 1}, 1},
        {2, "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3)}", 12, 2, {2, 3, 1}, 0x302},
        {3,
         "{\"shape\": (1,2,2), \"descr\": \"<i4\", \"fortran_order\": False}",
         16,
         3,
         {1, 2, 2},
         0x7060504},
        {1, "{'descr': '<u1', 'fortran_order': False, 'shape': (5,), }", 5, 1, {5, 1, 1}, 1},
        {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 4), }", 0, 2, {0, 4, 1}, 0},
        {1,
         "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1), }",
         16,
         2,
         {2, 1, 1},
         0x0f0e0d0c0b0a0908},
        {1,
         "{'descr': '<u8', 'fortran_order': False, 'shape': (2, 1), }",
         16,
         2,
         {2, 1, 1},
         0x0f0e0d0c0b0a0908},
        {1, "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 1), }", 2, 2, {2, 1, 1}, 1},
        {1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }", 4, 2, {2, 1, 1}, 0x302},
        {1,
         "{'descr': '<u4', 'fortran_order': False, 'shape': (2, 1), }",
         8,
         2,
         {2, 1, 1},
         0x7060504},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct blob blob = make(good[i].version, good[i].dictionary, good[i].items);
        struct capture capture;
        capture_init(&capture);
        struct prs_npy npy;
        assert_int_equal(prs_npy_parse("routing.npy", blob.bytes, blob.size, &capture.log, &npy),
                         PERSEUS_OK);
        assert_int_equal(npy.dims, good[i].dims);
        assert_memory_equal(npy.shape, good[i].shape, sizeof npy.shape);
        if (good[i].items > 0) {
            assert_true(prs_npy_item(&npy, 1) == good[i].second);
        }
        assert_int_equal(capture.count, 0);
    }
}

/* The largest and the smallest of every type; what no int64_t holds stays far from every expert. */
static void test_signs(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        size_t bytes;
        int64_t all_ones, top_bit;
    } types[] = {{"|u1", 1, 0xff, 0x80},
                 {"|i1", 1, -1, INT8_MIN},
                 {"<u2", 2, 0xffff, 0x8000},
                 {"<i2", 2, -1, INT16_MIN},
                 {"<u4", 4, 0xffffffff, 0x80000000},
                 {"<i4", 4, -1, INT32_MIN},
                 {"<u8", 8, INT64_MAX, INT64_MAX},
                 {"<i8", 8, -1, INT64_MIN}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char dictionary[128];
        snprintf(dictionary, sizeof dictionary,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2,)}", types[i].type);
        struct blob blob = make(1, dictionary, 2 * types[i].bytes);
        unsigned char *items = blob.bytes + blob.size - 2 * types[i].bytes;
        struct prs_npy npy;
        memset(items, 0, 2 * types[i].bytes);
        memset(items, 0xff, types[i].bytes);
        items[2 * types[i].bytes - 1] = 0x80;
        assert_int_equal(prs_npy_parse("routing.npy", blob.bytes, blob.size, NULL, &npy),
                         PERSEUS_OK);
        assert_true(prs_npy_item(&npy, 0) == types[i].all_ones);
        assert_true(prs_npy_item(&npy, 1) == types[i].top_bit);
    }
}

static void test_refuses_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary;
        size_t items;
        const char *said;
    } bad[] = {
        {"{'descr': '>u2', 'fortran_order': False, 'shape': (1, 1)}", 2,
         "'>u2', which is big-endian"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (1, 1)}", 1, "'|b1', which is a mask"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1, 1)}", 1, "Python objects"},
        {"{'descr': '<V2', 'fortran_order': False, 'shape': (1, 1)}", 2, "scores or weights"},
        {"{'descr': '<i16', 'fortran_order': False, 'shape': (1, 1)}", 16, "astype('<i4')"},
        {"{'descr': '<i3', 'fortran_order': False, 'shape': (1, 1)}", 3, "astype('<i4')"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1, 1)}", 3, "astype('<i4')"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}", 4,
         "'<f4', which holds scores or weights"},
        {"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (1, 1)}", 1,
         "a quoted string"},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1)}", 1, "False (C order"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1)}", 1, "at most three"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': ()}", 1, "at least one dimension"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 1)}", 1, "a dimension"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,)}", 1, "2^64"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0,
         "more than"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", 5, "needs 6 bytes"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", 7, "but 7 are there"},
        {"{'descr': '|u1', 'fortran_order': False}", 0, "descr, fortran_order and shape"},
        {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", 1, "once"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} x", 1, "the header's end"},
        {"['descr']", 0, "'{'"},
        {"{'descr", 0, "quoted string"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct blob blob = make(1, bad[i].dictionary, bad[i].items);
        struct capture capture;
        struct prs_npy npy;
        assert_int_equal(parse(&blob, &capture, &npy), PERSEUS_PROTOCOL);
        assert_said(&capture, "routing.npy");
        assert_said(&capture, "byte");
        assert_said(&capture, bad[i].said);
    }
}

static void test_refuses_every_truncation(void **state)
{
    (void)state;
    struct blob whole = make(2, "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }", 12);
    for (size_t size = 0; size < whole.size; size++) {
        struct blob cut = whole;
        struct capture capture;
        struct prs_npy npy;
        cut.size = size;
        assert_int_equal(parse(&cut, &capture, &npy), PERSEUS_PROTOCOL);
        assert_int_equal(capture.count, 1);
    }
}

static void test_survives_random_damage(void **state)
{
    (void)state;
    const uint64_t seed = 20260502;
    struct prs_rng rng = prs_rng_seeded(seed);
    struct blob whole = make(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 3), }", 12);
    unsigned refused = 0;
    for (int round = 0; round < 20000; round++) {
        struct blob damaged = whole;
        uint32_t changes = 1 + prs_rng_below(&rng, 3);
        for (uint32_t i = 0; i < changes; i++) {
            damaged.bytes[prs_rng_below(&rng, (uint32_t)whole.size)] =
                (unsigned char)prs_rng_next(&rng);
        }
        struct capture capture;
        struct prs_npy npy;
        enum perseus_status status = parse(&damaged, &capture, &npy);
        assert_int_equal(capture.count, status == PERSEUS_OK ? 0 : 1);
        refused += status != PERSEUS_OK;
    }
    print_message("seed %llu: %u of 20000 damaged files refused\n", (unsigned long long)seed,
                  refused);
    assert_true(refused > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_types_and_shapes),
        cmocka_unit_test(test_signs),
        cmocka_unit_test(test_refuses_with_the_place),
        cmocka_unit_test(test_refuses_every_truncation),
        cmocka_unit_test(test_survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
