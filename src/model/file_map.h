/* SPDX-License-Identifier: Apache-2.0 */
/* file_map.h: a whole file, read-only, in memory. */
#ifndef PRS_MODEL_FILE_MAP_H
#define PRS_MODEL_FILE_MAP_H

#include <stddef.h>

#include "base/log.h"

struct prs_file_map {
    const unsigned char *bytes; /* NULL if the file is empty */
    size_t size;
};

/* IO, with the file's name and the system's reason. */
enum perseus_status prs_file_map_init(struct prs_file_map *map, const char *path,
                                      const struct prs_log *log);
void prs_file_map_finish(struct prs_file_map *map);

#endif
