/* nvshmem_files.h: where the built NVSHMEM transports are, and what an NVSHMEM installation holds. */
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

/* The interface that the NVSHMEM in `folder` speaks, read off its own transports' file names: 0 if there
 * are none. False, after a message on stderr, when it is no folder with an NVSHMEM host library. */
bool prs_nvshmem_interface(const char *folder, int *out_major);
/* Says on stderr that this interface is not spoken, naming both; returns the exit code 1. */
int prs_nvshmem_refuse(const char *command, const char *folder, int major);

#endif
