/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/board.h"

#include <time.h>

void prs_bench_gate_init(struct prs_bench_gate *gate)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&cond);
    pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
    pthread_mutex_init(&gate->mutex, &mutex);
    pthread_cond_init(&gate->opened, &cond);
    pthread_mutexattr_destroy(&mutex);
    pthread_condattr_destroy(&cond);
    gate->n_waiting = 0;
    gate->n_opened = 0;
}

/* until: NULL waits as long as it takes. */
static bool pass_until(struct prs_bench_gate *gate, uint32_t n, const struct timespec *until)
{
    int error = 0;
    pthread_mutex_lock(&gate->mutex);
    uint64_t n_opened = gate->n_opened;
    if (++gate->n_waiting == n) {
        gate->n_waiting = 0;
        gate->n_opened++;
        pthread_cond_broadcast(&gate->opened);
    }
    while (gate->n_opened == n_opened && error == 0) {
        error = until == NULL ? pthread_cond_wait(&gate->opened, &gate->mutex)
                              : pthread_cond_timedwait(&gate->opened, &gate->mutex, until);
    }
    bool is_open = gate->n_opened != n_opened;
    pthread_mutex_unlock(&gate->mutex);
    return is_open;
}

void prs_bench_gate_pass(struct prs_bench_gate *gate, uint32_t n)
{
    pass_until(gate, n, NULL);
}

bool prs_bench_gate_pass_within(struct prs_bench_gate *gate, uint32_t n, uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    return pass_until(gate, n, &until);
}
