/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void rig_log(void *user, enum perseus_log_level level, const char *text)
{
    struct rig *rig = user;
    if (level == PERSEUS_LOG_ERROR) {
        rig->errors_logged++;
        snprintf(rig->last_error, sizeof rig->last_error, "%s", text);
    }
}

static struct prs_region *rig_local(void *context, uint16_t window)
{
    struct rig *rig = context;
    return window < RIG_WINDOWS ? &rig->regions[window] : NULL;
}

/* Only compared, never followed. */
struct prs_window_remote *rig_remote(struct rig *rig, uint32_t peer)
{
    return (struct prs_window_remote *)(void *)((char *)rig->regions + peer + 1);
}

static enum perseus_status rig_find_remote(void *context, uint32_t peer,
                                           struct prs_window_remote **out)
{
    struct rig *rig = context;
    if (rig->remote_answer == PERSEUS_AGAIN) {
        return PERSEUS_AGAIN;
    }
    if (peer >= FAKE_PEERS || rig->remote_answer != PERSEUS_OK) {
        return prs_fail(&rig->log,
                        peer >= FAKE_PEERS ? PERSEUS_INVALID_ARGUMENT : rig->remote_answer,
                        "no peer %u", peer);
    }
    *out = rig_remote(rig, peer);
    return PERSEUS_OK;
}

struct rig *rig_create(uint32_t slots, uint32_t batch)
{
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->orderer = calloc(1, sizeof *rig->orderer);
    assert_non_null(rig->orderer);
    assert_int_equal(prs_ring_create(slots, &rig->ring), PERSEUS_OK);
    assert_int_equal(prs_tickets_create(RIG_TICKETS, &rig->tickets), PERSEUS_OK);
    assert_int_equal(prs_sources_create(rig->ring, rig->tickets, &rig->sources), PERSEUS_OK);
    rig->log = (struct prs_log){.fn = rig_log, .user = rig, .pe = -1};
    rig->orderer->vector_max = FAKE_VALUES_MAX;
    rig->orderer->wait_fd = -1;
    rig->orderer->complete = prs_sources_complete;
    rig->orderer->context = rig->sources;
    const struct prs_proxy_config config = {.sources = rig->sources,
                                            .orderer = rig->orderer,
                                            .batch = batch,
                                            .context = rig,
                                            .local = rig_local,
                                            .remote = rig_find_remote,
                                            .log = &rig->log};
    assert_int_equal(prs_proxy_create(&config, &rig->proxy), PERSEUS_OK);
    return rig;
}

void rig_destroy(struct rig *rig)
{
    prs_proxy_destroy(rig->proxy);
    prs_sources_destroy(rig->sources);
    prs_tickets_destroy(rig->tickets);
    prs_ring_destroy(rig->ring);
    free(rig->orderer);
    free(rig);
}

uint32_t rig_ticket(struct rig *rig)
{
    uint32_t ticket = 0;
    assert_int_equal(prs_ticket_take(rig->tickets, &ticket), PERSEUS_OK);
    return ticket;
}

void rig_push(struct rig *rig, struct prs_desc desc)
{
    assert_int_equal(prs_ring_push(rig->ring, &desc, NULL), PERSEUS_OK);
}

bool rig_push_vector(struct rig *rig, uint32_t peer, uint32_t ticket, uint32_t n, uint64_t v)
{
    union prs_desc_slot descs[16] = {{.desc = {.kind = PRS_DESC_SIGNAL_VECTOR,
                                               .sub = PERSEUS_SIGNAL_SET,
                                               .peer = peer,
                                               .ticket = ticket,
                                               .remote = 4096,
                                               .bytes = n * sizeof(uint64_t),
                                               .value = v}}};
    uint32_t parts = 1;
    for (uint32_t done = 0; done < n; parts++) {
        uint64_t values[PRS_DESC_VALUES_MAX];
        for (uint32_t i = 0; i < PRS_DESC_VALUES_MAX; i++) {
            values[i] = v + done + i;
        }
        done += prs_desc_take_values(&descs[parts], values, n - done);
    }
    return prs_ring_push_many(rig->ring, &descs[0].desc, parts) == PERSEUS_OK;
}

bool rig_step(struct rig *rig)
{
    bool did = false;
    assert_int_equal(prs_proxy_step(rig->proxy, &did), PERSEUS_OK);
    return did;
}

enum perseus_status rig_status(struct rig *rig, uint32_t ticket)
{
    enum perseus_status status = PERSEUS_OK;
    assert_true(prs_ticket_poll(rig->tickets, ticket, &status, NULL));
    return status;
}
