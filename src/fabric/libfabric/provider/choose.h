/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.h: which provider, and the most it will grant.
 *
 * A list of wishes is put to fi_getinfo, all of them first, then ever fewer, until the provider
 * takes one set *and* what it returned really holds it.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_CHOOSE_H
#define PRS_LIBFABRIC_PROVIDER_CHOOSE_H

#include <rdma/fabric.h>

#include "fabric/fabric.h"

#define PRS_LF_PROVIDER_MAX  64
#define PRS_LF_PROVIDERS_MAX 32

/* Providers that can serve an endpoint of ours here, libfabric's order, each name once. */
struct prs_lf_providers {
    uint32_t count;
    char names[PRS_LF_PROVIDERS_MAX][PRS_LF_PROVIDER_MAX];
};
void prs_lf_providers_find(struct prs_lf_providers *out);

/* Whether `provider` ("tcp;ofi_rxm") is `name` or has it as its core ("tcp"). */
bool prs_lf_provider_is(const char *provider, const char *name);

/* *out is the caller's (fi_freeinfo). bind: "" or the address endpoints must have. NOT_FOUND lists
 * what there is. */
enum perseus_status prs_lf_choose(const struct prs_fabric_config *config, struct fi_info **out,
                                  char *out_bind, size_t bind_bytes);

#endif
