/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define QUIET_NS UINT64_C(2000000000)
#define DRAW_NS  UINT64_C(100000000)

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

void prs_progress_init(struct prs_progress *progress, uint64_t total)
{
    *progress = (struct prs_progress){
        .total = total,
        .start_ns = now_ns(),
        .is_terminal = isatty(STDERR_FILENO) == 1,
    };
}

void prs_progress_step(struct prs_progress *progress, const char *what)
{
    progress->done++;
    if (!progress->is_terminal) {
        return;
    }
    uint64_t now = now_ns();
    if (now - progress->start_ns < QUIET_NS || now - progress->drawn_ns < DRAW_NS) {
        return;
    }
    double elapsed_s = (double)(now - progress->start_ns) / 1e9;
    double left_s = elapsed_s / (double)progress->done * (double)(progress->total - progress->done);
    fprintf(stderr, "\r\033[K%3.0f%%  about %.0f s left  %s",
            100.0 * (double)progress->done / (double)progress->total, left_s, what);
    fflush(stderr);
    progress->drawn_ns = now;
    progress->is_drawn = true;
}

void prs_progress_finish(struct prs_progress *progress)
{
    if (progress->is_drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->is_drawn = false;
    }
}
