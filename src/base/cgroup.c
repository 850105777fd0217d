/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE_BYTES = 4096 };

/* Whether the comma-separated `list` has the word. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        bool begins = at == list || at[-1] == ',';
        if (begins && (at[length] == '\0' || at[length] == ',')) {
            return true;
        }
    }
    return false;
}

static FILE *open_below(const char *root, const char *path)
{
    char name[PRS_CGROUP_PATH_BYTES];
    int n = snprintf(name, sizeof name, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof name ? fopen(name, "re") : NULL;
}

/* The path of the process's group in the tree of `controller`: lines "4:memory:/a/b" in version 1,
 * "0::/a/b" in version 2. */
static bool find_path(const char *root, const char *controller, int version,
                      char out[PRS_CGROUP_PATH_BYTES])
{
    char line[LINE_BYTES];
    bool is_found = false;
    FILE *file = open_below(root, "/proc/self/cgroup");
    while (file != NULL && !is_found && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        controllers++;
        path[strcspn(path, "\n")] = '\0';
        bool is_ours = version == 2 ? strncmp(line, "0:", 2) == 0 && controllers[0] == '\0'
                                    : has_word(controllers, controller);
        if (is_ours && strlen(path) < PRS_CGROUP_PATH_BYTES) {
            memcpy(out, path, strlen(path) + 1);
            is_found = true;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return is_found;
}

/* Where that tree is mounted, and which of its groups is the root of the mount: a line of mountinfo
 * is "id parent dev ROOT POINT options... - TYPE source OPTIONS". */
static bool find_mount(const char *root, const char *controller, int version,
                       char out_point[PRS_CGROUP_PATH_BYTES], char out_top[PRS_CGROUP_PATH_BYTES])
{
    char line[LINE_BYTES], type[32], options[512];
    bool is_found = false;
    FILE *file = open_below(root, "/proc/self/mountinfo");
    while (file != NULL && !is_found && fgets(line, sizeof line, file) != NULL) {
        const char *behind = strstr(line, " - ");
        if (behind == NULL || sscanf(line, "%*s %*s %*s %1023s %1023s", out_top, out_point) != 2 ||
            sscanf(behind, " - %31s %*s %511s", type, options) != 2) {
            continue;
        }
        is_found = version == 2 ? strcmp(type, "cgroup2") == 0
                                : strcmp(type, "cgroup") == 0 && has_word(options, controller);
    }
    if (file != NULL) {
        fclose(file);
    }
    return is_found;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool find_version(const char *root, const char *controller, int version,
                         struct prs_cgroup *out)
{
    char path[PRS_CGROUP_PATH_BYTES], point[PRS_CGROUP_PATH_BYTES], top[PRS_CGROUP_PATH_BYTES];
    if (!find_path(root, controller, version, path) ||
        !find_mount(root, controller, version, point, top)) {
        return false;
    }
    /* In a container the mount's root often is the group itself. */
    size_t top_length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    const char *rest = strncmp(path, top, top_length) == 0 ? path + top_length : "";
    rest = strcmp(rest, "/") == 0 || strstr(rest, "..") != NULL ? "" : rest;
    int n = snprintf(out->topmost, sizeof out->topmost, "%s%s", root, point);
    int m = snprintf(out->folder, sizeof out->folder, "%s%s%s", root, point, rest);
    if (n < 0 || m < 0 || (size_t)n >= sizeof out->topmost || (size_t)m >= sizeof out->folder) {
        return false;
    }
    if (!is_folder(out->folder)) { /* the path is the host's, the mount the container's */
        memcpy(out->folder, out->topmost, (size_t)n + 1);
    }
    out->version = version;
    return is_folder(out->folder);
}

bool prs_cgroup_find(const char *root, const char *controller, struct prs_cgroup *out)
{
    /* A host with both has the controller in one of them; version 1 says which are there. */
    return find_version(root, controller, 1, out) || find_version(root, controller, 2, out);
}

bool prs_cgroup_up(struct prs_cgroup *group)
{
    char *slash = strrchr(group->folder, '/');
    if (slash == NULL || strlen(group->folder) <= strlen(group->topmost)) {
        return false;
    }
    *slash = '\0';
    return true;
}

static FILE *open_file(const struct prs_cgroup *group, const char *file)
{
    char name[PRS_CGROUP_PATH_BYTES + 64];
    snprintf(name, sizeof name, "%s/%s", group->folder, file);
    return fopen(name, "re");
}

void prs_cgroup_numbers(const struct prs_cgroup *group, const char *file, int n, uint64_t *out)
{
    char word[32];
    FILE *stream = open_file(group, file);
    for (int i = 0; stream != NULL && i < n && fscanf(stream, "%31s", word) == 1; i++) {
        bool is_number = word[0] >= '0' && word[0] <= '9';
        out[i] = is_number ? strtoull(word, NULL, 10) : UINT64_MAX;
    }
    if (stream != NULL) {
        fclose(stream);
    }
}

uint64_t prs_cgroup_field(const struct prs_cgroup *group, const char *file, const char *key)
{
    char word[64];
    uint64_t number = 0, found = 0;
    FILE *stream = open_file(group, file);
    while (stream != NULL && fscanf(stream, "%63s %" SCNu64, word, &number) == 2) {
        found = strcmp(word, key) == 0 ? number : found;
    }
    if (stream != NULL) {
        fclose(stream);
    }
    return found;
}
