/* SPDX-License-Identifier: Apache-2.0 */
#include "libfabric/program.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/libfabric/provider/choose.h"
#include "support/skip.h"

static const char *program_name;

const char *program_provider(void)
{
    return program_name;
}

bool program_start(int argc, char **argv, int *out_code)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s PROVIDER\n", argv[0]);
        *out_code = 2;
        return false;
    }
    program_name = argv[1];
    struct prs_lf_providers providers;
    prs_lf_providers_find(&providers);
    for (uint32_t i = 0; i < providers.count; i++) {
        if (prs_lf_provider_is(providers.names[i], program_name)) {
            return true;
        }
    }
    *out_code = test_skip("libfabric does not have this provider here");
    return false;
}

int program_count_files(long pid)
{
    DIR *directory = opendir("/dev/shm");
    int count = 0;
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        unsigned long long space;
        long owner;
        if (sscanf(entry->d_name, "perseus-%llx-%ld-", &space, &owner) == 2) {
            count += pid == 0 || owner == pid;
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

int program_check_leftovers(void **state)
{
    (void)state;
    int left = program_count_files(getpid());
    if (left != 0) {
        fprintf(stderr, "%d files left in /dev/shm\n", left);
    }
    return left == 0 ? 0 : -1;
}
