/* SPDX-License-Identifier: Apache-2.0 */
/* env.h: the one table of environment variables. Every PERSEUS_* variable the library reads is a
 * row of PRS_ENV_MAP in this file; docs/environment.md is generated from it and a test compares
 * them. */
#ifndef PRS_BASE_ENV_H
#define PRS_BASE_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

/* id, variable, default as text, what it does */
#define PRS_ENV_MAP(X)                                                                            \
    X(FABRIC, "PERSEUS_FABRIC", "libfabric",                                                      \
      "fabric back end: libfabric, verbs, cudadma or loopback")                                   \
    X(PROVIDER, "PERSEUS_PROVIDER", "", "libfabric provider, empty: the best one found")          \
    X(ORDERING, "PERSEUS_ORDERING", "auto",                                                       \
      "auto, drain, drain-peer, deferred, nic-fence, fifo or counted")                            \
    X(HEAP_BYTES, "PERSEUS_HEAP_BYTES", "64M", "symmetric heap per PE; K, M, G suffixes")         \
    X(RING_SLOTS, "PERSEUS_RING_SLOTS", "4096", "channel ring depth, a power of two")             \
    X(TIMEOUT_MS, "PERSEUS_TIMEOUT_MS", "30000", "deadline of init, barriers, blocking calls")    \
    X(PES_PER_NODE, "PERSEUS_PES_PER_NODE", "0",                                                  \
      "0: PEs of one host share a node; k: consecutive groups of k PEs do")                       \
    X(BIND, "PERSEUS_BIND", "127.0.0.1",                                                          \
      "what bootstrap and IP providers bind: an address, or for several hosts an interface "      \
      "(eth0) or subnet (10.1.0.0/16)")                                                           \
    X(LOG, "PERSEUS_LOG", "warn",                                                                 \
      "error, warn, info or debug: the log on stderr of the tools, and of the library where the " \
      "program gives no callback and this is set")                                                \
    X(LINK, "PERSEUS_LINK", "", "delay decorator: latency=5us,bandwidth=25G,jitter=1us")          \
    X(ADVERSARY, "PERSEUS_ADVERSARY", "",                                                         \
      "adversary decorator: seed=1,reorder=1,again=0.1,error=0,fail_nth=0")                       \
    X(PROXY_SPIN, "PERSEUS_PROXY_SPIN", "",                                                       \
      "idle proxy steps before it yields; empty: 2000, or none where PEs share CPUs")             \
    X(PROXY_YIELD, "PERSEUS_PROXY_YIELD", "",                                                     \
      "idle yields before it sleeps; empty: 100, or 5 where PEs share CPUs")                      \
    X(PROXY_SLEEP_US, "PERSEUS_PROXY_SLEEP_US", "50", "first sleep of an idle proxy")             \
    X(PROXY_SLEEP_MAX_US, "PERSEUS_PROXY_SLEEP_MAX_US", "1000",                                   \
      "sleeps of a proxy with nothing in flight double up to it")                                 \
    X(PROXY_CPU, "PERSEUS_PROXY_CPU", "",                                                         \
      "pin the proxy: a CPU number, or numa for the fabric's NUMA node; empty: do not pin")       \
    X(PARKED, "PERSEUS_PARKED", "64", "operations that may wait per peer before back-pressure")   \
    X(PEER_TIMEOUT_MS, "PERSEUS_PEER_TIMEOUT_MS", "30000",                                        \
      "a PE that owes a completion or an answer and does not move for so long is lost; 0: never") \
    X(IMMEDIATE_SIGNAL, "PERSEUS_IMMEDIATE_SIGNAL", "1",                                          \
      "a put carries its signal in its immediate where signals are messages of their own")        \
    X(NATIVE_ATOMICS, "PERSEUS_NATIVE_ATOMICS", "0",                                              \
      "1: use the fabric's atomics even if they are not coherent with CPU atomics")               \
    X(WHOLE_SIGNALS, "PERSEUS_WHOLE_SIGNALS", "1",                                                \
      "0: write signals directly even where a waiter may see a word half-written (tcp, net); "    \
      "right for programs that wait for equal or growing values only")                            \
    X(STAGE_BYTES, "PERSEUS_STAGE_BYTES", "4M",                                                   \
      "staging of GPU memory that the fabric does not reach, per PE and direction, a power of "   \
      "two; 5/2 of it are pinned for each PE")                                                    \
    X(STAGE_HOST, "PERSEUS_STAGE_HOST", "auto",                                                   \
      "NVSHMEM transport: system-memory heaps through the staging rings, too: 0, 1, or auto: "    \
      "where the fabric's CPU copies every message anyway (tcp, net), but not with drain")        \
    X(OFFER_FENCE, "PERSEUS_OFFER_FENCE", "0",                                                    \
      "1: the NVSHMEM transport takes fence requests even where order needs none, to compare")    \
    X(PROFILE_DIR, "PERSEUS_PROFILE_DIR", "",                                                     \
      "set by perseus nvshmem-profile: where the profiler's records go")                          \
    X(PROFILE_INNER, "PERSEUS_PROFILE_INNER", "",                                                 \
      "set by perseus nvshmem-profile: folder or file of the transport to profile")               \
    X(IB_HCA, "PERSEUS_IB_HCA", "",                                                               \
      "verbs: devices to use, name or name:port, with commas; =: whole names, ^: all but these")  \
    X(IB_GID_INDEX, "PERSEUS_IB_GID_INDEX", "",                                                   \
      "verbs: index of the port's GID; empty: RoCE v2 before v1, IPv4 before IPv6")               \
    X(IB_QPS, "PERSEUS_IB_QPS", "1", "verbs: queue pairs for each peer, at most 8")               \
    X(IB_PKEY, "PERSEUS_IB_PKEY", "", "verbs: partition key, such as 0x8001; empty: the first")   \
    X(IB_SL, "PERSEUS_IB_SL", "0", "verbs: service level")                                        \
    X(IB_TRAFFIC_CLASS, "PERSEUS_IB_TRAFFIC_CLASS", "0", "verbs: traffic class (RoCE: ToS)")      \
    X(IB_TIMEOUT, "PERSEUS_IB_TIMEOUT", "16",                                                     \
      "verbs: an unanswered packet goes again after 4.096 us times 2 to the power of it")         \
    X(IB_RETRY, "PERSEUS_IB_RETRY", "7", "verbs: how often, before the peer is lost")             \
    X(IB_MTU, "PERSEUS_IB_MTU", "0", "verbs: bytes of a packet; 0: the port's")                   \
    X(IB_ATOMICS, "PERSEUS_IB_ATOMICS", "1", "verbs: 0: without the device's atomics")            \
    X(CUDA_LIBRARY, "PERSEUS_CUDA_LIBRARY", "libcuda.so.1",                                       \
      "NVIDIA's driver library, loaded where GPUs are asked for")                                 \
    X(RANK, "PERSEUS_RANK", "", "set by perseus run")                                             \
    X(SIZE, "PERSEUS_SIZE", "", "set by perseus run")                                             \
    X(BOOTSTRAP_FD, "PERSEUS_BOOTSTRAP_FD", "", "set by perseus run")                             \
    X(UNIQUE_ID, "PERSEUS_UNIQUE_ID", "", "hex unique id of a tcp job, with RANK and SIZE")

enum prs_env_id {
#define PRS_ENV_ENUM(id, name, fallback, help) PRS_ENV_##id,
    PRS_ENV_MAP(PRS_ENV_ENUM)
#undef PRS_ENV_ENUM
        PRS_ENV_COUNT
};

struct prs_env_row {
    const char *name, *fallback, *help;
};
const struct prs_env_row *prs_env_row(enum prs_env_id id);

/* Whether the environment has it, and not empty. */
bool prs_env_is_set(enum prs_env_id id);
/* The variable's text, or its default. */
const char *prs_env_text(enum prs_env_id id);
/* Parsed values; a malformed or out-of-range value is INVALID_ARGUMENT with a message naming
 * variable, text and what is allowed. Sizes accept K, M, G suffixes (powers of 1024). */
enum perseus_status prs_env_u64(enum prs_env_id id, uint64_t min, uint64_t max,
                                const struct prs_log *log, uint64_t *out);
/* The same where a field of the caller's attributes comes first: 0 there asks for the variable. */
enum perseus_status prs_env_or_u64(uint64_t asked, const char *field, enum prs_env_id id,
                                   uint64_t min, uint64_t max, const struct prs_log *log,
                                   uint64_t *out);
/* INVALID_ARGUMENT, with `what` it is, unless the number is a power of two. */
enum perseus_status prs_env_power_of_two(uint64_t value, enum prs_env_id id, const char *what,
                                         const struct prs_log *log);
enum perseus_status prs_env_bool(enum prs_env_id id, const struct prs_log *log, bool *out);

/* "64M" -> 67108864; INVALID_ARGUMENT on anything else than digits and one K, M, G suffix. */
enum perseus_status prs_parse_bytes(const char *text, uint64_t *out);

#endif
