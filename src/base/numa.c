/* SPDX-License-Identifier: Apache-2.0 */
#include "base/numa.h"

#include <limits.h>
#include <stdio.h>

int prs_numa_node_of(const char *device_folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/numa_node", device_folder);
    FILE *file = fopen(path, "re");
    int node = -1;
    if (file != NULL) {
        if (fscanf(file, "%d", &node) != 1) {
            node = -1;
        }
        fclose(file);
    }
    return node;
}
