/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wait.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define SPIN_STEPS   200
#define YIELD_STEPS  100
#define SLEEP_MIN_NS 50000u
#define SLEEP_MAX_NS 4000000u
#define SLEEP_SHARE  16 /* of the time waited so far: the longer, the less it matters */
#define CHECK_NS     10000000u

struct prs_wait prs_wait_begin(struct perseus_pe *pe, uint32_t timeout_ms)
{
    uint64_t now = prs_clock_now_ns(&pe->clock);
    return (struct prs_wait){
        .pe = pe,
        .timeout_ms = timeout_ms,
        .begin_ns = now,
        .deadline_ns =
            timeout_ms == PERSEUS_NO_TIMEOUT ? UINT64_MAX : now + (uint64_t)timeout_ms * 1000000u,
        .next_check_ns = now + CHECK_NS,
        .lost_pe = -1,
    };
}

static enum perseus_status check_health(struct prs_wait *wait)
{
    struct perseus_pe *pe = wait->pe;
    enum perseus_status status = prs_job_health(&pe->job, &wait->lost_pe);
    if (status == PERSEUS_OK && pe->channel != NULL) {
        status = prs_channel_health(pe->channel);
    }
    return status;
}

/* The proxy tells of everything that it brings; what PEs of this node write themselves is found
 * when the sleep ends. The first sleep lasts no time: the caller looks once more before it
 * counts. */
static void sleep_a_while(struct prs_wait *wait, uint64_t now)
{
    uint64_t ns = (now - wait->begin_ns) / SLEEP_SHARE;
    ns = ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : ns;
    ns = ns < wait->deadline_ns - now ? ns : wait->deadline_ns - now;
    struct prs_channel *channel = wait->pe->channel;
    if (channel == NULL) {
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
        return;
    }
    if (wait->is_expecting) {
        prs_channel_await(channel, wait->turn, ns);
    }
    wait->is_expecting = true;
    wait->turn = prs_channel_expect(channel);
}

enum perseus_status prs_wait_step(struct prs_wait *wait)
{
    wait->steps++;
    if (wait->timeout_ms != 0 && wait->steps <= SPIN_STEPS) {
        return PERSEUS_OK;
    }
    uint64_t now = prs_clock_now_ns(&wait->pe->clock);
    if (now >= wait->next_check_ns) {
        wait->next_check_ns = now + CHECK_NS;
        enum perseus_status status = check_health(wait);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    if (now >= wait->deadline_ns) {
        return PERSEUS_TIMEOUT;
    }
    if (wait->steps <= SPIN_STEPS + YIELD_STEPS) {
        sched_yield();
    } else {
        sleep_a_while(wait, now);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_wait_fail(const struct prs_wait *wait, enum perseus_status status,
                                  const char *what, ...)
{
    char text[256];
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    const struct prs_log *log = prs_pe_log(wait->pe);
    if (status == PERSEUS_TIMEOUT) {
        return prs_fail(log, status,
                        "%s: nothing after %u ms; look for a PE that is stuck or ended, or allow "
                        "more time (timeout_ms, PERSEUS_TIMEOUT_MS)",
                        text, wait->timeout_ms);
    }
    if (status == PERSEUS_PEER_LOST && wait->lost_pe >= 0) {
        return prs_fail(log, status,
                        "%s: PE %d is gone and the job with it; see that PE's own messages, then "
                        "call perseus_abort",
                        text, wait->lost_pe);
    }
    return prs_fail(log, status, "%s: %s; end this PE with perseus_abort", text,
                    perseus_status_string(status));
}
