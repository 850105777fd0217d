/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric/fabric.h: the contract between Perseus and whatever moves bytes. Every back end is written
 * from this page. To add one: docs/adding-a-fabric.md. The one to read first: loopback/.
 *
 * Objects
 *   fabric    an opened provider with its *granted* capability report, immutable after open
 *   endpoint  one submission context, used by one thread at a time. The first endpoint of a fabric
 *             is the one that peers reach: target events arrive there
 *   peer      a small integer at an endpoint, made by connecting to an address blob
 *   lane      one ordered connection to a peer; order and fence flags hold within (peer, lane) only
 *   region    registered local memory; exports a self-contained blob of at most PRS_BLOB_MAX bytes
 *   remote    a peer's region, as imported at one endpoint for one peer
 *
 * Promises of every back end
 *
 *   Post. The answer is OK, AGAIN or an error. On AGAIN *nothing* happened, and the same operation
 *   may be posted again unchanged. The operation's struct and its inline values are copied or
 *   consumed before post returns. A tracked operation whose post was OK yields exactly one
 *   completion event, with its cookie.
 *
 *   Completed. The source is reusable. With caps.completion == PRS_COMPLETION_DELIVERED the data is
 *   also visible at the target to whatever is posted afterwards, by any path.
 *
 *   Early. An operation with the flag EARLY may complete as soon as its source is reusable. It has
 *   been delivered when a put that the lane's order keeps behind it has. If it is lost after it has
 *   completed, its peer has failed, and what is or was posted behind it says so.
 *
 *   Order. Within (peer, lane) only what caps.order says is kept. A granted FENCE flag holds the
 *   operation, and all that is posted behind it in caps.fence_scope, until all that was posted
 *   before it there has completed.
 *
 *   Failure. An error completion ends its peer: nothing that was posted behind it in its lane, or
 *   in the scope of a fence flag behind it, takes effect there; later posts give PEER_LOST, other
 *   peers live on.
 *
 *   Poll. It never blocks and does bounded work. It also drives the provider's progress.
 *
 *   Visibility. When the target reads a signal word with acquire, the payload that was ordered
 *   before that word is readable.
 *
 *   Target events are claims. On most providers whoever reaches the port can send an empty put with
 *   an immediate, and needs no key for it. Who acts on one must be able to tell its own.
 *
 *   Regions. Any thread registers and closes them, also while others work at endpoints of the
 *   fabric. A region is at rest when it is closed.
 *
 *   Closing. An endpoint may be closed with work in flight: what is outstanding ends locally as
 *   CANCELED, and no event is delivered after the close.
 *
 *   Manners. No back end starts threads, reads the wall clock, or logs elsewhere than to the log it
 *   was given, except where its library does.
 */
#ifndef PRS_FABRIC_FABRIC_H
#define PRS_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <perseus/perseus.h>

#include "base/clock.h"
#include "base/log.h"

#define PRS_BLOB_MAX     256
#define PRS_ADDRESS_MAX  256
#define PRS_PEER_UNKNOWN UINT32_MAX /* target events of fabrics that do not tell the source */

enum prs_op_kind {
    PRS_OP_PUT,          /* local -> remote */
    PRS_OP_GET,          /* remote -> local */
    PRS_OP_SIGNAL_SET,   /* one aligned 8-byte word := value, stored whole and once */
    PRS_OP_ATOMIC,       /* 8-byte word, `atomic` with value, no result */
    PRS_OP_ATOMIC_FETCH, /* the same, old value to (local, local_offset) */
    PRS_OP_KIND_COUNT
};

enum prs_op_flag {
    PRS_OP_FENCE = 1,      /* only if caps.fence_scope != NONE */
    PRS_OP_MORE = 2,       /* the doorbell may wait for flush; a hint */
    PRS_OP_IMMEDIATE = 4,  /* PUT: the target's poll gets `immediate` once the data is visible */
    PRS_OP_INLINE = 8,     /* PUT: from inline_source, at most caps.inline_bytes, copied by post */
    PRS_OP_UNTRACKED = 16, /* no event on success; errors still arrive, with the cookie */
    PRS_OP_EARLY = 32      /* PUT: delivery need not be waited for; only if completes_early */
};

struct prs_region;
struct prs_remote;

struct prs_op {
    uint8_t kind;   /* enum prs_op_kind */
    uint8_t flags;  /* enum prs_op_flag */
    uint8_t lane;   /* < caps.lanes_max */
    uint8_t atomic; /* enum perseus_atomic */
    uint32_t peer;
    struct prs_region *local; /* unused with INLINE, SET and ATOMIC */
    uint64_t local_offset;
    const void *inline_source;
    struct prs_remote *remote;
    uint64_t remote_offset;
    uint64_t bytes; /* PUT, GET; 0 is allowed for a PUT with IMMEDIATE */
    uint64_t value, compare;
    uint64_t immediate; /* caps.immediate_bits wide */
    uint64_t cookie;    /* comes back in the completion */
};

enum prs_event_kind {
    PRS_EVENT_COMPLETION, /* cookie, status, peer */
    PRS_EVENT_IMMEDIATE   /* target side: peer (or UNKNOWN), immediate; its put's data is visible */
};

struct prs_event {
    enum prs_event_kind kind;
    enum perseus_status status;
    uint32_t peer;
    uint64_t cookie;
    uint64_t immediate;
};

/* What is kept in posting order on one (peer, lane) without any flag. */
enum prs_order_bits {
    PRS_ORDER_PUT_PUT = 1,    /* a put's bytes are visible before a later put's */
    PRS_ORDER_PUT_SET = 2,    /* ... before a later SIGNAL_SET */
    PRS_ORDER_PUT_ATOMIC = 4, /* ... before a later ATOMIC */
    PRS_ORDER_SET_SET = 8,    /* signals and puts behind earlier signals */
    PRS_ORDER_EVERY_PAIR = 15
};

enum prs_fence_scope {
    PRS_FENCE_NONE,
    PRS_FENCE_LANE,
    PRS_FENCE_PEER,
    PRS_FENCE_ENDPOINT /* correct, but holds every peer: one slow peer stalls all */
};

enum prs_completion { PRS_COMPLETION_TRANSMITTED, PRS_COMPLETION_DELIVERED };

enum prs_memory_kind { PRS_MEMORY_HOST = 1, PRS_MEMORY_CUDA = 2 };

/* What was granted, not what was asked for. The words are for messages: "msg_order=WAW,RMA_WAW". */
struct prs_caps {
    uint32_t order; /* enum prs_order_bits */
    enum prs_fence_scope fence_scope;
    enum prs_completion completion;
    bool completion_per_operation;
    bool completes_early;      /* takes the flag EARLY, and saves something by it */
    bool signals_tear;         /* before it has completed, a SIGNAL_SET may be seen half-written */
    bool signals_repeat;       /* ... may be stored again after it was seen */
    uint32_t immediate_bits;   /* 0, or 4..64, carried by puts */
    uint32_t atomics;          /* bit per enum perseus_atomic, non-fetching */
    uint32_t atomics_fetch;    /* bit per enum perseus_atomic, fetching */
    bool atomics_cpu_coherent; /* atomic with C11 atomics of the target's own threads */
    uint32_t inline_bytes;
    uint64_t message_bytes_max;
    uint32_t inflight_max; /* operations per endpoint, 0: only AGAIN tells */
    bool batching;         /* MORE saves doorbells */
    uint32_t memory_kinds; /* enum prs_memory_kind bits */
    bool target_must_progress;
    bool wakes;               /* endpoints have a descriptor to sleep on (wait_fd, arm) */
    bool bytes_are_silent;    /* the device writes a plain put's bytes here, and wakes nobody */
    bool source_needs_region; /* local side of PUT/GET must lie in a region */
    uint32_t lanes_max;
    uint32_t lanes_useful; /* of them carry more than one does; 0: one is as good */
    int numa_node;         /* of the device, -1 unknown */
    /* Addresses mean the same only to fabrics with an equal scope, as 127.0.0.1 does within one
     * host. 0: to all. */
    uint64_t scope;
    char provider[64];
    char order_word[96], fence_word[96], completion_word[96], immediate_word[96], wake_word[96];
};

struct prs_fabric_config {
    const char *provider; /* NULL or "": the back end's choice */
    const char *bind;     /* address to bind, NULL: 127.0.0.1 */
    uint32_t memory_kinds;
    int gpu; /* whose memory, where the provider does not name one */
    /* Which of its host's PEs this is, for back ends that spread PEs over several devices. */
    uint32_t ordinal;
    bool want_atomics; /* asking can cost order: the back end weighs it and reports what it got */
    uint64_t unordered_mask; /* loopback only: order bits NOT to grant (tests) */
    uint64_t ungranted_mask; /* loopback only: PRS_UNGRANT_* bits */
    /* Of the line that says why a peer was lost: whoever names that peer in words of its own may
     * want it as a detail. 0: an error. */
    enum perseus_log_level loss_level;
    const struct prs_log *log;
    struct prs_clock clock;
};
/* For the loopback reference, to play lesser fabrics. */
enum prs_ungrant {
    PRS_UNGRANT_FENCE = 1,
    PRS_UNGRANT_IMMEDIATE = 2,
    PRS_UNGRANT_DELIVERED = 4,
    PRS_UNGRANT_ATOMICS = 8,
    PRS_UNGRANT_COHERENT = 16,
    PRS_UNGRANT_WIDE_IMMEDIATE = 32, /* 32 bits instead of 64 */
    PRS_UNGRANT_WHOLE_SIGNALS = 64   /* says that signals tear */
};

struct prs_fabric;
struct prs_endpoint;

struct prs_fabric_ops {
    const char *name;
    enum perseus_status (*open)(const struct prs_fabric_config *config, struct prs_fabric **out);
    void (*close)(struct prs_fabric *fabric); /* endpoints and regions are closed before */
    enum perseus_status (*endpoint_open)(struct prs_fabric *fabric, struct prs_endpoint **out);
    void (*endpoint_close)(struct prs_endpoint *endpoint);
    /* *bytes: capacity in, length out. */
    enum perseus_status (*endpoint_address)(struct prs_endpoint *endpoint, void *out,
                                            size_t *bytes);
    /* Peers are numbered 0, 1, 2... in order of connect calls at this endpoint. */
    enum perseus_status (*connect)(struct prs_endpoint *endpoint, const void *address, size_t bytes,
                                   uint32_t *out_peer);
    enum perseus_status (*region_register)(struct prs_fabric *fabric, void *base, size_t bytes,
                                           enum prs_memory_kind kind, struct prs_region **out);
    void (*region_close)(struct prs_region *region);
    enum perseus_status (*region_export)(struct prs_region *region, void *blob, size_t *bytes);
    enum perseus_status (*remote_import)(struct prs_endpoint *endpoint, uint32_t peer,
                                         const void *blob, size_t bytes, struct prs_remote **out);
    void (*remote_close)(struct prs_remote *remote);
    enum perseus_status (*post)(struct prs_endpoint *endpoint, const struct prs_op *op);
    /* Rings the doorbell of everything posted with MORE. AGAIN: call again. */
    enum perseus_status (*flush)(struct prs_endpoint *endpoint);
    /* Up to n events; *out_n may be 0. An error return means the endpoint itself is broken. */
    enum perseus_status (*poll)(struct prs_endpoint *endpoint, struct prs_event *events, uint32_t n,
                                uint32_t *out_n);
    /*
     * Sleeping, where caps.wakes is true; the two are not called, and may be NULL, where it is not.
     *
     * wait_fd: what poll(2) tells POLLIN of once poll has work to do: bytes that arrive, also those
     * of a plain put (but where bytes_are_silent: poll has nothing to do with those), room for what
     * waits to be sent, a completion, a connection. The endpoint's, the same until it is closed.
     *
     * arm: may the endpoint's thread, whose last poll did nothing, sleep on wait_fd now? OK: yes,
     * and whatever comes after this call makes it readable; but not longer than *out_limit_ns
     * (UINT64_MAX: as long as it likes), as time itself or something that cannot wake may bring
     * work. AGAIN: no, poll first. It may move bytes, as poll does, and reports no events.
     */
    int (*wait_fd)(struct prs_endpoint *endpoint);
    enum perseus_status (*arm)(struct prs_endpoint *endpoint, uint64_t *out_limit_ns);
};

/* Every back end's objects begin with these. */
struct prs_fabric {
    const struct prs_fabric_ops *ops;
    struct prs_caps caps;
};
struct prs_endpoint {
    const struct prs_fabric_ops *ops;
    struct prs_fabric *fabric;
};
struct prs_region {
    struct prs_fabric *fabric;
    unsigned char *base;
    size_t bytes;
    enum prs_memory_kind kind;
};
struct prs_remote {
    struct prs_endpoint *endpoint;
    uint32_t peer;
    size_t bytes; /* of the peer's region: posts beyond it are INVALID_ARGUMENT */
};

#endif
