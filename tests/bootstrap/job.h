/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h: a job whose PEs are threads of the test, over the local or the tcp bootstrap.
 *
 * cmocka's assertions must not be used on a PE's thread: PEs check with JOB_CHECK, which notes the
 * first failure, and job_finish asserts that there was none.
 */
#ifndef TESTS_BOOTSTRAP_JOB_H
#define TESTS_BOOTSTRAP_JOB_H

#include <pthread.h>
#include <stdbool.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/hub.h"

enum job_kind { JOB_LOCAL, JOB_TCP };
enum { JOB_PES_MAX = 16, JOB_PATIENT_MS = 60000 };

/* Collects messages of all PEs and the hub. */
struct job_log {
    pthread_mutex_t mutex;
    char text[32768];
    size_t used;
    int n_warnings, n_errors;
};
void job_log_init(struct job_log *log);
struct prs_log job_log_sink(struct job_log *log);
bool job_log_has(struct job_log *log, const char *words);
int job_log_warnings(struct job_log *log);

struct job;
struct job_pe {
    struct job *job;
    int rank;
    enum perseus_status opened;      /* what open gave */
    struct prs_bootstrap *bootstrap; /* NULL: none; main may close what it leaves here */
    int fd;                          /* local: the socket, until the bootstrap owns it */
    bool is_started;
    pthread_t thread;
};
/* Runs on the PE's thread once it has opened, or failed to. */
typedef void (*job_main)(struct job_pe *pe);

struct job {
    enum job_kind kind;
    int size;
    uint32_t timeout_ms;
    job_main main;
    void *context;
    struct job_log log;
    struct prs_hub *hub; /* local */
    struct perseus_unique_id id;
    struct job_pe pes[JOB_PES_MAX];
    pthread_t hub_thread;
    const char *failed_check; /* the first; guarded by log.mutex */
    int failed_line;
};

void job_init(struct job *job, enum job_kind kind, int size, uint32_t timeout_ms, job_main main,
              void *context);
void job_start(struct job *job, int rank);
/* Joins every PE that was started. */
void job_join(struct job *job);
/* Joins, closes what the PEs left open, and checks. */
void job_finish(struct job *job);
/* init, start of all ranks, finish. */
void job_run(enum job_kind kind, int size, uint32_t timeout_ms, job_main main, void *context);

void job_note_failure(struct job *job, const char *check, int line);
#define JOB_CHECK(pe, condition)                               \
    do {                                                       \
        if (!(condition)) {                                    \
            job_note_failure((pe)->job, #condition, __LINE__); \
        }                                                      \
    } while (0)

/* Byte i of what rank contributes to a round. */
unsigned char job_byte(int round, int rank, size_t i);
/* One allgather of `bytes` with a pattern; the status, or INTERNAL when the data are wrong. */
enum perseus_status job_gather(struct prs_bootstrap *bootstrap, int round, size_t bytes);
void job_sleep_ms(int ms);

#endif
