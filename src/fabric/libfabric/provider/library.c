/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fabric/libfabric/provider/handlers.h"

#define SONAME "libfabric.so.1"

/* Of the process, as the library is: it is loaded once and stays. Written by load alone. */
static struct {
    pthread_once_t once;
    struct prs_lf_library functions;
    bool is_there;
    char error[256];
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **out);
} library = {.once = PTHREAD_ONCE_INIT};

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **out)
{
    struct prs_lf_handlers before;
    prs_lf_handlers_keep(&before);
    int error = library.getinfo(version, node, service, flags, hints, out);
    prs_lf_handlers_give_back(&before);
    return error;
}

/* dlsym(3) gives data pointers; POSIX lets them be functions. */
static bool find(void *handle, const char *name, void *out)
{
    void *address = dlsym(handle, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

static void load(void)
{
    struct prs_lf_handlers before;
    prs_lf_handlers_keep(&before);
    void *handle = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle ==
        NULL) { /* where the loader does not look, there may be the one we were built with */
        handle = dlopen(PRS_LF_BUILT_WITH "/" SONAME, RTLD_NOW | RTLD_LOCAL);
    }
    prs_lf_handlers_give_back(&before);
    struct prs_lf_library *functions = &library.functions;
    functions->getinfo = getinfo;
    library.is_there = handle != NULL && find(handle, "fi_getinfo", &library.getinfo) &&
                       find(handle, "fi_freeinfo", &functions->freeinfo) &&
                       find(handle, "fi_dupinfo", &functions->dupinfo) &&
                       find(handle, "fi_fabric", &functions->fabric) &&
                       find(handle, "fi_strerror", &functions->strerror);
    const char *error = library.is_there ? NULL : dlerror();
    snprintf(library.error, sizeof library.error, "%s", error != NULL ? error : "");
}

const struct prs_lf_library *prs_lf_library(void)
{
    pthread_once(&library.once, load);
    return library.is_there ? &library.functions : NULL;
}

const char *prs_lf_library_error(void)
{
    pthread_once(&library.once, load);
    return library.error;
}
