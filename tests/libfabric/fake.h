/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.h: a provider that does what a test says, under libfabric's own inline functions: what was
 * posted to it is recorded, what it answers and completes is scripted. It shows what no software
 * provider lets one see: the exact flags, addresses and registrations.
 */
#ifndef PRS_TESTS_LIBFABRIC_FAKE_H
#define PRS_TESTS_LIBFABRIC_FAKE_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>

#include "fabric/libfabric/internal.h"

#define FAKE_POSTS_MAX 4096
#define FAKE_KEY       77 /* of peers' memory */
#define FAKE_ADDRESS   0x10000

enum fake_call { FAKE_WRITE, FAKE_READ, FAKE_ATOMIC, FAKE_FETCH, FAKE_COMPARE };

struct fake_post {
    enum fake_call call;
    uint64_t flags, address, key, data, operand, compare;
    size_t bytes, segments; /* bytes: of the first */
    fi_addr_t peer;
    void *source, *descriptor, *context;
};

struct fake_mr {
    struct fid_mr mr; /* first */
    struct fake *fake;
    uint64_t access;
    bool open, bound, enabled;
};

struct fake {
    struct fid_domain domain; /* members first in their structs are found by cast */
    struct fid_ep ep;
    struct fid_cq cq;
    struct fid_av av;

    struct fake_post posts[FAKE_POSTS_MAX];
    uint32_t post_count;
    ssize_t answer; /* to the next posts: 0, -FI_EAGAIN... */

    struct fi_cq_data_entry completions[64];
    uint32_t completion_count;
    struct fi_cq_err_entry error; /* delivered before completions when has_error */
    bool has_error;
    uint32_t entries_read, reads;
    ssize_t cq_answer; /* 0: as scripted */

    struct fake_mr mrs[64];
    uint32_t mr_count;
    uint32_t keys_taken; /* how many registrations to refuse with -FI_ENOKEY first */
    uint64_t mapped_key, unmapped_key;

    uint64_t now_ns;
    char last_error[1024];
    uint32_t errors;

    struct prs_log log;
    struct prs_lf_fabric fabric;
    struct prs_lf_endpoint endpoint;
};

/* A fabric with `mr_mode` and one endpoint with `peers` peers, all of it fake but our own code. */
struct fake *fake_create(int mr_mode, uint32_t peers);
void fake_destroy(struct fake *fake);

/* The provider completes a post. */
void fake_complete(struct fake *fake, uint32_t post, uint64_t flags);
void fake_fail(struct fake *fake, uint32_t post, int error);

/* Peer `peer`'s memory, as imported. */
struct prs_lf_remote fake_remote(struct fake *fake, uint32_t peer);
/* A put of eight bytes to it. */
struct prs_op fake_put(struct prs_lf_remote *remote, uint64_t cookie);
enum perseus_status fake_submit(struct fake *fake, const struct prs_op *op);
/* Polls once, which must work; returns the number of events. */
uint32_t fake_take(struct fake *fake, struct prs_event *events, uint32_t n);

#endif
