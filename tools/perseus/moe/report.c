/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "kit/table.h"
#include "moe/job.h"
#include "moe/verdict.h"

static void print_shape(const struct prs_moe_setup *setup)
{
    const struct perseus_moe_config *config = &setup->config;
    static const char *const types[] = {"f32", "bf16"};
    printf("%s: hidden %u, intermediate %u, %u experts, top-%u, %u shared; weights %s, wire %s\n",
           setup->shape_name, config->hidden, config->intermediate, config->experts, config->top_k,
           config->shared_experts, types[config->weight_dtype], types[config->wire_dtype]);
}

static void print_gpu_head(const struct prs_moe_point *points, uint32_t n)
{
    const struct prs_moe_setup *setup = &points[0].setup;
    const struct prs_moe_results *results = &points[0].results;
    print_shape(setup);
    if (n == 1) {
        printf("%u PEs, %u tokens each, ", prs_moe_setup_pes(setup), setup->config.tokens_max);
    }
    printf("routing %s; %u x %s, %u multiprocessors a PE, %s\n\n", setup->routing, setup->gpus,
           results->provider, results->processors, results->fabric);
}

static void print_head(const struct prs_moe_point *points, uint32_t n)
{
    const struct prs_moe_setup *setup = &points[0].setup;
    const struct prs_moe_results *results = &points[0].results;
    const struct perseus_moe_config *config = &setup->config;
    uint32_t threads = 1 + config->processors + config->subscribers;
    bool has_proxy = false;
    print_shape(setup);
    for (uint32_t i = 0; i < n; i++) {
        has_proxy |= points[i].setup.nodes > 1;
    }
    if (n == 1) {
        printf("%u node%s x ", setup->nodes, setup->nodes > 1 ? "s" : "");
    } else {
        printf("nodes of ");
    }
    printf("%u PEs (%u thread%s%s each)", setup->pes_per_node, threads, threads > 1 ? "s" : "",
           has_proxy ? " and a proxy" : "");
    if (n == 1) {
        printf(", %u tokens each", config->tokens_max);
    }
    printf(", routing %s", setup->routing);
    if (n == 1) {
        printf(" (%llu rows dropped)", (unsigned long long)points[0].inputs.dropped);
    }
    printf("; %s, provider %s%s%s\n", results->fabric, results->provider,
           setup->link != NULL ? ", link " : "", setup->link != NULL ? setup->link : "");
    printf("ordering: drain against %s (%s)\n\n", perseus_ordering_name(results->best),
           results->best_why);
}

/* A number that a ceiling does not have. */
static void cell(struct prs_table *table, const char *format, double value)
{
    char text[32] = "-";
    if (!isnan(value)) {
        snprintf(text, sizeof text, format, value); /* NOLINT(clang-diagnostic-format-nonliteral) */
    }
    prs_table_cell(table, "%s", text);
}

static void print_row(struct prs_table *table, const struct prs_moe_point *point, uint32_t variant)
{
    const struct prs_moe_results *results = &point->results;
    const struct prs_moe_result *result = &results->result[variant];
    const struct prs_moe_result *vanilla = &results->result[0];
    prs_table_cell(table, "%s", results->variants[variant].name);
    /* Times of GPUs are fractions of a millisecond. */
    const char *time = point->setup.is_gpu ? "%.3f" : "%.2f";
    cell(table, time, result->comm);
    cell(table, "%.2fx", vanilla->comm / result->comm);
    cell(table, time, result->dispatch);
    cell(table, time, result->expert);
    cell(table, time, result->combine);
    cell(table, time, result->exposed);
    cell(table, time, result->total);
    cell(table, "%.2fx", vanilla->total / result->total);
    cell(table, "%.0f", result->fences);
    cell(table, "%.0f", result->drains);
    cell(table, "%.2f", result->stall);
    if (result->is_right && results->variants[variant].role != PRS_MOE_CEILING) {
        cell(table, "%.1e", result->error);
    } else {
        prs_table_cell(table, "%s", result->is_right ? "-" : "WRONG");
    }
    cell(table, "%.0f", prs_moe_tokens_per_s(&point->setup, result));
}

static bool print_table(const struct prs_moe_point *points, uint32_t n)
{
    static const struct prs_table_column columns[] = {
        {"nodes", PRS_ALIGN_RIGHT},    {"tokens", PRS_ALIGN_RIGHT},   {"variant", PRS_ALIGN_LEFT},
        {"comm", PRS_ALIGN_RIGHT},     {"gain", PRS_ALIGN_RIGHT},     {"dispatch", PRS_ALIGN_RIGHT},
        {"expert", PRS_ALIGN_RIGHT},   {"combine", PRS_ALIGN_RIGHT},  {"exposed", PRS_ALIGN_RIGHT},
        {"total", PRS_ALIGN_RIGHT},    {"speed-up", PRS_ALIGN_RIGHT}, {"fences", PRS_ALIGN_RIGHT},
        {"drains", PRS_ALIGN_RIGHT},   {"stall", PRS_ALIGN_RIGHT},    {"error", PRS_ALIGN_RIGHT},
        {"tokens/s", PRS_ALIGN_RIGHT},
    };
    enum { COLUMNS = sizeof columns / sizeof *columns, OF_POINT = 2 };
    uint32_t skipped = n > 1 ? 0 : OF_POINT; /* one point needs no columns to say which */
    struct prs_table *table = prs_table_create(columns + skipped, COLUMNS - skipped);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t v = 0; v < points[i].results.n_variants; v++) {
            if (n > 1) {
                prs_table_cell(table, "%u", points[i].setup.nodes);
                prs_table_cell(table, "%u", points[i].setup.config.tokens_max);
            }
            print_row(table, &points[i], v);
        }
    }
    bool is_told = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_told;
}

static void print_legend(const struct prs_moe_setup *setup)
{
    const uint32_t forwards = setup->repeat * setup->iterations;
    if (setup->is_gpu) {
        printf("\nTimes in ms, medians of %u samples. comm: dispatch and combine around experts "
               "that do nothing; expert: the\nproducts alone; exposed: what of the total they do "
               "not cover; speed-up: against the first row. docs/gpu-moe.md.\n",
               forwards);
        return;
    }
    printf(
        "\nTimes in ms, medians of %u forwards. comm: a forward whose experts do nothing; gain and "
        "speed-up: against\nthe first row; stall: a proxy standing still; fences and drains of "
        "all PEs. decoupled groups dispatch, as the paper\ndoes; both ways: answers too. ceiling: "
        "puts that nothing orders. docs/moe.md defines each.\n",
        forwards);
}

/* What a forward without products is made of. */
static bool print_details(const struct prs_moe_point *point)
{
    static const struct prs_table_column columns[] = {
        {"variant", PRS_ALIGN_LEFT}, {"comm", PRS_ALIGN_RIGHT},     {"messages", PRS_ALIGN_RIGHT},
        {"KiB", PRS_ALIGN_RIGHT},    {"cpu", PRS_ALIGN_RIGHT},      {"cores", PRS_ALIGN_RIGHT},
        {"waits", PRS_ALIGN_RIGHT},  {"preempted", PRS_ALIGN_RIGHT}};
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof *columns);
    for (uint32_t v = 0; v < point->results.n_variants; v++) {
        const struct prs_moe_result *result = &point->results.result[v];
        prs_table_cell(table, "%s", point->results.variants[v].name);
        prs_table_cell(table, "%.2f", result->comm);
        prs_table_cell(table, "%.0f", result->messages);
        prs_table_cell(table, "%.0f", result->bytes / 1024);
        prs_table_cell(table, "%.2f", result->cpu);
        prs_table_cell(table, "%.2f", result->cpu / result->comm);
        prs_table_cell(table, "%.0f", result->waits);
        prs_table_cell(table, "%.0f", result->preempted);
    }
    printf("\nWhat communication is made of, all PEs together (cpu: ms of all threads; cores: cpu "
           "over "
           "comm; waits: threads\nthat gave their core away; preempted: that lost it):\n\n");
    bool is_told = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_told;
}

bool prs_moe_print(const struct prs_moe_point *points, uint32_t n)
{
    const struct prs_moe_setup *setup = &points[0].setup;
    (setup->is_gpu ? print_gpu_head : print_head)(points, n);
    bool is_told = print_table(points, n);
    print_legend(setup);
    for (uint32_t i = 0; i < n && !setup->is_gpu; i++) {
        const struct prs_moe_point *point = &points[i];
        printf("\n");
        if (n > 1) {
            printf("%u nodes, %u tokens:\n", point->setup.nodes, point->setup.config.tokens_max);
        }
        prs_moe_verdict(&point->results, stdout);
        printf(
            "Experts take %.2f times a plain loop over the same products. Memory of a PE: planned "
            "%.0f MiB, largest %.0f MiB (of %.0f reserved).\n",
            point->results.loop_ratio, (double)point->need.resident_bytes / (1 << 20),
            point->results.peak_bytes / (1 << 20), (double)point->need.reserved_bytes / (1 << 20));
        if (point->setup.has_details) {
            is_told = print_details(point) && is_told;
        }
    }
    return is_told;
}
