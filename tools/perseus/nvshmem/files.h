/* SPDX-License-Identifier: Apache-2.0 */
/* nvshmem/files.h: where the built NVSHMEM transports are, and what an NVSHMEM installation
 * holds. */
#ifndef PRS_TOOLS_NVSHMEM_FILES_H
#define PRS_TOOLS_NVSHMEM_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define PRS_NVSHMEM_PATH_BYTES 4096

bool prs_nvshmem_is_transport(const char *name); /* "libfabric", "ibrc" */

/* The folder of the transports, without end slash: `given`, or as built or installed beside this
 * program. False after a message on stderr. */
bool prs_nvshmem_plugins(const char *given, char *out);
/* "FOLDER/nvshmem_transport_NAME.so.MAJOR"; `folder` NULL: the file name alone. False if too
 * long. */
bool prs_nvshmem_file(const char *folder, const char *transport, int major, char *out);
/* Adds `word` to a list with colons, as LD_PRELOAD is one. False if it does not fit. */
bool prs_nvshmem_list_add(char *list, size_t list_bytes, const char *word);

/* The folder of libnvshmem_host.so in an NVSHMEM, which `given` names in any of these ways: that
 * folder, an installation's prefix, a wheel's root (nvidia/nvshmem), or the site-packages around
 * it. False after a message on stderr that begins with `command`. */
bool prs_nvshmem_host_folder(const char *command, const char *given, char *out);

struct prs_nvshmem_majors {
    int first, last;
};
/* The interfaces to serve the NVSHMEM in `folder` with, which is a host folder: the one it speaks,
 * read off its own transports' file names; all that Perseus speaks, if it has none, or `folder` is
 * NULL. False, after a message on stderr that begins with `command` and names both sides' versions,
 * when Perseus does not speak it. */
bool prs_nvshmem_majors_find(const char *command, const char *folder,
                             struct prs_nvshmem_majors *out);

#endif
