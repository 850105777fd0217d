/* SPDX-License-Identifier: Apache-2.0 */
/* shim.h: a transport that hands every call to another one and takes the time. */
#ifndef PRS_NVSHMEM_PROFILE_SHIM_H
#define PRS_NVSHMEM_PROFILE_SHIM_H

#include "host/abi3.h"
#include "host/abi4.h"
#include "base/log.h"
#include "profile/record.h"

struct prs_shim {
    struct prs_log log;
    struct prs_profile profile;
    int interface;
    void *library;
    void *inner; /* the wrapped transport's object, and its parts */
    struct prs_abi_parts parts;
    char transport[256];
    union {
        struct prs_abi3_transport v3;
        struct prs_abi4_transport v4;
    } outer; /* the host knows the address of this member */
};

/* wrap.c: the host's object around shim->inner; its finalize frees the shim. */
void *prs_shim_wrap(struct prs_shim *shim);
struct prs_shim *prs_shim_of(void *t); /* of the host's object */
/* What the host wrote into its object since goes to the wrapped one. */
void prs_shim_pass_on(struct prs_shim *shim);
/* Once the PE's number is known: after the first connect. */
void prs_shim_connected(struct prs_shim *shim);
/* A call is over. */
void prs_shim_add(struct prs_shim *shim, enum prs_profile_kind kind, int channel, int pe,
                  uint64_t bytes, uint64_t start_ns);

/* shim3.c, shim4.c: each wraps what its version has of its own. */
void prs_shim3_complete(struct prs_shim *shim);
void prs_shim4_complete(struct prs_shim *shim);

/* shim.c: begins the record; ends it and unloads the wrapped transport (NULL allowed). */
void prs_shim_start(struct prs_shim *shim, int pe, int n_pes, bool offers_fence);
void prs_shim_destroy(struct prs_shim *shim);

#endif
