/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/process.h"
#include "fabric/libfabric/status.h"

#define PRS_LF_READ_MAX 32
/* Looking at a watched process is a system call; a dead one is found after this many polls, times
 * the number of peers. */
#define PRS_LF_POLLS_PER_WATCH 128

void prs_lf_settle(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                   enum perseus_status status)
{
    context->status = status;
    context->settled = true;
    context->queued = true;
    context->next = NULL;
    if (endpoint->settled_last != NULL) {
        endpoint->settled_last->next = context;
    } else {
        endpoint->settled_first = context;
    }
    endpoint->settled_last = context;
}

static uint32_t report_settled(struct prs_lf_endpoint *endpoint, struct prs_event *events,
                               uint32_t n)
{
    uint32_t count = 0;
    while (count < n && endpoint->settled_first != NULL) {
        struct prs_lf_context *context = endpoint->settled_first;
        endpoint->settled_first = context->next;
        if (endpoint->settled_first == NULL) {
            endpoint->settled_last = NULL;
        }
        context->queued = false;
        events[count++] = (struct prs_event){
            .kind = PRS_EVENT_COMPLETION,
            .status = context->status,
            .peer = context->op.peer,
            .cookie = context->op.cookie,
        };
        prs_lf_context_release(&endpoint->pool, context);
    }
    return count;
}

/* Whether the outcome of a returned context is still to be told. */
static bool is_told(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                    enum perseus_status status)
{
    context->with_provider = false;
    if (context->settled) {
        endpoint->pool.stranded--;
        return false;
    }
    endpoint->peers[context->op.peer].in_flight--;
    endpoint->peers[context->op.peer].owed_ring = endpoint->owes_rings = true;
    return status != PERSEUS_OK || !(context->op.flags & PRS_OP_UNTRACKED);
}

/* The provider has returned a context, and with it those joined to it, which are told of behind it.
 * Returns whether *event was filled. */
static bool take_returned(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                          enum perseus_status status, struct prs_event *event)
{
    struct prs_lf_context *joined = context->joined, *next;
    bool reports = is_told(endpoint, context, status);
    if (reports) {
        *event = (struct prs_event){
            .kind = PRS_EVENT_COMPLETION,
            .status = status,
            .peer = context->op.peer,
            .cookie = context->op.cookie,
        };
    }
    context->joined = NULL;
    prs_lf_context_release(&endpoint->pool, context);
    for (; joined != NULL; joined = next) {
        next = joined->joined;
        joined->joined = NULL;
        if (is_told(endpoint, joined, status)) {
            prs_lf_settle(endpoint, joined, status);
        } else {
            prs_lf_context_release(&endpoint->pool, joined);
        }
    }
    return reports;
}

static bool take_entry(struct prs_lf_endpoint *endpoint, const struct fi_cq_data_entry *entry,
                       struct prs_event *event)
{
    /* Not by FI_REMOTE_CQ_DATA alone: sockets sets that at the source, too. */
    if (entry->flags & FI_REMOTE_WRITE) {
        if (!(entry->flags & FI_REMOTE_CQ_DATA)) {
            return false; /* told because of FI_RMA_EVENT */
        }
        *event = (struct prs_event){
            .kind = PRS_EVENT_IMMEDIATE, .peer = PRS_PEER_UNKNOWN, .immediate = entry->data};
        return true;
    }
    if (entry->op_context == NULL) {
        return false;
    }
    return take_returned(endpoint, entry->op_context, PERSEUS_OK, event);
}

/* What an error completion means. We cancel nothing ourselves: a provider that returns an operation
 * as canceled has given up its connection. And whatever the error of a dead process is called
 * (sockets: "input/output error"), it is that the peer is gone. */
static enum perseus_status error_status(const struct prs_lf_endpoint *endpoint,
                                        const struct prs_lf_context *context, int error)
{
    enum perseus_status status = prs_lf_status(error);
    if (status == PERSEUS_CANCELED ||
        prs_lf_process_ended(endpoint->peers[context->op.peer].process)) {
        return PERSEUS_PEER_LOST;
    }
    return status == PERSEUS_OK || status == PERSEUS_AGAIN ? PERSEUS_IO : status;
}

/* Reads one error off the queue. Returns whether *event was filled. */
static bool error_entry(struct prs_lf_endpoint *endpoint, struct prs_event *event)
{
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(endpoint->cq, &entry, 0) != 1) {
        return false;
    }
    char text[160] = "";
    fi_cq_strerror(endpoint->cq, entry.prov_errno, entry.err_data, text, sizeof text);
    char words[256];
    snprintf(words, sizeof words, "%s%s%s", prs_lf_error_text(entry.err),
             text[0] != '\0' ? ": " : "", text);
    if (entry.op_context == NULL) {
        prs_log(prs_lf_log(endpoint), PERSEUS_LOG_WARN,
                "%s reports an error of no operation of ours, a peer's probably: %s",
                endpoint->base.fabric->caps.provider, words);
        return false;
    }
    struct prs_lf_context *context = entry.op_context;
    enum perseus_status status = error_status(endpoint, context, entry.err);
    char why[320];
    snprintf(why, sizeof why, "%s failed with %s", prs_lf_op_name(context->op.kind),
             entry.err == FI_ECANCELED ? "a broken connection" : words);
    prs_lf_peer_lose(endpoint, context->op.peer, why);
    return take_returned(endpoint, context, status, event);
}

enum perseus_status prs_lf_poll(struct prs_endpoint *base, struct prs_event *events, uint32_t n,
                                uint32_t *out_n)
{
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    if (++endpoint->polls % PRS_LF_POLLS_PER_WATCH == 0) {
        prs_lf_peers_watch(endpoint);
    }
    prs_lf_bell_rise(&endpoint->bell);
    prs_lf_flush(base); /* AGAIN: the next poll tries again */
    uint32_t count = report_settled(endpoint, events, n);
    uint32_t left = n - count; /* entries to read, so that untracked ones cannot keep us here */
    while (left > 0) {
        struct fi_cq_data_entry entries[PRS_LF_READ_MAX];
        size_t wanted = left < PRS_LF_READ_MAX ? left : PRS_LF_READ_MAX;
        ssize_t got = fi_cq_read(endpoint->cq, entries, wanted);
        if (got == -FI_EAGAIN || got == 0) {
            break;
        }
        if (got == -FI_EAVAIL) {
            count += error_entry(endpoint, &events[count]);
            left--;
            continue;
        }
        if (got < 0) {
            return prs_fail(prs_lf_log(endpoint), PERSEUS_IO,
                            "%s's completion queue is broken: %s; %s", base->fabric->caps.provider,
                            prs_lf_error_text(got), prs_lf_advice(PERSEUS_IO));
        }
        for (ssize_t i = 0; i < got; i++) {
            count += take_entry(endpoint, &entries[i], &events[count]);
        }
        left -= (uint32_t)got;
        if ((size_t)got < wanted) {
            break; /* reading again would make progress again: the next poll does */
        }
    }
    prs_lf_ring_peers(endpoint);
    count += report_settled(endpoint, events + count, n - count); /* what was joined */
    *out_n = count;
    return PERSEUS_OK;
}
