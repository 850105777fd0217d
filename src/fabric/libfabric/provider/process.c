/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* This boot of this host, and a namespace of the kernel's. */
static uint64_t space_of(const char *namespace_path)
{
    uint64_t hash = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        int byte;
        while ((byte = fgetc(file)) != EOF) {
            hash = mix(hash, (uint64_t)byte);
        }
        fclose(file);
    }
    struct stat namespace_file;
    if (stat(namespace_path, &namespace_file) == 0) {
        hash = mix(hash, namespace_file.st_ino);
    }
    return hash;
}

uint64_t prs_lf_process_space(void)
{
    return space_of("/proc/self/ns/pid");
}

uint64_t prs_lf_network_space(void)
{
    return space_of("/proc/self/ns/net");
}

int prs_lf_process_watch(pid_t pid, bool *out_ended)
{
    int watch = pidfd_open(pid, 0);
    *out_ended = watch < 0 && errno == ESRCH;
    return watch;
}

bool prs_lf_process_ended(int watch)
{
    struct pollfd watched = {.fd = watch, .events = POLLIN};
    return watch >= 0 && poll(&watched, 1, 0) == 1;
}
