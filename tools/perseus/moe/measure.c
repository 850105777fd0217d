/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/env.h"
#include "kit/exit.h"
#include "kit/launch.h"
#include "job.h"
#include "kit/probe.h"
#include "kit/stats_math.h"
#include "kit/tool_log.h"

enum { GRACE_MS = 2000, WARM_UPS_AND_ALL = 2 };

/* What is gathered of one number of one variant: a value per measured forward. */
enum series {
    TOTAL,
    COMM,
    DISPATCH,
    EXPERT,
    EXPERT_WALL,
    COMBINE,
    EXPOSED,
    STALL,
    FENCES,
    DRAINS,
    MESSAGES,
    BYTES,
    CPU,
    WAITS,
    PREEMPTED,
    SERIES
};

/* One point's. */
struct gathering {
    const struct prs_moe_setup *setup;
    const struct prs_moe_inputs *inputs;
    struct prs_moe_results *results;
    struct prs_progress *progress;
    struct prs_log log;
    struct prs_moe_board *board;
    size_t board_bytes;
    double *values; /* [variant][series][repeat * iterations] */
    double *ratios; /* expert time to loop time; one in an iteration */
    uint32_t n_ratios;
    FILE **traces; /* [drain, best][PE]; NULL: none */
};

/* ---- set-up ---- */

static bool find_modes(const struct prs_moe_setup *setup, struct prs_moe_results *results)
{
    const struct perseus_attr asked = {.fabric = setup->fabric, .provider = setup->provider};
    struct prs_probe probe;
    if (prs_probe_fabric(&asked, &probe) != PERSEUS_OK) {
        return false;
    }
    if (probe.status != PERSEUS_OK) {
        fprintf(stderr, "perseus: %s; perseus info lists what is here\n", probe.error);
        return false;
    }
    if (!probe.modes[PERSEUS_ORDERING_DRAIN].is_kept) {
        fprintf(stderr,
                "perseus: the vanilla way, drain, cannot be kept here (%s), so there is "
                "nothing to compare with\n",
                probe.modes[PERSEUS_ORDERING_DRAIN].why);
        return false;
    }
    results->best = setup->ordering == PERSEUS_ORDERING_AUTO ? probe.auto_mode : setup->ordering;
    if (!probe.modes[results->best].is_kept) {
        fprintf(stderr, "perseus: --ordering %s cannot be kept here: %s\n",
                perseus_ordering_name(results->best), probe.modes[results->best].why);
        return false;
    }
    snprintf(results->best_why, sizeof results->best_why, "%s", probe.modes[results->best].why);
    snprintf(results->fabric, sizeof results->fabric, "%s",
             setup->fabric != NULL ? setup->fabric : prs_env_text(PRS_ENV_FABRIC));
    snprintf(results->provider, sizeof results->provider, "%s", probe.caps.provider);
    return true;
}

static bool take_memory(struct gathering *gathering)
{
    const struct prs_moe_setup *setup = gathering->setup;
    size_t n_pes = prs_moe_setup_pes(setup);
    size_t samples = PRS_MOE_VARIANTS_MAX * (size_t)setup->iterations * n_pes;
    gathering->board_bytes = sizeof *gathering->board + samples * sizeof(struct prs_moe_sample) +
                             2 * n_pes * sizeof(uint64_t);
    void *memory = mmap(NULL, gathering->board_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    gathering->values =
        calloc((size_t)PRS_MOE_VARIANTS_MAX * SERIES * setup->repeat * setup->iterations,
               sizeof *gathering->values);
    gathering->ratios = calloc((size_t)PRS_MOE_VARIANTS_MAX * setup->repeat * setup->iterations,
                               sizeof *gathering->ratios);
    if (memory == MAP_FAILED || gathering->values == NULL || gathering->ratios == NULL) {
        prs_log(&gathering->log, PERSEUS_LOG_ERROR, "out of memory for %zu samples", samples);
        return false;
    }
    gathering->board = memory;
    gathering->board->samples = (struct prs_moe_sample *)(gathering->board + 1);
    gathering->board->peak_bytes = (uint64_t *)(gathering->board->samples + samples);
    gathering->board->meetings = (_Atomic uint64_t *)(gathering->board->peak_bytes + n_pes);
    return true;
}

static bool open_traces(struct gathering *gathering)
{
    uint32_t n = 2 * prs_moe_setup_pes(gathering->setup);
    if (gathering->setup->trace.path == NULL) {
        return true;
    }
    gathering->traces = calloc(n, sizeof(FILE *));
    for (uint32_t i = 0; gathering->traces != NULL && i < n; i++) {
        gathering->traces[i] = tmpfile();
        if (gathering->traces[i] == NULL) {
            break;
        }
    }
    if (gathering->traces == NULL || gathering->traces[n - 1] == NULL) {
        prs_log(&gathering->log, PERSEUS_LOG_ERROR, "no temporary files for the PEs' traces");
        return false;
    }
    return true;
}

static bool join_traces(const struct gathering *gathering)
{
    uint32_t n_pes = prs_moe_setup_pes(gathering->setup);
    bool has_best = gathering->results->best != PERSEUS_ORDERING_DRAIN;
    return gathering->traces == NULL ||
           prs_moe_trace_join(gathering->traces, n_pes * (has_best ? 2 : 1),
                              &gathering->setup->trace);
}

static void give_back(struct gathering *gathering)
{
    for (uint32_t i = 0; gathering->traces != NULL && i < 2 * prs_moe_setup_pes(gathering->setup);
         i++) {
        if (gathering->traces[i] != NULL) {
            fclose(gathering->traces[i]);
        }
    }
    free(gathering->traces);
    free(gathering->values);
    free(gathering->ratios);
    if (gathering->board != NULL) {
        munmap(gathering->board, gathering->board_bytes);
    }
}

/* ---- samples to numbers ---- */

static double *series_of(const struct gathering *gathering, uint32_t variant, enum series series)
{
    size_t per_series = (size_t)gathering->setup->repeat * gathering->setup->iterations;
    return gathering->values + ((size_t)variant * SERIES + series) * per_series;
}

static void take_errors(const struct gathering *gathering, double difference, double expected,
                        uint32_t wrong_counts, struct prs_moe_result *result)
{
    result->is_right = result->is_right && wrong_counts == 0;
    if (gathering->inputs->expected == NULL) {
        result->error = NAN;
        return;
    }
    double error = expected > 0 ? sqrt(difference / expected) : sqrt(difference);
    if (!(error <= result->error)) { /* a NaN stays */
        result->error = error;
    }
    result->is_right =
        result->is_right && error <= gathering->results->error_max && wrong_counts == 0;
}

/* One iteration of one variant, over all PEs. */
static void take_iteration(struct gathering *gathering, uint32_t variant, uint32_t iteration)
{
    const struct prs_moe_setup *setup = gathering->setup;
    struct prs_moe_result *result = &gathering->results->result[variant];
    uint32_t n_pes = prs_moe_setup_pes(setup), wrong_counts = 0;
    uint64_t start_ns = UINT64_MAX, end_ns = 0, comm_start_ns = UINT64_MAX, comm_end_ns = 0;
    double sums[SERIES] = {0}, difference = 0, expected = 0, loop = 0;
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        const struct prs_moe_sample *sample =
            prs_moe_sample_at(gathering->board, setup, variant, iteration, pe);
        start_ns = sample->start_ns < start_ns ? sample->start_ns : start_ns;
        end_ns = sample->end_ns > end_ns ? sample->end_ns : end_ns;
        comm_start_ns =
            sample->comm_start_ns < comm_start_ns ? sample->comm_start_ns : comm_start_ns;
        comm_end_ns = sample->comm_end_ns > comm_end_ns ? sample->comm_end_ns : comm_end_ns;
        sums[DISPATCH] += (double)sample->layer.dispatch_ns;
        sums[EXPERT] += (double)sample->layer.expert_cpu_ns;
        sums[EXPERT_WALL] += (double)sample->layer.expert_ns;
        sums[COMBINE] += (double)sample->layer.combine_ns;
        sums[EXPOSED] += (double)sample->layer.exposed_ns;
        sums[STALL] += (double)sample->drain_ns;
        sums[FENCES] += (double)sample->fences * 1e6 * n_pes; /* not a mean, nor a time */
        sums[DRAINS] += (double)sample->drains * 1e6 * n_pes;
        sums[MESSAGES] += (double)sample->comm.messages * 1e6 * n_pes;
        sums[BYTES] += (double)sample->comm.bytes * 1e6 * n_pes;
        sums[CPU] += (double)sample->comm.cpu_ns * n_pes;
        sums[WAITS] += (double)sample->comm.waits * 1e6 * n_pes;
        sums[PREEMPTED] += (double)sample->comm.preempted * 1e6 * n_pes;
        difference += sample->difference;
        expected += sample->expected;
        wrong_counts += sample->wrong_counts;
        loop += (double)sample->loop_ns;
    }
    if (loop > 0) {
        gathering->ratios[gathering->n_ratios++] = sums[EXPERT] / loop;
    }
    sums[TOTAL] = (double)(end_ns - start_ns) * n_pes;
    sums[COMM] = (double)(comm_end_ns - comm_start_ns) * n_pes;
    for (int series = 0; series < SERIES; series++) {
        series_of(gathering, variant, (enum series)series)[result->samples] =
            sums[series] / n_pes / 1e6;
    }
    result->samples++;
    if (gathering->results->variants[variant].role != PRS_MOE_CEILING) {
        take_errors(gathering, difference, expected, wrong_counts, result);
    }
}

static void take_turn(struct gathering *gathering, const struct prs_moe_turn *turn)
{
    struct prs_moe_results *results = gathering->results;
    uint32_t n_pes = prs_moe_setup_pes(gathering->setup);
    for (uint32_t variant = 0; variant < turn->n_variants; variant++) {
        for (uint32_t i = 0; turn->plays[variant] && i < gathering->setup->iterations; i++) {
            take_iteration(gathering, variant, i);
        }
    }
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        results->peak_bytes = fmax(results->peak_bytes, (double)gathering->board->peak_bytes[pe]);
    }
}

static void summarize(const struct gathering *gathering)
{
    struct prs_moe_results *results = gathering->results;
    for (uint32_t i = 0; i < results->n_variants; i++) {
        struct prs_moe_result *result = &results->result[i];
        double *const numbers[SERIES] = {
            [TOTAL] = &result->total,
            [COMM] = &result->comm,
            [DISPATCH] = &result->dispatch,
            [EXPERT] = &result->expert,
            [EXPERT_WALL] = &result->expert_wall,
            [COMBINE] = &result->combine,
            [EXPOSED] = &result->exposed,
            [STALL] = &result->stall,
            [FENCES] = &result->fences,
            [DRAINS] = &result->drains,
            [MESSAGES] = &result->messages,
            [BYTES] = &result->bytes,
            [CPU] = &result->cpu,
            [WAITS] = &result->waits,
            [PREEMPTED] = &result->preempted,
        };
        bool has_all = results->variants[i].role != PRS_MOE_CEILING;
        for (int series = 0; result->samples > 0 && series < SERIES; series++) {
            *numbers[series] =
                has_all || series == COMM || series >= MESSAGES
                    ? prs_percentiles_of(series_of(gathering, i, (enum series)series),
                                         result->samples)
                          .median
                    : (double)NAN;
        }
        result->is_run = result->samples > 0;
        results->is_right = results->is_right && result->is_right;
    }
    results->loop_ratio = prs_percentiles_of(gathering->ratios, gathering->n_ratios).median;
}

/* ---- turns ---- */

static bool play_turn(struct gathering *gathering, bool is_best, uint32_t repeat)
{
    const struct prs_moe_setup *setup = gathering->setup;
    uint32_t n_pes = prs_moe_setup_pes(setup);
    struct prs_moe_turn turn = {
        .setup = setup,
        .inputs = gathering->inputs,
        .board = gathering->board,
        .ordering = is_best ? gathering->results->best : PERSEUS_ORDERING_DRAIN,
        .variants = gathering->results->variants,
        .n_variants = gathering->results->n_variants,
        .traces = gathering->traces != NULL && repeat == 0
                      ? gathering->traces + (is_best ? n_pes : 0)
                      : NULL,
        .progress = gathering->progress,
    };
    for (uint32_t i = 0; i < turn.n_variants; i++) {
        turn.plays[i] = turn.variants[i].is_best == is_best;
    }
    prs_bench_gate_init(&gathering->board->gate);
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        atomic_init(&gathering->board->meetings[pe], 0);
    }
    const struct prs_launch launch = {
        .size = (int)n_pes, .pe_main = prs_moe_pe_main, .context = &turn, .grace_ms = GRACE_MS};
    if (prs_launch(&launch, &gathering->log) != PRS_EXIT_OK) {
        return false;
    }
    take_turn(gathering, &turn);
    for (uint32_t i = 0; i < setup->iterations + WARM_UPS_AND_ALL; i++) {
        prs_progress_step(gathering->progress, perseus_ordering_name(turn.ordering));
    }
    return true;
}

/* One repetition of one point. */
static bool play(struct gathering *gathering, uint32_t repeat)
{
    bool has_best = gathering->results->best != PERSEUS_ORDERING_DRAIN;
    bool best_first = has_best && repeat % 2 == 1;
    return play_turn(gathering, best_first, repeat) &&
           (!has_best || play_turn(gathering, !best_first, repeat));
}

static bool begin(struct gathering *gathering, const struct prs_moe_results *modes)
{
    const struct perseus_moe_config *config = &gathering->setup->config;
    struct prs_moe_results *results = gathering->results;
    bool rounds =
        config->wire_dtype == PERSEUS_MOE_BF16 || config->weight_dtype == PERSEUS_MOE_BF16;
    *results = *modes;
    results->error_max = rounds ? 1e-2 : 1e-5;
    results->n_variants = prs_moe_variants(gathering->setup, results->best, results->variants);
    for (uint32_t i = 0; i < results->n_variants; i++) {
        results->result[i].is_right = true;
    }
    return take_memory(gathering) && open_traces(gathering);
}

bool prs_moe_measure(struct prs_moe_point *points, uint32_t n, struct prs_progress *progress)
{
    struct prs_moe_results modes = {.is_right = true};
    struct gathering *gatherings = calloc(n, sizeof *gatherings);
    bool is_well = gatherings != NULL && find_modes(&points[0].setup, &modes);
    for (uint32_t i = 0; is_well && i < n; i++) {
        gatherings[i] = (struct gathering){.setup = &points[i].setup,
                                           .inputs = &points[i].inputs,
                                           .results = &points[i].results,
                                           .progress = progress,
                                           .log = prs_tool_log()};
        is_well = begin(&gatherings[i], &modes);
    }
    for (uint32_t repeat = 0; is_well && repeat < points[0].setup.repeat; repeat++) {
        for (uint32_t i = 0; is_well && i < n; i++) {
            is_well = play(&gatherings[i], repeat);
        }
    }
    for (uint32_t i = 0; is_well && i < n; i++) {
        summarize(&gatherings[i]);
        is_well = join_traces(&gatherings[i]);
    }
    for (uint32_t i = 0; gatherings != NULL && i < n; i++) {
        if (gatherings[i].setup != NULL) {
            give_back(&gatherings[i]);
        }
    }
    free(gatherings);
    return is_well;
}
