/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pe.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/export.h"
#include "base/last_error.h"
#include "base/limits.h"
#include "base/standard_fds.h"
#include "core/job/settings.h"

/* Where the program gives no callback, the user may ask for the library's own log. */
static enum perseus_status choose_log(struct perseus_attr *attr)
{
    const struct prs_log early = prs_last_error_log();
    if (attr->log != NULL || !prs_env_is_set(PRS_ENV_LOG)) {
        return PERSEUS_OK;
    }
    attr->log = prs_log_to_stderr;
    if (!prs_log_level_parse(prs_env_text(PRS_ENV_LOG), &attr->log_level)) {
        prs_fail(&early, PERSEUS_INVALID_ARGUMENT, "%s=\"%s\" is none of error, warn, info, debug",
                 prs_env_row(PRS_ENV_LOG)->name, prs_env_text(PRS_ENV_LOG));
        prs_log_to_stderr(NULL, PERSEUS_LOG_ERROR, prs_last_error());
        return PERSEUS_INVALID_ARGUMENT;
    }
    return PERSEUS_OK;
}

/* Before there is a report. */
static enum perseus_status fail_early(const struct perseus_attr *attr, enum perseus_status status,
                                      const char *text)
{
    const struct prs_log log = {
        .fn = attr->log, .user = attr->log_user, .level = attr->log_level, .pe = -1};
    prs_last_error_set(text);
    return prs_fail(&log, status, "%s", text);
}

/* A context that can log and knows what it was asked to be, but no peers yet. */
static enum perseus_status create(const struct perseus_attr *asked,
                                  struct prs_settings *out_settings, struct perseus_pe **out)
{
    struct perseus_attr attr = *asked;
    enum perseus_status status = choose_log(&attr);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct perseus_pe *pe = calloc(1, sizeof *pe);
    if (pe == NULL) {
        return fail_early(&attr, PERSEUS_OUT_OF_MEMORY, "no memory for a PE");
    }
    status = prs_report_init(&pe->report, attr.log, attr.log_user, attr.log_level);
    if (status != PERSEUS_OK) {
        free(pe);
        return fail_early(&attr, status,
                          "this process has no thread-specific data key left; it has too many PEs");
    }
    pe->clock = prs_clock_monotonic();
    status = prs_settings_read(&attr, prs_pe_log(pe), out_settings);
    if (status != PERSEUS_OK) {
        prs_last_error_set(prs_report_last(&pe->report));
        prs_report_finish(&pe->report);
        free(pe);
        return status;
    }
    pe->timeout_ms = out_settings->timeout_ms;
    prs_standard_fds_hold(); /* before anything that opens a descriptor */
    *out = pe;
    return PERSEUS_OK;
}

/* Whatever there is of it. */
static void destroy(struct perseus_pe *pe)
{
    prs_channel_stop(pe->channel);
    prs_buffers_destroy(pe->buffers);
    prs_channel_destroy(pe->channel);
    free(pe->contacts);
    prs_peers_destroy(pe->peers);
    prs_heap_destroy(pe->heap);
    if (pe->job.bootstrap != NULL) {
        prs_job_finish(&pe->job);
    }
    prs_report_finish(&pe->report);
    prs_standard_fds_release();
    free(pe);
}

/* A start that failed leaves its text with the thread, and nothing else. */
static enum perseus_status give_up(struct perseus_pe *pe, enum perseus_status status)
{
    prs_last_error_set(prs_report_last(&pe->report));
    destroy(pe);
    return status;
}

/* ---- joining: each step is one that every PE passes or none ---- */

static enum perseus_status create_heap(struct perseus_pe *pe, const struct prs_settings *settings)
{
    if (settings->link.memory == PRS_MEMORY_HOST) {
        return prs_heap_create(settings->heap_bytes, prs_pe_log(pe), &pe->heap);
    }
    const struct prs_gpu_side_config config = {
        .gpu = settings->link.gpu,
        .slots = settings->ring_slots > PRS_GPU_SIDE_SLOTS_MIN ? settings->ring_slots
                                                               : PRS_GPU_SIDE_SLOTS_MIN,
        .timeout_ms = settings->timeout_ms,
        .my_pe = pe->rank,
        .n_pes = pe->size,
        .log = prs_pe_log(pe),
    };
    return prs_heap_create_gpu(settings->heap_bytes, &config, &pe->heap);
}

static enum perseus_status make_memory(struct perseus_pe *pe, const struct prs_settings *settings)
{
    enum perseus_status status = create_heap(pe, settings);
    if (status == PERSEUS_OK) {
        status = prs_buffers_create(prs_pe_log(pe), pe->heap->gpu, &pe->buffers);
    }
    return prs_job_agree(&pe->job, status, "create its symmetric heap");
}

static enum perseus_status meet_peers(struct perseus_pe *pe, const struct prs_settings *settings)
{
    struct prs_identity self;
    enum perseus_status status = prs_identity_fill(settings, pe->heap, prs_pe_log(pe), &self);
    struct prs_identity *all = calloc((size_t)pe->size, sizeof *all);
    if (status == PERSEUS_OK) {
        status = all != NULL ? prs_job_gather(&pe->job, &self, all, sizeof self)
                             : prs_fail(prs_pe_log(pe), PERSEUS_OUT_OF_MEMORY,
                                        "no memory for %d PEs", pe->size);
    }
    if (status == PERSEUS_OK) {
        memcpy(pe->job.secret, all[0].secret, sizeof pe->job.secret);
        status = prs_identity_check(all, pe->size, prs_pe_log(pe)); /* all find the same */
    }
    if (status == PERSEUS_OK) {
        status =
            prs_peers_create(all, pe->rank, pe->size, pe->heap->bytes, prs_pe_log(pe), &pe->peers);
        status = prs_job_agree(&pe->job, status, "make records of its peers");
    }
    free(all);
    prs_heap_close_fd(pe->heap); /* whoever could map it has */
    return status;
}

static enum perseus_status open_channel(struct perseus_pe *pe, const struct prs_settings *settings)
{
    struct prs_contact self = {0};
    struct prs_settings own = *settings;
    struct prs_limits limits;
    prs_limits_read("", &limits);
    prs_backoff_decide(&own.backoff, pe->peers->on_cpus, limits.cpus);
    pe->contacts = calloc((size_t)pe->size, sizeof *pe->contacts);
    enum perseus_status status =
        pe->contacts != NULL
            ? prs_channel_create(&own, pe->rank, pe->size, pe->job.secret, pe->heap, pe->buffers,
                                 prs_pe_log(pe), &pe->channel)
            : prs_fail(prs_pe_log(pe), PERSEUS_OUT_OF_MEMORY,
                       "no memory for the addresses of %d PEs", pe->size);
    status = prs_job_agree(&pe->job, status, "open its fabric");
    if (status != PERSEUS_OK) {
        return status;
    }
    pe->message_bytes_max = prs_channel_message_max(pe->channel);
    prs_channel_contact(pe->channel, &self);
    status = prs_job_gather(&pe->job, &self, pe->contacts, sizeof self);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_channel_start(pe->channel, pe->contacts);
    return prs_job_agree(&pe->job, status, "start its proxy");
}

/* A fabric is opened by every PE as soon as one needs it: a peer that maps its neighbours may still
 * be out of their reach. */
static enum perseus_status join_job(struct perseus_pe *pe, const struct prs_settings *settings,
                                    struct prs_bootstrap *bootstrap)
{
    pe->rank = bootstrap->rank;
    pe->size = bootstrap->size;
    pe->report.log.pe = bootstrap->rank;
    prs_job_init(&pe->job, bootstrap, prs_pe_log(pe));
    enum perseus_status status = make_memory(pe, settings);
    if (status == PERSEUS_OK) {
        status = meet_peers(pe, settings);
    }
    bool needs_fabric = false;
    if (status == PERSEUS_OK) {
        status = prs_job_any(&pe->job, !pe->peers->all_local, &needs_fabric);
    }
    if (status == PERSEUS_OK && needs_fabric) {
        status = open_channel(pe, settings);
    }
    return status;
}

enum perseus_status prs_pe_open(const struct perseus_attr *attr, struct prs_bootstrap *bootstrap,
                                struct perseus_pe **out)
{
    struct prs_settings settings;
    struct perseus_pe *pe = NULL;
    enum perseus_status status = create(attr, &settings, &pe);
    if (status != PERSEUS_OK) {
        bootstrap->ops->close(bootstrap);
        return status;
    }
    status = join_job(pe, &settings, bootstrap);
    if (status != PERSEUS_OK) {
        return give_up(pe, status);
    }
    *out = pe;
    return PERSEUS_OK;
}

/* ---- public calls ---- */

PRS_PUBLIC enum perseus_status perseus_init_attr(const struct perseus_attr *attr,
                                                 struct perseus_pe **out)
{
    static const struct perseus_attr nothing_asked;
    struct perseus_attr resolved = attr != NULL ? *attr : nothing_asked;
    struct prs_settings settings;
    struct perseus_pe *pe = NULL;
    enum perseus_status status = create(&resolved, &settings, &pe);
    if (status != PERSEUS_OK) {
        return status;
    }
    resolved.timeout_ms = settings.timeout_ms;
    struct prs_bootstrap *bootstrap = NULL;
    status = prs_bootstrap_open(&resolved, prs_pe_log(pe), &bootstrap);
    if (status == PERSEUS_OK) {
        status = join_job(pe, &settings, bootstrap);
    }
    if (status != PERSEUS_OK) {
        return give_up(pe, status);
    }
    *out = pe;
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_init(struct perseus_pe **out)
{
    return perseus_init_attr(NULL, out);
}

/* Nobody closes before everybody's operations are complete: a peer may still need this PE's
 * progress. */
PRS_PUBLIC enum perseus_status perseus_finalize(struct perseus_pe *pe)
{
    if (pe == NULL) {
        return PERSEUS_OK;
    }
    enum perseus_status quieted = perseus_quiet(pe);
    enum perseus_status agreed = prs_job_agree(&pe->job, PERSEUS_OK, "finalize");
    destroy(pe);
    return quieted != PERSEUS_OK ? quieted : agreed;
}

PRS_PUBLIC void perseus_abort(struct perseus_pe *pe)
{
    if (pe != NULL) {
        pe->job.is_broken = true;
        destroy(pe);
    }
}

PRS_PUBLIC int perseus_my_pe(const struct perseus_pe *pe)
{
    return pe->rank;
}

PRS_PUBLIC int perseus_n_pes(const struct perseus_pe *pe)
{
    return pe->size;
}

PRS_PUBLIC int perseus_my_node(const struct perseus_pe *pe)
{
    return pe->peers->peer[pe->rank].node;
}

PRS_PUBLIC int perseus_node_of(const struct perseus_pe *pe, int target)
{
    return target >= 0 && target < pe->size ? pe->peers->peer[target].node : -1;
}

PRS_PUBLIC bool perseus_is_local(const struct perseus_pe *pe, int target)
{
    return target >= 0 && target < pe->size && pe->peers->peer[target].base != NULL;
}

PRS_PUBLIC enum perseus_ordering perseus_ordering_in_force(const struct perseus_pe *pe,
                                                           const char **out_why)
{
    if (out_why != NULL) {
        *out_why = pe->channel != NULL ? prs_channel_why(pe->channel) : "every peer is node-local";
    }
    return pe->channel != NULL ? prs_channel_ordering(pe->channel) : PERSEUS_ORDERING_AUTO;
}

PRS_PUBLIC const char *perseus_last_error(const struct perseus_pe *pe)
{
    return pe != NULL ? prs_report_last(&pe->report) : prs_last_error();
}
