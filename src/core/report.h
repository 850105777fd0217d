/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h: one PE's messages. It stands between prs_log and the user's callback: calls of the
 * callback are serialized, and every thread's last error text is kept for perseus_last_error.
 *
 * Memory: 1 KiB per thread that ever saw an error, freed when the thread or the PE ends.
 */
#ifndef PRS_CORE_REPORT_H
#define PRS_CORE_REPORT_H

#include <pthread.h>

#include "base/log.h"

#define PRS_REPORT_BYTES 1024

struct prs_report_thread;

struct prs_report {
    struct prs_log log; /* what the PE's parts log to; its user is this report */
    perseus_log_fn fn;
    void *user;
    enum perseus_log_level level;
    pthread_mutex_t callback_mutex; /* held while fn runs */
    pthread_mutex_t texts_mutex;    /* threads, latest */
    pthread_key_t key;              /* the calling thread's entry */
    struct prs_report_thread *threads;
    char latest[PRS_REPORT_BYTES]; /* last error of any thread, the proxy's above all */
};

enum perseus_status prs_report_init(struct prs_report *report, perseus_log_fn fn, void *user,
                                    enum perseus_log_level level);
/* No other thread uses the report any more. */
void prs_report_finish(struct prs_report *report);

/* The calling thread's last error text, or "". Takes no lock. */
const char *prs_report_last(const struct prs_report *report);

/* For an error that another thread logged first (the proxy): sets the calling thread's text to the
 * message and the latest error logged, and logs nothing. Returns `status`. */
enum perseus_status prs_report_adopt(struct prs_report *report, enum perseus_status status,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
