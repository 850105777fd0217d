/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "fabric/libfabric/provider/ip.h"
#include "fabric/libfabric/provider/library.h"

/* A number with fewer of the high bits is a lesser set: counting down from all of them tries the
 * sets in order of worth. Atomics are worth least: over ofi_rxm they cost the write-after-write
 * order. RMA_EVENT is for providers that deliver remote CQ data only with it. */
enum prs_lf_wish {
    PRS_LF_WISH_ATOMICS = 1,
    PRS_LF_WISH_RMA_EVENT = 2,
    PRS_LF_WISH_FENCE = 4,
    PRS_LF_WISH_ORDER_MIXED = 8, /* writes and atomics in order among each other */
    PRS_LF_WISH_ORDER = 16,      /* writes in order */
    PRS_LF_WISH_DELIVERED = 32,
    PRS_LF_WISH_ALL = 63
};

bool prs_lf_provider_is(const char *provider, const char *name)
{
    size_t length = strlen(name);
    return strncmp(provider, name, length) == 0 &&
           (provider[length] == '\0' || provider[length] == ';');
}

/* Providers that are only software over the host's IP stack: the ones that would listen on an
 * outside interface unless told where to sit. */
static bool is_ip_software(const char *provider)
{
    static const char *const names[] = {"tcp", "net", "sockets", "udp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (prs_lf_provider_is(provider, names[i])) {
            return true;
        }
    }
    return false;
}

static struct fi_info *make_hints(const char *provider, uint32_t memory_kinds, uint32_t wishes)
{
    struct fi_info *hints = prs_lf_library()->dupinfo(NULL);
    if (hints == NULL) {
        return NULL;
    }
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                                  FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    /* Automatic progress is a thread of the provider's: with as many PEs as cores it starves us
     * (sockets: a hundred times slower on two cores). Our poll makes the progress. */
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    if (memory_kinds & PRS_MEMORY_CUDA) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    if (wishes & PRS_LF_WISH_ATOMICS) {
        hints->caps |= FI_ATOMIC;
    }
    if (wishes & PRS_LF_WISH_RMA_EVENT) {
        hints->caps |= FI_RMA_EVENT;
    }
    if (wishes & PRS_LF_WISH_FENCE) {
        hints->caps |= FI_FENCE;
    }
    if (wishes & PRS_LF_WISH_ORDER) {
        hints->tx_attr->msg_order |= FI_ORDER_RMA_WAW;
    }
    if (wishes & PRS_LF_WISH_ORDER_MIXED) {
        hints->tx_attr->msg_order |= FI_ORDER_WAW;
    }
    hints->rx_attr->msg_order = hints->tx_attr->msg_order;
    if (wishes & PRS_LF_WISH_DELIVERED) {
        hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    }
    if (provider != NULL) {
        hints->fabric_attr->prov_name = strdup(provider);
    }
    return hints;
}

/* Whether `info` holds every wish. fi_getinfo should return nothing else; providers exist where it
 * does. */
static bool grants(const struct fi_info *info, uint32_t wishes)
{
    uint64_t order = info->tx_attr->msg_order & info->rx_attr->msg_order;
    uint64_t caps = info->caps & info->tx_attr->caps;
    return (!(wishes & PRS_LF_WISH_ATOMICS) || (caps & FI_ATOMIC)) &&
           (!(wishes & PRS_LF_WISH_FENCE) || (caps & FI_FENCE)) &&
           (!(wishes & PRS_LF_WISH_RMA_EVENT) || (info->caps & FI_RMA_EVENT)) &&
           (!(wishes & PRS_LF_WISH_ORDER) || (order & (FI_ORDER_RMA_WAW | FI_ORDER_WAW))) &&
           (!(wishes & PRS_LF_WISH_ORDER_MIXED) || (order & FI_ORDER_WAW)) &&
           (!(wishes & PRS_LF_WISH_DELIVERED) || (info->tx_attr->op_flags & FI_DELIVERY_COMPLETE));
}

static bool link_is_down(const struct fi_info *info)
{
    return info->nic != NULL && info->nic->link_attr != NULL &&
           info->nic->link_attr->state == FI_LINK_DOWN;
}

/* The first info of `provider` that holds `wishes`, NULL if there is none. */
static struct fi_info *ask(const struct prs_fabric_config *config, const char *provider,
                           const char *bind, uint32_t wishes)
{
    struct fi_info *hints = make_hints(provider, config->memory_kinds, wishes);
    if (hints == NULL) {
        return NULL;
    }
    struct fi_info *list = NULL;
    bool has_bind = bind[0] != '\0';
    int error = prs_lf_library()->getinfo(PRS_LF_API, has_bind ? bind : NULL, NULL,
                                          has_bind ? FI_SOURCE | FI_NUMERICHOST : 0, hints, &list);
    prs_lf_library()->freeinfo(hints);
    if (error != 0) {
        return NULL;
    }
    struct fi_info *found = NULL;
    for (struct fi_info *info = list; info != NULL && found == NULL; info = info->next) {
        if (prs_lf_provider_is(info->fabric_attr->prov_name, provider) && !link_is_down(info) &&
            grants(info, wishes)) {
            found = prs_lf_library()->dupinfo(info);
        }
    }
    prs_lf_library()->freeinfo(list);
    return found;
}

static struct fi_info *ask_for_most(const struct prs_fabric_config *config, const char *provider,
                                    const char *bind)
{
    for (int wishes = PRS_LF_WISH_ALL; wishes >= 0; wishes--) {
        if ((wishes & PRS_LF_WISH_ATOMICS) && !config->want_atomics) {
            continue;
        }
        if ((wishes & PRS_LF_WISH_ORDER_MIXED) && !(wishes & PRS_LF_WISH_ORDER)) {
            continue;
        }
        struct fi_info *info = ask(config, provider, bind, (uint32_t)wishes);
        if (info != NULL) {
            return info;
        }
    }
    return NULL;
}

/* Everything that could serve us, in libfabric's order; NULL when there is nothing. */
static struct fi_info *ask_for_any(uint32_t memory_kinds)
{
    struct fi_info *hints = make_hints(NULL, memory_kinds, 0);
    struct fi_info *list = NULL;
    if (hints != NULL) {
        prs_lf_library()->getinfo(PRS_LF_API, NULL, NULL, 0, hints, &list);
        prs_lf_library()->freeinfo(hints);
    }
    return list;
}

void prs_lf_providers_find(struct prs_lf_providers *out)
{
    *out = (struct prs_lf_providers){0};
    if (prs_lf_library() == NULL) {
        return;
    }
    struct fi_info *list = ask_for_any(PRS_MEMORY_HOST);
    for (struct fi_info *info = list; info != NULL; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        bool known = strlen(name) >= PRS_LF_PROVIDER_MAX;
        for (uint32_t i = 0; i < out->count && !known; i++) {
            known = strcmp(out->names[i], name) == 0;
        }
        if (!known && out->count < PRS_LF_PROVIDERS_MAX) {
            snprintf(out->names[out->count++], PRS_LF_PROVIDER_MAX, "%s", name);
        }
    }
    prs_lf_library()->freeinfo(list);
}

/* With no name given: the first provider, in libfabric's order, that has a device of its own with
 * an active link and serves the memory asked for (verbs, cxi, efa...); without one, tcp. */
static void default_provider(uint32_t memory_kinds, char *out, size_t bytes)
{
    snprintf(out, bytes, "tcp");
    struct fi_info *list = ask_for_any(memory_kinds);
    for (struct fi_info *info = list; info != NULL; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        bool has_link = info->nic != NULL && info->nic->link_attr != NULL &&
                        info->nic->link_attr->state == FI_LINK_UP;
        if (has_link && !is_ip_software(name)) {
            snprintf(out, bytes, "%s", name);
            break;
        }
    }
    prs_lf_library()->freeinfo(list);
}

static enum perseus_status not_found(const struct prs_fabric_config *config, const char *provider,
                                     const char *bind)
{
    struct prs_lf_providers providers;
    prs_lf_providers_find(&providers);
    char names[512] = "";
    size_t used = 0;
    bool present = false;
    for (uint32_t i = 0; i < providers.count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 providers.names[i]);
        present = present || prs_lf_provider_is(providers.names[i], provider);
    }
    if (present && (config->memory_kinds & PRS_MEMORY_CUDA)) {
        return prs_fail(config->log, PERSEUS_NOT_SUPPORTED,
                        "libfabric provider '%s' does not take CUDA memory here: use host memory",
                        provider);
    }
    if (present) {
        return prs_fail(config->log, PERSEUS_NOT_FOUND,
                        "libfabric provider '%s' has nothing for address %s: bind another",
                        provider, bind);
    }
    const char *filter = getenv("FI_PROVIDER");
    return prs_fail(config->log, PERSEUS_NOT_FOUND,
                    "libfabric has no provider '%s' here%s%s; there are: %s", provider,
                    filter != NULL ? " under FI_PROVIDER=" : "", filter != NULL ? filter : "",
                    providers.count > 0 ? names : "none");
}

/* The address to sit on: "" where that is not an IP address, or not ours to choose. */
static enum perseus_status choose_bind(const struct prs_fabric_config *config, const char *provider,
                                       char *out, size_t bytes)
{
    out[0] = '\0';
    if (!is_ip_software(provider)) {
        return PERSEUS_OK;
    }
    bool is_given = config->bind != NULL && config->bind[0] != '\0';
    const char *bind = is_given ? config->bind : "127.0.0.1";
    enum perseus_status status = prs_lf_ip_check(bind, config->log);
    if (status == PERSEUS_OK) {
        snprintf(out, bytes, "%s", bind);
    }
    return status;
}

enum perseus_status prs_lf_choose(const struct prs_fabric_config *config, struct fi_info **out,
                                  char *out_bind, size_t bind_bytes)
{
    if (prs_lf_library() == NULL) {
        return prs_fail(config->log, PERSEUS_NOT_FOUND,
                        "libfabric cannot be loaded: %s; install it (libfabric1), or say where it "
                        "lies (LD_LIBRARY_PATH)",
                        prs_lf_library_error());
    }
    char provider[PRS_LF_PROVIDER_MAX];
    if (config->provider != NULL && config->provider[0] != '\0') {
        if (strlen(config->provider) >= sizeof provider) {
            return prs_fail(config->log, PERSEUS_NOT_FOUND,
                            "a libfabric provider's name is shorter than %zu bytes",
                            sizeof provider);
        }
        snprintf(provider, sizeof provider, "%s", config->provider);
    } else {
        default_provider(config->memory_kinds, provider, sizeof provider);
    }
    enum perseus_status status = choose_bind(config, provider, out_bind, bind_bytes);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct fi_info *info = ask_for_most(config, provider, out_bind);
    if (info == NULL) {
        return not_found(config, provider, out_bind);
    }
    *out = info;
    return PERSEUS_OK;
}
