/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h: plays NVSHMEM's host library toward a transport, on plain CPUs.
 *
 * host_run starts n PEs, as threads or as processes. Each loads the file by its SONAME, calls
 * nvshmemt_init, fills the host's fields, connects, registers a heap in two chunks, gathers the
 * handles, starts a proxy thread, runs the test's body, and takes everything down in NVSHMEM's
 * order. `body` runs on the PE's user thread. Interface versions differ in host_calls.c only, which
 * restates the forms of the callbacks for itself.
 */
#ifndef HOST_H
#define HOST_H

#include <pthread.h>

#include "host/interface.h"
#include "rendezvous.h"

#define HOST_CHUNKS      2
#define HOST_CHUNK_BYTES (size_t)(1 << 20)
#define HOST_HEAP_BYTES  (HOST_CHUNKS * HOST_CHUNK_BYTES)

struct host_pe;
typedef void (*host_body)(struct host_pe *pe, void *argument);

/* Where heaps come from; NULL in the spec: plain memory. */
struct host_memory {
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory, size_t bytes);
    /* What the CPU may use to look at heap memory, as a GPU thread would. */
    void *(*view)(void *memory);
    /* What the host does to user buffers before it registers them. */
    void (*pin)(void *memory, size_t bytes);
    void (*unpin)(void *memory);
    int (*faults)(void); /* misuse seen since the last call */
};

struct host_spec {
    const char *file; /* SONAME, perhaps behind a folder */
    int version;      /* 30000, 40000 */
    int n_pes;
    bool processes;
    bool drops_fences; /* device fences end at the host, where the interface lets that be */
    int timeout_ms;    /* of the harness's own barriers; 0: 30 s */
    bool starts_badly; /* connect is expected to fail on every PE */
    bool bootstrap_fails;
    /* May change what a PE tells the others when they connect. */
    void (*tamper)(struct host_pe *pe, void *block, size_t bytes);
    host_body prepare; /* before the file is loaded */
    const struct prs_abi_cuda_table *cuda;
    const struct host_memory *memory;
    host_body body;
    void *argument;
};

/* Failures of all PEs: checks, and processes that died (1000 each). */
int host_run(const struct host_spec *spec);

/* A built file, found by its SONAME alone as under LD_PRELOAD. */
void *host_open(const char *file);

/* A file of the transport for a major version: the two names take turns. */
const char *host_file(int major);

struct host_pe {
    const struct host_spec *spec;
    struct rendezvous *meeting;
    const struct prs_interface *interface;
    int rank, n_pes;
    void *library, *transport;
    struct prs_abi_fields *fields;
    const struct prs_abi_ops_head *head;
    struct prs_abi_bootstrap bootstrap;
    int cap[64];
    unsigned char *heap, *view; /* own heap: the transport's address, and the CPU's */
    unsigned char **heaps;      /* every PE's heap base in its own address space */
    unsigned char *blobs;       /* [chunk][PE][512], as gathered */
    pthread_t proxy;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    host_body command; /* for the proxy thread to run, then NULL */
    void *command_argument;
    bool stop;
    int stage; /* how far start got */
    _Atomic int failures;
};

/* host_calls.c: the host's fields, and what init must have set; then the calls. */
void host_adopt(struct host_pe *pe);
int host_connect(struct host_pe *pe);
bool host_has_fence(struct host_pe *pe);
int host_fence(struct host_pe *pe, bool proxy, int target);
int host_can_reach_peer(struct host_pe *pe, int target, int *access);
int host_register_memory(struct host_pe *pe, void *buffer, size_t bytes, bool local_only,
                         unsigned char *blob);
int host_release_memory(struct host_pe *pe, unsigned char *blob);
int host_finalize(struct host_pe *pe);
int host_progress(struct host_pe *pe);
int host_rma(struct host_pe *pe, bool proxy, int target, struct prs_abi_rma_verb verb,
             struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
             struct prs_abi_rma_bytes bytes);
int host_amo(struct host_pe *pe, int target, int desc, bool is_float,
             struct prs_abi_amo_memory *memory, int bytes);
/* From 4.0 on. */
int host_put_signal(struct host_pe *pe, int target, struct prs_abi_vector *remote,
                    struct prs_abi_vector *local, struct prs_abi_vector *bytes, int signal_desc,
                    struct prs_abi_amo_memory *signal);
int host_quiet(struct host_pe *pe, bool proxy, int target);

#define CHECK(pe, condition) host_check((pe), (condition), #condition, __FILE__, __LINE__)
bool host_check(struct host_pe *pe, bool holds, const char *text, const char *file, int line);

/* ---- what device code and user threads do ---- */

/* Runs `kernel` on the PE's proxy thread, between its rounds of progress; returns when it ended. */
void host_on_proxy(struct host_pe *pe, host_body kernel, void *argument);
/* A user buffer, as nvshmemx_buffer_register does it. */
void host_register_buffer(struct host_pe *pe, void *buffer, size_t bytes, unsigned char *blob);
void host_release_buffer(struct host_pe *pe, void *buffer, unsigned char *blob);
int host_barrier(struct host_pe *pe); /* the bootstrap's, not the device's */

/* On the proxy thread, as the proxy does for device calls. Offsets are heap offsets; data moves are
 * split at chunk borders. `local` lies in the own heap or a registered buffer. */
int device_put(struct host_pe *pe, int target, size_t offset, const void *local, size_t bytes);
int device_get(struct host_pe *pe, int target, size_t offset, void *local, size_t bytes);
int device_p(struct host_pe *pe, int target, size_t offset, uint64_t value, int bytes);
/* In `desc`: the word is a half, float or double by its width. From 6.0 on. */
#define DEVICE_FLOAT 0x80
int device_amo(struct host_pe *pe, int target, int desc, size_t offset, int bytes, uint64_t value,
               uint64_t compare);
/* Waits for the result as a GPU thread does in complete-on-quiet mode. `slot`: offset of 16 bytes
 * in the own heap. */
int device_fetch(struct host_pe *pe, int target, int desc, size_t offset, int bytes, uint64_t value,
                 uint64_t compare, size_t slot, uint64_t *out_old);
int device_fence(struct host_pe *pe);
int device_quiet(struct host_pe *pe);
int device_put_signal(struct host_pe *pe, int target, size_t offset, const void *local,
                      size_t bytes, size_t signal, uint64_t value, int signal_desc);
/* Waits (making progress) until the own heap's word reaches `value`; false after 20 s. */
bool device_wait(struct host_pe *pe, size_t offset, uint64_t value);
/* Dissemination barrier over growing SETs at `flags` (8 bytes for each of 8 rounds). */
bool device_barrier(struct host_pe *pe, size_t flags, uint64_t *count);

/* On the user thread. */
int user_put(struct host_pe *pe, int target, size_t offset, const void *local, size_t bytes,
             bool nbi);
int user_get(struct host_pe *pe, int target, size_t offset, void *local, size_t bytes, bool nbi);
int user_p(struct host_pe *pe, int target, size_t offset, uint64_t value, int bytes);
int user_fence(struct host_pe *pe);
int user_quiet(struct host_pe *pe);

/* Acquire load of the own heap's word. */
uint64_t host_word(struct host_pe *pe, size_t offset);

#endif
