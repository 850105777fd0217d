/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/program.h"

#include <string.h>

#define COUNTER_WORD 0u /* of every area */
#define SIGNALS_AT   (PROGRAM_WORDS_MAX / 2)

struct generator {
    struct program *program;
    struct prs_rng *rng;
    uint32_t n_pes;
    uint32_t free_data[8], free_signal[8]; /* by target */
    uint32_t fenced[8];                    /* steps below it are before the last fence */
};

/* Signals to one target are neighbours, so that they may join. */
static uint32_t take_words(uint32_t *free_word, uint32_t words)
{
    uint32_t at = *free_word;
    *free_word += words;
    return at;
}

static struct step *add_step(struct generator *generator, enum step_kind kind, uint32_t target)
{
    struct program *program = generator->program;
    if (program->count == PROGRAM_STEPS_MAX) {
        return NULL;
    }
    uint32_t index = program->count++;
    struct step *step = &program->steps[index];
    *step = (struct step){.kind = kind, .target = target, .value = 1 + index};
    if (kind == STEP_FENCE) {
        generator->fenced[target] = index;
        return step;
    }
    if (kind == STEP_FENCE_ALL) {
        for (uint32_t i = 0; i < generator->n_pes; i++) {
            generator->fenced[i] = index;
        }
        return step;
    }
    step->bound = generator->fenced[target];
    if (kind == STEP_QUIET) {
        return step;
    }
    bool has_data = kind == STEP_PUT || kind == STEP_PUT_SIGNAL;
    if (has_data) {
        static const uint32_t sizes[] = {1, 2, 8, 24, 40};
        step->data_words = sizes[prs_rng_below(generator->rng, 5)];
        if (kind == STEP_PUT_SIGNAL && prs_rng_below(generator->rng, 8) == 0) {
            step->data_words = 0;
        }
        step->data = take_words(&generator->free_data[target], step->data_words);
    }
    if (kind == STEP_COUNTER) {
        step->signal = COUNTER_WORD;
        step->signal_words = 1;
    } else if (kind != STEP_PUT) {
        step->signal_words = kind == STEP_VECTOR ? 2 + prs_rng_below(generator->rng, 7) : 1;
        step->signal = take_words(&generator->free_signal[target], step->signal_words);
    }
    return step;
}

static uint32_t other_pe(struct generator *generator)
{
    uint32_t pe = prs_rng_below(generator->rng, generator->n_pes - 1);
    return pe >= generator->program->self ? pe + 1 : pe;
}

static void generate_decoupled(struct generator *generator)
{
    uint32_t target = other_pe(generator);
    uint32_t members = 1 + prs_rng_below(generator->rng, 6);
    for (uint32_t i = 0; i < members; i++) {
        add_step(generator, STEP_PUT, target);
        if (prs_rng_below(generator->rng, 4) == 0) {
            add_step(generator, STEP_PUT, other_pe(generator));
        }
    }
    add_step(generator, prs_rng_below(generator->rng, 4) == 0 ? STEP_FENCE_ALL : STEP_FENCE,
             target);
    if (prs_rng_below(generator->rng, 2) == 0) {
        add_step(generator, STEP_VECTOR, target);
        return;
    }
    for (uint32_t i = 0; i < members; i++) {
        add_step(generator, STEP_SIGNAL, target);
    }
}

static void generate_mixed(struct generator *generator, bool adds)
{
    static const enum step_kind kinds[] = {
        STEP_PUT,   STEP_PUT,       STEP_PUT_SIGNAL, STEP_SIGNAL, STEP_VECTOR,     STEP_FENCE,
        STEP_FENCE, STEP_FENCE_ALL, STEP_COUNTER,    STEP_ADD,    STEP_PUT_SIGNAL, STEP_FETCH};
    enum step_kind kind = kinds[prs_rng_below(generator->rng, 12)];
    uint32_t target = other_pe(generator);
    if (kind == STEP_COUNTER) {
        add_step(generator, STEP_FENCE, target); /* unfenced SETs to one word are unordered */
    }
    if ((kind == STEP_ADD || kind == STEP_FETCH) && !adds) {
        kind = STEP_SIGNAL;
    }
    add_step(generator, kind, target);
}

void program_generate(struct program *program, uint32_t self, uint32_t n_pes,
                      enum program_style style, bool adds, struct prs_rng *rng)
{
    memset(program, 0, sizeof *program);
    program->self = self;
    struct generator generator = {.program = program, .rng = rng, .n_pes = n_pes};
    for (uint32_t i = 0; i < n_pes; i++) {
        generator.free_data[i] = COUNTER_WORD + 1;
        generator.free_signal[i] = SIGNALS_AT;
    }
    while (program->count < PROGRAM_STEPS_MAX) {
        if (prs_rng_below(generator.rng, 12) == 0) {
            add_step(&generator, STEP_QUIET, other_pe(&generator));
        } else if (style == STYLE_COUPLED) {
            add_step(&generator, STEP_PUT_SIGNAL, other_pe(&generator));
        } else if (style == STYLE_DECOUPLED) {
            generate_decoupled(&generator);
        } else {
            generate_mixed(&generator, adds);
        }
    }
}

uint64_t program_word(const struct program *program, uint32_t index, uint32_t word)
{
    return (uint64_t)(program->self + 1) << 48 | (uint64_t)(index + 1) << 16 | (word + 1);
}

/* It writes nothing. */
static bool only_orders(const struct step *step)
{
    return step->kind == STEP_FENCE || step->kind == STEP_FENCE_ALL || step->kind == STEP_QUIET;
}

/* How many of the step's data words are right; *out_any: whether any shows. */
static uint32_t data_visible(const struct program *program, uint32_t index, const uint64_t *area,
                             bool *out_any)
{
    const struct step *step = &program->steps[index];
    uint32_t right = 0;
    for (uint32_t i = 0; i < step->data_words; i++) {
        *out_any |= area[step->data + i] != 0;
        right += area[step->data + i] == program_word(program, index, i);
    }
    return right;
}

static uint32_t signals_visible(const struct step *step, const uint64_t *area)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < step->signal_words; i++) {
        uint64_t seen = area[step->signal + i];
        right += step->kind == STEP_COUNTER ? seen >= step->value : seen == step->value + i;
    }
    return right;
}

const char *program_check(struct program *program, uint32_t target, const uint64_t *area,
                          const uint64_t *later, uint32_t *out_step)
{
    uint64_t counter = area[COUNTER_WORD];
    if (counter < program->counter_seen[target]) {
        *out_step = 0;
        return "a SET of a growing value was overtaken by an older one";
    }
    program->counter_seen[target] = counter;
    uint32_t first_missing = PROGRAM_STEPS_MAX;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct step *step = &program->steps[i];
        if (only_orders(step) || step->target != target) {
            continue;
        }
        bool any = false;
        uint32_t data = data_visible(program, i, area, &any);
        uint32_t signaled = signals_visible(step, area), signals = signaled;
        if (later != area) {
            bool any_later = false;
            data = data_visible(program, i, later, &any_later);
            signals = signals_visible(step, later);
        }
        *out_step = i;
        if (signaled > 0 && data < step->data_words) {
            return "a signal is visible before its own payload";
        }
        if ((any || signaled > 0) && first_missing < step->bound) {
            return "something behind a fence is visible before what was in front of it";
        }
        if ((data < step->data_words || signals < step->signal_words) &&
            first_missing == PROGRAM_STEPS_MAX) {
            first_missing = i;
        }
    }
    return NULL;
}

const char *program_check_quiet(const struct program *program, uint32_t count, uint32_t target,
                                const uint64_t *area, uint32_t *out_step)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct step *step = &program->steps[i];
        if (only_orders(step) || step->target != target) {
            continue;
        }
        bool any = false;
        *out_step = i;
        if (data_visible(program, i, area, &any) != step->data_words) {
            return "quiet completed, but a payload is missing";
        }
        if (signals_visible(step, area) != step->signal_words) {
            return "quiet completed, but a signal or atomic is missing, or was applied twice";
        }
    }
    return NULL;
}
