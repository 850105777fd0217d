/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h: the objects behind the libfabric back end's handles.
 *
 *   fabric    fi_info that was granted, fid_fabric, fid_domain; its list of regions
 *   endpoint  fid_ep + fid_av + fid_cq, the peer table, the pool of operation contexts
 *   region    fid_mr; its blob is {key, base, bytes}
 *   context   one operation from its post until its completion has been read (context.h)
 */
#ifndef PRS_LIBFABRIC_INTERNAL_H
#define PRS_LIBFABRIC_INTERNAL_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "fabric/fabric.h"
#include "fabric/libfabric/bell.h"
#include "fabric/libfabric/context.h"

#define PRS_LF_SHM_NAME_MAX 96

struct prs_lf_endpoint;

struct prs_lf_fabric {
    struct prs_fabric base;
    const struct prs_log *log;
    enum perseus_log_level loss_level;
    struct prs_clock clock;
    uint64_t process_space;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    uint32_t traits;      /* traits.h */
    bool rings;           /* the provider wakes nobody: endpoints have bells (bell.h) */
    char bind[64];        /* address every IP endpoint must sit on, "" when the provider has none */
    pthread_mutex_t lock; /* regions, first: registering may happen on any thread */
    struct prs_lf_region *regions;
    struct prs_lf_endpoint *first; /* whom FI_MR_ENDPOINT regions are bound to */
};

struct prs_lf_region {
    struct prs_region base;
    struct fid_mr *mr; /* NULL once its endpoint has been closed under FI_MR_ENDPOINT */
    bool bound;
    struct prs_lf_region *next;
};

struct prs_lf_remote {
    struct prs_remote base;
    uint64_t address; /* what offset 0 is called on the wire: a virtual address, or 0 */
    uint64_t key;
    bool key_mapped; /* FI_MR_RAW */
};

/* Eight bytes at every endpoint that nobody reads: where an empty put goes whose immediate is all
 * it carries, with providers that cannot write nothing. */
struct prs_lf_sink {
    uint64_t address, key;
};

#define PRS_LF_SEGMENTS_MAX 4 /* of a message */
#define PRS_LF_NO_PEER      UINT32_MAX

/* Operations to one peer that will go as one message (gather.c). */
struct prs_lf_message {
    struct prs_lf_context *first, *last; /* linked by `joined`; NULL: none */
    uint32_t count;
    uint64_t bytes;
    uint32_t next_peer; /* that has one in the making, or PRS_LF_NO_PEER */
};

struct prs_lf_peer {
    fi_addr_t address;
    struct prs_lf_message message;
    struct prs_lf_sink sink; /* key 0: an empty put is sent as it is */
    uint32_t in_flight;      /* operations the provider has */
    int process;             /* process.h; -1: on another host, or ourselves */
    bool contacted;          /* it has taken an operation: there is a connection */
    bool lost;
    bool ended;     /* its process has; since `since_ns` */
    bool owed_ring; /* something went to it since the last poll */
    bool refusing;  /* nothing but AGAIN, with nothing in flight; since `since_ns` */
    uint64_t since_ns;
    char shm_name[PRS_LF_SHM_NAME_MAX]; /* "": has no file */
    struct prs_lf_rope rope;
};

struct prs_lf_endpoint {
    struct prs_endpoint base;
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct prs_lf_peer *peers;
    uint32_t peer_count, peer_capacity;
    struct prs_lf_pool pool;
    struct fid_mr *sink_mr; /* NULL unless the provider needs sinks */
    uint64_t sink_word;
    struct prs_lf_context *held; /* posted with MORE and not yet given to the provider (post.c) */
    uint32_t gather_max;         /* operations of a message, 0: they are not gathered */
    uint32_t gather_first;       /* peer with a message in the making, or PRS_LF_NO_PEER */
    struct prs_lf_context *settled_first, *settled_last; /* outcomes poll has yet to report */
    struct prs_lf_bell bell;                             /* where the provider wakes nobody */
    bool owes_rings;                                     /* to a peer */
    bool must_look;   /* a peer cannot be rung, and so perhaps cannot ring */
    bool was_refused; /* a post, since the last sleep: room for it makes no sound */
    uint32_t polls;
    uint32_t watch_next;
    char shm_name[PRS_LF_SHM_NAME_MAX];
};

static inline struct prs_lf_fabric *prs_lf_fabric_of(struct prs_fabric *fabric)
{
    return (struct prs_lf_fabric *)fabric;
}
static inline struct prs_lf_endpoint *prs_lf_endpoint_of(struct prs_endpoint *endpoint)
{
    return (struct prs_lf_endpoint *)endpoint;
}
static inline const struct prs_log *prs_lf_log(const struct prs_lf_endpoint *endpoint)
{
    return ((struct prs_lf_fabric *)endpoint->base.fabric)->log;
}

/* region.c */
/* Whether the library knows this kind of memory at all; FI_HMEM in the caps does not say which. */
bool prs_lf_memory_is_known(const struct prs_lf_fabric *fabric, enum prs_memory_kind kind);
enum perseus_status prs_lf_region_register(struct prs_fabric *fabric, void *base, size_t bytes,
                                           enum prs_memory_kind kind, struct prs_region **out);
void prs_lf_region_close(struct prs_region *region);
enum perseus_status prs_lf_region_export(struct prs_region *region, void *blob, size_t *bytes);
enum perseus_status prs_lf_remote_import(struct prs_endpoint *endpoint, uint32_t peer,
                                         const void *blob, size_t bytes, struct prs_remote **out);
void prs_lf_remote_close(struct prs_remote *remote);
/* FI_MR_ENDPOINT only: the first endpoint takes the regions registered before it, and closes what
 * is bound to it before it goes. */
enum perseus_status prs_lf_regions_bind(struct prs_lf_fabric *fabric,
                                        struct prs_lf_endpoint *first);
void prs_lf_regions_unbind(struct prs_lf_fabric *fabric);
/* Registers memory, binding it to `endpoint` where FI_MR_ENDPOINT wants that (NULL: later). */
enum perseus_status prs_lf_memory_register(struct prs_lf_fabric *fabric,
                                           struct prs_lf_endpoint *endpoint, void *base,
                                           size_t bytes, uint64_t access, enum prs_memory_kind kind,
                                           struct fid_mr **out);

/* endpoint.c */
enum perseus_status prs_lf_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out);
void prs_lf_endpoint_close(struct prs_endpoint *endpoint);
enum perseus_status prs_lf_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                            size_t *bytes);
/* peer.c */
enum perseus_status prs_lf_connect(struct prs_endpoint *endpoint, const void *address, size_t bytes,
                                   uint32_t *out_peer);
enum perseus_status prs_lf_address_pack(const struct prs_lf_endpoint *endpoint, void *out,
                                        size_t *bytes);
void prs_lf_peers_finish(struct prs_lf_endpoint *endpoint);
/* Whether nothing can be sent to it any more; says so the first time. */
bool prs_lf_peer_is_lost(struct prs_lf_endpoint *endpoint, uint32_t peer);
/* Ends a peer and says so once. */
void prs_lf_peer_lose(struct prs_lf_endpoint *endpoint, uint32_t peer, const char *why);
/* Looks after one peer: whether its process lives, and, some time after it has ended, what the
 * provider still keeps of its operations. */
void prs_lf_peers_watch(struct prs_lf_endpoint *endpoint);
/* The provider has refused a post to this peer with "try again". Returns AGAIN, or PEER_LOST when
 * it has done nothing else for too long. */
enum perseus_status prs_lf_peer_refused(struct prs_lf_endpoint *endpoint, uint32_t peer);

/* gather.c */
void prs_lf_gather_init(struct prs_lf_endpoint *endpoint);
/* A post on an endpoint that gathers; as prs_lf_submit. */
enum perseus_status prs_lf_gather(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context);
enum perseus_status prs_lf_gather_flush(struct prs_lf_endpoint *endpoint);

/* post.c */
uint64_t prs_lf_op_bytes(const struct prs_op *op);
/* Gives the operation, and those joined to it, to the provider. On OK they are the provider's. */
enum perseus_status prs_lf_submit(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                                  uint64_t more);
enum perseus_status prs_lf_post(struct prs_endpoint *endpoint, const struct prs_op *op);
enum perseus_status prs_lf_flush(struct prs_endpoint *endpoint);
const char *prs_lf_op_name(uint8_t kind);

/* wake.c */
/* Whether endpoints have something to sleep on; fills caps.wakes and its word. */
void prs_lf_wake_find(struct prs_lf_fabric *fabric);
int prs_lf_wait_fd(struct prs_endpoint *endpoint);
enum perseus_status prs_lf_arm(struct prs_endpoint *endpoint, uint64_t *out_limit_ns);
/* Rings for those that sleep and were sent something, or have something under way from here. */
void prs_lf_ring_peers(struct prs_lf_endpoint *endpoint);

/* connections.c */
/* The endpoint takes connections from now on. */
void prs_lf_listens(struct prs_lf_endpoint *endpoint);
/* There is a first connection to this peer. */
void prs_lf_contacted(struct prs_lf_endpoint *endpoint, struct prs_lf_peer *peer);

/* poll.c */
enum perseus_status prs_lf_poll(struct prs_endpoint *endpoint, struct prs_event *events, uint32_t n,
                                uint32_t *out_n);
/* The operation's outcome is known; poll will report it. */
void prs_lf_settle(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                   enum perseus_status status);

#endif
