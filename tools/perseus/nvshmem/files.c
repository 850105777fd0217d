/* SPDX-License-Identifier: Apache-2.0 */
#include "nvshmem/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/interface.h"

bool prs_nvshmem_is_transport(const char *name)
{
    return strcmp(name, "libfabric") == 0 || strcmp(name, "ibrc") == 0;
}

bool prs_nvshmem_file(const char *folder, const char *transport, int major, char *out)
{
    int bytes = snprintf(out, PRS_NVSHMEM_PATH_BYTES, "%s%snvshmem_transport_%s.so.%d",
                         folder != NULL ? folder : "", folder != NULL ? "/" : "", transport, major);
    return bytes > 0 && bytes < PRS_NVSHMEM_PATH_BYTES;
}

bool prs_nvshmem_list_add(char *list, size_t list_bytes, const char *word)
{
    size_t used = strlen(list);
    int bytes = snprintf(list + used, list_bytes - used, "%s%s", used > 0 ? ":" : "", word);
    return bytes >= 0 && (size_t)bytes < list_bytes - used;
}

static bool holds_transports(const char *folder)
{
    char file[PRS_NVSHMEM_PATH_BYTES];
    return prs_nvshmem_file(folder, "libfabric", PRS_INTERFACE_FIRST, file) &&
           access(file, R_OK) == 0;
}

bool prs_nvshmem_plugins(const char *given, char *out)
{
    /* From the folder of this program: the build's, then the installation's. */
    static const char *const places[] = {"../lib/nvshmem", "../" PERSEUS_LIBDIR "/perseus/nvshmem"};
    char program[PRS_NVSHMEM_PATH_BYTES], candidate[2 * PRS_NVSHMEM_PATH_BYTES];
    if (given != NULL) {
        if (realpath(given, out) != NULL && holds_transports(out)) {
            return true;
        }
        fprintf(stderr, "%s holds no transports (nvshmem_transport_libfabric.so.%d)\n", given,
                PRS_INTERFACE_FIRST);
        return false;
    }
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    program[bytes > 0 ? bytes : 0] = '\0';
    char *slash = strrchr(program, '/');
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof places[0]; i++) {
        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)(slash - program), program,
                 places[i]);
        if (realpath(candidate, out) != NULL && holds_transports(out)) {
            return true;
        }
    }
    fprintf(stderr, "the NVSHMEM transports are not beside this program: name their folder with "
                    "--plugins\n");
    return false;
}

static bool holds_host(const char *folder)
{
    DIR *directory = opendir(folder);
    bool found = false;
    for (struct dirent *entry;
         directory != NULL && !found && (entry = readdir(directory)) != NULL;) {
        found = strncmp(entry->d_name, "libnvshmem_host.so", 18) == 0;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return found;
}

bool prs_nvshmem_host_folder(const char *command, const char *given, char *out)
{
    static const char *const below[] = {"", "/lib", "/lib64", "/nvidia/nvshmem/lib"};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        int bytes = snprintf(out, PRS_NVSHMEM_PATH_BYTES, "%s%s", given, below[i]);
        if (bytes < PRS_NVSHMEM_PATH_BYTES && holds_host(out)) {
            return true;
        }
    }
    fprintf(stderr,
            "%s: there is no libnvshmem_host.so in %s, nor in lib, lib64 or nvidia/nvshmem/lib "
            "below it: name an NVSHMEM's lib folder, its prefix, or its wheel's root\n",
            command, given);
    return false;
}

/* 0: it has no transports. */
static int find_interface(const char *folder)
{
    DIR *directory = opendir(folder);
    int major = 0;
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name, *dot = strrchr(name, '.');
        if (strncmp(name, "nvshmem_transport_", 18) == 0 && dot != NULL && dot[1] >= '1' &&
            dot[1] <= '9' && strspn(dot + 1, "0123456789") == strlen(dot + 1)) {
            int found = atoi(dot + 1);
            major = found > major ? found : major;
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return major;
}

bool prs_nvshmem_majors_find(const char *command, const char *folder,
                             struct prs_nvshmem_majors *out)
{
    int major = folder != NULL ? find_interface(folder) : 0;
    if (major != 0 && prs_interface_find(major) == NULL) {
        fprintf(stderr,
                "%s: the NVSHMEM in %s speaks transport interface %d, Perseus speaks %d (NVSHMEM "
                "%s) to %d (NVSHMEM %s): use one of those, or NVSHMEM's own transport\n",
                command, folder, major, PRS_INTERFACE_FIRST,
                prs_interface_find(PRS_INTERFACE_FIRST)->nvshmem, PRS_INTERFACE_LAST,
                prs_interface_find(PRS_INTERFACE_LAST)->nvshmem);
        return false;
    }
    *out = major != 0 ? (struct prs_nvshmem_majors){major, major}
                      : (struct prs_nvshmem_majors){PRS_INTERFACE_FIRST, PRS_INTERFACE_LAST};
    return true;
}
