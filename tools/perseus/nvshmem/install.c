/* SPDX-License-Identifier: Apache-2.0 */
/* perseus nvshmem-install: links the transports beside an NVSHMEM host library, and takes them away
 * again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvshmem/commands.h"
#include "kit/exit.h"
#include "nvshmem/files.h"
#include "nvshmem/nv_options.h"

#define STOCK_SUFFIX ".perseus-saved"

static bool exists(const char *path)
{
    struct stat what;
    return lstat(path, &what) == 0;
}

static bool points_to(const char *path, const char *target)
{
    char found[PRS_NVSHMEM_PATH_BYTES];
    ssize_t bytes = readlink(path, found, sizeof found - 1);
    found[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 && strcmp(found, target) == 0;
}

/* A link to a transport of any Perseus build. */
static bool is_our_link(const char *path)
{
    char target[PRS_NVSHMEM_PATH_BYTES];
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = '\0';
    return strstr(target, "/nvshmem/nvshmem_transport_") != NULL;
}

static int failed(const char *what, const char *path)
{
    fprintf(stderr, "perseus nvshmem-install: cannot %s %s: %s\n", what, path, strerror(errno));
    return PRS_EXIT_FAILED;
}

/* The link is made under another name and renamed: at no moment is there no transport. */
static int install_one(const char *ours, const char *path)
{
    char saved[PRS_NVSHMEM_PATH_BYTES + 32], fresh[PRS_NVSHMEM_PATH_BYTES + 32];
    snprintf(saved, sizeof saved, "%s" STOCK_SUFFIX, path);
    snprintf(fresh, sizeof fresh, "%s.perseus-new", path);
    if (points_to(path, ours)) {
        printf("%s: linked already\n", path);
        return PRS_EXIT_OK;
    }
    if (exists(path) && !is_our_link(path) && !exists(saved) && link(path, saved) != 0) {
        return failed("save", path);
    }
    unlink(fresh);
    if (symlink(ours, fresh) != 0) {
        return failed("link", fresh);
    }
    if (rename(fresh, path) != 0) {
        int code = failed("replace", path);
        unlink(fresh);
        return code;
    }
    printf("%s -> %s%s\n", path, ours, exists(saved) ? " (the file that was there is saved)" : "");
    return PRS_EXIT_OK;
}

static int undo_one(const char *path)
{
    char saved[PRS_NVSHMEM_PATH_BYTES + 32];
    snprintf(saved, sizeof saved, "%s" STOCK_SUFFIX, path);
    if (exists(saved)) {
        if (rename(saved, path) != 0) {
            return failed("restore", path);
        }
        printf("%s: restored\n", path);
    } else if (is_our_link(path)) {
        if (unlink(path) != 0) {
            return failed("remove", path);
        }
        printf("%s: removed\n", path);
    }
    return PRS_EXIT_OK;
}

static int for_each(const char *folder, const char *plugins, struct prs_nvshmem_majors majors,
                    bool undo)
{
    static const char *const transports[] = {"libfabric", "ibrc"};
    int code = PRS_EXIT_OK;
    for (int each = majors.first; each <= majors.last; each++) {
        for (size_t i = 0; i < 2 && code == PRS_EXIT_OK; i++) {
            char path[PRS_NVSHMEM_PATH_BYTES], ours[PRS_NVSHMEM_PATH_BYTES];
            if (!prs_nvshmem_file(folder, transports[i], each, path) ||
                !prs_nvshmem_file(plugins, transports[i], each, ours)) {
                fprintf(stderr, "perseus nvshmem-install: a path is too long\n");
                return PRS_EXIT_FAILED;
            }
            code = undo ? undo_one(path) : install_one(ours, path);
        }
    }
    return code;
}

int prs_tool_nvshmem_install(int argc, char **argv)
{
    static const struct prs_nv_command_text text = {
        .command = PRS_NV_INSTALL,
        .name = "perseus nvshmem-install",
        .operands = "DIR",
        .summary =
            "Links the Perseus transports beside libnvshmem_host.so, under the names of NVSHMEM's "
            "own\n(libfabric and ibrc), which are saved. DIR: that library's folder, the "
            "installation's\nprefix, or its wheel's root. For where LD_PRELOAD (perseus "
            "nvshmem-env) is not possible.",
    };
    struct prs_nv_options options;
    struct prs_nvshmem_majors majors;
    int rest, exit_code;
    if (!prs_nv_options_parse(&text, argc, argv, &options, &rest, &exit_code)) {
        return exit_code;
    }
    if (argc - rest != 1) {
        return prs_nv_options_mistake(&text, "name one folder, that of libnvshmem_host.so", "");
    }
    char folder[PRS_NVSHMEM_PATH_BYTES], plugins[PRS_NVSHMEM_PATH_BYTES] = "";
    if (!prs_nvshmem_host_folder(text.name, argv[rest], folder) ||
        !prs_nvshmem_majors_find(text.name, folder, &majors) ||
        (!options.undo && !prs_nvshmem_plugins(options.plugins, plugins))) {
        return PRS_EXIT_FAILED;
    }
    return for_each(folder, plugins, majors, options.undo);
}
