/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "traffic.h"

#define LINE 64
#define LARGE_BYTES \
    (5 << 10) /* more than staging carries through its rings, as the lanes set them */
#define ORDER  (96 << 10)
#define OUTBOX (1280 << 10)
#define BATCH  8 /* rounds between quiets: sources stay untouched that long */

enum step { STEP_SET, STEP_BULK, STEP_LARGE, STEP_P, STEP_ADD, STEP_SMALL, STEP_INC_32 };
static const enum step steps[] = {STEP_SET,   STEP_BULK, STEP_P,      STEP_LARGE, STEP_LARGE,
                                  STEP_ADD,   STEP_BULK, STEP_SMALL,  STEP_LARGE, STEP_SET,
                                  STEP_LARGE, STEP_BULK, STEP_INC_32, STEP_BULK};
#define STEPS      ((int)(sizeof steps / sizeof steps[0]))
#define STEP_BYTES (LARGE_BYTES + LINE)

static size_t bytes_of(int step)
{
    switch (steps[step]) {
    case STEP_LARGE:
        return LARGE_BYTES;
    case STEP_BULK:
        return LINE;
    default:
        return sizeof(uint64_t);
    }
}

static size_t start_of(int step)
{
    return ORDER + (size_t)step * STEP_BYTES;
}

/* What is looked at: the last word of what a step writes. */
static size_t word_at(int step)
{
    return start_of(step) + bytes_of(step) - sizeof(uint64_t);
}

static void do_step(struct host_pe *pe, int target, int step, uint64_t round)
{
    size_t out = OUTBOX + ((size_t)(round % BATCH) * STEPS + (size_t)step) * STEP_BYTES;
    size_t bytes = bytes_of(step);
    for (size_t i = 0; i < bytes; i += sizeof round) {
        memcpy(pe->view + out + i, &round, sizeof round);
    }
    switch (steps[step]) {
    case STEP_SET:
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_SET, word_at(step), 8, round, 0) == 0);
        break;
    case STEP_P:
        CHECK(pe, device_p(pe, target, word_at(step), round, 8) == 0);
        break;
    case STEP_ADD:
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_ADD, word_at(step), 8, 1, 0) == 0);
        break;
    case STEP_INC_32:
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_INC, word_at(step), 4, 0, 0) == 0);
        break;
    case STEP_BULK:
    case STEP_LARGE:
    case STEP_SMALL:
        CHECK(pe, device_put(pe, target, start_of(step), pe->heap + out, bytes) == 0);
        break;
    }
    CHECK(pe, device_fence(pe) == 0);
}

static void order_kernel(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    int target = (pe->rank + 1) % pe->n_pes;
    for (uint64_t round = 1; round <= (uint64_t)traffic->rounds * 10; round++) {
        for (int step = 0; step < STEPS; step++) {
            do_step(pe, target, step, round);
        }
        if (round % BATCH == BATCH - 1) {
            CHECK(pe, device_quiet(pe) == 0);
        }
        CHECK(pe, host_progress(pe) == 0);
    }
    CHECK(pe, device_quiet(pe) == 0);
}

static void *order_main(void *argument)
{
    struct host_pe *pe = argument;
    host_on_proxy(pe, order_kernel, pe->spec->argument);
    return NULL;
}

/* As a GPU polls: payload that no signal has announced yet is a race to ThreadSanitizer, so it is
 * kept from seeing this. */
__attribute__((no_sanitize("thread"))) static uint64_t glance(const struct host_pe *pe, int step)
{
    return *(const volatile uint64_t *)(const volatile void *)(pe->view + word_at(step));
}

static bool is_bulk(int step)
{
    return steps[step] == STEP_LARGE || steps[step] == STEP_BULK;
}

/* Whoever sees a step sees every step before it: looks at the later one first. */
static bool look(struct host_pe *pe, const struct traffic *traffic)
{
    uint64_t first = glance(pe, 0);
    bool good = CHECK(pe, glance(pe, STEPS - 1) + 1 >= first);
    for (int step = STEPS - 1; step > 0 && good; step--) {
        uint64_t later = glance(pe, step);
        bool is_free = is_bulk(step) && is_bulk(step - 1) && !traffic->keeps_puts;
        good = is_free || CHECK(pe, glance(pe, step - 1) >= later);
    }
    return good;
}

void traffic_order(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    uint64_t last = (uint64_t)traffic->rounds * 10;
    pthread_t sender;
    CHECK(pe, pthread_create(&sender, NULL, order_main, pe) == 0);
    for (int looks = 0; looks < 3000000 && glance(pe, STEPS - 1) < last; looks++) {
        if (!look(pe, traffic)) {
            break;
        }
    }
    pthread_join(sender, NULL);
    host_barrier(pe);
    for (int step = 0; step < STEPS; step++) {
        CHECK(pe, host_word(pe, word_at(step)) == last);
    }
}
