/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h: the transport behind both interface versions. interface3.c and interface4.c translate
 * the host's objects; everything here is version-neutral.
 *
 * Main path: entry.c negotiates -> plugin.c opens two routes (route.h) -> connect.c makes the PEs
 * know each other -> memory.c registers the heap -> transfer.c and atomic.c turn calls into
 * requests to the ordering engine. Device memory that the fabric cannot reach takes stage.h's way
 * instead.
 */
#ifndef PRS_NVSHMEM_PLUGIN_H
#define PRS_NVSHMEM_PLUGIN_H

#include "host/abi.h"
#include "host/amo.h"
#include "route/memory.h"
#include "route/route.h"

struct prs_cuda;
struct prs_hello; /* connect.c */
struct prs_staging;

struct prs_plugin {
    struct prs_log log;
    struct prs_clock clock;
    const char *transport_name; /* "libfabric" or "ibrc" */
    uint32_t interface;         /* NVSHMEM's major: 3 or 4 */
    uint64_t timeout_ns;
    struct prs_settings settings;
    bool takes_fences; /* the user wants fence requests in any case */
    bool host_fences;  /* whether the host calls fence whenever its user does */
    bool offers_fence; /* false: the order is kept without, and the host may skip its requests */
    uint64_t op_bytes_max;
    int my_pe, n_pes; /* 0 PEs until connected */
    struct prs_route routes[PRS_SIDE_COUNT];
    struct prs_memory memory;
    uint32_t seen_submitted, polled_submitted, polls; /* of the proxy thread's progress calls */
    struct prs_hello *hellos;                         /* by PE */
    struct prs_cuda *cuda;                            /* NULL: no GPU, no device memory */
    uint64_t stage_bytes;
    bool stage_host;           /* system memory is staged, too */
    struct prs_staging *stage; /* NULL: nothing needs staging */
};

/* plugin.c */
enum perseus_status prs_plugin_create(const char *transport_name, uint32_t interface,
                                      const struct prs_abi_cuda_table *cuda,
                                      const struct prs_log *log, struct prs_plugin **out);
void prs_plugin_destroy(struct prs_plugin *plugin); /* NULL allowed */
/* Whether anything may be staged. */
static inline bool prs_plugin_stages(const struct prs_plugin *plugin)
{
    return plugin->cuda != NULL || plugin->stage_host;
}
/* The host's progress call: once per round of its proxy thread. */
enum perseus_status prs_plugin_progress(struct prs_plugin *plugin);

/* connect.c: collective. */
enum perseus_status prs_plugin_connect(struct prs_plugin *plugin, int my_pe, int n_pes,
                                       struct prs_abi_bootstrap *bootstrap);

/* Room for `out` is one of stage.h's peers; once, with the proxy route's lock held. */
enum perseus_status prs_plugin_import_arena(struct prs_plugin *plugin, int pe,
                                            struct prs_window_remote **out);

/* transfer.c; `remote` is in the peer's address space. */
enum perseus_status prs_plugin_rma(struct prs_plugin *plugin, enum prs_side side, int pe,
                                   const struct prs_abi_rma_verb *verb,
                                   const struct prs_abi_rma_memory *remote,
                                   const struct prs_abi_rma_memory *local,
                                   const struct prs_abi_rma_bytes *bytes);
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
