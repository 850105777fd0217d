/* SPDX-License-Identifier: Apache-2.0 */
/* perseus moe: one Mixture-of-Experts layer across PEs, the vanilla way, with each lever, with
 * both. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "moe/command.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "model/models.h"
#include "moe/plan.h"
#include "job.h"
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
    if (setup->model != NULL) {
        const struct prs_moe_model *model = prs_moe_model_find(setup->model);
        config->hidden = model->hidden;
        config->intermediate = setup->is_cut ? model->intermediate / CUT : model->intermediate;
        config->experts = model->experts;
        config->top_k = model->top_k;
        config->shared_experts = model->shared_experts;
    }
    config->hidden = options->hidden > 0 ? options->hidden : config->hidden;
    config->intermediate = options->intermediate > 0 ? options->intermediate : config->intermediate;
    config->experts = options->experts > 0 ? options->experts : config->experts;
    config->top_k = options->top_k > 0 ? options->top_k : config->top_k;
    config->shared_experts = options->has_shared ? options->shared_experts : config->shared_experts;
    config->wire_dtype = options->has_wire ? options->wire : config->weight_dtype;
    if (config->tile_tokens == 0) {
        config->tile_tokens = PRS_MOE_TILE_DEFAULT;
    }
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

static const char *check(struct options *options)
{
    struct prs_moe_setup *setup = &options->setup;
    if ((uint64_t)setup->nodes * setup->pes_per_node > 1024) {
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
    if (setup->config.tokens_max > PERSEUS_MOE_TOKENS_MAX) {
        return "--tokens must be at most 65536";
    }
    return NULL;
}

enum { N_OPTIONS = 35 };

static void fill_options(struct options *o, struct prs_option *out)
{
    struct prs_moe_setup *setup = &o->setup;
    struct perseus_moe_config *config = &setup->config;
    const struct prs_option options[N_OPTIONS] = {
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
        {"tokens", "N", "of every PE (16)", prs_parse_count, &config->tokens_max},
        {"nodes", "N", "nodes, which talk through the fabric (4)", prs_parse_count, &setup->nodes},
        {"pes-per-node", "N", "PEs of a node, which share memory (2)", prs_parse_count,
         &setup->pes_per_node},
        {"routing", "KIND",
         "trace:FILE.npy, trace:FILE.csv, uniform, balanced or zipf:S\n"
         "(recorded from gpt-oss-20b where that fits, else zipf:0.7)",
         prs_parse_text, &setup->routing},
        {"layer", "N", "of a trace with several layers (0)", parse_number, &setup->spec.layer},
        {"weights", "FILE", "a .safetensors file (random from the seed)", prs_parse_text,
         &setup->weights},
        {"weights-layer", "N", "layer in that file (0)", parse_number, &setup->weights_layer},
        {"capacity-factor", "F", "drop what an expert gets beyond F times its mean", parse_factor,
         &config->capacity_factor},
        {"tile", "N", "tokens of a tile (64)", prs_parse_count, &config->tile_tokens},
        {"group-experts", "N", "experts of a signal group (0: those of one PE, up to 8)",
         parse_number, &config->group_experts},
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
        {"no-verify", NULL, "do not compute the reference", prs_parse_on, &setup->skips_verify},
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

/* With more threads than cores, a proxy that spins takes the core from those it waits for, every look of
 * one that sleeps interrupts a product, and a thread beside the main one only has to be switched to. (A
 * modelled link is looked at more often, or its latency would be the sleep's.) What the user has set
 * stays. */
static void settle_threads(struct prs_moe_setup *setup)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pes = (long)prs_moe_setup_pes(setup);
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

static bool run(struct prs_moe_setup *setup)
{
    struct prs_moe_inputs inputs = {0};
    const struct prs_output outputs[] = {setup->json, setup->trace};
    struct prs_moe_need need;
    struct prs_moe_results results;
    struct prs_progress progress;
    if (setup->link != NULL) {
        setenv(prs_env_row(PRS_ENV_LINK)->name, setup->link, 1);
    }
    bool is_planned = prs_output_check(outputs, 2) && prs_moe_inputs_route(&inputs, setup) &&
                      prs_moe_need_find(setup, &inputs, &need);
    if (!is_planned || setup->is_plan || !prs_moe_need_fits(setup, &need)) {
        prs_moe_inputs_finish(&inputs);
        return is_planned && setup->is_plan && prs_moe_need_print(setup, &need);
    }
    uint32_t experts = setup->config.experts + setup->config.shared_experts;
    prs_progress_init(&progress, (setup->skips_verify ? 1 : 2) * experts +
                                     2 * setup->repeat * (setup->iterations + 2));
    bool is_measured = prs_moe_inputs_fill(&inputs, setup, &progress) &&
                       prs_moe_measure(setup, &inputs, &progress, &results);
    prs_progress_finish(&progress);
    bool is_well = is_measured && prs_moe_print(setup, &inputs, &need, &results) &&
                   prs_moe_write_json(setup, &inputs, &need, &results);
    for (int i = 0; i < PRS_MOE_VARIANT_COUNT && is_measured; i++) {
        if (!results.variant[i].is_right) {
            fprintf(stderr, "perseus moe: a variant's result is wrong; its row says so\n");
            is_well = false;
            break;
        }
    }
    prs_moe_inputs_finish(&inputs);
    return is_well;
}

int prs_tool_moe(int argc, char **argv)
{
    struct options options = {.setup = {.nodes = 4,
                                        .pes_per_node = 2,
                                        .seed = 1,
                                        .json = {.option = "--json"},
                                        .trace = {.option = "--trace"},
                                        .iterations = 5,
                                        .repeat = 3,
                                        .timeout_ms = 60000,
                                        .config = {.weight_dtype = PERSEUS_MOE_BF16,
                                                   .tokens_max = 16,
                                                   .vector_signals = true,
                                                   .group_combine = true,
                                                   .processors = PROCESSORS_BY_CORES}}};
    struct prs_option rows[N_OPTIONS];
    char path[PATH_MAX];
    int exit_code = PRS_EXIT_OK;
    fill_options(&options, rows);
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
    settle_threads(setup);
    const char *mistake = check(&options);
    if (mistake != NULL) {
        return prs_command_mistake(&command, "%s", mistake);
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
    return run(setup) ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
