/* SPDX-License-Identifier: Apache-2.0 */
/* fake_orderer.h: what the proxy sees of an ordering engine, scripted: it records every call and
 * answers what it was told to. */
#ifndef PRS_TESTS_PROXY_FAKE_ORDERER_H
#define PRS_TESTS_PROXY_FAKE_ORDERER_H

#include <stdatomic.h>

#include "order/order.h"

#define FAKE_CALLS_MAX  4096
#define FAKE_PEERS      8
#define FAKE_VALUES_MAX 20
#define FAKE_TOKENS_MAX 256

enum fake_kind { FAKE_SUBMIT, FAKE_FENCE, FAKE_QUIET };

struct fake_call { /* an accepted one */
    enum fake_kind kind;
    uint32_t peer, token;
    struct prs_request request;
    uint64_t values[FAKE_VALUES_MAX];
};

struct prs_orderer {
    /* script */
    uint32_t vector_max;
    enum perseus_status answer[FAKE_PEERS]; /* of submit */
    enum perseus_status fence_answer, quiet_answer, flush_answer, progress_answer;
    uint32_t agains_left; /* so many submissions get AGAIN first */
    enum perseus_status completion;
    uint64_t result;
    uint32_t progress_spins; /* makes progress last, so that others act meanwhile */
    bool completes_at_once;  /* inside submit and quiet, instead of in progress */
    prs_complete_fn complete;
    void *context;
    /* record */
    struct fake_call calls[FAKE_CALLS_MAX];
    uint32_t n_calls;
    uint32_t refused, flushes, budget;
    uint32_t refusals, refused_peer; /* told by prs_orderer_refuse */
    enum perseus_status refusal;
    atomic_bool idle;
    /* A fabric that wakes: what comes adds to `arrivals` and then writes to wait_fd, an eventfd;
     * -1: one that wakes nobody. */
    int wait_fd;
    bool bytes_are_silent;
    bool arms_too_late; /* a defect: looks first, and then takes back what wait_fd told */
    atomic_uint arrivals, arrived;
    void (*in_arm)(void *context); /* called while arm is at it, if set */
    void *in_arm_context;
    atomic_uint progresses;
    uint32_t tokens[FAKE_TOKENS_MAX], n_tokens; /* not completed yet */
};

#endif
