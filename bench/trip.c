/* SPDX-License-Identifier: Apache-2.0 */
/* bench/trip.c: a token goes round a ring of PEs, one put with signal a hop. PE 0 prints the median,
 * the 10th and the 90th percentile of the trips, in us. Built and run by bench/trip.
 *
 * usage: trip TRIPS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <perseus/perseus.h>

#define TIMEOUT_MS 60000

static struct perseus_pe *pe;

static void check(enum perseus_status status, const char *what)
{
    if (status != PERSEUS_OK) {
        fprintf(stderr, "trip: %s: %s: %s\n", what, perseus_status_string(status),
                perseus_last_error(pe));
        exit(1);
    }
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    long trips = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    if (trips < 10) {
        fprintf(stderr, "usage: trip TRIPS (10 or more)\n");
        return 2;
    }
    check(perseus_init(&pe), "init");
    void *memory = NULL;
    check(perseus_malloc(pe, 3 * sizeof(uint64_t), &memory), "malloc");
    uint64_t *signal = memory, *token = signal + 1, *source = signal + 2;
    int me = perseus_my_pe(pe), next = (me + 1) % perseus_n_pes(pe);
    double *us = calloc((size_t)trips, sizeof *us);
    check(perseus_barrier_all(pe), "barrier");
    for (long trip = 1; us != NULL && trip <= trips; trip++) {
        double begin = now_us();
        for (int turn = 0; turn < 2;
             turn++) { /* PE 0 sends and then waits, the others the reverse */
            if ((turn == 0) == (me == 0)) {
                *source = (uint64_t)trip;
                check(perseus_put_signal_nbi(pe, token, source, sizeof *source, signal,
                                             (uint64_t)trip, PERSEUS_SIGNAL_SET, next),
                      "put_signal");
            } else {
                check(perseus_signal_wait_until(pe, signal, PERSEUS_CMP_GE, (uint64_t)trip,
                                                TIMEOUT_MS, NULL),
                      "wait");
            }
        }
        us[trip - 1] = now_us() - begin;
    }
    check(perseus_barrier_all(pe), "barrier");
    if (me == 0 && us != NULL) {
        qsort(us, (size_t)trips, sizeof *us, compare);
        printf("%.1f %.1f %.1f\n", us[trips / 2], us[trips / 10], us[trips - 1 - trips / 10]);
    }
    free(us);
    check(perseus_finalize(pe), "finalize");
    return 0;
}
