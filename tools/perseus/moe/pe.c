/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/env.h"
#include "kit/exit.h"
#include "moe/layer.h"
#include "model/reference.h"
#include "model/weights.h"
#include "job.h"
#include "kit/tool_log.h"

enum { WARM_UPS = 2 }; /* iterations that are not measured: products are compiled, memory touched */
#define HEAP_SLACK_BYTES (UINT64_C(1) << 20)
#define TIMER_SLACK_NS   1000

struct moe_pe {
    const struct prs_moe_turn *turn;
    struct perseus_pe *pe;
    struct perseus_moe *moe;
    struct prs_moe_mode mode;                      /* as the layer was created */
    struct prs_groups *groups[PRS_MOE_GROUPS_MAX]; /* of all sizes but the first, the layer's own */
    struct prs_moe_tracer *tracer;                 /* or NULL */
    uint32_t self;
    const float *x, *gate, *expected; /* own tokens */
    const int32_t *ids;
    float *y;
    struct prs_moe_loop *loop;
};

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

/* Says who is missing at the gate. */
static enum perseus_status miss(const struct moe_pe *self, uint64_t meeting)
{
    const struct prs_moe_setup *setup = self->turn->setup;
    const struct prs_log log = prs_tool_log();
    for (uint32_t pe = 0; pe < prs_moe_setup_pes(setup); pe++) {
        /* Relaxed: it orders nothing. */
        if (atomic_load_explicit(&self->turn->board->meetings[pe], memory_order_relaxed) <
            meeting) {
            prs_log(&log, PERSEUS_LOG_ERROR,
                    "PE %u waited %u ms between two forwards for PE %u, which does not come; is it "
                    "stopped?",
                    self->self, setup->timeout_ms, pe);
        }
    }
    return PERSEUS_TIMEOUT;
}

/* All PEs, without messages between them. */
static enum perseus_status meet(const struct moe_pe *self)
{
    const struct prs_moe_setup *setup = self->turn->setup;
    struct prs_moe_board *board = self->turn->board;
    uint64_t meeting =
        1 + atomic_fetch_add_explicit(&board->meetings[self->self], 1, memory_order_relaxed);
    return prs_bench_gate_pass_within(&board->gate, prs_moe_setup_pes(setup), setup->timeout_ms)
               ? PERSEUS_OK
               : miss(self, meeting);
}

/* ---- one forward ---- */

static void set_mode(struct moe_pe *self, const struct prs_moe_variant *variant,
                     bool communication_only)
{
    struct prs_moe_mode mode = self->mode;
    mode.protocol = variant->protocol;
    mode.are_answers_grouped = variant->are_answers_grouped;
    mode.communication_only = communication_only;
    if (variant->group > 0) {
        mode.groups = self->groups[variant->group];
    }
    prs_moe_set_mode(self->moe, &mode);
}

static enum perseus_status forward(struct moe_pe *self, const struct prs_moe_variant *variant,
                                   bool communication_only, uint64_t *out_start_ns,
                                   uint64_t *out_end_ns)
{
    set_mode(self, variant, communication_only);
    enum perseus_status status = meet(self);
    if (status != PERSEUS_OK) {
        return status;
    }
    *out_start_ns = now_ns();
    status = perseus_moe_forward(self->moe, self->turn->inputs->tokens, self->x, self->ids,
                                 self->gate, self->y);
    *out_end_ns = now_ns();
    if (status == PERSEUS_OK &&
        variant->role == PRS_MOE_CEILING) { /* nothing has waited for puts */
        status = perseus_quiet(self->pe);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    if (self->tracer != NULL) {
        prs_moe_tracer_forward(self->tracer,
                               communication_only ? "communication only" : variant->name,
                               *out_start_ns, *out_end_ns);
    }
    return meet(self); /* so that counters hold this forward whole, and none of the next */
}

static void verify(const struct moe_pe *self, struct prs_moe_sample *sample)
{
    const struct prs_moe_setup *setup = self->turn->setup;
    uint32_t experts = setup->config.experts, first, count;
    uint64_t sent = 0, received = 0, chosen = 0;
    if (self->expected != NULL) {
        prs_reference_compare(self->y, self->expected,
                              (size_t)self->turn->inputs->tokens * setup->config.hidden,
                              &sample->difference, &sample->expected);
    }
    perseus_moe_expert_range(self->moe, (int)self->self, &first, &count);
    for (uint32_t pe = 0; pe < prs_moe_setup_pes(setup); pe++) {
        const uint32_t *counts = self->turn->inputs->counts + (size_t)pe * experts;
        for (uint32_t expert = 0; expert < experts; expert++) {
            sent += pe == self->self ? counts[expert] : 0;
            received += expert >= first && expert < first + count ? counts[expert] : 0;
        }
    }
    for (size_t i = 0; i < (size_t)self->turn->inputs->tokens * setup->config.top_k; i++) {
        chosen += self->ids[i] >= 0;
    }
    sample->wrong_counts = (sample->layer.rows_sent != sent) +
                           (sample->layer.rows_received != received) +
                           (sample->layer.rows_dropped != chosen - sent);
}

/* What this PE has spent so far. */
static enum perseus_status count_spent(const struct moe_pe *self, struct prs_moe_spent *out)
{
    struct perseus_stats stats;
    struct rusage usage;
    enum perseus_status status = perseus_stats(self->pe, PERSEUS_ALL_PES, &stats);
    getrusage(RUSAGE_SELF, &usage);
    uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    uint64_t us = (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    *out = (struct prs_moe_spent){.messages = stats.puts + stats.signal_messages + stats.atomics,
                                  .bytes = stats.put_bytes,
                                  .cpu_ns = seconds * 1000000000u + us * 1000u,
                                  .waits = (uint64_t)usage.ru_nvcsw,
                                  .preempted = (uint64_t)usage.ru_nivcsw};
    return status;
}

/* A forward whose experts are the identity. */
static enum perseus_status measure_communication(struct moe_pe *self,
                                                 const struct prs_moe_variant *variant,
                                                 struct prs_moe_sample *sample)
{
    struct prs_moe_spent before, after;
    enum perseus_status status = count_spent(self, &before);
    if (status == PERSEUS_OK) {
        status = forward(self, variant, true, &sample->comm_start_ns, &sample->comm_end_ns);
    }
    if (status == PERSEUS_OK) {
        status = count_spent(self, &after);
    }
    if (status == PERSEUS_OK) {
        sample->comm = (struct prs_moe_spent){.messages = after.messages - before.messages,
                                              .bytes = after.bytes - before.bytes,
                                              .cpu_ns = after.cpu_ns - before.cpu_ns,
                                              .waits = after.waits - before.waits,
                                              .preempted = after.preempted - before.preempted};
    }
    return status;
}

/* The counts of the last forward alone. */
static void subtract(struct perseus_moe_stats *stats, const struct perseus_moe_stats *before)
{
    stats->rows_sent -= before->rows_sent;
    stats->rows_received -= before->rows_received;
    stats->rows_dropped -= before->rows_dropped;
}

/* The whole forward. */
static enum perseus_status measure(struct moe_pe *self, const struct prs_moe_variant *variant,
                                   struct prs_moe_sample *sample)
{
    struct perseus_stats before, after;
    struct perseus_moe_stats layer_before;
    enum perseus_status status = perseus_stats(self->pe, PERSEUS_ALL_PES, &before);
    if (status == PERSEUS_OK) {
        status = perseus_moe_stats(self->moe, &layer_before);
    }
    if (status == PERSEUS_OK) {
        memset(self->y, 0xff, /* NaN: what is not written shows */
               (size_t)self->turn->inputs->tokens * self->turn->setup->config.hidden *
                   sizeof *self->y);
        status = forward(self, variant, false, &sample->start_ns, &sample->end_ns);
    }
    if (status == PERSEUS_OK) {
        status = perseus_stats(self->pe, PERSEUS_ALL_PES, &after);
    }
    if (status == PERSEUS_OK) {
        status = perseus_moe_stats(self->moe, &sample->layer);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    subtract(&sample->layer, &layer_before);
    sample->fences = after.fences - before.fences;
    sample->drains = after.drains - before.drains;
    sample->drain_ns = after.drain_ns - before.drain_ns;
    verify(self, sample);
    return PERSEUS_OK;
}

/* ---- the turn ---- */

/* Every variant once, beginning with another one each time. */
static enum perseus_status iterate(struct moe_pe *self, uint32_t iteration, bool is_measured)
{
    const struct prs_moe_turn *turn = self->turn;
    struct prs_moe_sample warm_up, *last = &warm_up; /* with experts */
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < turn->n_variants && status == PERSEUS_OK; i++) {
        uint32_t number = (i + iteration) % turn->n_variants;
        const struct prs_moe_variant *variant = &turn->variants[number];
        struct prs_moe_sample *sample =
            is_measured ? prs_moe_sample_at(turn->board, turn->setup, number, iteration, self->self)
                        : &warm_up;
        if (!turn->plays[number]) {
            continue;
        }
        *sample = (struct prs_moe_sample){0};
        if (variant->role != PRS_MOE_CEILING) {
            last = sample;
            status = measure(self, variant, sample);
        }
        if (status == PERSEUS_OK) {
            status = measure_communication(self, variant, sample);
        }
    }
    if (status == PERSEUS_OK) {
        status = meet(self);
    }
    if (status == PERSEUS_OK) { /* repeats what the last variant's experts did */
        status = prs_moe_loop_run(self->loop, &last->loop_ns);
    }
    if (self->self == 0) {
        prs_progress_step(turn->progress, perseus_ordering_name(turn->ordering));
    }
    return status;
}

static enum perseus_status play(struct moe_pe *self)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < WARM_UPS && status == PERSEUS_OK; i++) {
        status = iterate(self, i, false);
    }
    for (uint32_t i = 0; i < self->turn->setup->iterations && status == PERSEUS_OK; i++) {
        status = iterate(self, i, true);
    }
    return status;
}

/* ---- life ---- */

static enum perseus_status start_pe(struct moe_pe *self)
{
    const struct prs_moe_setup *setup = self->turn->setup;
    struct perseus_moe_memory memory;
    enum perseus_status status =
        perseus_moe_plan(&setup->config, (int)prs_moe_setup_pes(setup), NULL, NULL, &memory);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct perseus_attr attr = {.fabric = setup->fabric,
                                      .provider = setup->provider,
                                      .ordering = self->turn->ordering,
                                      .heap_bytes = memory.symmetric_bytes + HEAP_SLACK_BYTES,
                                      .timeout_ms = setup->timeout_ms,
                                      .bootstrap = PERSEUS_BOOTSTRAP_LOCAL,
                                      .pes_per_node = (int)setup->pes_per_node,
                                      .log = prs_tool_log_line,
                                      .log_level = prs_tool_log_level()};
    return perseus_init_attr(&attr, &self->pe);
}

static enum perseus_status start_layer(struct moe_pe *self)
{
    const struct prs_moe_turn *turn = self->turn;
    const struct perseus_moe_config *config = &turn->setup->config;
    size_t token = (size_t)self->self * turn->inputs->tokens;
    uint32_t first, count;
    self->x = turn->inputs->x + token * config->hidden;
    self->gate = turn->inputs->gate + token * config->top_k;
    self->ids = turn->inputs->routing.ids + token * config->top_k;
    self->expected =
        turn->inputs->expected != NULL ? turn->inputs->expected + token * config->hidden : NULL;
    self->y = malloc((size_t)turn->inputs->tokens * config->hidden * sizeof *self->y);
    if (self->y == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    struct perseus_moe_config own = *config;
    own.group_experts = turn->setup->groups[0];
    enum perseus_status status = perseus_moe_create(self->pe, &own, &self->moe);
    if (status != PERSEUS_OK) {
        return status;
    }
    self->mode = self->moe->mode;
    for (uint32_t i = 1; i < turn->setup->n_groups && status == PERSEUS_OK; i++) {
        status = prs_groups_create(self->moe, turn->setup->groups[i], &self->groups[i]);
    }
    perseus_moe_expert_range(self->moe, (int)self->self, &first, &count);
    for (uint32_t i = 0; i < count + config->shared_experts && status == PERSEUS_OK; i++) {
        uint32_t expert = i < count ? first + i : config->experts + i - count;
        const struct perseus_moe_expert weights =
            prs_weights_view(config, turn->inputs->block, expert);
        status = perseus_moe_set_expert(self->moe, expert, &weights);
    }
    if (status == PERSEUS_OK) {
        status = prs_moe_loop_create(turn->inputs, self->moe, &self->loop);
    }
    if (status == PERSEUS_OK && turn->traces != NULL) {
        uint32_t workers = config->processors > 0 ? config->processors + config->subscribers : 1;
        status = prs_moe_tracer_start(self->pe, workers, &self->tracer);
        if (status == PERSEUS_OK) {
            prs_moe_set_trace(self->moe, prs_moe_tracer_trace(self->tracer));
        }
    }
    return status;
}

static uint64_t peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

int prs_moe_pe_main(int rank, void *context)
{
    struct moe_pe self = {.turn = context, .self = (uint32_t)rank};
    const struct prs_moe_turn *turn = self.turn;
    /* Waits sleep in steps of tens of microseconds; the kernel's default slack doubles them. */
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    enum perseus_status status = start_pe(&self);
    if (status == PERSEUS_OK) {
        status = start_layer(&self);
    }
    if (status == PERSEUS_OK) {
        status = play(&self);
    }
    if (status == PERSEUS_OK) {
        turn->board->peak_bytes[self.self] = peak_bytes();
    }
    FILE *trace = status == PERSEUS_OK && turn->traces != NULL ? turn->traces[rank] : NULL;
    if (status == PERSEUS_OK) {
        status = perseus_moe_destroy(self.moe);
    } else {
        perseus_moe_abort(self.moe);
    }
    /* Between the two: the layer's threads write the trace, and the tracer reads the PE's
     * counters. */
    prs_moe_tracer_stop(self.tracer, trace, rank);
    for (uint32_t i = 1; i < PRS_MOE_GROUPS_MAX; i++) {
        prs_groups_destroy(self.groups[i]);
    }
    if (status == PERSEUS_OK) {
        status = perseus_finalize(self.pe);
    } else {
        perseus_abort(self.pe);
    }
    prs_moe_loop_destroy(self.loop);
    free(self.y);
    return status == PERSEUS_OK ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
