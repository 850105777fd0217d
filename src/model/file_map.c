/* SPDX-License-Identifier: Apache-2.0 */
#include "model/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum perseus_status prs_file_map_init(struct prs_file_map *map, const char *path,
                                      const struct prs_log *log)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return prs_fail(log, PERSEUS_IO, "cannot open %s: %s", path, strerror(errno));
    }
    enum perseus_status status = PERSEUS_OK;
    struct stat about;
    void *bytes = NULL;
    if (fstat(fd, &about) != 0) {
        status = prs_fail(log, PERSEUS_IO, "cannot look at %s: %s", path, strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        status = prs_fail(log, PERSEUS_IO, "%s is not a regular file", path);
    } else if (about.st_size > 0) {
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            status = prs_fail(log, PERSEUS_IO, "cannot map %s: %s", path, strerror(errno));
        }
    }
    close(fd);
    if (status == PERSEUS_OK) {
        *map = (struct prs_file_map){.bytes = bytes, .size = (size_t)about.st_size};
    }
    return status;
}

void prs_file_map_finish(struct prs_file_map *map)
{
    if (map->bytes != NULL) {
        munmap((void *)map->bytes, map->size);
    }
    *map = (struct prs_file_map){0};
}
