/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: the only way to read time below the tools. A simulator supplies its own. */
#ifndef PRS_BASE_CLOCK_H
#define PRS_BASE_CLOCK_H

#include <stdint.h>

struct prs_clock {
    uint64_t (*now_ns)(void *context); /* monotonic */
    void *context;
};

/* CLOCK_MONOTONIC. */
struct prs_clock prs_clock_monotonic(void);

static inline uint64_t prs_clock_now_ns(const struct prs_clock *clock)
{
    return clock->now_ns(clock->context);
}

#endif
