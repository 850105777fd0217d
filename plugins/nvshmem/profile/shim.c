/* SPDX-License-Identifier: Apache-2.0 */
/* shim.c: finds the wrapped transport and starts it. Built once per file name, as the transports are. */
#include "profile/shim.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/env.h"
#include "base/export.h"
#include "host/notice.h"

#define PATH_BYTES 4096

/* Beside the host library: where NVSHMEM itself would have found it. */
static bool beside_host(char *path)
{
    void *host = dlopen("libnvshmem_host.so.3", RTLD_NOW | RTLD_NOLOAD);
    struct link_map *map = NULL;
    if (host == NULL || dlinfo(host, RTLD_DI_LINKMAP, &map) != 0) {
        return false;
    }
    dlclose(host);
    const char *slash = strrchr(map->l_name, '/');
    int bytes = slash == NULL ? 0 : (int)(slash - map->l_name);
    return snprintf(path, PATH_BYTES, "%.*s/%s", bytes, map->l_name, PRS_TRANSPORT_FILE) <
           PATH_BYTES;
}

static bool find_inner(char *path)
{
    const char *given = prs_env_text(PRS_ENV_PROFILE_INNER);
    struct stat what;
    if (given[0] == '\0') {
        return beside_host(path);
    }
    bool folder = stat(given, &what) == 0 && S_ISDIR(what.st_mode);
    int bytes = folder ? snprintf(path, PATH_BYTES, "%s/%s", given, PRS_TRANSPORT_FILE)
                       : snprintf(path, PATH_BYTES, "%s", given);
    return bytes < PATH_BYTES;
}

typedef int (*init_fn)(void **out, const struct prs_abi_cuda_table *cuda, int api_version);

static int start_inner(struct prs_shim *shim, const struct prs_abi_cuda_table *cuda,
                       int api_version)
{
    char path[PATH_BYTES];
    if (!find_inner(path)) {
        prs_fail(
            &shim->log, PERSEUS_NOT_FOUND,
            "profile: there is no transport to profile: libnvshmem_host.so.3 is not loaded and "
            "PERSEUS_PROFILE_INNER is not set");
        return PRS_ABI_NOT_SUPPORTED;
    }
    shim->library = dlopen(path, RTLD_NOW);
    void *symbol = shim->library != NULL ? dlsym(shim->library, "nvshmemt_init") : NULL;
    if (symbol == NULL) {
        prs_fail(&shim->log, PERSEUS_NOT_FOUND, "profile: %s", dlerror());
        return PRS_ABI_NOT_SUPPORTED;
    }
    init_fn init;
    memcpy(&init, &symbol, sizeof init);
    snprintf(shim->transport, sizeof shim->transport, "%.*s", (int)sizeof shim->transport - 1,
             path);
    return init(&shim->inner, cuda, api_version);
}

void prs_shim_start(struct prs_shim *shim, int pe, int n_pes, bool offers_fence)
{
    shim->log.pe = pe;
    const char *directory = prs_env_text(PRS_ENV_PROFILE_DIR);
    if (!prs_profile_open(&shim->profile, directory[0] != '\0' ? directory : ".", pe, n_pes,
                          shim->interface, offers_fence, shim->transport)) {
        prs_log(&shim->log, PERSEUS_LOG_WARN,
                "profile: cannot write to \"%s\": nothing is recorded", directory);
    }
}

void prs_shim_destroy(struct prs_shim *shim)
{
    if (shim == NULL) {
        return;
    }
    prs_profile_close(&shim->profile);
    if (shim->library != NULL) {
        dlclose(shim->library);
    }
    free(shim);
}

PRS_PUBLIC int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version);

int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version)
{
    int major = api_version / 10000;
    struct prs_shim *shim = calloc(1, sizeof *shim);
    if (shim == NULL) {
        return PRS_ABI_OUT_OF_MEMORY;
    }
    shim->log = prs_notice_log();
    if (major != 3 && major != 4) {
        prs_fail(&shim->log, PERSEUS_VERSION,
                 "profile: this NVSHMEM speaks transport interface %d.%d, the profiler 3.0 and 4.0",
                 major, api_version / 100 % 100);
        prs_shim_destroy(shim);
        return PRS_ABI_INVALID_VALUE;
    }
    int failed = start_inner(shim, cuda, api_version);
    if (failed != 0) {
        prs_shim_destroy(shim);
        return failed;
    }
    shim->interface = major;
    *out = prs_shim_wrap(shim);
    return PRS_ABI_SUCCESS;
}
