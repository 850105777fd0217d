/* shim.h: a transport that hands every call to another one and takes the time. */
#ifndef PRS_NVSHMEM_PROFILE_SHIM_H
#define PRS_NVSHMEM_PROFILE_SHIM_H

#include "abi.h"
#include "base/log.h"
#include "record.h"

struct prs_shim {
    struct prs_log log;
    struct prs_profile profile;
    void *library;
    void *inner; /* the wrapped transport's object */
    char transport[256];
};

/* The host's object around shim->inner, which owns the shim; freed by its finalize. NULL: no memory. */
void *prs_shim3_create(struct prs_shim *shim);
void *prs_shim4_create(struct prs_shim *shim);
/* Ends recording, unloads the wrapped transport. */
void prs_shim_destroy(struct prs_shim *shim);
/* Once the PE's number is known. */
void prs_shim_start(struct prs_shim *shim, int pe, int n_pes, int interface, bool offers_fence);

static inline enum prs_profile_kind prs_shim_kind(int rma_desc)
{
    return rma_desc == PRS_ABI_PUT ? PRS_PROFILE_PUT
           : rma_desc == PRS_ABI_P ? PRS_PROFILE_P
                                   : PRS_PROFILE_GET;
}

#endif
