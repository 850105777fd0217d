#include <string.h>

#include "traffic.h"

#define ORDER  32768 /* one cache line per step */
#define OUTBOX (1280 << 10)
#define BATCH  16 /* rounds between quiets: sources stay untouched that long */

enum step { STEP_SET, STEP_BULK, STEP_P, STEP_ADD, STEP_SMALL, STEP_INC_32 };
static const enum step steps[] = {STEP_SET,  STEP_BULK,  STEP_P,    STEP_BULK,   STEP_ADD,
                                  STEP_BULK, STEP_SMALL, STEP_BULK, STEP_INC_32, STEP_BULK};
#define STEPS ((int)(sizeof steps / sizeof steps[0]))

static size_t word_at(int step)
{
    return ORDER + (size_t)step * 64;
}

static void do_step(struct host_pe *pe, int target, int step, uint64_t round)
{
    size_t out = OUTBOX + ((size_t)(round % BATCH) * STEPS + (size_t)step) * 64;
    size_t bytes = steps[step] == STEP_SMALL ? 8 : 64;
    for (size_t i = 0; i < 8; i++) {
        memcpy(pe->view + out + 8 * i, &round, sizeof round);
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
    case STEP_SMALL:
        CHECK(pe, device_put(pe, target, word_at(step), pe->heap + out, bytes) == 0);
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

/* As a GPU polls: payload that no signal has announced yet is a race to ThreadSanitizer, so it is kept from seeing
 * this. */
__attribute__((no_sanitize("thread"))) static uint64_t glance(const struct host_pe *pe, int step)
{
    return *(const volatile uint64_t *)(const volatile void *)(pe->view + word_at(step));
}

/* Whoever sees a step sees every step before it: looks at the later one first. */
static bool look(struct host_pe *pe)
{
    uint64_t first = glance(pe, 0);
    bool good = CHECK(pe, glance(pe, STEPS - 1) + 1 >= first);
    for (int step = STEPS - 1; step > 0 && good; step--) {
        uint64_t later = glance(pe, step);
        good = CHECK(pe, glance(pe, step - 1) >= later);
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
        if (!look(pe)) {
            break;
        }
    }
    pthread_join(sender, NULL);
    host_barrier(pe);
    for (int step = 0; step < STEPS; step++) {
        CHECK(pe, host_word(pe, word_at(step)) == last);
    }
}
