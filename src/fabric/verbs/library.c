/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/verbs/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SONAME "libibverbs.so.1"

/* Of the process, as the library is: it is loaded once and stays. Written by load alone. */
static struct {
    pthread_once_t once;
    struct prs_verbs_library functions;
    bool is_there;
    char error[256];
} library = {.once = PTHREAD_ONCE_INIT};

/* In verbs.h it is inline, and calls a function of the library where a provider has none. */
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *out)
{
    const struct verbs_context *verbs = verbs_get_ctx_op(context, query_port);
    return verbs != NULL ? verbs->query_port(context, port, out, sizeof *out) : ENOSYS;
}

#define CALL(field, symbol)                               \
    {                                                     \
        symbol, offsetof(struct prs_verbs_library, field) \
    }

static const struct {
    const char *symbol;
    size_t at;
} calls[] = {
    CALL(get_device_list, "ibv_get_device_list"),
    CALL(free_device_list, "ibv_free_device_list"),
    CALL(get_device_name, "ibv_get_device_name"),
    CALL(open_device, "ibv_open_device"),
    CALL(close_device, "ibv_close_device"),
    CALL(query_device, "ibv_query_device"),
    CALL(query_gid_ex, "_ibv_query_gid_ex"),
    CALL(query_pkey, "ibv_query_pkey"),
    CALL(alloc_pd, "ibv_alloc_pd"),
    CALL(dealloc_pd, "ibv_dealloc_pd"),
    CALL(reg_mr, "ibv_reg_mr"),
    CALL(reg_dmabuf_mr, "ibv_reg_dmabuf_mr"),
    CALL(dereg_mr, "ibv_dereg_mr"),
    CALL(create_comp_channel, "ibv_create_comp_channel"),
    CALL(destroy_comp_channel, "ibv_destroy_comp_channel"),
    CALL(create_cq, "ibv_create_cq"),
    CALL(destroy_cq, "ibv_destroy_cq"),
    CALL(get_cq_event, "ibv_get_cq_event"),
    CALL(ack_cq_events, "ibv_ack_cq_events"),
    CALL(create_srq, "ibv_create_srq"),
    CALL(destroy_srq, "ibv_destroy_srq"),
    CALL(create_qp, "ibv_create_qp"),
    CALL(modify_qp, "ibv_modify_qp"),
    CALL(destroy_qp, "ibv_destroy_qp"),
    CALL(create_ah, "ibv_create_ah"),
    CALL(destroy_ah, "ibv_destroy_ah"),
    CALL(wc_status_str, "ibv_wc_status_str"),
};

static bool is_optional(const char *symbol)
{
    return strcmp(symbol, "ibv_reg_dmabuf_mr") == 0;
}

static void load(void)
{
    void *handle = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *error = dlerror();
        snprintf(library.error, sizeof library.error, "%s", error != NULL ? error : SONAME);
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *address = dlsym(handle, calls[i].symbol);
        if (address == NULL && !is_optional(calls[i].symbol)) {
            snprintf(library.error, sizeof library.error, SONAME " has no %s: it is too old",
                     calls[i].symbol);
            return;
        }
        /* dlsym(3) gives data pointers; POSIX lets them be functions. */
        memcpy((char *)&library.functions + calls[i].at, &address, sizeof address);
    }
    library.functions.query_port = query_port;
    library.is_there = true;
}

const struct prs_verbs_library *prs_verbs_library(void)
{
    pthread_once(&library.once, load);
    return library.is_there ? &library.functions : NULL;
}

const char *prs_verbs_library_error(void)
{
    pthread_once(&library.once, load);
    return library.error;
}
