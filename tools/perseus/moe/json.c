/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kit/json_out.h"
#include "moe/job.h"

double prs_moe_tokens_per_s(const struct prs_moe_setup *setup, const struct prs_moe_result *result)
{
    return (double)setup->config.tokens_max * prs_moe_setup_pes(setup) / (result->total / 1e3);
}

static json_t *group_json(uint32_t group_experts)
{
    char name[16];
    prs_moe_group_name(group_experts, name);
    return json_string(name[0] != '\0' ? name : "pe, up to 8");
}

static json_t *variant_json(const struct prs_moe_point *point, uint32_t number)
{
    const struct prs_moe_results *results = &point->results;
    const struct prs_moe_variant *variant = &results->variants[number];
    const struct prs_moe_result *result = &results->result[number];
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
        {"speedup_over_vanilla", results->result[0].total / result->total},
        {"fences", result->fences},
        {"drains", result->drains},
        {"proxy_stall_ms", result->stall},
        {"communication_messages", result->messages},
        {"communication_bytes", result->bytes},
        {"communication_cpu_ms", result->cpu},
        {"communication_waits", result->waits},
        {"communication_preempted", result->preempted},
        {"relative_error", result->error},
        {"tokens_per_s", prs_moe_tokens_per_s(&point->setup, result)},
    };
    bool has_protocol = variant->protocol != NULL; /* not on a GPU */
    bool is_decoupled = has_protocol && variant->number == PERSEUS_MOE_DECOUPLED;
    const enum perseus_ordering mode = variant->is_best ? results->best : PERSEUS_ORDERING_DRAIN;
    json_t *object =
        json_pack("{s:s, s:s?, s:s?, s:b, s:o, s:b}", "name", variant->name, "protocol",
                  has_protocol ? perseus_moe_protocol_name(variant->number) : NULL, "ordering",
                  has_protocol ? perseus_ordering_name(mode) : NULL, "right", (int)result->is_right,
                  "group_experts",
                  is_decoupled ? group_json(point->setup.groups[variant->group]) : json_null(),
                  "answers_grouped", (int)variant->are_answers_grouped);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_object_set_new(object, numbers[i].key, prs_json_number(numbers[i].value));
    }
    return object;
}

/* Adds what belongs to one size to `object`: the document, or an element of its points. */
static void add_point(json_t *object, const struct prs_moe_point *point)
{
    const struct prs_moe_setup *setup = &point->setup;
    const struct prs_moe_results *results = &point->results;
    json_t *variants = json_array();
    double ceiling = (double)NAN;
    for (uint32_t i = 0; i < results->n_variants; i++) {
        if (results->variants[i].role == PRS_MOE_CEILING) {
            ceiling = fmin(ceiling, results->result[i].comm);
        } else if (results->result[i].is_run) {
            json_array_append_new(variants, variant_json(point, i));
        }
    }
    json_object_set_new(object, "nodes", json_integer(setup->nodes));
    json_object_set_new(object, "pes", json_integer(prs_moe_setup_pes(setup)));
    json_object_set_new(object, "tokens_per_pe", json_integer(setup->config.tokens_max));
    json_object_set_new(object, "rows_dropped", json_integer((json_int_t)point->inputs.dropped));
    json_object_set_new(object, "ceiling_ms", prs_json_number(ceiling));
    json_object_set_new(object, "expert_to_loop", prs_json_number(results->loop_ratio));
    json_object_set_new(object, "memory",
                        json_pack("{s:I, s:I, s:I}", "reserved_bytes",
                                  (json_int_t)point->need.reserved_bytes, "planned_bytes",
                                  (json_int_t)point->need.resident_bytes, "peak_bytes",
                                  (json_int_t)results->peak_bytes));
    json_object_set_new(object, "variants", variants);
}

static const char *unit_name(enum perseus_moe_unit unit, enum perseus_moe_unit otherwise)
{
    unit = unit == PERSEUS_MOE_UNIT_DEFAULT ? otherwise : unit;
    return unit == PERSEUS_MOE_UNIT_TILE ? "tile" : "expert";
}

bool prs_moe_write_json(const struct prs_moe_point *points, uint32_t n)
{
    const struct prs_moe_setup *setup = &points[0].setup;
    const struct perseus_moe_config *config = &setup->config;
    json_t *shape =
        json_pack("{s:i, s:i, s:i, s:i, s:i}", "hidden", (int)config->hidden, "intermediate",
                  (int)config->intermediate, "experts", (int)config->experts, "top_k",
                  (int)config->top_k, "shared_experts", (int)config->shared_experts);
    json_t *document = prs_json_begin("moe", setup->seed);
    json_object_set_new(document, "model",
                        setup->model != NULL ? json_string(setup->model) : json_null());
    json_object_set_new(document, "shape", shape);
    json_object_set_new(document, "routing", json_string(setup->routing));
    json_object_set_new(document, "dispatch_unit",
                        json_string(unit_name(config->dispatch_unit, PERSEUS_MOE_UNIT_EXPERT)));
    json_object_set_new(document, "combine_unit",
                        json_string(unit_name(config->combine_unit, PERSEUS_MOE_UNIT_TILE)));
    json_object_set_new(document, "fabric", json_string(points[0].results.fabric));
    json_object_set_new(document, "provider", json_string(points[0].results.provider));
    json_object_set_new(document, "device", json_string(setup->is_gpu ? "cuda" : "cpu"));
    json_object_set_new(document, "link",
                        setup->link != NULL ? json_string(setup->link) : json_null());
    if (n == 1) {
        add_point(document, &points[0]);
        return prs_json_write(document, &setup->json);
    }
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_t *point = json_object();
        add_point(point, &points[i]);
        json_array_append_new(list, point);
    }
    json_object_set_new(document, "points", list);
    return prs_json_write(document, &setup->json);
}
