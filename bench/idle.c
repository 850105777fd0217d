/* SPDX-License-Identifier: Apache-2.0 */
/* bench/idle.c: a PE that waits. PE 0 comes to a barrier SECONDS late; what the others use of a
 * core until then is gathered at PE 0 and printed: a line "PE percent" each. Built and run by
 * bench/idle.
 *
 * usage: idle SECONDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <perseus/perseus.h>

static struct perseus_pe *pe;

static void check(enum perseus_status status, const char *what)
{
    if (status != PERSEUS_OK) {
        fprintf(stderr, "idle: %s: %s: %s\n", what, perseus_status_string(status),
                pe != NULL ? perseus_last_error(pe) : "");
        exit(1);
    }
}

static double cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10;
    check(perseus_init(&pe), "init");
    int me = perseus_my_pe(pe), n = perseus_n_pes(pe);
    void *memory = NULL;
    check(perseus_malloc(pe, (size_t)n * sizeof(uint64_t), &memory), "malloc");
    uint64_t *used_us = memory;
    check(perseus_barrier_all(pe), "first barrier"); /* everybody is connected */
    double before_s = cpu_s();
    if (me == 0) {
        sleep(seconds);
    }
    check(perseus_barrier_all(pe), "barrier");
    uint64_t mine = (uint64_t)(1e6 * (cpu_s() - before_s));
    check(perseus_signal_op(pe, &used_us[me], mine + 1, PERSEUS_SIGNAL_SET, 0), "signal");
    for (int other = 0; me == 0 && other < n; other++) {
        uint64_t seen = 0;
        check(perseus_signal_wait_until(pe, &used_us[other], PERSEUS_CMP_GE, 1, 60000, &seen),
              "wait");
        printf("%d %.3f\n", other, 1e-4 * (double)(seen - 1) / seconds);
    }
    check(perseus_barrier_all(pe), "last barrier");
    check(perseus_finalize(pe), "finalize");
    return 0;
}
