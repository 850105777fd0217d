/* SPDX-License-Identifier: Apache-2.0 */
/* Routing: generated kinds have the properties their names promise; recorded ones are read exactly
 * or refused with the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>

#include "model/capture.h"
#include "model/routing.h"

static struct prs_routing generate(const char *text, uint32_t tokens, uint32_t experts,
                                   uint32_t top_k, uint64_t seed)
{
    struct prs_routing_spec spec;
    struct prs_routing routing;
    assert_int_equal(prs_routing_spec_parse(text, NULL, &spec), PERSEUS_OK);
    assert_int_equal(prs_routing_init(&routing, &spec, tokens, experts, top_k, seed, NULL),
                     PERSEUS_OK);
    return routing;
}

/* Counts per expert, after checking that a token's experts are distinct and exist. */
static void count(const struct prs_routing *routing, uint32_t *counts)
{
    memset(counts, 0, routing->experts * sizeof *counts);
    for (uint32_t token = 0; token < routing->tokens; token++) {
        const int32_t *ids = routing->ids + (size_t)token * routing->top_k;
        for (uint32_t j = 0; j < routing->top_k; j++) {
            assert_true(ids[j] >= 0 && (uint32_t)ids[j] < routing->experts);
            for (uint32_t i = 0; i < j; i++) {
                assert_int_not_equal(ids[i], ids[j]);
            }
            counts[ids[j]]++;
        }
    }
}

static void extremes(const uint32_t *counts, uint32_t experts, uint32_t *least, uint32_t *most)
{
    *least = UINT32_MAX;
    *most = 0;
    for (uint32_t i = 0; i < experts; i++) {
        *least = counts[i] < *least ? counts[i] : *least;
        *most = counts[i] > *most ? counts[i] : *most;
    }
}

static void test_generated_kinds(void **state)
{
    (void)state;
    uint32_t counts[128], least, most;
    struct prs_routing routing = generate("balanced", 100, 32, 4, 7);
    count(&routing, counts);
    extremes(counts, 32, &least, &most);
    assert_true(least == 12 && most == 13);
    prs_routing_finish(&routing);

    routing = generate("uniform", 8192, 128, 8, 7);
    count(&routing, counts);
    extremes(counts, 128, &least, &most);
    assert_true(least > 512 * 0.75 && most < 512 * 1.25);
    prs_routing_finish(&routing);

    routing = generate("zipf:1.2", 8192, 128, 8, 7);
    count(&routing, counts);
    extremes(counts, 128, &least, &most);
    assert_true(most > 8 * 512);
    assert_true(least < 512 / 2);
    prs_routing_finish(&routing);

    routing = generate("zipf:16", 64, 16, 16, 7); /* every expert, however unlikely */
    count(&routing, counts);
    extremes(counts, 16, &least, &most);
    assert_true(least == 64 && most == 64);
    prs_routing_finish(&routing);
}

static void test_the_seed_decides(void **state)
{
    (void)state;
    const char *const kinds[] = {"uniform", "zipf:0.8"};
    for (int i = 0; i < 2; i++) {
        struct prs_routing one = generate(kinds[i], 64, 32, 4, 1);
        struct prs_routing again = generate(kinds[i], 64, 32, 4, 1);
        struct prs_routing other = generate(kinds[i], 64, 32, 4, 2);
        size_t bytes = 64 * 4 * sizeof *one.ids;
        assert_memory_equal(one.ids, again.ids, bytes);
        assert_int_not_equal(memcmp(one.ids, other.ids, bytes), 0);
        prs_routing_finish(&one);
        prs_routing_finish(&again);
        prs_routing_finish(&other);
    }
}

static void test_gate_weights_are_a_softmax(void **state)
{
    (void)state;
    float weights[50 * 4], again[50 * 4];
    prs_routing_gate_weights(3, 50, 4, weights);
    prs_routing_gate_weights(3, 50, 4, again);
    assert_memory_equal(weights, again, sizeof weights);
    for (int token = 0; token < 50; token++) {
        float sum = 0;
        for (int j = 0; j < 4; j++) {
            assert_true(weights[4 * token + j] > 0);
            sum += weights[4 * token + j];
        }
        assert_true(fabsf(sum - 1) < 1e-5f);
    }
}

static void test_refuses_bad_specs(void **state)
{
    (void)state;
    const char *const bad[] = {"",       "trace",   "trace:",   "zipf",    "zipf:",
                               "zipf:x", "zipf:-1", "zipf:nan", "zipf:99", "uniform2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct capture capture;
        struct prs_routing_spec spec;
        capture_init(&capture);
        assert_int_equal(prs_routing_spec_parse(bad[i], &capture.log, &spec),
                         PERSEUS_INVALID_ARGUMENT);
        assert_int_equal(capture.count, 1);
    }
}

/* The array [tokens 3, layers 2, k 2] of uint8 whose items are 0 to 11. */
static size_t make_npy(unsigned char *bytes)
{
    static const char header[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 2), }";
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = sizeof header - 1;
    bytes[9] = 0;
    memcpy(bytes + 10, header, sizeof header - 1);
    for (int i = 0; i < 12; i++) {
        bytes[10 + sizeof header - 1 + i] = (unsigned char)i;
    }
    return 10 + sizeof header - 1 + 12;
}

static void test_reads_one_layer_of_an_array(void **state)
{
    (void)state;
    unsigned char bytes[256];
    size_t size = make_npy(bytes);
    int32_t ids[6];
    struct prs_routing routing = {.tokens = 3, .experts = 12, .top_k = 2, .ids = ids};
    const int32_t layer0[] = {0, 1, 4, 5, 8, 9}, layer1[] = {2, 3, 6, 7, 10, 11};
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, size, 0, NULL), PERSEUS_OK);
    assert_memory_equal(ids, layer0, sizeof layer0);
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, size, 1, NULL), PERSEUS_OK);
    assert_memory_equal(ids, layer1, sizeof layer1);

    struct capture capture;
    capture_init(&capture);
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, size, 2, &capture.log),
                     PERSEUS_INVALID_ARGUMENT);
    assert_said(&capture, "layers 0 to 1");
    routing.top_k = 3;
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, size, 0, &capture.log),
                     PERSEUS_INVALID_ARGUMENT);
    assert_said(&capture, "has 2 experts a token");
    routing.top_k = 2;
    routing.tokens = 4;
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, size, 0, &capture.log),
                     PERSEUS_INVALID_ARGUMENT);
    assert_said(&capture, "has 3 tokens, this run needs 4");
    routing.tokens = 3;
    routing.experts = 11;
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, size, 1, &capture.log),
                     PERSEUS_PROTOCOL);
    assert_said(&capture, "token 2, layer 1, choice 1");
    bytes[size - 1] = 10; /* the same expert twice */
    routing.experts = 12;
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, size, 1, &capture.log),
                     PERSEUS_PROTOCOL);
    assert_said(&capture, "does not have yet");
}

static enum perseus_status read_csv(const char *text, uint32_t tokens, struct capture *capture,
                                    int32_t *ids)
{
    struct prs_routing routing = {.tokens = tokens, .experts = 32, .top_k = 3, .ids = ids};
    size_t size = strlen(text);
    unsigned char *copy = malloc(size + 1); /* exact but for one byte, which is not part of it */
    assert_non_null(copy);
    memcpy(copy, text, size); /* NOLINT(bugprone-not-null-terminated-result): it ends there */
    capture_init(capture);
    enum perseus_status status = prs_routing_read_csv(&routing, "a.csv", copy, size, &capture->log);
    free(copy);
    return status;
}

static void test_reads_text(void **state)
{
    (void)state;
    struct capture capture;
    int32_t ids[6];
    const int32_t expected[] = {1, 2, 3, 31, 0, 7};
    const char *const good[] = {
        "1,2,3\n31,0,7\n",
        "1,2,3\n31,0,7",
        "e0,e1,e2\r\n1,2,3\r\n31,0,7\r\n",
        "# layer 0\n\n 1 , 2 ,\t3\n\n31,0,7\n5,6,7\n",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(read_csv(good[i], 2, &capture, ids), PERSEUS_OK);
        assert_memory_equal(ids, expected, sizeof expected);
    }
    const struct {
        const char *text, *said;
    } bad[] = {
        {"", "ends at byte 0 after 0 tokens"},
        {"1,2,3\n", "after 1 tokens"},
        {"1,2\n3,4\n", "at byte 3 (token 0) expected a comma"},
        {"1,2,3,4\n", "at byte 5 (token 0) expected the end of the line"},
        {"1,2,32\n", "at byte 4 (token 0, choice 2)"},
        {"1,2,2\n", "does not have yet"},
        {"1,2,3\nx,1,2\n", "at byte 6 (token 1, choice 0)"},
        {"1,-2,3\n", "at byte 2 (token 0, choice 1)"},
        {"1,-,3\n", "at byte 2 (token 0, choice 1)"},
        {"1,- 1,3\n", "at byte 2 (token 0, choice 1)"},
        {"1,2,99999999999999999999\n", "at byte 4"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(read_csv(bad[i].text, 2, &capture, ids), PERSEUS_OK);
        assert_int_equal(capture.count, 1);
        assert_said(&capture, "a.csv");
        assert_said(&capture, bad[i].said);
    }
}

/* A choice that is not used is -1, as serving engines fill up tokens; in any type that has a sign,
 * and as often as there are choices. */
static void test_unused_choices(void **state)
{
    (void)state;
    struct capture capture;
    int32_t ids[6];
    const int32_t expected[] = {1, -1, -1, -1, -1, -1};
    assert_int_equal(read_csv("1,-1,-1\n-1, -1,-1\n", 2, &capture, ids), PERSEUS_OK);
    assert_memory_equal(ids, expected, sizeof expected);
    static const int64_t wide[] = {1, -1, -1, -1, -1, -1};
    static const char head[] = "\x93NUMPY\x01\x00\x36\x00"
                               "{'descr':'<i8','fortran_order':False,'shape':(2,3)}   ";
    unsigned char bytes[sizeof head - 1 + sizeof wide];
    struct prs_routing routing = {.tokens = 2, .experts = 12, .top_k = 3, .ids = ids};
    memcpy(bytes, head, sizeof head - 1);
    memcpy(bytes + sizeof head - 1, wide, sizeof wide);
    memset(ids, 0, sizeof ids);
    capture_init(&capture);
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, sizeof bytes, 0, &capture.log),
                     PERSEUS_OK);
    assert_memory_equal(ids, expected, sizeof expected);
    bytes[sizeof head - 1 + 4] = 1; /* 2^32 + 1: no expert, and not expert 1 */
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, sizeof bytes, 0, &capture.log),
                     PERSEUS_PROTOCOL);
    assert_said(&capture, "found 4294967297");
}

/* [layers, tokens, k], as SGLang's recorder counts them, is told from too few tokens. */
static void test_layers_first(void **state)
{
    (void)state;
    static const char head[] = "\x93NUMPY\x01\x00\x36\x00"
                               "{'descr':'|u1','fortran_order':False,'shape':(2,5,1)} ";
    unsigned char bytes[sizeof head - 1 + 10] = {0};
    int32_t ids[4];
    struct prs_routing routing = {.tokens = 4, .experts = 12, .top_k = 1, .ids = ids};
    struct capture capture;
    memcpy(bytes, head, sizeof head - 1);
    capture_init(&capture);
    assert_int_equal(prs_routing_read_npy(&routing, "a.npy", bytes, sizeof bytes, 0, &capture.log),
                     PERSEUS_INVALID_ARGUMENT);
    assert_said(&capture, "transpose(1, 0, 2)");
}

static void test_recorded_slice(void **state)
{
    (void)state;
    uint32_t counts[32], least, most;
    for (uint32_t layer = 0; layer < 6; layer++) {
        struct prs_routing_spec spec;
        struct prs_routing routing;
        assert_int_equal(prs_routing_spec_parse("trace:" PRS_TEST_TRACE, NULL, &spec), PERSEUS_OK);
        spec.layer = layer;
        assert_int_equal(prs_routing_init(&routing, &spec, 4096, 32, 4, 0, NULL), PERSEUS_OK);
        count(&routing, counts);
        extremes(counts, 32, &least, &most);
        assert_true(most > 2 * 512); /* the published skew, far from uniform's 1.1 */
        prs_routing_finish(&routing);
    }
}

static void test_files_that_are_not_there(void **state)
{
    (void)state;
    const struct {
        const char *text, *said;
    } bad[] = {
        {"trace:/nonexistent/a.npy", "cannot open /nonexistent/a.npy"},
        {"trace:/tmp/a.txt", "must end in .npy or .csv"},
        {"trace:/tmp/a", "must end in .npy or .csv"},
        {"trace:/tmp/a.pt", "PyTorch's archive (SGLang's recorder writes it): numpy.save"},
        {"trace:/tmp/a.npz", "an archive of arrays"},
        {"trace:/tmp/a.pkl", "pickled"},
        {"trace:/tmp/a.jsonl", "JSON"},
        {"trace:/tmp/a.safetensors", "a checkpoint"},
        {"trace:/dev/null.npy", "/dev/null.npy"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct capture capture;
        struct prs_routing_spec spec;
        struct prs_routing routing;
        capture_init(&capture);
        assert_int_equal(prs_routing_spec_parse(bad[i].text, &capture.log, &spec), PERSEUS_OK);
        assert_int_not_equal(prs_routing_init(&routing, &spec, 4, 32, 4, 0, &capture.log),
                             PERSEUS_OK);
        assert_said(&capture, bad[i].said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generated_kinds),
        cmocka_unit_test(test_the_seed_decides),
        cmocka_unit_test(test_gate_weights_are_a_softmax),
        cmocka_unit_test(test_refuses_bad_specs),
        cmocka_unit_test(test_reads_one_layer_of_an_array),
        cmocka_unit_test(test_reads_text),
        cmocka_unit_test(test_unused_choices),
        cmocka_unit_test(test_layers_first),
        cmocka_unit_test(test_recorded_slice),
        cmocka_unit_test(test_files_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
