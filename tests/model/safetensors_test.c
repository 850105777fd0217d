/* SPDX-License-Identifier: Apache-2.0 */
/* Weights: read from a file with the names that models use, or refused with the tensor's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "moe/math/bf16.h"
#include "model/capture.h"
#include "model/safetensors.h"
#include "model/weights.h"

struct blob {
    unsigned char bytes[4096];
    size_t size;
};

static struct blob make(const char *header, size_t data)
{
    struct blob blob = {0};
    size_t length = strlen(header);
    assert_true(8 + length + data <= sizeof blob.bytes);
    for (int i = 0; i < 8; i++) {
        blob.bytes[i] = (unsigned char)(length >> (8 * i));
    }
    memcpy(blob.bytes + 8, header, length);
    for (size_t i = 0; i < data; i++) {
        blob.bytes[8 + length + i] = (unsigned char)i;
    }
    blob.size = 8 + length + data;
    return blob;
}

/* Parses and finds tensor "t" in an exact copy. */
static enum perseus_status find(const struct blob *blob, struct capture *capture)
{
    unsigned char *copy = malloc(blob->size + 1);
    assert_non_null(copy);
    memcpy(copy, blob->bytes, blob->size);
    capture_init(capture);
    struct prs_safetensors *file = NULL;
    struct prs_tensor tensor;
    enum perseus_status status =
        prs_safetensors_create("m.safetensors", copy, blob->size, &capture->log, &file);
    if (status == PERSEUS_OK) {
        status = prs_safetensors_find(file, "t", &capture->log, &tensor);
    }
    prs_safetensors_destroy(file);
    free(copy);
    return status;
}

static void test_finds_tensors(void **state)
{
    (void)state;
    struct blob blob = make("{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"t\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
                            "\"u\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
                            16);
    struct capture capture;
    struct prs_safetensors *file;
    struct prs_tensor tensor;
    capture_init(&capture);
    assert_int_equal(
        prs_safetensors_create("m.safetensors", blob.bytes, blob.size, &capture.log, &file),
        PERSEUS_OK);
    assert_int_equal(prs_safetensors_find(file, "t", &capture.log, &tensor), PERSEUS_OK);
    assert_int_equal(tensor.type, PRS_TENSOR_BF16);
    assert_int_equal(tensor.dims, 2);
    assert_int_equal(tensor.shape[1], 3);
    assert_int_equal(tensor.data[0], 4);
    assert_int_equal(prs_safetensors_find(file, "u", &capture.log, &tensor), PERSEUS_OK);
    assert_int_equal(tensor.dims, 0);
    assert_true(prs_safetensors_has(file, "u"));
    assert_int_equal(capture.count, 0);
    assert_int_equal(prs_safetensors_find(file, "v", &capture.log, &tensor), PERSEUS_NOT_FOUND);
    assert_said(&capture, "no tensor v");
    prs_safetensors_destroy(file);
}

static void test_refuses_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *said;
    } bad[] = {
        {"{\"t\":", 0, "JSON"},
        {"[1]", 0, "JSON object"},
        {"{\"t\":1}", 0, "\"dtype\""},
        {"{\"t\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2,
         "type F64; F32, BF16 and F16 are read"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "\"shape\""},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "whole number"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "whole number"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "at most 4"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]}}", 4,
         "more bytes"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}}", 4, "\"data_offsets\""},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "begin <= end"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "needs 8 bytes"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "truncated"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"t\":1}", 4,
         "duplicate"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct blob blob = make(bad[i].header, bad[i].data);
        struct capture capture;
        assert_int_not_equal(find(&blob, &capture), PERSEUS_OK);
        assert_int_equal(capture.count, 1);
        assert_said(&capture, "m.safetensors");
        assert_said(&capture, bad[i].said);
    }
}

static void test_refuses_every_truncation(void **state)
{
    (void)state;
    struct blob whole = make("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    struct capture capture;
    assert_int_equal(find(&whole, &capture), PERSEUS_OK);
    for (size_t size = 0; size < whole.size; size++) {
        struct blob cut = whole;
        cut.size = size;
        assert_int_equal(find(&cut, &capture), PERSEUS_PROTOCOL);
        assert_int_equal(capture.count, 1);
    }
    whole.bytes[7] = 0x80; /* a header of 2^63 bytes */
    assert_int_equal(find(&whole, &capture), PERSEUS_PROTOCOL);
}

/* Writes a file whose tensors are named by `pattern` (expert, matrix), values counting up by
 * 0.5. */
static void write_model(const char *path, const char *pattern, const char *const *matrices,
                        const char *type, uint32_t experts)
{
    char header[2048] = "{", data[2048];
    size_t used = 1, item = strcmp(type, "F32") == 0 ? 4 : 2, at = 0;
    for (uint32_t expert = 0; expert < experts; expert++) {
        for (int matrix = 0; matrix < 3; matrix++) {
            char name[128];
            snprintf(name, sizeof name, pattern, expert, matrices[matrix]);
            used += (size_t)snprintf(
                header + used, sizeof header - used,
                "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}",
                used > 1 ? "," : "", name, type, matrix == 2 ? 2 : 3, matrix == 2 ? 3 : 2,
                at * item, (at + 6) * item);
            for (int i = 0; i < 6; i++, at++) {
                float value = 0.5f * (float)at;
                uint16_t bits = prs_bf16_from_f32(value);
                memcpy(data + at * item, item == 4 ? (void *)&value : (void *)&bits, item);
            }
        }
    }
    header[used++] = '}';
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    uint64_t length = used;
    fwrite(&length, 8, 1, file);
    fwrite(header, 1, used, file);
    fwrite(data, item, at, file);
    assert_int_equal(fclose(file), 0);
}

static void test_loads_experts_in_every_type(void **state)
{
    (void)state;
    static const char *const qwen[] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const mixtral[] = {"w1", "w3", "w2"};
    char path[] = "/tmp/perseus-test-weights-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < 8; i++) {
        bool to_bf16 = i & 1;
        write_model(path,
                    i & 2 ? "model.layers.3.mlp.experts.%u.%s.weight"
                          : "model.layers.3.block_sparse_moe.experts.%u.%s.weight",
                    i & 2 ? qwen : mixtral, i & 4 ? "F32" : "BF16", 2);
        const struct perseus_moe_config config = {.hidden = 2,
                                                  .intermediate = 3,
                                                  .experts = 2,
                                                  .weight_dtype =
                                                      to_bf16 ? PERSEUS_MOE_BF16 : PERSEUS_MOE_F32};
        unsigned char block[36 * 4];
        struct capture capture;
        capture_init(&capture);
        assert_int_equal(prs_weights_bytes(&config), to_bf16 ? 72 : 144);
        assert_int_equal(prs_weights_load(&config, block, path, 3, &capture.log), PERSEUS_OK);
        struct perseus_moe_expert expert = prs_weights_view(&config, block, 1);
        const void *const matrices[] = {expert.gate, expert.up, expert.down};
        for (int item = 0; item < 18; item++) {
            float expected = 0.5f * (float)(18 + item);
            float found = to_bf16
                              ? prs_bf16_to_f32(((const uint16_t *)matrices[item / 6])[item % 6])
                              : ((const float *)matrices[item / 6])[item % 6];
            assert_true(found == expected);
        }
        assert_int_not_equal(prs_weights_load(&config, block, path, 4, &capture.log), PERSEUS_OK);
        assert_said(&capture, "no tensor model.layers.4.mlp.experts.0.gate_proj.weight");
    }
    const struct perseus_moe_config wrong = {.hidden = 3, .intermediate = 2, .experts = 2};
    float block[36];
    struct capture capture;
    capture_init(&capture);
    assert_int_equal(prs_weights_load(&wrong, block, path, 3, &capture.log),
                     PERSEUS_INVALID_ARGUMENT);
    assert_said(&capture, "expected shape [2, 3]");
    unlink(path);
}

static void test_random_weights(void **state)
{
    (void)state;
    struct perseus_moe_config config = {.hidden = 64, .intermediate = 48, .experts = 2};
    float *block = calloc(1, prs_weights_bytes(&config));
    uint16_t *rounded = malloc(prs_weights_bytes(&config));
    assert_non_null(block);
    assert_non_null(rounded);
    prs_weights_random(&config, block, 1, 5);
    struct perseus_moe_expert expert = prs_weights_view(&config, block, 1);
    const struct {
        const float *matrix;
        double fan_in;
    } matrices[] = {{expert.gate, 64}, {expert.up, 64}, {expert.down, 48}};
    for (int i = 0; i < 3; i++) {
        double sum = 0, squares = 0;
        for (int item = 0; item < 64 * 48; item++) {
            sum += matrices[i].matrix[item];
            squares += matrices[i].matrix[item] * matrices[i].matrix[item];
        }
        assert_true(fabs(sum / (64 * 48)) < 0.01);
        assert_true(fabs(squares / (64 * 48) * matrices[i].fan_in - 1) < 0.1);
        assert_memory_not_equal(matrices[i].matrix, matrices[(i + 1) % 3].matrix, 64);
    }
    assert_true(block[0] == 0); /* expert 0 was not touched */
    config.weight_dtype = PERSEUS_MOE_BF16;
    prs_weights_random(&config, rounded, 1, 5);
    const uint16_t *bits = prs_weights_view(&config, rounded, 1).up;
    for (int item = 0; item < 64 * 48; item++) {
        assert_int_equal(bits[item], prs_bf16_from_f32(((const float *)expert.up)[item]));
    }
    free(block);
    free(rounded);
}

static void test_bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(prs_bf16_from_f32(1.0f), 0x3f80);
    assert_int_equal(prs_bf16_from_f32(1.00390625f), 0x3f80); /* halfway, to even */
    assert_int_equal(prs_bf16_from_f32(1.01171875f), 0x3f82); /* halfway, to even */
    assert_int_equal(prs_bf16_from_f32(1.005f), 0x3f81);
    assert_int_equal(prs_bf16_from_f32(-0.0f), 0x8000);
    assert_int_equal(prs_bf16_from_f32(INFINITY), 0x7f80);
    assert_int_equal(prs_bf16_from_f32(3.4e38f), 0x7f80);
    const uint32_t nans[] = {0x7f800001, 0xffffffff, 0x7fffffff};
    for (int i = 0; i < 3; i++) {
        float nan_value;
        memcpy(&nan_value, &nans[i], sizeof nan_value);
        assert_true(isnan(prs_bf16_to_f32(prs_bf16_from_f32(nan_value))));
    }
    for (uint32_t bits = 0; bits < 0x7f80; bits++) {
        assert_int_equal(prs_bf16_from_f32(prs_bf16_to_f32((uint16_t)bits)), bits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_tensors),
        cmocka_unit_test(test_refuses_with_the_place),
        cmocka_unit_test(test_refuses_every_truncation),
        cmocka_unit_test(test_loads_experts_in_every_type),
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
