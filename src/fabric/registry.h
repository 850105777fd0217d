/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h: the explicit list of fabric back ends. */
#ifndef PRS_FABRIC_REGISTRY_H
#define PRS_FABRIC_REGISTRY_H

#include "fabric/fabric.h"

/* NULL-terminated, in order of preference. */
const struct prs_fabric_ops *const *prs_fabric_registry(void);
/* The one to take where nobody names one, for heaps of such memory. */
const char *prs_fabric_default(enum prs_memory_kind memory);
/* NOT_FOUND with a message listing what there is. */
enum perseus_status prs_fabric_find(const char *name, const struct prs_log *log,
                                    const struct prs_fabric_ops **out);

#endif
