/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/inner.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/env.h"

#define PATH_BYTES 4096

/* ---- finding it ---- */

/* Beside the host library: where NVSHMEM itself would have found it. */
static bool beside_host(const char *file, char *path)
{
    void *host = dlopen("libnvshmem_host.so.3", RTLD_NOW | RTLD_NOLOAD);
    struct link_map *map = NULL;
    if (host == NULL || dlinfo(host, RTLD_DI_LINKMAP, &map) != 0) {
        return false;
    }
    dlclose(host);
    const char *slash = strrchr(map->l_name, '/');
    int bytes = slash == NULL ? 0 : (int)(slash - map->l_name);
    return snprintf(path, PATH_BYTES, "%.*s/%s", bytes, map->l_name, file) < PATH_BYTES;
}

static bool find(const char *file, char *path)
{
    const char *given = prs_env_text(PRS_ENV_PROFILE_INNER);
    struct stat what;
    if (given[0] == '\0') {
        return beside_host(file, path);
    }
    bool folder = stat(given, &what) == 0 && S_ISDIR(what.st_mode);
    int bytes = folder ? snprintf(path, PATH_BYTES, "%s/%s", given, file)
                       : snprintf(path, PATH_BYTES, "%s", given);
    return bytes < PATH_BYTES;
}

typedef int (*init_fn)(void **out, const void *cuda, int api_version);

int prs_inner_open(struct prs_inner *inner, const struct prs_interface *interface, const char *file,
                   const void *cuda, int api_version, const struct prs_log *log)
{
    char path[PATH_BYTES];
    *inner = (struct prs_inner){.interface = interface};
    if (!find(file, path)) {
        prs_fail(
            log, PERSEUS_NOT_FOUND,
            "profile: there is no transport to profile: libnvshmem_host.so.3 is not loaded and "
            "PERSEUS_PROFILE_INNER is not set");
        return PRS_ABI_NOT_SUPPORTED;
    }
    inner->library = dlopen(path, RTLD_NOW);
    void *symbol = inner->library != NULL ? dlsym(inner->library, "nvshmemt_init") : NULL;
    if (symbol == NULL) {
        prs_fail(log, PERSEUS_NOT_FOUND, "profile: %s", dlerror());
        return PRS_ABI_NOT_SUPPORTED;
    }
    init_fn init;
    memcpy(&init, &symbol, sizeof init);
    snprintf(inner->path, sizeof inner->path, "%.*s", (int)sizeof inner->path - 1, path);
    int failed = init(&inner->object, cuda, api_version);
    if (failed == 0) {
        inner->fields = prs_interface_fields(interface, inner->object);
        inner->head = prs_interface_head(interface, inner->object);
        inner->tail = prs_interface_tail(interface, inner->object);
        inner->put_signal = prs_interface_put_signal(interface, inner->object);
        inner->hints = prs_interface_hints(interface, inner->object);
    }
    return failed;
}

void prs_inner_close(struct prs_inner *inner)
{
    if (inner->library != NULL) {
        dlclose(inner->library);
    }
    inner->library = NULL;
}

/* ---- calling it ---- */

bool prs_inner_has_fence(const struct prs_inner *inner)
{
    return inner->interface->has_queue_pairs ? inner->head->fence.from_4 != NULL
                                             : inner->head->fence.to_3 != NULL;
}

int prs_inner_connect(const struct prs_inner *inner, int *devices, int n_devices, int *out_qps,
                      int n_qps)
{
    const struct prs_abi_ops_head *head = inner->head;
    return inner->interface->has_queue_pairs
               ? head->connect_endpoints.from_4(inner->object, devices, n_devices, out_qps, n_qps)
               : head->connect_endpoints.to_3(inner->object, devices, n_devices);
}

int prs_inner_fence(const struct prs_inner *inner, int pe, int channel, int is_multi)
{
    return inner->interface->has_queue_pairs
               ? inner->head->fence.from_4(inner->object, pe, channel, is_multi)
               : inner->head->fence.to_3(inner->object, pe, channel);
}

static struct prs_abi_amo_verb16 narrowed(const struct prs_abi_amo_verb *verb)
{
    return (struct prs_abi_amo_verb16){verb->desc, verb->is_fetch, verb->is_value, verb->is_cmp};
}

int prs_inner_amo(const struct prs_inner *inner, int pe, const struct prs_abi_amo_verb *verb,
                  struct prs_abi_amo_memory *target, const struct prs_abi_amo_bytes *bytes,
                  int channel)
{
    return inner->interface->has_floats
               ? inner->head->amo.from_6(inner->object, pe, NULL, *verb, target, *bytes, channel)
               : inner->head->amo.to_5(inner->object, pe, NULL, narrowed(verb), target, *bytes,
                                       channel);
}

int prs_inner_put_signal(const struct prs_inner *inner, int pe, const struct prs_abi_rma_verb *verb,
                         struct prs_abi_vector *remote, struct prs_abi_vector *local,
                         struct prs_abi_vector *bytes, const struct prs_abi_amo_verb *signal_verb,
                         struct prs_abi_amo_memory *signal,
                         const struct prs_abi_amo_bytes *signal_bytes, int channel)
{
    return inner->interface->has_floats
               ? inner->put_signal->from_6(inner->object, pe, *verb, remote, local, bytes,
                                           *signal_verb, signal, *signal_bytes, channel)
               : inner->put_signal->to_5(inner->object, pe, *verb, remote, local, bytes,
                                         narrowed(signal_verb), signal, *signal_bytes, channel);
}
