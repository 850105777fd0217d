/* SPDX-License-Identifier: Apache-2.0 */
/* perseus moe: one Mixture-of-Experts layer across PEs, the vanilla way, with each lever, with
 * both. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/limits.h"
#include "moe/command.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "model/models.h"
#include "moe/plan.h"
#include "job.h"
#include "gpu.h"
#include "kit/options.h"
#include "kit/tool_log.h"

enum {
    CUT = 6, /* of the default model's intermediate size: what two cores can do */
    PROCESSORS_BY_CORES = INT_MAX
};
#define DEFAULT_MODEL   "gpt-oss-20b"
#define SHARED_SLEEP_US "200" /* of a proxy, where PEs share cores */
#define DEFAULT_TRACE   "data/gpt_oss_20b_topk_ids_slice.npy"

/* Options as read; zero: not given. */
struct options {
    struct prs_moe_setup setup;
    struct prs_list nodes, tokens;
    uint32_t hidden, intermediate, experts, top_k, shared_experts;
    bool has_shared, has_wire;
    enum perseus_moe_dtype wire;
};

/* ---- parsers ---- */

static const char *parse_number(const char *text, void *target) /* uint32_t, from 0 */
{
    uint32_t value = 0;
    if (strcmp(text, "0") != 0 && prs_parse_count(text, &value) != NULL) {
        return "a number from 0 to 1,000,000";
    }
    *(uint32_t *)target = value;
    return NULL;
}

static const char *parse_model(const char *text, void *target) /* const char * */
{
    if (prs_moe_model_find(text) == NULL) {
        return "gpt-oss-20b, gpt-oss-120b, qwen3-30b, qwen3-235b, deepseek-v3, llama4-scout or "
               "mixtral-8x7b";
    }
    *(const char **)target = text;
    return NULL;
}

static const char *parse_dtype(const char *text, void *target) /* enum perseus_moe_dtype */
{
    if (strcmp(text, "f32") != 0 && strcmp(text, "bf16") != 0) {
        return "f32 or bf16";
    }
    *(enum perseus_moe_dtype *)target = text[0] == 'f' ? PERSEUS_MOE_F32 : PERSEUS_MOE_BF16;
    return NULL;
}

static const char *parse_wire(const char *text, void *target) /* struct options */
{
    struct options *options = target;
    options->has_wire = true;
    return parse_dtype(text, &options->wire);
}

static const char *parse_shared(const char *text, void *target) /* struct options */
{
    struct options *options = target;
    options->has_shared = true;
    return parse_number(text, &options->shared_experts);
}

static const char *parse_two_matrix(const char *text, void *target) /* enum perseus_moe_form */
{
    (void)text;
    *(enum perseus_moe_form *)target = PERSEUS_MOE_TWO_MATRIX;
    return NULL;
}

static const char *parse_ordering(const char *text, void *target) /* enum perseus_ordering */
{
    return perseus_ordering_parse(text, target) == PERSEUS_OK
               ? NULL
               : "auto, drain, drain-peer, deferred, nic-fence, fifo or counted";
}

static const char *parse_device(const char *text, void *target) /* bool */
{
    *(bool *)target = strcmp(text, "cuda") == 0;
    return *(bool *)target || strcmp(text, "cpu") == 0 ? NULL : "cpu or cuda";
}

static const char *parse_factor(const char *text, void *target) /* double */
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0) || isinf(value)) {
        return "a number above 0";
    }
    *(double *)target = value;
    return NULL;
}

static const char *parse_unit(const char *text, void *target) /* enum perseus_moe_unit */
{
    if (strcmp(text, "expert") != 0 && strcmp(text, "tile") != 0) {
        return "expert or tile";
    }
    *(enum perseus_moe_unit *)target =
        text[0] == 'e' ? PERSEUS_MOE_UNIT_EXPERT : PERSEUS_MOE_UNIT_TILE;
    return NULL;
}

static const char *append_group(const char *word, void *target) /* struct prs_moe_setup */
{
    struct prs_moe_setup *setup = target;
    uint32_t size = 0;
    if (strcmp(word, "pe") == 0) {
        size = PERSEUS_MOE_GROUP_PE;
    } else if (strcmp(word, "all") == 0) {
        size = PRS_MOE_GROUP_ALL;
    } else if (strcmp(word, "0") != 0 && prs_parse_count(word, &size) != NULL) {
        return "numbers of experts, pe or all, separated by commas";
    }
    for (uint32_t i = 0; i < setup->n_groups; i++) {
        if (setup->groups[i] == size) {
            return "every size once";
        }
    }
    if (setup->n_groups == PRS_MOE_GROUPS_MAX) {
        return "at most 8 sizes";
    }
    setup->groups[setup->n_groups++] = size;
    return NULL;
}

static const char *parse_groups(const char *text, void *target) /* struct prs_moe_setup */
{
    ((struct prs_moe_setup *)target)->n_groups = 0;
    return prs_parse_words(text, append_group, target);
}

/* ---- options ---- */

/* The recorded slice: in the folder the program is started in, or in the source tree that its build
 * folder is in (build/PRESET/bin/perseus). NULL if neither has it. */
static const char *find_default_trace(char *path, size_t capacity)
{
    char program[PATH_MAX - 64];
    if (access(DEFAULT_TRACE, R_OK) == 0) {
        snprintf(path, capacity, "trace:%s", DEFAULT_TRACE);
        return path;
    }
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(program, '/');
        if (slash == NULL) {
            return NULL;
        }
        *slash = '\0';
    }
    snprintf(path, capacity, "trace:%s/%s", program, DEFAULT_TRACE);
    return access(path + strlen("trace:"), R_OK) == 0 ? path : NULL;
}

static uint32_t given_or(uint32_t given, uint32_t value)
{
    return given > 0 ? given : value;
}

/* Whether `value` differs from the model's; then says so in the name. */
static void name_change(struct prs_moe_setup *setup, bool *is_own, const char *what, uint32_t value,
                        uint32_t of_model)
{
    size_t used = strlen(setup->shape_name);
    if (value != of_model) {
        snprintf(setup->shape_name + used, sizeof setup->shape_name - used, "%s %s %u",
                 *is_own ? "," : " but for", what, value);
        *is_own = true;
    }
}

/* A shape is a model's only if all of it is. */
static void name_shape(struct prs_moe_setup *setup, const struct prs_moe_model *model)
{
    const struct perseus_moe_config *config = &setup->config;
    bool is_own = false;
    if (model == NULL) {
        snprintf(setup->shape_name, sizeof setup->shape_name, "own shape");
        return;
    }
    snprintf(setup->shape_name, sizeof setup->shape_name, "%s%s", model->name,
             setup->is_cut ? " with a sixth of its intermediate size" : "");
    name_change(setup, &is_own, "hidden", config->hidden, model->hidden);
    if (!setup->is_cut) {
        name_change(setup, &is_own, "intermediate", config->intermediate, model->intermediate);
    }
    name_change(setup, &is_own, "experts", config->experts, model->experts);
    name_change(setup, &is_own, "top-k", config->top_k, model->top_k);
    name_change(setup, &is_own, "shared experts", config->shared_experts, model->shared_experts);
    if (is_own) {
        char like[sizeof setup->shape_name];
        memcpy(like, setup->shape_name, sizeof like);
        snprintf(setup->shape_name, sizeof setup->shape_name, "own shape (%.100s)", like);
        setup->model = NULL;
    }
}

/* Shape: a model's, changed by what was given. */
static void settle_shape(struct options *options)
{
    struct prs_moe_setup *setup = &options->setup;
    struct perseus_moe_config *config = &setup->config;
    bool is_own = options->hidden > 0 && options->intermediate > 0 && options->experts > 0 &&
                  options->top_k > 0;
    if (setup->model == NULL && !is_own) {
        setup->model = DEFAULT_MODEL;
        setup->is_cut = options->intermediate == 0;
    }
    const struct prs_moe_model none = {0};
    const struct prs_moe_model *found =
        setup->model != NULL ? prs_moe_model_find(setup->model) : NULL;
    const struct prs_moe_model *model = found != NULL ? found : &none;
    uint32_t inner = setup->is_cut ? model->intermediate / CUT : model->intermediate;
    config->hidden = given_or(options->hidden, model->hidden);
    config->intermediate = given_or(options->intermediate, inner);
    config->experts = given_or(options->experts, model->experts);
    config->top_k = given_or(options->top_k, model->top_k);
    config->shared_experts = options->has_shared ? options->shared_experts : model->shared_experts;
    config->wire_dtype = options->has_wire ? options->wire : config->weight_dtype;
    config->tile_tokens = given_or(config->tile_tokens, PRS_MOE_TILE_DEFAULT);
    name_shape(setup, found);
}

/* The recorded routing fits gpt-oss-20b; other shapes get a skew like it. */
static const char *default_routing(const struct prs_moe_setup *setup, char *path, size_t capacity)
{
    const struct prs_moe_model *recorded = prs_moe_model_find(DEFAULT_MODEL);
    bool fits =
        setup->config.experts == recorded->experts && setup->config.top_k == recorded->top_k;
    const char *trace = fits ? find_default_trace(path, capacity) : NULL;
    return trace != NULL ? trace : "zipf:0.7";
}

/* Limits of the layer, by the option that breaks one. Exit code, or PRS_EXIT_OK. */
static int check_limits(const struct options *options, const struct prs_command *command,
                        uint32_t tokens)
{
    const struct perseus_moe_config *config = &options->setup.config;
    const struct {
        const char *option;
        uint32_t value, max;
    } limits[] = {
        {"--hidden", config->hidden, PRS_MOE_WIDTH_MAX},
        {"--intermediate", config->intermediate, PRS_MOE_WIDTH_MAX},
        {"--experts", config->experts, PERSEUS_MOE_EXPERTS_MAX},
        {"--top-k", config->top_k, PERSEUS_MOE_TOP_K_MAX},
        {"--shared-experts", config->shared_experts, PRS_MOE_SHARED_MAX},
        {"--tokens", tokens, PERSEUS_MOE_TOKENS_MAX},
        {"--tile", config->tile_tokens, PERSEUS_MOE_TOKENS_MAX},
        {"--processors", config->processors, PRS_MOE_PROCESSORS_MAX},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].value > limits[i].max) {
            return prs_command_mistake(command, "%s must be at most %u, not %u", limits[i].option,
                                       limits[i].max, limits[i].value);
        }
    }
    if (config->top_k > config->experts) {
        return prs_command_mistake(command, "--top-k %u is more than the %u experts (--experts)",
                                   config->top_k, config->experts);
    }
    if ((uint64_t)tokens * config->top_k > PERSEUS_MOE_ROWS_MAX) {
        return prs_command_mistake(command, "--tokens %u times --top-k %u must be at most %u",
                                   tokens, config->top_k, PERSEUS_MOE_ROWS_MAX);
    }
    return PRS_EXIT_OK;
}

static uint32_t largest(const struct prs_list *list)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        most = list->values[i] > most ? list->values[i] : most;
    }
    return (uint32_t)most;
}

/* What only shows when options are seen together. NULL: nothing. */
static const char *check(const struct options *options)
{
    const struct prs_moe_setup *setup = &options->setup;
    if ((uint64_t)largest(&options->nodes) * setup->pes_per_node > 1024) {
        return "more than 1024 PEs are too many for one machine";
    }
    if (setup->fabric != NULL && strcmp(setup->fabric, "loopback") == 0) {
        return "--fabric loopback is one process, and every PE here is its own: use libfabric with "
               "--provider tcp or sockets";
    }
    if (setup->config.subscribers > 1 ||
        (setup->config.subscribers == 1 && setup->config.processors == 0)) {
        return "--subscribers must be 0 or 1, and a subscriber needs --processors 1 or more";
    }
    for (uint32_t i = 0; i < options->nodes.n && setup->is_gpu; i++) {
        struct prs_moe_setup at = *setup;
        at.nodes = (uint32_t)options->nodes.values[i];
        const char *mistake = prs_moe_gpu_mistake(&at);
        if (mistake != NULL) {
            return mistake;
        }
    }
    if (setup->gpus != 1 && !setup->is_gpu) {
        return "--gpus is for --device cuda";
    }
    if (setup->trace.path != NULL && options->nodes.n * options->tokens.n > 1) {
        return "--trace shows one run: give one number of --nodes and of --tokens with it";
    }
    return NULL;
}

enum { N_INPUT_OPTIONS = 16, N_RUN_OPTIONS = 25, N_OPTIONS = N_INPUT_OPTIONS + N_RUN_OPTIONS };

/* What is computed, on how many PEs. */
static void fill_input_options(struct options *o, struct prs_option *out)
{
    struct prs_moe_setup *setup = &o->setup;
    struct perseus_moe_config *config = &setup->config;
    const struct prs_option options[N_INPUT_OPTIONS] = {
        {"model", "NAME",
         "gpt-oss-20b, gpt-oss-120b, qwen3-30b, qwen3-235b, deepseek-v3,\n"
         "llama4-scout, mixtral-8x7b, in full size (without: gpt-oss-20b\n"
         "with a sixth of its intermediate size)",
         parse_model, &setup->model},
        {"hidden", "N", "instead of the model's", prs_parse_count, &o->hidden},
        {"intermediate", "N", "instead of the model's", prs_parse_count, &o->intermediate},
        {"experts", "N", "instead of the model's", prs_parse_count, &o->experts},
        {"top-k", "N", "instead of the model's", prs_parse_count, &o->top_k},
        {"shared-experts", "N", "instead of the model's", parse_shared, o},
        {"two-matrix", NULL, "the paper's experts, without a gate matrix", parse_two_matrix,
         &config->form},
        {"dtype", "TYPE", "weights and wire: f32 or bf16 (bf16)", parse_dtype,
         &config->weight_dtype},
        {"wire", "TYPE", "only the wire", parse_wire, o},
        {"tokens", "N,...", "of every PE (16)", prs_parse_counts, &o->tokens},
        {"nodes", "N,...",
         "nodes, which talk through the fabric (4); of several numbers,\n"
         "here and in --tokens, every pair is measured, in turns",
         prs_parse_counts, &o->nodes},
        {"pes-per-node", "N", "PEs of a node, which share memory (2)", prs_parse_count,
         &setup->pes_per_node},
        {"routing", "KIND",
         "trace:FILE.npy, trace:FILE.csv, uniform, balanced or zipf:S\n"
         "(recorded from gpt-oss-20b where that fits, else zipf:0.7)",
         prs_parse_text, &setup->routing},
        {"layer", "N", "of a trace with several layers (0)", parse_number, &setup->spec.layer},
        {"weights", "FILE",
         "a checkpoint: a .safetensors file, an index of several, or their\nfolder (random from "
         "the seed)",
         prs_parse_text, &setup->weights},
        {"weights-layer", "N", "layer in that file (0)", parse_number, &setup->weights_layer},
    };
    memcpy(out, options, sizeof options);
}

/* How it is computed and measured. */
static void fill_run_options(struct options *o, struct prs_option *out)
{
    struct prs_moe_setup *setup = &o->setup;
    struct perseus_moe_config *config = &setup->config;
    const struct prs_option options[N_RUN_OPTIONS] = {
        {"device", "NAME", "cpu, or cuda: the megakernel, PEs in one process (cpu)", parse_device,
         &setup->is_gpu},
        {"gpus", "N", "with --device cuda: GPUs that the PEs are spread over (1)", prs_parse_count,
         &setup->gpus},
        {"capacity-factor", "F", "drop what an expert gets beyond F times its mean", parse_factor,
         &config->capacity_factor},
        {"tile", "N", "tokens of a tile (64)", prs_parse_count, &config->tile_tokens},
        {"dispatch-unit", "UNIT", "what is sent and signaled at a time: expert or tile (expert)",
         parse_unit, &config->dispatch_unit},
        {"combine-unit", "UNIT", "the same on the way back (tile)", parse_unit,
         &config->combine_unit},
        {"group-experts", "N,...",
         "experts of a signal group: numbers, pe (those of one PE: the\npaper's), all; 0: those of "
         "one PE, up to 8 (0)",
         parse_groups, setup},
        {"no-vector", NULL, "a group's signals one by one, not as one write", prs_parse_off,
         &config->vector_signals},
        {"processors", "N",
         "threads of a PE that run tiles; 0: its main thread\n(1; 0 with more PEs than cores)",
         parse_number, &config->processors},
        {"subscribers", "N", "1: a thread that only watches for arrivals (0)", parse_number,
         &config->subscribers},
        {"relaxed", NULL, "results may depend on the order of arrival", prs_parse_on,
         &config->relaxed},
        {"iterations", "N", "measured forwards of a variant in a turn (5)", prs_parse_count,
         &setup->iterations},
        {"repeat", "N", "turns of each ordering mode (3)", prs_parse_count, &setup->repeat},
        {"fabric", "NAME", "libfabric", prs_parse_text, &setup->fabric},
        {"provider", "NAME", "libfabric provider: tcp, sockets, shm, ...", prs_parse_text,
         &setup->provider},
        {"ordering", "MODE", "what drain is compared with (auto: the fabric's best)",
         parse_ordering, &setup->ordering},
        {"link", "MODEL",
         "delay every operation as a link would:\nlatency=5us,bandwidth=25G,jitter=1us",
         prs_parse_text, &setup->link},
        {"qps", "N", "queue pairs to each peer (fabric verbs; 1 to 8)", prs_parse_text,
         &setup->qps},
        {"no-verify", NULL, "do not compute the reference", prs_parse_on, &setup->skips_verify},
        {"details", NULL, "also what communication is made of: messages, CPU time, waits",
         prs_parse_on, &setup->has_details},
        {"plan", NULL, "say what memory the run takes, and stop", prs_parse_on, &setup->is_plan},
        {"trace", "FILE", "what every thread and proxy did, for Perfetto", prs_parse_text,
         &setup->trace.path},
        {"timeout-ms", "N", "how long anything may stand still (60000)", prs_parse_count,
         &setup->timeout_ms},
        {"seed", "N", "of tokens, weights, generated routing (1)", prs_parse_seed, &setup->seed},
        {"json", "FILE", "write every number there", prs_parse_text, &setup->json.path},
    };
    memcpy(out, options, sizeof options);
}

/* ---- the command ---- */

/* With more threads than cores, a proxy that spins takes the core from those it waits for, every
 * look of one that sleeps interrupts a product, and a thread beside the main one only has to be
 * switched to. (A modelled link is looked at more often, or its latency would be the sleep's.) What
 * the user has set stays. */
static void settle_threads(struct prs_moe_setup *setup, uint32_t nodes)
{
    struct prs_limits limits;
    prs_limits_read("", &limits);
    long cores = (long)limits.cpus, pes = (long)nodes * setup->pes_per_node;
    if (setup->config.processors == PROCESSORS_BY_CORES) {
        setup->config.processors = pes > cores && setup->config.subscribers == 0 ? 0 : 1;
    }
    if (pes * 2 > cores) {
        setenv(prs_env_row(PRS_ENV_PROXY_SPIN)->name, "0", 0);
        setenv(prs_env_row(PRS_ENV_PROXY_YIELD)->name, "0", 0);
        if (setup->link == NULL) {
            setenv(prs_env_row(PRS_ENV_PROXY_SLEEP_US)->name, SHARED_SLEEP_US, 0);
        }
    }
}

/* Routing, and whether there is memory: what can fail goes first. */
static bool plan(struct prs_moe_point *points, uint32_t n)
{
    const struct prs_output outputs[] = {points[0].setup.json, points[0].setup.trace};
    bool is_planned = prs_output_check(outputs, 2);
    for (uint32_t i = 0; i < n && is_planned; i++) {
        struct prs_moe_point *point = &points[i];
        is_planned = prs_moe_inputs_route(&point->inputs, &point->setup);
        if (point->setup.is_gpu) {
            is_planned = is_planned && (point->setup.is_plan || prs_moe_gpu_find(&point->setup));
            continue;
        }
        is_planned = is_planned && prs_moe_need_find(&point->setup, &point->inputs, &point->need) &&
                     (point->setup.is_plan || prs_moe_need_fits(&point->setup, &point->need));
    }
    return is_planned;
}

static bool measure(struct prs_moe_point *points, uint32_t n)
{
    const struct prs_moe_setup *setup = &points[0].setup;
    uint32_t experts = setup->config.experts + setup->config.shared_experts;
    struct prs_progress progress;
    prs_progress_init(&progress, (setup->skips_verify ? 1 : n + 1) * experts +
                                     2 * n * setup->repeat * (setup->iterations + 2));
    bool is_filled = true;
    for (uint32_t i = 0; i < n && is_filled; i++) {
        is_filled = prs_moe_inputs_fill(&points[i].inputs, &points[i].setup,
                                        i > 0 ? &points[0].inputs : NULL, &progress);
    }
    bool is_measured = is_filled && (setup->is_gpu ? prs_moe_gpu_measure(points, n, &progress)
                                                   : prs_moe_measure(points, n, &progress));
    prs_progress_finish(&progress);
    return is_measured;
}

static bool run(struct prs_moe_point *points, uint32_t n)
{
    bool is_well = plan(points, n);
    if (points[0].setup.is_plan) {
        for (uint32_t i = 0; i < n && is_well; i++) {
            is_well = points[i].setup.is_gpu
                          ? prs_moe_gpu_plan(&points[i].setup)
                          : prs_moe_need_print(&points[i].setup, &points[i].need);
        }
        return is_well;
    }
    is_well =
        is_well && measure(points, n) && prs_moe_print(points, n) && prs_moe_write_json(points, n);
    for (uint32_t i = 0; i < n && is_well; i++) {
        if (!points[i].results.is_right) {
            fprintf(stderr, "perseus moe: a variant's result is wrong; its row says so\n");
            is_well = false;
        }
    }
    return is_well;
}

/* Every pair of --nodes and --tokens. */
static bool run_points(const struct options *options)
{
    uint32_t n = options->nodes.n * options->tokens.n;
    struct prs_moe_point *points = calloc(n, sizeof *points);
    if (points == NULL) {
        fprintf(stderr, "perseus moe: out of memory\n");
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct prs_moe_setup *setup = &points[i].setup;
        *setup = options->setup;
        setup->nodes = (uint32_t)options->nodes.values[i / options->tokens.n];
        setup->config.tokens_max = (uint32_t)options->tokens.values[i % options->tokens.n];
    }
    bool is_well = run(points, n);
    for (uint32_t i = n; i > 0; i--) { /* the first owns the weights */
        prs_moe_inputs_finish(&points[i - 1].inputs);
    }
    free(points);
    return is_well;
}

int prs_tool_moe(int argc, char **argv)
{
    struct options options = {.nodes = {.values = {4}, .n = 1},
                              .tokens = {.values = {16}, .n = 1},
                              .setup = {.pes_per_node = 2,
                                        .n_groups = 1,
                                        .seed = 1,
                                        .json = {.option = "--json"},
                                        .trace = {.option = "--trace"},
                                        .iterations = 5,
                                        .repeat = 3,
                                        .gpus = 1,
                                        .timeout_ms = 60000,
                                        .config = {.weight_dtype = PERSEUS_MOE_BF16,
                                                   .vector_signals = true,
                                                   .processors = PROCESSORS_BY_CORES}}};
    struct prs_option rows[N_OPTIONS];
    char path[PATH_MAX];
    int exit_code = PRS_EXIT_OK;
    fill_input_options(&options, rows);
    fill_run_options(&options, rows + N_INPUT_OPTIONS);
    const struct prs_command command = {
        .name = "perseus moe",
        .summary =
            "Runs one Mixture-of-Experts layer across PEs that it starts on this machine: the\n"
            "vanilla way, with each lever alone, with both. Every output is checked against a\n"
            "reference. docs/moe.md defines each number.",
        .options = rows,
        .n_options = N_OPTIONS,
    };
    if (!prs_command_parse(&command, argc, argv, NULL, &exit_code)) {
        return exit_code;
    }
    struct prs_moe_setup *setup = &options.setup;
    settle_shape(&options);
    settle_threads(setup, largest(&options.nodes));
    exit_code = check_limits(&options, &command, largest(&options.tokens));
    const char *mistake = exit_code == PRS_EXIT_OK ? check(&options) : NULL;
    if (mistake != NULL) {
        exit_code = prs_command_mistake(&command, "%s", mistake);
    }
    if (exit_code != PRS_EXIT_OK) {
        return exit_code;
    }
    if (setup->link != NULL) {
        setenv(prs_env_row(PRS_ENV_LINK)->name, setup->link, 1);
    }
    if (setup->qps != NULL) {
        setenv(prs_env_row(PRS_ENV_IB_QPS)->name, setup->qps, 1);
    }
    setup->config.timeout_ms = setup->timeout_ms;
    if (setup->routing == NULL) {
        setup->routing = default_routing(setup, path, sizeof path);
    }
    const struct prs_log log = prs_tool_log();
    uint32_t layer = setup->spec.layer;
    if (prs_routing_spec_parse(setup->routing, &log, &setup->spec) != PERSEUS_OK) {
        return PRS_EXIT_USAGE;
    }
    setup->spec.layer = layer;
    return run_points(&options) ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
