/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prs_report_thread {
    struct prs_report *report;
    struct prs_report_thread *next, **link; /* in report->threads */
    char text[PRS_REPORT_BYTES];
};

/* Runs when a thread ends: its text goes with it. */
static void forget(void *value)
{
    struct prs_report_thread *entry = value;
    pthread_mutex_lock(&entry->report->texts_mutex);
    *entry->link = entry->next;
    if (entry->next != NULL) {
        entry->next->link = entry->link;
    }
    pthread_mutex_unlock(&entry->report->texts_mutex);
    free(entry);
}

/* The calling thread's entry, made on its first error; NULL when there is no memory for it. */
static struct prs_report_thread *own_entry(struct prs_report *report)
{
    struct prs_report_thread *entry = pthread_getspecific(report->key);
    if (entry != NULL) {
        return entry;
    }
    entry = calloc(1, sizeof *entry);
    if (entry == NULL || pthread_setspecific(report->key, entry) != 0) {
        free(entry);
        return NULL;
    }
    entry->report = report;
    pthread_mutex_lock(&report->texts_mutex);
    entry->next = report->threads;
    entry->link = &report->threads;
    if (entry->next != NULL) {
        entry->next->link = &entry->next;
    }
    report->threads = entry;
    pthread_mutex_unlock(&report->texts_mutex);
    return entry;
}

static void keep(struct prs_report *report, const char *text)
{
    struct prs_report_thread *entry = own_entry(report);
    if (entry != NULL) {
        snprintf(entry->text, sizeof entry->text, "%s", text);
    }
    pthread_mutex_lock(&report->texts_mutex);
    snprintf(report->latest, sizeof report->latest, "%s", text);
    pthread_mutex_unlock(&report->texts_mutex);
}

static void take_message(void *user, enum perseus_log_level level, const char *text)
{
    struct prs_report *report = user;
    if (level == PERSEUS_LOG_ERROR) {
        keep(report, text);
    }
    if (report->fn != NULL && level <= report->level) {
        pthread_mutex_lock(&report->callback_mutex);
        report->fn(report->user, level, text);
        pthread_mutex_unlock(&report->callback_mutex);
    }
}

enum perseus_status prs_report_init(struct prs_report *report, perseus_log_fn fn, void *user,
                                    enum perseus_log_level level)
{
    *report = (struct prs_report){.fn = fn, .user = user, .level = level};
    report->log = (struct prs_log){.fn = take_message, .user = report, .level = level, .pe = -1};
    if (fn == NULL) {
        report->log.level = PERSEUS_LOG_ERROR; /* errors are kept even when nobody listens */
    }
    if (pthread_key_create(&report->key, forget) != 0) {
        return PERSEUS_LIMIT; /* PTHREAD_KEYS_MAX PEs in one process */
    }
    pthread_mutex_init(&report->callback_mutex, NULL);
    pthread_mutex_init(&report->texts_mutex, NULL);
    return PERSEUS_OK;
}

void prs_report_finish(struct prs_report *report)
{
    pthread_key_delete(report->key);
    while (report->threads != NULL) {
        struct prs_report_thread *entry = report->threads;
        report->threads = entry->next;
        free(entry);
    }
    pthread_mutex_destroy(&report->callback_mutex);
    pthread_mutex_destroy(&report->texts_mutex);
}

const char *prs_report_last(const struct prs_report *report)
{
    const struct prs_report_thread *entry = pthread_getspecific(report->key);
    return entry != NULL ? entry->text : "";
}

enum perseus_status prs_report_adopt(struct prs_report *report, enum perseus_status status,
                                     const char *format, ...)
{
    struct prs_report_thread *entry = own_entry(report);
    if (entry == NULL) {
        return status;
    }
    va_list args;
    va_start(args, format);
    int used = vsnprintf(entry->text, sizeof entry->text, format, args);
    va_end(args);
    pthread_mutex_lock(&report->texts_mutex);
    if (used >= 0 && (size_t)used < sizeof entry->text && report->latest[0] != '\0') {
        snprintf(entry->text + used, sizeof entry->text - (size_t)used,
                 "; the latest error reported: %.512s", report->latest);
    }
    pthread_mutex_unlock(&report->texts_mutex);
    return status;
}
