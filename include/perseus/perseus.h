/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus.h: put-with-signal between processing elements (PEs), without hidden serialization.
 *
 * A PE owns a symmetric heap: every PE allocates the same objects at the same heap offsets, so a
 * local address names the same object on every other PE. Peers of the same node are reached by
 * shared memory; every other peer through this PE's channel ring, its proxy, and a fabric.
 * OpenSHMEM's names and meanings, with the prefix perseus_; what is new is the signal group
 * (paper section 4.1).
 *
 * Threads
 *   Unless a call says otherwise, any number of threads of one PE may call at once. fence and quiet
 *   cover what the calling thread submitted, and everything whose submission happened before.
 *
 * Collective calls (init, finalize, malloc, free, barrier_all)
 *   are made by one thread of every PE, in the same order. Registering a buffer is not collective.
 *
 * Outputs, errors
 *   Outputs are set on success only. Pointers returned belong to the library unless the call says
 *   otherwise. Nothing here exits or aborts, nor prints unless the user sets PERSEUS_LOG.
 *
 * Order
 *   Put, signal and atomic operations to one PE are unordered until perseus_fence; a signal of
 *   put_signal is never visible before its payload. Reads (get) are ordered by quiet only.
 */
#ifndef PERSEUS_PERSEUS_H
#define PERSEUS_PERSEUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <perseus/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERSEUS_VERSION_MAJOR  0
#define PERSEUS_VERSION_MINOR  1
#define PERSEUS_VERSION_PATCH  0
#define PERSEUS_VERSION_STRING "0.1.0"

#define PERSEUS_ALL_PES         (-1)
#define PERSEUS_UNIQUE_ID_BYTES 128
/* A timeout of this value waits as long as the job lives (a lost peer still ends the wait). */
#define PERSEUS_NO_TIMEOUT UINT32_MAX

struct perseus_pe;           /* one PE's context */
struct perseus_signal_group; /* decoupled signaling: puts that share one fence */

/* How "signal after puts" is kept; docs/ordering.md. AUTO picks the cheapest the fabric proves. */
#define PERSEUS_ORDERING_MAP(X)    \
    X(AUTO, 0, "auto")             \
    X(DRAIN, 1, "drain")           \
    X(DRAIN_PEER, 2, "drain-peer") \
    X(DEFERRED, 3, "deferred")     \
    X(NIC_FENCE, 4, "nic-fence")   \
    X(FIFO, 5, "fifo")             \
    X(COUNTED, 6, "counted")
enum perseus_ordering {
#define PERSEUS_ORDERING_ENUM(name, value, text) PERSEUS_ORDERING_##name = value,
    PERSEUS_ORDERING_MAP(PERSEUS_ORDERING_ENUM)
#undef PERSEUS_ORDERING_ENUM
        PERSEUS_ORDERING_COUNT
};
const char *perseus_ordering_name(enum perseus_ordering ordering);
/* Parses a name as printed by perseus_ordering_name. INVALID_ARGUMENT for any other word. */
enum perseus_status perseus_ordering_parse(const char *name, enum perseus_ordering *out);

enum perseus_signal_op { PERSEUS_SIGNAL_SET = 9, PERSEUS_SIGNAL_ADD = 10 }; /* NVSHMEM's numbers */
enum perseus_cmp {
    PERSEUS_CMP_EQ,
    PERSEUS_CMP_NE,
    PERSEUS_CMP_GT,
    PERSEUS_CMP_GE,
    PERSEUS_CMP_LT,
    PERSEUS_CMP_LE
};

enum perseus_log_level { PERSEUS_LOG_ERROR, PERSEUS_LOG_WARN, PERSEUS_LOG_INFO, PERSEUS_LOG_DEBUG };
/* Called with one complete message, no newline; from any thread of the PE, never concurrently with
 * itself for one PE. `text` is valid during the call only. */
typedef void (*perseus_log_fn)(void *user, enum perseus_log_level level, const char *text);

enum perseus_bootstrap {
    PERSEUS_BOOTSTRAP_AUTO, /* local if started by `perseus run`, else pmix if launched so, else one
                               PE */
    PERSEUS_BOOTSTRAP_LOCAL, /* sockets inherited from `perseus run` */
    PERSEUS_BOOTSTRAP_TCP,   /* unique id, see perseus_unique_id_create */
    PERSEUS_BOOTSTRAP_PMIX   /* mpirun, srun */
};
struct perseus_unique_id {
    unsigned char bytes[PERSEUS_UNIQUE_ID_BYTES];
};

enum perseus_memory { PERSEUS_MEMORY_HOST, PERSEUS_MEMORY_GPU };

/* All fields may be zero: then the environment (docs/environment.md), then the default decides. */
struct perseus_attr {
    const char *fabric;   /* "loopback", "libfabric", "cudadma"; default libfabric, of a GPU's heap
                             cudadma */
    const char *provider; /* of the fabric, for example "tcp"; default: best found */
    enum perseus_ordering ordering;
    size_t heap_bytes; /* symmetric heap of this PE, the same on every PE; default 64 MiB */
    /* Of the heap, on every PE the same. GPU: plain memory of GPU number `gpu`, which the host's
     * threads must not touch: perseus_malloc gives addresses for kernels (perseus/gpu.h) and for
     * the calls below, of which perseus_signal_fetch alone is not for them. No PE is then local to
     * another, and the PEs are those of one process, or of as many as the fabric reaches. */
    enum perseus_memory heap_memory;
    int gpu;
    uint32_t ring_slots; /* channel ring depth, a power of two; default 4096 */
    uint32_t timeout_ms; /* deadline of init, barriers and blocking calls; default 30000 */
    enum perseus_bootstrap bootstrap;
    const struct perseus_unique_id *unique_id; /* TCP only; copied */
    int rank, size;                            /* TCP only */
    int pes_per_node; /* 0: by host; k: PEs [0,k) are node 0, [k,2k) node 1, ... on any hosts */
    perseus_log_fn log;
    void *log_user;
    enum perseus_log_level log_level; /* messages above this level are not formatted */
};

/* ---- life ---- */

/* Makes a unique id for a TCP job; the PE of rank 0 must run on this host and process's network
 * namespace. `bind_address` is an IPv4 or IPv6 address of it, an interface ("eth0") or a subnet
 * ("10.1.0.0/16"); NULL means PERSEUS_BIND, by default 127.0.0.1. The id carries address, port and
 * a random 256-bit secret: treat it as a password. INVALID_ARGUMENT for anything else or a
 * wildcard, IO when no port could be bound. The listening socket is owned by this process until
 * rank 0's perseus_init_attr takes it over; rank 0 in another process listens anew, once this one
 * has ended. */
enum perseus_status perseus_unique_id_create(const char *bind_address,
                                             struct perseus_unique_id *out);

/* Collective. perseus_init uses the environment alone. On failure nothing is left behind. */
enum perseus_status perseus_init(struct perseus_pe **out);
enum perseus_status perseus_init_attr(const struct perseus_attr *attr, struct perseus_pe **out);
/* Collective. Completes outstanding work (bounded by timeout_ms), frees everything. NULL is
 * allowed. */
enum perseus_status perseus_finalize(struct perseus_pe *pe);
/* Not collective: gives up at once, for error paths. NULL is allowed. */
void perseus_abort(struct perseus_pe *pe);

int perseus_my_pe(const struct perseus_pe *pe);
int perseus_n_pes(const struct perseus_pe *pe);
int perseus_my_node(const struct perseus_pe *pe);
int perseus_node_of(const struct perseus_pe *pe, int target);
/* Whether `target` is reached by shared memory. */
bool perseus_is_local(const struct perseus_pe *pe, int target);
/* The ordering mode in force and why it was chosen; static for the PE's life. */
enum perseus_ordering perseus_ordering_in_force(const struct perseus_pe *pe, const char **out_why);
/* Text of the last error the calling thread saw from this PE, or "". NULL: of its calls that had no
 * PE, a perseus_init that failed or a perseus_unique_id_create. Valid until its next call. */
const char *perseus_last_error(const struct perseus_pe *pe);

/* ---- memory ---- */

/* Collective; same bytes on every PE. 64-byte aligned, zeroed. OUT_OF_MEMORY when the heap is too
 * small. */
enum perseus_status perseus_malloc(struct perseus_pe *pe, size_t bytes, void **out);
/* Collective. NULL is allowed. */
enum perseus_status perseus_free(struct perseus_pe *pe, void *symmetric);
/* Where `symmetric` of `target` is mapped here, or NULL if target is not local. */
void *perseus_ptr(struct perseus_pe *pe, const void *symmetric, int target);
/* Makes [base, base+bytes) usable as local source or destination: host memory, or, with a GPU's
 * heap, GPU memory too. Not collective. The memory stays the caller's and must outlive the
 * registration. */
enum perseus_status perseus_buffer_register(struct perseus_pe *pe, void *base, size_t bytes);
enum perseus_status perseus_buffer_unregister(struct perseus_pe *pe, void *base);

/* ---- remote memory access ----
 * `dst` of puts and `src` of gets are symmetric addresses; the other side is local memory in the
 * heap or a registered buffer. _nbi returns once the operation is queued: the source must stay
 * untouched, and the destination of a get unread, until perseus_quiet; or, of a put, until the
 * target is known to have it (it answered the signal behind the put): what has been delivered is
 * not read again. A full channel blocks up to timeout_ms. */
enum perseus_status perseus_put_nbi(struct perseus_pe *pe, void *dst, const void *src, size_t bytes,
                                    int target);
enum perseus_status perseus_get_nbi(struct perseus_pe *pe, void *dst, const void *src, size_t bytes,
                                    int target);
/* Blocking: put returns when the data is delivered, get when it has landed. */
enum perseus_status perseus_put(struct perseus_pe *pe, void *dst, const void *src, size_t bytes,
                                int target);
enum perseus_status perseus_get(struct perseus_pe *pe, void *dst, const void *src, size_t bytes,
                                int target);

/* Payload, then signal: whoever sees the signal sees the payload, in every ordering mode. bytes may
 * be 0. */
enum perseus_status perseus_put_signal_nbi(struct perseus_pe *pe, void *dst, const void *src,
                                           size_t bytes, uint64_t *signal, uint64_t value,
                                           enum perseus_signal_op op, int target);
enum perseus_status perseus_put_signal(struct perseus_pe *pe, void *dst, const void *src,
                                       size_t bytes, uint64_t *signal, uint64_t value,
                                       enum perseus_signal_op op, int target);
/* Signal alone, nonblocking; ordered after earlier puts by perseus_fence only. */
enum perseus_status perseus_signal_op(struct perseus_pe *pe, uint64_t *signal, uint64_t value,
                                      enum perseus_signal_op op, int target);
/* SET count contiguous signal words in one message where the mode allows (docs/ordering.md, vector
 * signals). `values` is copied before return. */
enum perseus_status perseus_signal_set_vector(struct perseus_pe *pe, uint64_t *signals,
                                              const uint64_t *values, size_t count, int target);

/* Local wait on a word of the own heap, with acquire: payload of the signal is readable on return.
 * `out` (may be NULL) gets the value seen.
 * Errors: TIMEOUT after timeout_ms; PEER_LOST when the job broke. */
enum perseus_status perseus_signal_wait_until(struct perseus_pe *pe, const uint64_t *signal,
                                              enum perseus_cmp cmp, uint64_t value,
                                              uint32_t timeout_ms, uint64_t *out);
/* Acquire load, of a word in host memory. */
uint64_t perseus_signal_fetch(const uint64_t *signal);

/* ---- atomics, 64-bit words of the symmetric heap ---- */
enum perseus_atomic {
    PERSEUS_ATOMIC_SET,
    PERSEUS_ATOMIC_ADD,
    PERSEUS_ATOMIC_AND,
    PERSEUS_ATOMIC_OR,
    PERSEUS_ATOMIC_XOR,
    PERSEUS_ATOMIC_COMPARE_SWAP /* operand replaces the word if it equals compare */
};
/* Nonblocking, no result; all but COMPARE_SWAP. */
enum perseus_status perseus_atomic_nbi(struct perseus_pe *pe, uint64_t *symmetric,
                                       enum perseus_atomic op, uint64_t operand, int target);
/* Blocking; *out is the value before. A plain fetch is ADD of 0, a swap is SET. */
enum perseus_status perseus_atomic_fetch(struct perseus_pe *pe, uint64_t *symmetric,
                                         enum perseus_atomic op, uint64_t operand, uint64_t compare,
                                         int target, uint64_t *out);

/* ---- ordering and completion ---- */

/* Everything this thread submitted to any PE before is delivered to that PE before anything
 * submitted after. O(1) in the number of PEs; what it costs later depends on the ordering mode. */
enum perseus_status perseus_fence(struct perseus_pe *pe);
/* The same for one target PE only: cheaper in drain-peer. */
enum perseus_status perseus_fence_pe(struct perseus_pe *pe, int target);
/* Everything submitted before is complete: delivered and visible, sources reusable, gets landed. An
 * error, if something toward any PE was lost; it stays, since nobody knows which threads have been
 * told. */
enum perseus_status perseus_quiet(struct perseus_pe *pe);
/* The same of what was submitted toward one target PE: whoever goes on with the others after a loss
 * asks them one by one. */
enum perseus_status perseus_quiet_pe(struct perseus_pe *pe, int target);
/* Collective. Includes quiet. */
enum perseus_status perseus_barrier_all(struct perseus_pe *pe);

/* ---- signal groups: decoupled signaling (paper 4.1, algorithm 1) ----
 * Members put without a signal and bump the group's counter; the last arriver of a round leads: one
 * fence, then every member's signal. Groups are re-armed by themselves: a member may start round
 * r+1 as soon as its own round r put was accepted; round r+2 returns AGAIN until round r was
 * signaled. */
struct perseus_signal_group_member {
    int target;       /* destination PE of this member's puts and signal */
    uint64_t *signal; /* symmetric */
};
struct perseus_signal_group_attr {
    const struct perseus_signal_group_member *members; /* copied */
    uint32_t n_members;                                /* 1 and more */
    enum perseus_signal_op op;
    bool vector; /* SET signals on contiguous slots of one target go as one write */
};
enum perseus_status perseus_signal_group_create(struct perseus_pe *pe,
                                                const struct perseus_signal_group_attr *attr,
                                                struct perseus_signal_group **out);
/* The caller's rounds must have ended. NULL is allowed. */
void perseus_signal_group_destroy(struct perseus_signal_group *group);
/* One put of `member`, then its arrival with the signal value of this round. `bytes` may be 0
 * (arrive only). Different members may call from different threads; one member by one thread at a
 * time. */
enum perseus_status perseus_signal_group_put(struct perseus_signal_group *group, uint32_t member,
                                             void *dst, const void *src, size_t bytes,
                                             uint64_t value);
/* A put that belongs to the member's round but does not arrive yet (members with several puts). */
enum perseus_status perseus_signal_group_put_more(struct perseus_signal_group *group,
                                                  uint32_t member, void *dst, const void *src,
                                                  size_t bytes);

/* ---- counters ---- */
struct perseus_stats {
    uint64_t puts, put_bytes, gets, get_bytes;
    uint64_t signals;         /* signal operations asked for */
    uint64_t signal_messages; /* messages that carried them */
    uint64_t atomics;
    uint64_t fences;      /* fences that ordered something */
    uint64_t fence_flags; /* operations posted with the fabric's fence flag */
    uint64_t drains, drain_ns;
    uint64_t again;    /* posts the fabric refused for lack of room */
    uint64_t deferred; /* operations parked at least once */
    uint64_t in_flight, in_flight_max;
    uint64_t local_ops; /* node-local operations, not in any count above */
};
/* Counters toward one PE, or their sum with PERSEUS_ALL_PES (drains of all-peer modes count there
 * only). A snapshot: counters of running threads may be mid-way. */
enum perseus_status perseus_stats(struct perseus_pe *pe, int target, struct perseus_stats *out);

#ifdef __cplusplus
}
#endif
#endif
