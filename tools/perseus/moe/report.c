/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "kit/json_out.h"
#include "job.h"
#include "kit/table.h"

static double tokens_per_s(const struct prs_moe_setup *setup, const struct prs_moe_result *result)
{
    return (double)setup->config.tokens_max * prs_moe_setup_pes(setup) / (result->total / 1e3);
}

static void print_head(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                       const struct prs_moe_results *results)
{
    const struct perseus_moe_config *config = &setup->config;
    static const char *const types[] = {"f32", "bf16"};
    uint32_t threads = 1 + config->processors + config->subscribers;
    printf("%s%s: hidden %u, intermediate %u, %u experts, top-%u, %u shared; weights %s, wire %s\n",
           setup->model != NULL ? setup->model : "own shape",
           setup->is_cut ? " with a sixth of its intermediate size" : "", config->hidden,
           config->intermediate, config->experts, config->top_k, config->shared_experts,
           types[config->weight_dtype], types[config->wire_dtype]);
    printf(
        "%u node%s x %u PEs (%u thread%s%s each), %u tokens each, routing %s (%llu rows dropped); "
        "%s, provider %s%s%s\n",
        setup->nodes, setup->nodes > 1 ? "s" : "", setup->pes_per_node, threads,
        threads > 1 ? "s" : "", setup->nodes > 1 ? " and a proxy" : "", config->tokens_max,
        setup->routing, (unsigned long long)inputs->dropped, results->fabric, results->provider,
        setup->link != NULL ? ", link " : "", setup->link != NULL ? setup->link : "");
    printf("ordering: drain against %s (%s)\n\n", perseus_ordering_name(results->best),
           results->best_why);
}

static void print_row(struct prs_table *table, const struct prs_moe_setup *setup,
                      const struct prs_moe_results *results, enum prs_moe_variant variant)
{
    const struct prs_moe_result *result = &results->variant[variant];
    const struct prs_moe_result *vanilla = &results->variant[PRS_MOE_VANILLA];
    char name[PRS_MOE_NAME_BYTES];
    if (!result->is_run) {
        return;
    }
    prs_moe_variant_name(variant, results->best, name);
    prs_table_cell(table, "%s", name);
    prs_table_cell(table, "%.2f", result->comm);
    prs_table_cell(table, "%.2fx", vanilla->comm / result->comm);
    prs_table_cell(table, "%.2f", result->dispatch);
    prs_table_cell(table, "%.2f", result->expert);
    prs_table_cell(table, "%.2f", result->combine);
    prs_table_cell(table, "%.2f", result->exposed);
    prs_table_cell(table, "%.2f", result->total);
    prs_table_cell(table, "%.2fx", vanilla->total / result->total);
    prs_table_cell(table, "%.0f", result->fences);
    prs_table_cell(table, "%.0f", result->drains);
    prs_table_cell(table, "%.2f", result->stall);
    if (isnan(result->error)) {
        prs_table_cell(table, "%s", result->is_right ? "-" : "WRONG");
    } else {
        prs_table_cell(table, "%.1e%s", result->error, result->is_right ? "" : " WRONG");
    }
    prs_table_cell(table, "%.0f", tokens_per_s(setup, result));
}

static bool print_table(const struct prs_moe_setup *setup, const struct prs_moe_results *results)
{
    static const struct prs_table_column columns[] = {
        {"variant", PRS_ALIGN_LEFT},   {"comm", PRS_ALIGN_RIGHT},     {"gain", PRS_ALIGN_RIGHT},
        {"dispatch", PRS_ALIGN_RIGHT}, {"expert", PRS_ALIGN_RIGHT},   {"combine", PRS_ALIGN_RIGHT},
        {"exposed", PRS_ALIGN_RIGHT},  {"total", PRS_ALIGN_RIGHT},    {"speed-up", PRS_ALIGN_RIGHT},
        {"fences", PRS_ALIGN_RIGHT},   {"drains", PRS_ALIGN_RIGHT},   {"stall", PRS_ALIGN_RIGHT},
        {"error", PRS_ALIGN_RIGHT},    {"tokens/s", PRS_ALIGN_RIGHT},
    };
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < PRS_MOE_VARIANT_COUNT; i++) {
        print_row(table, setup, results, (enum prs_moe_variant)i);
    }
    bool is_told = prs_table_print(table, stdout);
    prs_table_destroy(table);
    printf(
        "\nTimes in ms, medians of %u forwards. comm: a forward whose experts do nothing; gain and "
        "speed-up: against\nthe first row; stall: a proxy standing still; fences and drains of all "
        "PEs. docs/moe.md defines each.\n",
        setup->repeat * setup->iterations);
    return is_told;
}

/* What a forward's time is spent on: its communication, or, that taken away, its experts. */
static void print_rest(const struct prs_moe_result *result)
{
    printf("Of the %.2f ms of a whole forward, %s takes the most.\n", result->total,
           result->comm > result->total / 2 ? "communication" : "computing experts");
}

/* In plain words: what the bottleneck was, which lever removed it, and what the next one is. */
static void print_verdict(const struct prs_moe_results *results)
{
    const struct prs_moe_result *vanilla = &results->variant[PRS_MOE_VANILLA];
    const struct prs_moe_result *grouped = &results->variant[PRS_MOE_DECOUPLED_DRAIN];
    const struct prs_moe_result *ordered = &results->variant[PRS_MOE_COUPLED_BEST];
    const struct prs_moe_result *both = &results->variant[PRS_MOE_PERSEUS];
    const struct prs_moe_result *ceiling = &results->variant[PRS_MOE_CEILING];
    bool has_best = both->is_run;
    const struct prs_moe_result *best = has_best ? both : grouped;
    double gain = vanilla->comm / best->comm;
    if (!has_best) {
        printf("\nNo ordering but drain was asked for, or is kept here: decoupled signaling is the "
               "only "
               "lever.");
    }
    if (gain < 1.1 || vanilla->drains == 0) {
        printf("\nSignaling was no bottleneck: communication takes %.2f ms in the vanilla way and "
               "%.2f ms with %s.\n",
               vanilla->comm, best->comm, has_best ? "both levers" : "decoupled signaling");
        print_rest(best);
        return;
    }
    printf(
        "\nThe bottleneck was the fence of every put-with-signal: %.0f drains held up the proxies "
        "for %.2f ms each of a forward.\n",
        vanilla->drains, vanilla->stall);
    bool is_fence_count = !has_best || grouped->comm < ordered->comm;
    printf("%s alone makes communication %.1f times as fast",
           is_fence_count ? "Decoupled signaling (fewer fences)"
                          : "Ordering without a drain (cheap fences)",
           vanilla->comm / (is_fence_count ? grouped : ordered)->comm);
    if (has_best) {
        printf(", both levers %.1f times", gain);
    }
    printf(": %.2f instead of %.2f ms, %.2f times the put-only ceiling.\n", best->comm,
           vanilla->comm, best->comm / ceiling->comm);
    print_rest(best);
}

bool prs_moe_print(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                   const struct prs_moe_need *need, const struct prs_moe_results *results)
{
    print_head(setup, inputs, results);
    bool is_told = print_table(setup, results);
    print_verdict(results);
    printf(
        "Experts take %.2f times a plain loop over the same products. Memory of a PE: planned %.0f "
        "MiB, largest %.0f MiB (of %.0f reserved).\n",
        results->loop_ratio, (double)need->resident_bytes / (1 << 20),
        results->peak_bytes / (1 << 20), (double)need->reserved_bytes / (1 << 20));
    return is_told;
}

/* ---- the file ---- */

static json_t *variant_json(const struct prs_moe_setup *setup,
                            const struct prs_moe_results *results, enum prs_moe_variant variant)
{
    const struct prs_moe_variant_info *info = prs_moe_variant_info(variant);
    const struct prs_moe_result *result = &results->variant[variant];
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"dispatch_ms", result->dispatch},
        {"expert_ms", result->expert},
        {"expert_wall_ms", result->expert_wall},
        {"combine_ms", result->combine},
        {"total_ms", result->total},
        {"communication_ms", result->comm},
        {"exposed_comm_ms", result->exposed},
        {"speedup_over_vanilla", results->variant[PRS_MOE_VANILLA].total / result->total},
        {"fences", result->fences},
        {"drains", result->drains},
        {"proxy_stall_ms", result->stall},
        {"relative_error", result->error},
        {"tokens_per_s", tokens_per_s(setup, result)},
    };
    json_t *object = json_pack(
        "{s:s, s:s, s:b}", "protocol", perseus_moe_protocol_name(info->protocol), "ordering",
        perseus_ordering_name(info->is_best ? results->best : PERSEUS_ORDERING_DRAIN), "right",
        (int)result->is_right);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_object_set_new(object, numbers[i].key, prs_json_number(numbers[i].value));
    }
    return object;
}

bool prs_moe_write_json(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                        const struct prs_moe_need *need, const struct prs_moe_results *results)
{
    const struct perseus_moe_config *config = &setup->config;
    json_t *variants = json_array();
    for (int i = 0; i < PRS_MOE_VARIANT_COUNT; i++) {
        if (results->variant[i].is_run) {
            json_array_append_new(variants, variant_json(setup, results, (enum prs_moe_variant)i));
        }
    }
    json_t *shape =
        json_pack("{s:i, s:i, s:i, s:i, s:i}", "hidden", (int)config->hidden, "intermediate",
                  (int)config->intermediate, "experts", (int)config->experts, "top_k",
                  (int)config->top_k, "shared_experts", (int)config->shared_experts);
    json_t *memory = json_pack(
        "{s:I, s:I, s:I}", "reserved_bytes", (json_int_t)need->reserved_bytes, "planned_bytes",
        (json_int_t)need->resident_bytes, "peak_bytes", (json_int_t)results->peak_bytes);
    json_t *document = prs_json_begin("moe", setup->seed);
    json_object_set_new(document, "model",
                        setup->model != NULL ? json_string(setup->model) : json_null());
    json_object_set_new(document, "shape", shape);
    json_object_set_new(document, "nodes", json_integer(setup->nodes));
    json_object_set_new(document, "pes", json_integer(prs_moe_setup_pes(setup)));
    json_object_set_new(document, "tokens_per_pe", json_integer(config->tokens_max));
    json_object_set_new(document, "routing", json_string(setup->routing));
    json_object_set_new(document, "rows_dropped", json_integer((json_int_t)inputs->dropped));
    json_object_set_new(document, "fabric", json_string(results->fabric));
    json_object_set_new(document, "provider", json_string(results->provider));
    json_object_set_new(document, "link",
                        setup->link != NULL ? json_string(setup->link) : json_null());
    json_object_set_new(document, "expert_to_loop", prs_json_number(results->loop_ratio));
    json_object_set_new(document, "memory", memory);
    json_object_set_new(document, "variants", variants);
    return prs_json_write(document, &setup->json);
}
