/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.h: libfabric itself, loaded when it is first asked for something.
 *
 * It is not linked, because loading it changes the process (handlers.h): loaded from here, whatever
 * that changed is put back at once, before the program could notice.
 *
 * The environment is read by it and never written by us: other threads may be reading it.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_LIBRARY_H
#define PRS_LIBFABRIC_PROVIDER_LIBRARY_H

#include <rdma/fabric.h>

/* The interface this code is written to. A newer library serves it unchanged. */
#define PRS_LF_API FI_VERSION(1, 17)

/* Its functions that are not inline in its headers. */
struct prs_lf_library {
    /* Leaves the process's signal handlers as they are. */
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **out);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
};

/* NULL if there is none that can be loaded; any thread. */
const struct prs_lf_library *prs_lf_library(void);
/* Why there is none. */
const char *prs_lf_library_error(void);

#endif
