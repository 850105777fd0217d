/* SPDX-License-Identifier: Apache-2.0 */
/* nvshmem/files.h: where the built NVSHMEM transports are, and what an NVSHMEM installation holds. */
#ifndef PRS_TOOLS_NVSHMEM_FILES_H
#define PRS_TOOLS_NVSHMEM_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define PRS_NVSHMEM_PATH_BYTES 4096

/* The names NVSHMEM knows, and the interface versions that Perseus speaks. */
enum { PRS_NVSHMEM_MAJOR_MIN = 3, PRS_NVSHMEM_MAJOR_MAX = 4 };
bool prs_nvshmem_is_transport(const char *name); /* "libfabric", "ibrc" */

/* The folder of the transports, without end slash: `given`, or as built or installed beside this program.
 * False after a message on stderr. */
bool prs_nvshmem_plugins(const char *given, char *out);
/* "FOLDER/nvshmem_transport_NAME.so.MAJOR"; `folder` NULL: the file name alone. False if too long. */
bool prs_nvshmem_file(const char *folder, const char *transport, int major, char *out);
/* Adds `word` to a list with colons, as LD_PRELOAD is one. False if it does not fit. */
bool prs_nvshmem_list_add(char *list, size_t list_bytes, const char *word);

struct prs_nvshmem_majors {
    int first, last;
};
/* The interfaces to serve the NVSHMEM in `folder` with: the one it speaks, read off its own transports' file
 * names; all that Perseus speaks, if it has none, or `folder` is NULL. False, after a message on stderr that
 * begins with `command` where it names both sides' versions, when Perseus does not speak it, or `folder` is
 * none with an NVSHMEM host library. */
bool prs_nvshmem_majors_find(const char *command, const char *folder,
                             struct prs_nvshmem_majors *out);

#endif
