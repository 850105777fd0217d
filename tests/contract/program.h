/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h: a random program of one PE, what it promises to its targets, and the check of those
 * promises.
 *
 * Every step writes words of its own at its target, so what is visible there at any moment tells
 * which steps have taken effect. `bound` is the promise: if any effect of a step is visible, then
 * every step to the same target numbered below its bound is completely visible. A put_signal also
 * promises its own payload before its signal.
 */
#ifndef TESTS_CONTRACT_PROGRAM_H
#define TESTS_CONTRACT_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

#define PROGRAM_STEPS_MAX 48
#define PROGRAM_WORDS_MAX 4096 /* of one sender's area at one target: data, then signals */

enum step_kind {
    STEP_PUT,
    STEP_PUT_SIGNAL,
    STEP_SIGNAL,
    STEP_VECTOR,
    STEP_ADD,
    STEP_FETCH,   /* fetch-add, blocking in programs, here by token */
    STEP_COUNTER, /* SET of a growing value to one word: it must never regress */
    STEP_FENCE,
    STEP_FENCE_ALL,
    STEP_QUIET /* of the target, by token: then all before it is there */
};

enum program_style {
    STYLE_COUPLED,   /* put_signal only: what unchanged callers do */
    STYLE_DECOUPLED, /* puts, one fence, signals or vectors */
    STYLE_MIXED      /* everything, fences anywhere */
};

struct step {
    enum step_kind kind;
    uint32_t target;
    uint32_t data, data_words; /* word offset in the sender's area at the target */
    uint32_t signal, signal_words;
    uint64_t value; /* of the first signal word; vectors count up from it */
    uint32_t bound;
};

struct program {
    uint32_t self, count;
    struct step steps[PROGRAM_STEPS_MAX];
    uint64_t counter_seen[8]; /* by target, for regressions */
};

/* `adds`: whether the fabric can carry ADD and fetches. */
void program_generate(struct program *program, uint32_t self, uint32_t n_pes,
                      enum program_style style, bool adds, struct prs_rng *rng);
/* The word that step `index`'s data word `word` must hold. */
uint64_t program_word(const struct program *program, uint32_t index, uint32_t word);
/* Checks what this sender's area at `target` shows: whatever has taken effect in `area`, all that
 * it promises has in `later`, which is the same, or what was read after it where a device writes
 * into memory at any time. NULL: fine; else what is broken, in static text; *out_step is the step
 * whose promise broke. */
const char *program_check(struct program *program, uint32_t target, const uint64_t *area,
                          const uint64_t *later, uint32_t *out_step);
/* The same, after a quiet behind the first `count` steps: all of them must be visible, exactly
 * once. */
const char *program_check_quiet(const struct program *program, uint32_t count, uint32_t target,
                                const uint64_t *area, uint32_t *out_step);

#endif
