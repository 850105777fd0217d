/* interface.h: makes the host's transport object of one interface version. */
#ifndef PRS_NVSHMEM_INTERFACE_H
#define PRS_NVSHMEM_INTERFACE_H

#include "plugin.h"

/* The object is allocated here and freed by its own finalize, with the plugin. NULL: no memory. */
void *prs_interface3_create(struct prs_plugin *plugin, int version);
void *prs_interface4_create(struct prs_plugin *plugin, int version);

/* can_reach_peer's answer, the same for every PE: self and node neighbours' atomics come here too.
 */
#define PRS_INTERFACE_ACCESS \
    (PRS_ABI_CAP_CPU_WRITE | PRS_ABI_CAP_CPU_READ | PRS_ABI_CAP_CPU_ATOMICS)

#endif
