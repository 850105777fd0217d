/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/shm.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "fabric/libfabric/provider/choose.h"
#include "fabric/libfabric/provider/process.h"

#define PRS_LF_SHM_PREFIX_MAX 48

bool prs_lf_shm_is(const struct fi_info *info)
{
    return prs_lf_provider_is(info->fabric_attr->prov_name, "shm");
}

/* Containers may share /dev/shm without sharing process ids: the space the ids belong to is part of
 * the name, so that nobody takes another container's live process for a dead one. */
static void shm_prefix(char out[PRS_LF_SHM_PREFIX_MAX])
{
    snprintf(out, PRS_LF_SHM_PREFIX_MAX, "perseus-%016" PRIx64 "-", prs_lf_process_space());
}

void prs_lf_shm_name(char *out, size_t bytes)
{
    char prefix[PRS_LF_SHM_PREFIX_MAX];
    shm_prefix(prefix);
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        random = (uintptr_t)out;
    }
    snprintf(out, bytes, "%s%d-%016" PRIx64, prefix, (int)getpid(), random);
}

void prs_lf_shm_remove(const char *address)
{
    const char *mark = strstr(address, "://");
    shm_unlink(mark != NULL ? mark + 3 : address);
}

void prs_lf_shm_sweep(void)
{
    DIR *directory = opendir("/dev/shm");
    if (directory == NULL) {
        return;
    }
    char prefix[PRS_LF_SHM_PREFIX_MAX];
    shm_prefix(prefix);
    size_t length = strlen(prefix);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, prefix, length) != 0) {
            continue;
        }
        long pid = strtol(entry->d_name + length, NULL, 10);
        if (pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
            prs_lf_shm_remove(entry->d_name);
        }
    }
    closedir(directory);
}
