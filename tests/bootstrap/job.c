/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

void job_log_init(struct job_log *log)
{
    memset(log, 0, sizeof *log);
    pthread_mutex_init(&log->mutex, NULL);
}

static void collect(void *user, enum perseus_log_level level, const char *text)
{
    struct job_log *log = user;
    pthread_mutex_lock(&log->mutex);
    log->n_warnings += level == PERSEUS_LOG_WARN;
    log->n_errors += level == PERSEUS_LOG_ERROR;
    if (log->used + strlen(text) + 2 < sizeof log->text) {
        log->used += (size_t)sprintf(log->text + log->used, "%s\n", text);
    }
    pthread_mutex_unlock(&log->mutex);
}

struct prs_log job_log_sink(struct job_log *log)
{
    return (struct prs_log){.fn = collect, .user = log, .level = PERSEUS_LOG_DEBUG, .pe = -1};
}

bool job_log_has(struct job_log *log, const char *words)
{
    pthread_mutex_lock(&log->mutex);
    bool has = strstr(log->text, words) != NULL;
    pthread_mutex_unlock(&log->mutex);
    return has;
}

int job_log_warnings(struct job_log *log)
{
    pthread_mutex_lock(&log->mutex);
    int n = log->n_warnings;
    pthread_mutex_unlock(&log->mutex);
    return n;
}

void job_note_failure(struct job *job, const char *check, int line)
{
    pthread_mutex_lock(&job->log.mutex);
    if (job->failed_check == NULL) {
        job->failed_check = check;
        job->failed_line = line;
    }
    pthread_mutex_unlock(&job->log.mutex);
}

unsigned char job_byte(int round, int rank, size_t i)
{
    return (unsigned char)((size_t)round * 31u + (size_t)rank * 7u + i + i / 251u);
}

enum perseus_status job_gather(struct prs_bootstrap *bootstrap, int round, size_t bytes)
{
    const int size = bootstrap->size;
    /* One byte more on each side shows what is written beyond. */
    unsigned char *send = malloc(bytes + 1), *recv = malloc((size_t)size * bytes + 1);
    for (size_t i = 0; i < bytes; i++) {
        send[i] = job_byte(round, bootstrap->rank, i);
    }
    recv[(size_t)size * bytes] = 0xa5;
    enum perseus_status status = bootstrap->ops->allgather(bootstrap, send, recv, bytes);
    bool is_right = recv[(size_t)size * bytes] == 0xa5;
    for (int rank = 0; rank < size && status == PERSEUS_OK; rank++) {
        for (size_t i = 0; i < bytes; i++) {
            is_right = is_right && recv[(size_t)rank * bytes + i] == job_byte(round, rank, i);
        }
    }
    free(send);
    free(recv);
    return is_right ? status : PERSEUS_INTERNAL;
}

void job_sleep_ms(int ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void *run_pe(void *context)
{
    struct job_pe *pe = context;
    struct job *job = pe->job;
    struct prs_log sink = job_log_sink(&job->log);
    if (job->kind == JOB_LOCAL) {
        pe->opened = prs_bootstrap_open_local(pe->fd, pe->rank, job->size, job->timeout_ms, &sink,
                                              &pe->bootstrap);
        if (pe->opened == PERSEUS_OK) {
            pe->fd = -1; /* the bootstrap's now */
        }
    } else {
        pe->opened = prs_bootstrap_open_tcp(&job->id, pe->rank, job->size, job->timeout_ms, &sink,
                                            &pe->bootstrap);
    }
    job->main(pe);
    return NULL;
}

static void *run_hub(void *hub)
{
    while (prs_hub_serve(hub, JOB_PATIENT_MS) == PERSEUS_AGAIN) {
    }
    return NULL;
}

void job_init(struct job *job, enum job_kind kind, int size, uint32_t timeout_ms, job_main main,
              void *context)
{
    memset(job, 0, sizeof *job);
    job->kind = kind;
    job->size = size;
    job->timeout_ms = timeout_ms;
    job->main = main;
    job->context = context;
    job_log_init(&job->log);
    struct prs_log sink = job_log_sink(&job->log);
    for (int rank = 0; rank < size; rank++) {
        job->pes[rank] = (struct job_pe){.job = job, .rank = rank, .fd = -1};
    }
    if (kind == JOB_TCP) {
        assert_int_equal(perseus_unique_id_create(NULL, &job->id), PERSEUS_OK);
        return;
    }
    assert_int_equal(prs_hub_create(size, &sink, &job->hub), PERSEUS_OK);
    for (int rank = 0; rank < size; rank++) {
        job->pes[rank].fd = prs_hub_take_fd(job->hub, rank);
        assert_true(job->pes[rank].fd >= 0);
    }
    assert_int_equal(pthread_create(&job->hub_thread, NULL, run_hub, job->hub), 0);
}

void job_start(struct job *job, int rank)
{
    struct job_pe *pe = &job->pes[rank];
    assert_int_equal(pthread_create(&pe->thread, NULL, run_pe, pe), 0);
    pe->is_started = true;
}

void job_join(struct job *job)
{
    for (int rank = 0; rank < job->size; rank++) {
        if (job->pes[rank].is_started) {
            pthread_join(job->pes[rank].thread, NULL);
            job->pes[rank].is_started = false;
        }
    }
}

void job_finish(struct job *job)
{
    job_join(job);
    /* Rank 0 last: in a tcp job it serves the others. */
    for (int rank = job->size - 1; rank >= 0; rank--) {
        struct job_pe *pe = &job->pes[rank];
        if (pe->bootstrap != NULL) {
            pe->bootstrap->ops->close(pe->bootstrap);
        }
        if (pe->fd >= 0) {
            close(pe->fd);
        }
    }
    if (job->kind == JOB_LOCAL) {
        pthread_join(job->hub_thread, NULL);
        prs_hub_destroy(job->hub);
    }
    if (job->failed_check != NULL) {
        fail_msg("line %d: a PE found that not: %s\n%s", job->failed_line, job->failed_check,
                 job->log.text);
    }
}

void job_run(enum job_kind kind, int size, uint32_t timeout_ms, job_main main, void *context)
{
    struct job job;
    job_init(&job, kind, size, timeout_ms, main, context);
    for (int rank = 0; rank < size; rank++) {
        job_start(&job, rank);
    }
    job_finish(&job);
}
