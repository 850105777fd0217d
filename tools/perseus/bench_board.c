#include "bench_board.h"

void prs_bench_gate_init(struct prs_bench_gate *gate)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&cond);
    pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&gate->mutex, &mutex);
    pthread_cond_init(&gate->opened, &cond);
    pthread_mutexattr_destroy(&mutex);
    pthread_condattr_destroy(&cond);
    gate->n_waiting = 0;
    gate->n_opened = 0;
}

void prs_bench_gate_pass(struct prs_bench_gate *gate, uint32_t n)
{
    pthread_mutex_lock(&gate->mutex);
    uint64_t n_opened = gate->n_opened;
    if (++gate->n_waiting == n) {
        gate->n_waiting = 0;
        gate->n_opened++;
        pthread_cond_broadcast(&gate->opened);
    }
    while (gate->n_opened == n_opened) {
        pthread_cond_wait(&gate->opened, &gate->mutex);
    }
    pthread_mutex_unlock(&gate->mutex);
}
