/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interface.h: the host's transport object. interface.c has what both interface versions call alike,
 * interface3.c and interface4.c the rest. All unpack and forward; nothing else.
 */
#ifndef PRS_NVSHMEM_INTERFACE_H
#define PRS_NVSHMEM_INTERFACE_H

#include "host/abi3.h"
#include "host/abi4.h"
#include "plugin.h"

struct prs_interface {
    struct prs_plugin *plugin;
    union {
        struct prs_abi3_transport v3;
        struct prs_abi4_transport v4;
    } host; /* the host knows the address of this member */
};

/* The host's object, which its own finalize frees, with the plugin. NULL: no memory. */
void *prs_interface_create(struct prs_plugin *plugin, int version);

/* What the host's object belongs to. */
struct prs_plugin *prs_interface_plugin(void *t);
enum prs_side prs_interface_side(int channel);

/* Each adds what its version has of its own. */
void prs_interface3_complete(struct prs_abi3_transport *t, bool offers_fence);
void prs_interface4_complete(struct prs_abi4_transport *t, bool offers_fence);

#endif
