/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/figure.h"

#include <stdio.h>
#include <string.h>

#define KIB           1024ull
#define TRANSFERS     96
#define QWEN3         "qwen3-30b"
#define COUNT(values) (sizeof(values) / sizeof(values)[0])

static const uint32_t tokens[] = {256, 1024, 4096, 16384, 65536};
static const uint64_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB};

static struct sim_series *line(struct sim_figure *figure, const char *name, bool is_published)
{
    struct sim_series *series = &figure->series[figure->n++];
    snprintf(series->name, sizeof series->name, "%s", name);
    series->is_published = is_published;
    return series;
}

static void point(struct sim_series *series, double x, double y)
{
    series->x[series->n] = x;
    series->y[series->n++] = y;
}

/* A published number at its place, if the row is known. */
static void published(struct sim_figure *figure, const char *name, const char *id, double x)
{
    for (uint32_t i = 0; i < sim_published_count; i++) {
        if (strcmp(sim_published[i].id, id) == 0) {
            struct sim_series *last = figure->n > 0 ? &figure->series[figure->n - 1] : NULL;
            bool is_new = last == NULL || !last->is_published || strcmp(last->name, name) != 0;
            point(is_new ? line(figure, name, true) : last, x, sim_published[i].value);
        }
    }
}

/* ---- Figure 5 ---- */

static double exchange_ms(struct sim_lab *lab, uint32_t nodes, uint32_t transfers, uint64_t bytes,
                          enum sim_exchange_kind kind, bool by_nic)
{
    const struct sim_lab_transfers what = {
        .nodes = nodes, .transfers = transfers, .bytes = bytes, .kind = kind, .by_nic = by_nic};
    return sim_lab_exchange(lab, &what)->quiet_ms;
}

static double fence_ms(struct sim_lab *lab, uint32_t nodes, uint64_t bytes)
{
    return exchange_ms(lab, nodes, TRANSFERS, bytes, SIM_EXCHANGE_COUPLED, false) -
           exchange_ms(lab, nodes, TRANSFERS, bytes, SIM_EXCHANGE_PUTS, false);
}

static void efficiency(struct sim_lab *lab, struct sim_figure *figure)
{
    static const uint32_t counts[] = {1, 4, 16, 32, 64, 96, 128};
    static const struct {
        const char *name;
        uint32_t nodes;
        enum sim_exchange_kind kind;
        bool by_nic;
    } lines[] = {{"coupled, 2 nodes", 2, SIM_EXCHANGE_COUPLED, false},
                 {"coupled, 4 nodes", 4, SIM_EXCHANGE_COUPLED, false},
                 {"coupled, 8 nodes", 8, SIM_EXCHANGE_COUPLED, false},
                 {"Perseus, 8 nodes", 8, SIM_EXCHANGE_DECOUPLED, true}};
    for (uint32_t l = 0; l < COUNT(lines); l++) {
        struct sim_series *series = line(figure, lines[l].name, false);
        for (uint32_t i = 0; i < COUNT(counts); i++) {
            double ceiling =
                exchange_ms(lab, lines[l].nodes, counts[i], sizes[0], SIM_EXCHANGE_PUTS, false);
            point(series, counts[i],
                  ceiling / exchange_ms(lab, lines[l].nodes, counts[i], sizes[0], lines[l].kind,
                                        lines[l].by_nic));
        }
    }
    published(figure, "coupled", "fig5a.coupled_efficiency", TRANSFERS);
    published(figure, "Perseus", "fig5a.perseus_efficiency", TRANSFERS);
}

static void by_size(struct sim_lab *lab, struct sim_figure *figure, bool is_share)
{
    for (uint32_t nodes = 2; nodes <= 8; nodes *= 2) {
        char name[SIM_NAME_MAX];
        snprintf(name, sizeof name, "%u nodes", nodes);
        struct sim_series *series = line(figure, name, false);
        for (uint32_t i = 0; i < COUNT(sizes); i++) {
            double fence = fence_ms(lab, nodes, sizes[i]);
            double all = exchange_ms(lab, nodes, TRANSFERS, sizes[i], SIM_EXCHANGE_COUPLED, false);
            point(series, (double)sizes[i], is_share ? fence / all : fence);
        }
    }
}

static void fence_time(struct sim_lab *lab, struct sim_figure *figure)
{
    by_size(lab, figure, false);
    published(figure, "2 nodes", "fig5b.fence_4k_2nodes", 4 * KIB);
    published(figure, "2 nodes", "fig5b.fence_1m_2nodes", 1024 * KIB);
    published(figure, "8 nodes", "fig5b.fence_4k_8nodes", 4 * KIB);
    published(figure, "8 nodes", "fig5b.fence_1m_8nodes", 1024 * KIB);
}

static void fence_share(struct sim_lab *lab, struct sim_figure *figure)
{
    by_size(lab, figure, true);
    published(figure, "up to", "fig5c.fence_share_small", 4 * KIB);
    published(figure, "above", "fig5c.fence_share_4m_min", 4096 * KIB);
}

/* ---- forwards ---- */

static double forward_ms(struct sim_lab *lab, enum sim_lab_platform platform, const char *model,
                         uint32_t nodes, uint32_t n_tokens, enum sim_variant variant,
                         uint32_t group)
{
    const struct sim_lab_forward what = {.platform = platform,
                                         .model = model,
                                         .nodes = nodes,
                                         .tokens = n_tokens,
                                         .variant = variant,
                                         .group = group};
    return sim_lab_moe(lab, &what)->total_ms;
}

static void weak_scaling(struct sim_lab *lab, struct sim_figure *figure)
{
    static const struct {
        const char *name, *model;
        enum sim_variant variant;
    } lines[] = {{"Qwen3", QWEN3, SIM_VANILLA},
                 {"GPT-OSS", "gpt-oss-120b", SIM_VANILLA},
                 {"Llama4", "llama4-scout", SIM_VANILLA},
                 {"Qwen3, Perseus", QWEN3, SIM_PERSEUS}};
    for (uint32_t l = 0; l < COUNT(lines); l++) {
        struct sim_series *series = line(figure, lines[l].name, false);
        for (uint32_t nodes = 1; nodes <= 16; nodes *= 2) {
            point(series, nodes,
                  forward_ms(lab, SIM_LAB_SLINGSHOT, lines[l].model, nodes, SIM_FIGURE_1_TOKENS,
                             lines[l].variant, 0) /
                      forward_ms(lab, SIM_LAB_SLINGSHOT, lines[l].model, 1, SIM_FIGURE_1_TOKENS,
                                 lines[l].variant, 0));
        }
    }
    published(figure, "Qwen3", "fig1.qwen3_8nodes", 8);
    published(figure, "Qwen3", "fig1.qwen3_16nodes_vanilla", 16);
    published(figure, "Qwen3, Perseus", "fig1.qwen3_16nodes_perseus", 16);
    published(figure, "Llama4, range", "fig1.llama4_8nodes_low", 8);
    published(figure, "Llama4, range", "fig1.llama4_8nodes_high", 8);
}

static void by_group(struct sim_lab *lab, struct sim_figure *figure, uint32_t nodes,
                     uint32_t n_tokens, enum sim_variant variant, const char *suffix)
{
    uint32_t remote = 128 - 128 / nodes;
    char name[SIM_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", sim_variant_name(variant), suffix);
    struct sim_series *series = line(figure, name, false);
    for (uint32_t group = 1; group <= remote && series->n < SIM_POINTS_MAX; group++) {
        if (remote % group == 0) {
            point(series, group,
                  forward_ms(lab, SIM_LAB_SLINGSHOT, QWEN3, nodes, n_tokens, variant, group));
        }
    }
    static const enum sim_variant flat[] = {SIM_VANILLA, SIM_NIC_ONLY};
    for (uint32_t f = 0; f < COUNT(flat) && (variant == SIM_PERSEUS || f == 0); f++) {
        snprintf(name, sizeof name, "%s%s", sim_variant_name(flat[f]), suffix);
        struct sim_series *level = line(figure, name, false);
        double ms = forward_ms(lab, SIM_LAB_SLINGSHOT, QWEN3, nodes, n_tokens, flat[f], 0);
        point(level, 1, ms);
        point(level, remote, ms);
    }
}

static void groups_of_8(struct sim_lab *lab, struct sim_figure *figure)
{
    by_group(lab, figure, 8, SIM_FIGURE_7_TOKENS, SIM_DECOUPLED_ONLY, "");
    published(figure, "coupled", "fig7.coupled", 1);
    published(figure, "decoupled", "fig7.decoupled_g1", 1);
    published(figure, "decoupled", "fig7.decoupled_g28", 28);
}

static void groups_of_4(struct sim_lab *lab, struct sim_figure *figure)
{
    by_group(lab, figure, 4, 1024, SIM_PERSEUS, ", 1K tokens");
    by_group(lab, figure, 4, 65536, SIM_PERSEUS, ", 64K tokens");
}

static void speedups(struct sim_lab *lab, struct sim_figure *figure)
{
    static const struct {
        const char *name, *model;
        enum sim_lab_platform platform;
        uint32_t nodes;
    } lines[] = {{"Qwen3, libfabric, 16 nodes", QWEN3, SIM_LAB_SLINGSHOT, 16},
                 {"GPT-OSS, libfabric, 16 nodes", "gpt-oss-120b", SIM_LAB_SLINGSHOT, 16},
                 {"DeepSeek-V3, libfabric, 16 nodes", "deepseek-v3", SIM_LAB_SLINGSHOT, 16},
                 {"Qwen3, IBRC, 4 nodes", QWEN3, SIM_LAB_IBRC, 4}};
    for (uint32_t l = 0; l < COUNT(lines); l++) {
        struct sim_series *series = line(figure, lines[l].name, false);
        for (uint32_t i = 0; i < COUNT(tokens); i++) {
            point(series, tokens[i],
                  forward_ms(lab, lines[l].platform, lines[l].model, lines[l].nodes, tokens[i],
                             SIM_VANILLA, 0) /
                      forward_ms(lab, lines[l].platform, lines[l].model, lines[l].nodes, tokens[i],
                                 SIM_PERSEUS, 0));
        }
    }
    published(figure, "Qwen3, libfabric, peak", "fig9.libfabric_qwen3", tokens[0]);
    published(figure, "GPT-OSS, libfabric, peak", "fig9.libfabric_gptoss", tokens[0]);
    published(figure, "DeepSeek-V3, libfabric, peak", "fig9.libfabric_dsv3", tokens[0]);
    uint32_t last = COUNT(tokens) - 1;
    published(figure, "IBRC, peak", "fig9.ibrc_peak", tokens[last]);
}

static void ablation(struct sim_lab *lab, struct sim_figure *figure)
{
    for (uint32_t v = SIM_NIC_ONLY; v < SIM_VARIANTS; v++) {
        enum sim_variant variant = (enum sim_variant)v;
        struct sim_series *series = line(figure, sim_variant_name(variant), false);
        for (uint32_t i = 1; i < COUNT(tokens); i++) {
            point(series, tokens[i],
                  forward_ms(lab, SIM_LAB_SLINGSHOT, QWEN3, 8, tokens[i], SIM_VANILLA, 0) /
                      forward_ms(lab, SIM_LAB_SLINGSHOT, QWEN3, 8, tokens[i], variant, 0));
        }
    }
    published(figure, "nic-ordering, range", "fig10.nic_only_8nodes_low", tokens[4]);
    published(figure, "nic-ordering, range", "fig10.nic_only_8nodes_high", tokens[1]);
    published(figure, "decoupled, range", "fig10.decoupled_only_8nodes_low", tokens[4]);
    published(figure, "decoupled, range", "fig10.decoupled_only_8nodes_high", tokens[1]);
    published(figure, "perseus, range", "fig10.both_8nodes_low", tokens[4]);
    published(figure, "perseus, range", "fig10.both_8nodes_high", tokens[1]);
}

static void alltoall(struct sim_lab *lab, struct sim_figure *figure)
{
    struct sim_series *series = line(figure, "speedup", false);
    for (uint32_t i = 0; i < sim_alltoall_count; i++) {
        point(series, (double)sim_alltoall_bytes[i],
              sim_alltoall_ms(lab, sim_alltoall_bytes[i], false) /
                  sim_alltoall_ms(lab, sim_alltoall_bytes[i], true));
    }
    published(figure, "peak", "alltoall.peak", (double)sim_alltoall_bytes[0]);
}

/* ---- the list ---- */

static const struct {
    struct sim_figure head;
    void (*make)(struct sim_lab *lab, struct sim_figure *figure);
} figures[] = {
    {{.id = "1",
      .title = "Weak scaling, 4K tokens a PE",
      .x_label = "nodes",
      .y_label = "time over one node",
      .x_log = true},
     weak_scaling},
    {{.id = "5a",
      .title = "Signaling efficiency, 4 KiB",
      .x_label = "concurrent transfers",
      .y_label = "share of put-only left"},
     efficiency},
    {{.id = "5b",
      .title = "Fence time of 96 transfers",
      .x_label = "bytes",
      .y_label = "ms",
      .x_log = true},
     fence_time},
    {{.id = "5c",
      .title = "Fence share of 96 transfers",
      .x_label = "bytes",
      .y_label = "share of the time",
      .x_log = true},
     fence_share},
    {{.id = "7",
      .title = "Decoupled signaling, Qwen3, 1K tokens, 8 nodes",
      .x_label = "experts of a group",
      .y_label = "ms",
      .x_log = true},
     groups_of_8},
    {{.id = "8",
      .title = "Both techniques, Qwen3, 4 nodes",
      .x_label = "experts of a group",
      .y_label = "ms",
      .x_log = true,
      .y_log = true},
     groups_of_4},
    {{.id = "9",
      .title = "Speedup over vanilla",
      .x_label = "tokens of a PE",
      .y_label = "speedup",
      .x_log = true},
     speedups},
    {{.id = "10",
      .title = "Ablation, Qwen3, 8 nodes",
      .x_label = "tokens of a PE",
      .y_label = "speedup over vanilla",
      .x_log = true},
     ablation},
    {{.id = "alltoall",
      .title = "All-to-all with only the transport changed, 4 nodes",
      .x_label = "bytes of a message",
      .y_label = "speedup",
      .x_log = true},
     alltoall},
};

const char *sim_figure_name(uint32_t index)
{
    return index < COUNT(figures) ? figures[index].head.id : NULL;
}

enum perseus_status sim_figure_make(struct sim_lab *lab, const char *id, struct sim_figure *out)
{
    for (uint32_t i = 0; i < COUNT(figures); i++) {
        if (strcmp(figures[i].head.id, id) == 0) {
            *out = figures[i].head;
            figures[i].make(lab, out);
            return sim_lab_status(lab);
        }
    }
    return PERSEUS_NOT_FOUND;
}
