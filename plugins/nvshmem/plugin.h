/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h: the transport behind all interface versions: host/ translates the host's objects;
 * everything here is version-neutral.
 *
 * Main path: entry.c negotiates -> plugin.c opens two routes (route/) -> connect.c makes the PEs
 * know each other -> registered.c registers the heap -> transfer.c and atomic.c turn calls into
 * requests to the ordering engine. Memory that the fabric does not reach takes staging's way
 * instead.
 *
 * Rooms, each using those before it: host, route, staging, and this folder.
 */
#ifndef PRS_NVSHMEM_PLUGIN_H
#define PRS_NVSHMEM_PLUGIN_H

#include "host/amo.h"
#include "host/block.h"
#include "link/settings.h"
#include "route/piece.h"

struct prs_cuda;
struct hello; /* connect.c */
struct prs_staging;

struct prs_plugin {
    struct prs_log log;
    const char *transport_name; /* "libfabric" or "ibrc" */
    const struct prs_interface *interface;
    struct prs_link_settings settings;
    uint64_t timeout_ms;
    bool takes_fences; /* the user wants fence requests in any case */
    bool host_fences;  /* whether the host calls fence whenever its user does */
    bool offers_fence; /* false: the order is kept without, and the host may skip its requests */
    uint64_t op_bytes_max;
    int my_pe, n_pes; /* 0 PEs until connected */
    struct prs_route routes[PRS_SIDE_COUNT];
    struct prs_memory memory;
    uint32_t seen_submitted, polled_submitted, polls; /* of the proxy thread's progress calls */
    unsigned char secret[PRS_SECRET_BYTES];           /* of the job: PE 0's */
    struct hello *hellos;                             /* by PE */
    struct prs_cuda *cuda;                            /* NULL: no GPU, no device memory */
    bool warned_of_atomics;
    uint64_t stage_bytes;
    struct prs_staging *stage; /* NULL: nothing needs staging */
};

/* plugin.c */
enum perseus_status prs_plugin_create(const char *transport_name,
                                      const struct prs_interface *interface,
                                      const struct prs_abi_cuda_table *cuda,
                                      const struct prs_log *log, struct prs_plugin **out);
void prs_plugin_destroy(struct prs_plugin *plugin); /* NULL allowed */
/* Whether anything may be staged. */
static inline bool prs_plugin_stages(const struct prs_plugin *plugin)
{
    return plugin->cuda != NULL || plugin->memory.stage_host;
}
/* The host's progress call: once per round of its proxy thread. */
enum perseus_status prs_plugin_progress(struct prs_plugin *plugin);

/* connect.c: collective. */
enum perseus_status prs_plugin_connect(struct prs_plugin *plugin, int my_pe, int n_pes,
                                       struct prs_abi_bootstrap *bootstrap);

/* callbacks.c: the calls of a plugin, which is the block's owner. */
struct prs_calls prs_plugin_calls(const struct prs_plugin *plugin);

/* registered.c: memory, as the host registers and releases it. */
enum perseus_status prs_plugin_register(struct prs_plugin *plugin, void *buffer, size_t bytes,
                                        bool local_only, unsigned char *out_blob);
enum perseus_status prs_plugin_release(struct prs_plugin *plugin, const unsigned char *blob);

/* transfer.c; `remote` is in the peer's address space. */
enum perseus_status prs_plugin_rma(struct prs_plugin *plugin, enum prs_side side, int pe,
                                   const struct prs_abi_rma_verb *verb,
                                   const struct prs_abi_rma_memory *remote,
                                   const struct prs_abi_rma_memory *local,
                                   const struct prs_abi_rma_bytes *bytes);
/* A checked piece of it; `what` is for messages. */
enum perseus_status prs_plugin_piece(struct prs_plugin *plugin, int pe, const char *what,
                                     const struct prs_abi_rma_memory *remote,
                                     const struct prs_abi_rma_memory *local,
                                     const struct prs_abi_rma_bytes *bytes, struct prs_piece *out);
/* Whether it goes through host memory: the fabric does not reach one of its sides. */
bool prs_plugin_is_staged(struct prs_plugin *plugin, enum prs_side side,
                          const struct prs_piece *piece);
/* `desc` is PUT, P, GET or G. */
enum perseus_status prs_plugin_move(struct prs_plugin *plugin, enum prs_side side, int pe, int desc,
                                    const struct prs_piece *piece, bool is_blocking);
/* put_signal.c */
enum perseus_status prs_plugin_put_signal(struct prs_plugin *plugin, enum prs_side side, int pe,
                                          const struct prs_abi_vector *remote,
                                          const struct prs_abi_vector *local,
                                          const struct prs_abi_vector *bytes, int signal_desc,
                                          const struct prs_abi_amo_memory *signal);
/* settle.c */
enum perseus_status prs_plugin_fence(struct prs_plugin *plugin, enum prs_side side, int pe);
enum perseus_status prs_plugin_quiet(struct prs_plugin *plugin, enum prs_side side, int pe);

/* Before work of the other kind toward `pe`: what went the other way is finished. */
enum perseus_status prs_plugin_settle(struct prs_plugin *plugin, enum prs_side side, int pe,
                                      bool staged);

/* atomic.c */
enum perseus_status prs_plugin_amo(struct prs_plugin *plugin, enum prs_side side, int pe,
                                   const struct prs_abi_amo_verb *verb,
                                   const struct prs_abi_amo_memory *target,
                                   const struct prs_abi_amo_bytes *bytes);
/* Where `memory` of PE `pe` lies: its handle and the offset in it, checked. */
enum perseus_status prs_plugin_target(struct prs_plugin *plugin, int pe, const char *what,
                                      const struct prs_abi_rma_memory *memory, size_t bytes,
                                      struct prs_handle *out_handle, uint64_t *out_offset);

#endif
