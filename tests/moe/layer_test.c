/* SPDX-License-Identifier: Apache-2.0 */
/* The layer on PEs in one process: every protocol, ordering mode, shape and routing, against the
 * reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/check.h"
#include "moe/layer_case.h"
#include "model/models.h"

#define N_PROTOCOLS PERSEUS_MOE_PROTOCOL_COUNT

static enum perseus_moe_protocol protocol_of(int i)
{
    return (enum perseus_moe_protocol)i;
}

static void test_every_protocol_and_ordering(void **state)
{
    (void)state;
    unsigned kept = 0;
    for (int i = 0; i < N_PROTOCOLS; i++) {
        for (int ordering = 0; ordering < PERSEUS_ORDERING_COUNT; ordering++) {
            const struct layer_case layer = {.what = perseus_moe_protocol_name(protocol_of(i)),
                                             .config = layer_case_config(protocol_of(i)),
                                             .n_pes = 4,
                                             .pes_per_node = 2,
                                             .ordering = (enum perseus_ordering)ordering,
                                             .forwards = 6};
            kept += layer_case_run(&layer);
        }
    }
    CHECK(kept >= N_PROTOCOLS * 5u); /* loopback keeps nearly all */
}

static void test_numbers_of_pes(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 7, 16};
    for (int i = 0; i < N_PROTOCOLS; i++) {
        for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
            struct layer_case layer = {.what = "number of PEs",
                                       .config = layer_case_config(protocol_of(i)),
                                       .n_pes = sizes[size],
                                       .pes_per_node = sizes[size] > 3 ? 2 : 1};
            layer.config.experts = 13; /* never the same number on all PEs, and less than PEs */
            layer_case_run(&layer);
        }
    }
}

static struct layer_case model_case(const struct prs_moe_model *model)
{
    return (struct layer_case){.what = model->name,
                               .config = {.hidden = model->hidden / 32,
                                          .intermediate = model->intermediate / 32,
                                          .experts = model->experts,
                                          .top_k = model->top_k,
                                          .shared_experts = model->shared_experts,
                                          .tokens_max = 20,
                                          .tile_tokens = 8,
                                          .weight_dtype = PERSEUS_MOE_BF16,
                                          .wire_dtype = PERSEUS_MOE_BF16,
                                          .vector_signals = true,
                                          .processors = 1,
                                          .timeout_ms = 60000},
                               .n_pes = 4,
                               .pes_per_node = 2,
                               .error_max = 2e-2};
}

static void test_every_model_cut_down(void **state)
{
    (void)state;
    size_t count;
    const struct prs_moe_model *models = prs_moe_models(&count);
    for (size_t i = 0; i < count; i++) {
        struct layer_case layer = model_case(&models[i]);
        layer_case_run(&layer);
        layer.config.hidden = models[i].hidden; /* the real rows, without experts */
        layer.config.communication_only = true;
        layer_case_run(&layer);
    }
}

static void test_every_routing(void **state)
{
    (void)state;
    static const char trace[] = "trace:" PRS_TEST_TRACE;
    static const char *const routings[] = {"uniform", "balanced", "zipf:1.5", "zipf:16", trace};
    for (int i = 0; i < N_PROTOCOLS; i++) {
        for (size_t r = 0; r < sizeof routings / sizeof *routings; r++) {
            struct layer_case layer = {.what = routings[r],
                                       .config = layer_case_config(protocol_of(i)),
                                       .n_pes = 4,
                                       .pes_per_node = 2,
                                       .routing = routings[r]};
            layer.config.experts = 32;
            layer_case_run(&layer);
        }
    }
}

static void test_types_and_forms(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        struct layer_case layer = {.what = "types and forms",
                                   .config = layer_case_config(PERSEUS_MOE_DECOUPLED),
                                   .n_pes = 2,
                                   .pes_per_node = 1,
                                   .twice = true};
        layer.config.weight_dtype = (enum perseus_moe_dtype)(i & 1);
        layer.config.wire_dtype = (enum perseus_moe_dtype)(i >> 1 & 1);
        layer.config.form = (enum perseus_moe_form)(i >> 2 & 1);
        layer.config.shared_experts = (uint32_t)(i >> 3) * 2;
        layer.error_max = i & 3 ? 2e-2 : 1e-5;
        layer_case_run(&layer);
    }
}

/* ---- edges ---- */

static int32_t to_one(const struct layer_case *layer, uint32_t forward, uint32_t token,
                      uint32_t choice)
{
    (void)forward, (void)token;
    return choice == 0 ? (int32_t)layer->config.experts - 1 : -1;
}

static int32_t to_nobody(const struct layer_case *layer, uint32_t forward, uint32_t token,
                         uint32_t choice)
{
    (void)layer, (void)forward, (void)token, (void)choice;
    return -1;
}

static int32_t to_first_four(const struct layer_case *layer, uint32_t forward, uint32_t token,
                             uint32_t choice)
{
    (void)layer, (void)forward, (void)token;
    return (int32_t)choice; /* every other expert gets nothing */
}

static void run_edges(enum perseus_moe_protocol protocol, enum perseus_ordering ordering)
{
    struct layer_case base = {.config = layer_case_config(protocol),
                              .n_pes = 4,
                              .pes_per_node = 2,
                              .ordering = ordering,
                              .forwards = 4};
    struct layer_case layer = base;
    layer.what = "all tokens to one expert";
    layer.id = to_one;
    layer_case_run(&layer);
    layer.what = "no choice is used";
    layer.id = to_nobody;
    layer_case_run(&layer);
    layer.what = "experts without tokens";
    layer.id = to_first_four;
    layer_case_run(&layer);
    layer = base;
    layer.what = "one token each";
    layer.tokens = 1;
    layer_case_run(&layer);
    layer.what = "one token in all";
    layer.tokens = 4; /* PE 3 has 3 of them, PE 1 has 1, PE 0 none */
    layer.ragged = true;
    layer_case_run(&layer);
    layer = base;
    layer.what = "uneven tokens";
    layer.ragged = true;
    layer_case_run(&layer);
    layer = base;
    layer.what = "k = 1";
    layer.config.top_k = 1;
    layer_case_run(&layer);
    layer = base;
    layer.what = "k = all experts";
    layer.config.top_k = 16;
    layer_case_run(&layer);
    layer = base;
    layer.what = "tokens not a multiple of the tile";
    layer.config.tokens_max = 23;
    layer.config.tile_tokens = 5;
    layer.routing = "zipf:4";
    layer_case_run(&layer);
    layer.what = "tiles of one token";
    layer.config.tile_tokens = 1;
    layer_case_run(&layer);
    layer.what = "a tile larger than everything";
    layer.config.tile_tokens = 4096;
    layer_case_run(&layer);
}

static void test_edges(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROTOCOLS; i++) {
        run_edges(protocol_of(i), PERSEUS_ORDERING_AUTO);
    }
}

static void test_capacity_drops_what_the_reference_drops(void **state)
{
    (void)state;
    static const double factors[] = {0.01, 0.5, 1, 1.25, 8};
    for (int i = 0; i < N_PROTOCOLS; i++) {
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
            struct layer_case layer = {.what = "capacity factor",
                                       .config = layer_case_config(protocol_of(i)),
                                       .n_pes = 4,
                                       .pes_per_node = 1,
                                       .routing = "zipf:1"};
            layer.config.capacity_factor = factors[f];
            layer_case_run(&layer);
        }
    }
}

/* ---- threads, groups, many forwards ---- */

static void test_roles_and_overlap(void **state)
{
    (void)state;
    static const struct {
        uint32_t processors, subscribers;
    } roles[] = {{0, 0}, {1, 0}, {1, 1}, {3, 0}, {3, 1}};
    for (int i = 0; i < N_PROTOCOLS; i++) {
        for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
            struct layer_case layer = {.what = "roles",
                                       .config = layer_case_config(protocol_of(i)),
                                       .n_pes = 3,
                                       .pes_per_node = 1,
                                       .routing = "zipf:1",
                                       .forwards = 8,
                                       .twice = true};
            layer.config.processors = roles[r].processors;
            layer.config.subscribers = roles[r].subscribers;
            layer.config.shared_experts = 1;
            layer.overlap = protocol_of(i) != PERSEUS_MOE_COLLECTIVE;
            layer_case_run(&layer);
        }
    }
}

static void test_relaxed(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROTOCOLS; i++) {
        for (uint32_t processors = 0; processors < 3; processors += 2) {
            struct layer_case layer = {.what = "relaxed",
                                       .config = layer_case_config(protocol_of(i)),
                                       .n_pes = 4,
                                       .pes_per_node = 2,
                                       .routing = "zipf:2",
                                       .forwards = 8};
            layer.config.relaxed = true;
            layer.config.processors = processors;
            layer.config.shared_experts = processors;
            layer.config.tile_tokens = 16;
            layer.overlap = protocol_of(i) != PERSEUS_MOE_COLLECTIVE;
            layer_case_run(&layer);
        }
    }
}

static void test_units(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROTOCOLS * 9 * 2; i++) {
        struct layer_case layer = {.what = "units",
                                   .config = layer_case_config(protocol_of(i % N_PROTOCOLS)),
                                   .n_pes = 4,
                                   .pes_per_node = 2,
                                   .routing = "zipf:2",
                                   .forwards = 5};
        layer.config.tile_tokens = 3;
        layer.config.dispatch_unit = (enum perseus_moe_unit)(i / N_PROTOCOLS % 3);
        layer.config.combine_unit = (enum perseus_moe_unit)(i / N_PROTOCOLS / 3 % 3);
        layer.config.processors = i >= N_PROTOCOLS * 9 ? 2 : 0;
        layer.overlap = protocol_of(i % N_PROTOCOLS) != PERSEUS_MOE_COLLECTIVE;
        layer_case_run(&layer);
    }
}

static void test_group_sizes(void **state)
{
    (void)state;
    for (uint32_t group = 0; group <= 14; group++) {
        for (int i = 0; i < 4; i++) {
            struct layer_case layer = {.what = "group size",
                                       .config = layer_case_config(PERSEUS_MOE_DECOUPLED),
                                       .n_pes = 4,
                                       .pes_per_node = 1,
                                       .ordering = PERSEUS_ORDERING_DRAIN,
                                       .overlap = true,
                                       .forwards = 5};
            layer.config.group_experts = group == 14   ? PERSEUS_MOE_GROUP_PE
                                         : group == 13 ? 1000
                                                       : group;
            layer.config.vector_signals = i % 2 == 1;
            layer.config.group_combine = i / 2 == 1;
            layer_case_run(&layer);
        }
    }
}

/* More forwards than there are tags in a signal word, twice over. */
static void test_many_forwards(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROTOCOLS; i++) {
        struct layer_case layer = {.what = "many forwards",
                                   .config = layer_case_config(protocol_of(i)),
                                   .n_pes = 3,
                                   .pes_per_node = 1,
                                   .routing = "zipf:1",
                                   .tokens = 3,
                                   .forwards = 140};
        layer.config.processors = i == 0 ? 2 : 0;
        layer.overlap = i == 1;
        layer_case_run(&layer);
    }
}

/* One choice a token, all of the last expert. Most forwards have few tokens; but those a whole
 * period of tags apart (in either half of the buffers) have all, so that a word that nobody cleared
 * would be taken for a new one. */
static int32_t seldom_many(const struct layer_case *layer, uint32_t forward, uint32_t token,
                           uint32_t choice)
{
    bool is_large = forward % 126 < 2;
    bool is_used = is_large || token % layer->config.tokens_max < 1 + forward % 3;
    return choice == 0 && is_used ? (int32_t)layer->config.experts - 1 : -1;
}

/* More than two periods of tags, with numbers of tiles that change, over shared memory and over a
 * fabric. */
static void test_words_are_never_stale(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_PROTOCOLS; i++) {
        struct layer_case layer = {.what = perseus_moe_protocol_name(protocol_of(i / 2)),
                                   .config = {.hidden = 64,
                                              .intermediate = 4,
                                              .experts = 3,
                                              .top_k = 1,
                                              .tokens_max = 64,
                                              .tile_tokens = 1,
                                              .dispatch_unit = PERSEUS_MOE_UNIT_TILE,
                                              .protocol = protocol_of(i / 2),
                                              .processors = 1,
                                              .communication_only = true,
                                              .timeout_ms = 60000},
                                   .n_pes = 3,
                                   .pes_per_node = i % 2 == 0 ? 1 : 3,
                                   .forwards = 260,
                                   .id = seldom_many};
        layer_case_run(&layer);
    }
}

static void test_adversary(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 3; seed++) {
        char adversary[64];
        snprintf(adversary, sizeof adversary, "seed=%d,reorder=1,again=0.2", seed);
        setenv("PERSEUS_ADVERSARY", adversary, 1);
        for (int i = 0; i < N_PROTOCOLS; i++) {
            for (int ordering = 0; ordering < PERSEUS_ORDERING_COUNT; ordering++) {
                struct layer_case layer = {.what = adversary,
                                           .config = layer_case_config(protocol_of(i)),
                                           .n_pes = 3,
                                           .pes_per_node = 1,
                                           .routing = "zipf:1",
                                           .ordering = (enum perseus_ordering)ordering,
                                           .forwards = 6};
                layer.config.vector_signals = seed == 2;
                layer.config.group_combine = seed > 1;
                layer.overlap = protocol_of(i) != PERSEUS_MOE_COLLECTIVE;
                layer_case_run(&layer);
            }
        }
    }
    unsetenv("PERSEUS_ADVERSARY");
}

/* ---- the whole matrix, minutes long: moe_layer_test soak ---- */

/* Every model under every routing, protocol and ordering mode, with 1 to 16 PEs in turn. */
static void soak_models(void **state)
{
    (void)state;
    static const char *const routings[] = {"uniform", "balanced", "zipf:1.5",
                                           "trace:" PRS_TEST_TRACE};
    size_t count;
    unsigned n = 0;
    const struct prs_moe_model *models = prs_moe_models(&count);
    const struct prs_moe_model *recorded = prs_moe_model_find("gpt-oss-20b");
    for (size_t i = 0; i < count * 4 * N_PROTOCOLS * PERSEUS_ORDERING_COUNT; i++) {
        struct layer_case layer =
            model_case(&models[i / (4 * N_PROTOCOLS * PERSEUS_ORDERING_COUNT)]);
        layer.routing = routings[i % 4];
        layer.config.protocol = protocol_of((int)(i / 4 % N_PROTOCOLS));
        layer.ordering = (enum perseus_ordering)(i / (4 * N_PROTOCOLS) % PERSEUS_ORDERING_COUNT);
        layer.n_pes = 1 + (int)(i * 7 % 16);
        layer.pes_per_node = 1 + (int)(i % 3);
        layer.config.processors = (uint32_t)(i / 3 % 3);
        layer.config.subscribers = layer.config.processors > 0 ? (uint32_t)(i / 9 % 2) : 0;
        layer.twice = i % 5 == 0;
        if (i % 4 == 3 && layer.config.top_k != recorded->top_k) { /* a trace has its own k */
            layer.config.top_k = recorded->top_k;
            layer.config.experts =
                layer.config.experts < recorded->experts ? recorded->experts : layer.config.experts;
        }
        n += layer_case_run(&layer);
    }
    print_message("%u cases\n", n);
}

/* Every number of PEs under every protocol and ordering mode, with uneven experts. */
static void soak_sizes(void **state)
{
    (void)state;
    for (int n_pes = 1; n_pes <= 16; n_pes++) {
        for (int i = 0; i < N_PROTOCOLS * PERSEUS_ORDERING_COUNT; i++) {
            struct layer_case layer = {.what = "number of PEs",
                                       .config = layer_case_config(protocol_of(i % N_PROTOCOLS)),
                                       .n_pes = n_pes,
                                       .pes_per_node = 1 + (n_pes + i) % 4,
                                       .ordering = (enum perseus_ordering)(i / N_PROTOCOLS)};
            layer.config.experts = 13;
            layer_case_run(&layer);
        }
    }
}

static void soak_edges(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROTOCOLS * PERSEUS_ORDERING_COUNT; i++) {
        run_edges(protocol_of(i % N_PROTOCOLS), (enum perseus_ordering)(i / N_PROTOCOLS));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest soak[] = {
        cmocka_unit_test(soak_models),
        cmocka_unit_test(soak_sizes),
        cmocka_unit_test(soak_edges),
    };
    if (argc > 1 && strcmp(argv[1], "soak") == 0) {
        return cmocka_run_group_tests(soak, NULL, NULL);
    }
    if (argc > 1) { /* one test by name */
        cmocka_set_test_filter(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_protocol_and_ordering),
        cmocka_unit_test(test_numbers_of_pes),
        cmocka_unit_test(test_every_model_cut_down),
        cmocka_unit_test(test_every_routing),
        cmocka_unit_test(test_types_and_forms),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_capacity_drops_what_the_reference_drops),
        cmocka_unit_test(test_roles_and_overlap),
        cmocka_unit_test(test_relaxed),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_group_sizes),
        cmocka_unit_test(test_many_forwards),
        cmocka_unit_test(test_words_are_never_stale),
        cmocka_unit_test(test_adversary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
