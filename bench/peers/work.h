/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/peers/work.h: the work that bench/compare times, the same for everybody.
 *
 * One round: the sender hands WORK_MESSAGES payloads to the receivers in turn, each with a flag of
 * 8 bytes that must not be seen before it; a receiver that has seen all its flags answers; the
 * round ends with the last answer. Payloads differ from round to round. When a flag is seen, the
 * first and the last word of its payload are checked at once, all words after the answer.
 */
#ifndef BENCH_PEERS_WORK_H
#define BENCH_PEERS_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORK_MESSAGES 96

static inline double work_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* Messages that receiver `index` of `receivers` gets: index, index + receivers, ... */
static inline int work_count(int index, int receivers)
{
    return (WORK_MESSAGES - index + receivers - 1) / receivers;
}

static inline uint64_t work_word(uint64_t round, int message, size_t at)
{
    return (round * WORK_MESSAGES + (uint64_t)message) * UINT64_C(0x9e3779b97f4a7c15) + at;
}

static inline void work_fill(unsigned char *payload, size_t bytes, uint64_t round, int message)
{
    for (size_t at = 0; at < bytes / 8; at++) {
        ((uint64_t *)(void *)payload)[at] = work_word(round, message, at);
    }
}

/* Ends the process if the payload is not the one of this round. */
static inline void work_check(const unsigned char *payload, size_t bytes, uint64_t round,
                              int message, size_t step)
{
    const uint64_t *words = (const uint64_t *)(const void *)payload;
    size_t last = bytes / 8 - 1;
    for (size_t at = 0;; at = at + step < last ? at + step : last) {
        if (words[at] != work_word(round, message, at)) {
            fprintf(stderr, "round %llu: word %zu of message %d is wrong\n",
                    (unsigned long long)round, at, message);
            exit(3);
        }
        if (at == last) {
            return;
        }
    }
}

/* The ends only. */
static inline void work_check_ends(const unsigned char *payload, size_t bytes, uint64_t round,
                                   int message)
{
    work_check(payload, bytes, round, message, bytes);
}

/* One sample: what bench/compare reads. */
static inline void work_report(const char *name, double us)
{
    printf("sample %s %.1f\n", name, us);
}

#endif
