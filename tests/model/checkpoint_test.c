/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints as model hubs hold them: names, types, several files; what is not read is refused by
 * name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "model/capture.h"
#include "model/checkpoint.h"
#include "model/weights.h"

enum { HIDDEN = 2, INNER = 3, EXPERTS = 2, ITEMS = HIDDEN * INNER };

/* ---- files ---- */

static char folder[] = "/tmp/perseus-checkpoint-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[sizeof folder + 16];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command); /* NOLINT(cert-env33-c) */
}

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* A .safetensors file that grows. */
struct writer {
    char header[8192];
    size_t used;
    unsigned char data[8192];
    size_t bytes;
};

static void add(struct writer *writer, const char *name, const char *type, int rows, int columns,
                const void *data, size_t bytes)
{
    writer->used +=
        (size_t)snprintf(writer->header + writer->used, sizeof writer->header - writer->used,
                         "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}",
                         writer->used > 0 ? "," : "{", name, type, rows, columns, writer->bytes,
                         writer->bytes + bytes);
    memcpy(writer->data + writer->bytes, data, bytes);
    writer->bytes += bytes;
}

static void write_file(struct writer *writer, const char *name)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    writer->header[writer->used++] = '}';
    uint64_t length = writer->used;
    fwrite(&length, 8, 1, file);
    fwrite(writer->header, 1, writer->used, file);
    fwrite(writer->data, 1, writer->bytes, file);
    assert_int_equal(fclose(file), 0);
    *writer = (struct writer){.used = 0};
}

/* What matrix `matrix` of expert `expert` holds at `item`. */
static float value_of(uint32_t expert, int matrix, int item)
{
    return (float)(100 * expert + 10 * (uint32_t)matrix + (uint32_t)item);
}

static void add_matrix(struct writer *writer, const char *name, uint32_t expert, int matrix)
{
    float values[ITEMS];
    for (int item = 0; item < ITEMS; item++) {
        values[item] = value_of(expert, matrix, item);
    }
    add(writer, name, "F32", matrix == 2 ? HIDDEN : INNER, matrix == 2 ? INNER : HIDDEN, values,
        sizeof values);
}

static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};

static void add_expert(struct writer *writer, const char *prefix, const char *where,
                       const char *const *names, uint32_t expert)
{
    for (int matrix = 0; matrix < 3; matrix++) {
        char name[160];
        snprintf(name, sizeof name, "%slayers.3.%s.%u.%s.weight", prefix, where, expert,
                 names[matrix]);
        add_matrix(writer, name, expert, matrix);
    }
}

static void add_experts(struct writer *writer)
{
    for (uint32_t expert = 0; expert < EXPERTS; expert++) {
        add_expert(writer, "model.", "mlp.experts", projections, expert);
    }
}

/* ---- loading ---- */

static struct perseus_moe_config config_of(uint32_t shared)
{
    return (struct perseus_moe_config){
        .hidden = HIDDEN, .intermediate = INNER, .experts = EXPERTS, .shared_experts = shared};
}

static float block[4 * 3 * ITEMS];

static enum perseus_status load(const char *name, uint32_t shared, struct capture *capture)
{
    const struct perseus_moe_config config = config_of(shared);
    capture_init(capture);
    memset(block, 0, sizeof block);
    return prs_weights_load(&config, block, in_folder(name), 3, &capture->log);
}

static void check_experts(void)
{
    const struct perseus_moe_config config = config_of(0);
    for (uint32_t expert = 0; expert < EXPERTS; expert++) {
        struct perseus_moe_expert view = prs_weights_view(&config, block, expert);
        const void *const matrices[] = {view.gate, view.up, view.down};
        for (int matrix = 0; matrix < 3; matrix++) {
            for (int item = 0; item < ITEMS; item++) {
                assert_true(((const float *)matrices[matrix])[item] ==
                            value_of(expert, matrix, item));
            }
        }
    }
}

static void check_loads(const char *name)
{
    struct capture capture;
    if (load(name, 0, &capture) != PERSEUS_OK) {
        fail_msg("%s: %s", name, capture.text);
    }
    check_experts();
}

static void check_refuses(const char *name, uint32_t shared, enum perseus_status status,
                          const char *said)
{
    struct capture capture;
    assert_int_equal(load(name, shared, &capture), status);
    assert_said(&capture, said);
}

/* ---- tests ---- */

static void test_families(void **state)
{
    (void)state;
    static const char *const w123[] = {"w1", "w3", "w2"};
    static const struct {
        const char *prefix, *where;
        const char *const *names;
    } families[] = {
        {"model.", "mlp.experts", projections},
        {"model.", "block_sparse_moe.experts", w123},
        {"model.", "feed_forward.experts", projections},
        {"model.language_model.", "mlp.experts", projections},
        {"language_model.model.", "mlp.experts", projections},
        {"", "mlp.experts", projections},
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        struct writer writer = {.used = 0};
        for (uint32_t expert = 0; expert < EXPERTS; expert++) {
            add_expert(&writer, families[i].prefix, families[i].where, families[i].names, expert);
        }
        write_file(&writer, "family.safetensors");
        check_loads("family.safetensors");
    }
}

/* Shared experts are one network in the file, with their intermediate sizes added up. */
static void test_shared_experts(void **state)
{
    (void)state;
    static const char *const places[] = {"mlp.shared_experts", "mlp.shared_expert",
                                         "mlp.shared_mlp", "feed_forward.shared_expert"};
    for (size_t i = 0; i < 4; i++) {
        struct writer writer = {.used = 0};
        struct capture capture;
        add_experts(&writer);
        for (int matrix = 0; matrix < 3; matrix++) {
            float both[2 * ITEMS];
            char name[160];
            for (int item = 0; item < 2 * ITEMS; item++) {
                both[item] = (float)(1000 * (matrix + 1) + item);
            }
            snprintf(name, sizeof name, "model.layers.3.%s.%s.weight", places[i],
                     projections[matrix]);
            add(&writer, name, "F32", matrix == 2 ? HIDDEN : 2 * INNER,
                matrix == 2 ? 2 * INNER : HIDDEN, both, sizeof both);
        }
        const float gate[HIDDEN] = {0};
        if (i == 1) { /* as Qwen2-MoE has it */
            add(&writer, "model.layers.3.mlp.shared_expert_gate.weight", "F32", 1, HIDDEN, gate,
                sizeof gate);
        }
        write_file(&writer, "shared.safetensors");
        assert_int_equal(load("shared.safetensors", 2, &capture), PERSEUS_OK);
        check_experts();
        for (uint32_t slice = 0; slice < 2; slice++) {
            const struct perseus_moe_config config = config_of(2);
            struct perseus_moe_expert view = prs_weights_view(&config, block, EXPERTS + slice);
            for (int item = 0; item < ITEMS; item++) {
                int of_rows = (int)slice * ITEMS + item;
                int of_columns = item / INNER * 2 * INNER + (int)slice * INNER + item % INNER;
                assert_true(((const float *)view.gate)[item] == (float)(1000 + of_rows));
                assert_true(((const float *)view.up)[item] == (float)(2000 + of_rows));
                assert_true(((const float *)view.down)[item] == (float)(3000 + of_columns));
            }
        }
        assert_int_equal(capture.count, i == 1);
        if (i == 1) {
            assert_said(&capture, "shared_expert_gate.weight), which the layer does not compute");
        }
        check_refuses("shared.safetensors", 1, PERSEUS_INVALID_ARGUMENT, "--shared-experts");
    }
    struct writer writer = {.used = 0};
    add_experts(&writer);
    write_file(&writer, "shared.safetensors");
    check_refuses("shared.safetensors", 1, PERSEUS_NOT_FOUND, "mlp.shared_experts.up_proj.weight");
}

static void write_with(const char *type, const void *data, size_t bytes)
{
    struct writer writer = {.used = 0};
    add_experts(&writer);
    char *last =
        strstr(writer.header, "model.layers.3.mlp.experts.1.down_proj"); /* of another type */
    assert_non_null(last);
    writer.used = (size_t)(last - writer.header) - 2; /* its quote, and the comma before */
    add(&writer, "model.layers.3.mlp.experts.1.down_proj.weight", type, HIDDEN, INNER, data, bytes);
    write_file(&writer, "types.safetensors");
}

static void test_half_precision(void **state)
{
    (void)state;
    struct capture capture;
    const uint16_t bits[ITEMS] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x3555};
    const float expected[ITEMS] = {1, -2, 65504, 0x1p-24f, -0.0f, 0x1.554p-2f};
    write_with("F16", bits, sizeof bits);
    assert_int_equal(load("types.safetensors", 0, &capture), PERSEUS_OK);
    const struct perseus_moe_config config = config_of(0);
    const float *found = prs_weights_view(&config, block, 1).down;
    assert_memory_equal(found, expected, sizeof expected);
}

static void test_numbers_that_are_none(void **state)
{
    (void)state;
    const float values[][ITEMS] = {
        {1, 2, 3, 4, NAN, 6}, {1, 2, 3, 4, INFINITY, 6}, {1, 2, 3, 4, -INFINITY, 6}};
    const char *where =
        "mlp.experts.1.down_proj.weight has no finite number (a NaN or an infinity) at "
        "row 1, column 1";
    for (int i = 0; i < 3; i++) {
        write_with("F32", values[i], sizeof values[i]);
        check_refuses("types.safetensors", 0, PERSEUS_INVALID_ARGUMENT, where);
    }
    const uint16_t halves[][ITEMS] = {{0, 0, 0, 0, 0x7e00, 0}, {0, 0, 0, 0, 0xfc00, 0}};
    for (int i = 0; i < 2; i++) {
        write_with("F16", halves[i], sizeof halves[i]);
        check_refuses("types.safetensors", 0, PERSEUS_INVALID_ARGUMENT, where);
    }
    const uint16_t bfloats[ITEMS] = {0, 0, 0, 0, 0x7fc0, 0};
    write_with("BF16", bfloats, sizeof bfloats);
    check_refuses("types.safetensors", 0, PERSEUS_INVALID_ARGUMENT, where);
    /* A number in the file, but none in the type asked for. */
    const float large[ITEMS] = {1, 2, 3, 4, 3.4e38f, 6};
    struct perseus_moe_config config = config_of(0);
    struct capture capture;
    capture_init(&capture);
    write_with("F32", large, sizeof large);
    config.weight_dtype = PERSEUS_MOE_BF16;
    assert_int_equal(
        prs_weights_load(&config, block, in_folder("types.safetensors"), 3, &capture.log),
        PERSEUS_INVALID_ARGUMENT);
    assert_said(&capture, where);
}

static void test_several_files(void **state)
{
    (void)state;
    struct writer writer = {.used = 0};
    char index[4096] = "{\"metadata\":{},\"weight_map\":{";
    for (uint32_t expert = 0; expert < EXPERTS; expert++) {
        char name[64];
        add_expert(&writer, "model.", "mlp.experts", projections, expert);
        snprintf(name, sizeof name, "model-0000%u-of-00002.safetensors", expert + 1);
        write_file(&writer, name);
        for (int matrix = 0; matrix < 3; matrix++) {
            size_t used = strlen(index);
            snprintf(index + used, sizeof index - used,
                     "%s\"model.layers.3.mlp.experts.%u.%s.weight\":\"%s\"",
                     expert + (uint32_t)matrix > 0 ? "," : "", expert, projections[matrix], name);
        }
    }
    size_t used = strlen(index);
    snprintf(index + used, sizeof index - used, "}}");
    write_text("model.safetensors.index.json", index);
    check_loads("model.safetensors.index.json");
    check_loads("."); /* the folder */

    char *name = strstr(index, "model-00002");
    memcpy(name, "model-00009", 11);
    write_text("model.safetensors.index.json", index);
    check_refuses("model.safetensors.index.json", 0, PERSEUS_IO,
                  "model-00009-of-00002.safetensors");
    memcpy(name, "../el-00001", 11);
    write_text("model.safetensors.index.json", index);
    check_refuses("model.safetensors.index.json", 0, PERSEUS_NOT_SUPPORTED, "../el-00001");
    memcpy(name, "model-00001", 11); /* which does not have it */
    write_text("model.safetensors.index.json", index);
    check_refuses("model.safetensors.index.json", 0, PERSEUS_NOT_FOUND,
                  "experts.1.gate_proj.weight");
    write_text("pytorch.index.json",
               "{\"weight_map\":{\"model.layers.3.mlp.experts.0.gate_proj.weight\":\"a.bin\","
               "\"model.layers.3.mlp.experts.0.up_proj.weight\":\"a.bin\"}}");
    check_refuses("pytorch.index.json", 0, PERSEUS_NOT_SUPPORTED, "\"a.bin\"; a .safetensors file");
    write_text("not.index.json", "{\"weights\":{}}");
    check_refuses("not.index.json", 0, PERSEUS_PROTOCOL, "an object \"weight_map\"");
    write_text("damaged.index.json", "{\"weight_map\":{\n\"a\":");
    check_refuses("damaged.index.json", 0, PERSEUS_PROTOCOL, "line 2");
    write_text("empty.index.json", "{\"weight_map\":{}}");
    check_refuses("empty.index.json", 0, PERSEUS_NOT_FOUND, "has no experts in layer 3");
    unlink(in_folder("model.safetensors.index.json"));
    add_experts(&writer);
    write_file(&writer, "model.safetensors");
    check_loads("."); /* the folder, with one file */
}

static void test_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *tensor, *said;
    } others[] = {
        {"model.layers.3.mlp.experts.gate_up_proj", "gate_up_proj holds all experts together"},
        {"model.language_model.layers.3.mlp.experts.gate_up_proj", "holds all experts together"},
        {"model.layers.3.mlp.experts.gate_up_proj_blocks", "quantized (MXFP4)"},
        {"language_model.model.layers.3.feed_forward.experts.gate_up_proj", "all experts together"},
        {"model.layers.3.mlp.experts.0.gate_proj.qweight", "is quantized (GPTQ, AWQ)"},
        {"model.layers.3.mlp.gate_proj.weight", "a dense layer, which has no experts"},
        {"model.layers.4.mlp.experts.0.up_proj.weight", "has no experts in layer 3"},
    };
    const float values[ITEMS] = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct writer writer = {.used = 0};
        add(&writer, others[i].tensor, "F32", INNER, HIDDEN, values, sizeof values);
        write_file(&writer, "other.safetensors");
        check_refuses("other.safetensors", 0,
                      i + 1 < sizeof others / sizeof *others ? PERSEUS_NOT_SUPPORTED
                                                             : PERSEUS_NOT_FOUND,
                      others[i].said);
    }
    struct writer writer = {.used = 0};
    add_experts(&writer);
    add(&writer, "model.layers.3.mlp.experts.0.up_proj.bias", "F32", 1, INNER, values, 12);
    write_file(&writer, "bias.safetensors");
    check_refuses("bias.safetensors", 0, PERSEUS_NOT_SUPPORTED, "have biases");
    write_with("F8_E4M3", values, ITEMS);
    check_refuses("types.safetensors", 0, PERSEUS_NOT_SUPPORTED,
                  "F8_E4M3; F32, BF16 and F16 are read: the checkpoint is quantized");
    static const char *const containers[] = {"a.bin", "a.pt", "a.pth", "a.gguf", "a.npz"};
    for (size_t i = 0; i < 5; i++) {
        check_refuses(containers[i], 0, PERSEUS_NOT_SUPPORTED, "save the model as safetensors");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),       cmocka_unit_test(test_shared_experts),
        cmocka_unit_test(test_half_precision), cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_several_files),  cmocka_unit_test(test_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
