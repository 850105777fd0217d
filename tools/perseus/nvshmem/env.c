/* SPDX-License-Identifier: Apache-2.0 */
/* perseus nvshmem-env: the shell lines that put Perseus under NVSHMEM programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvshmem/commands.h"
#include "kit/exit.h"
#include "nvshmem/files.h"
#include "nvshmem/nv_options.h"

/* In single quotes, as every shell takes it. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*text);
        }
    }
    putchar('\'');
}

static void print_export(const char *name, const char *value)
{
    printf("export %s=", name);
    print_quoted(value);
    putchar('\n');
}

/* The object whose SONAME NVSHMEM asks for is found first when it is loaded already. Of an unknown
 * NVSHMEM, all versions are: it asks for the one it speaks. */
static bool print_preload(const char *plugins, const char *transport,
                          struct prs_nvshmem_majors majors)
{
    char list[5 * PRS_NVSHMEM_PATH_BYTES] = "", file[PRS_NVSHMEM_PATH_BYTES];
    for (int each = majors.first; each <= majors.last; each++) {
        if (!prs_nvshmem_file(plugins, transport, each, file) ||
            !prs_nvshmem_list_add(list, sizeof list, file)) {
            fprintf(stderr, "perseus nvshmem-env: the path of the transports is too long\n");
            return false;
        }
    }
    if (strpbrk(plugins, " :") != NULL) {
        fprintf(stderr, "perseus nvshmem-env: LD_PRELOAD cannot hold spaces or colons, as in %s\n",
                plugins);
        return false;
    }
    printf("export LD_PRELOAD=");
    print_quoted(list);
    puts("${LD_PRELOAD:+:$LD_PRELOAD}");
    return true;
}

/* The interfaces of the NVSHMEM that the program will use, as far as known: the one that was given,
 * or NVSHMEM_HOME's, if that is one. */
static bool find_majors(const char *command, const char *given, struct prs_nvshmem_majors *out)
{
    const char *home = getenv("NVSHMEM_HOME");
    const char *where = given != NULL || home == NULL || home[0] == '\0' ? given : home;
    char folder[PRS_NVSHMEM_PATH_BYTES];
    if (where == NULL || (given == NULL && access(where, R_OK) != 0)) {
        return prs_nvshmem_majors_find(command, NULL, out);
    }
    return prs_nvshmem_host_folder(command, where, folder) &&
           prs_nvshmem_majors_find(command, folder, out);
}

static const char *heap_kind(const char *heap)
{
    return strcmp(heap, "system") == 0 ? "SYSMEM" : strcmp(heap, "device") == 0 ? "DEVICE" : NULL;
}

int prs_tool_nvshmem_env(int argc, char **argv)
{
    static const struct prs_nv_command_text text = {
        .command = PRS_NV_ENV,
        .name = "perseus nvshmem-env",
        .summary = "Prints the lines that make NVSHMEM programs use Perseus, unchanged:\n"
                   "  eval \"$(perseus nvshmem-env --provider tcp)\"\n"
                   "  mpirun ./program",
    };
    struct prs_nv_options options;
    int exit_code;
    if (!prs_nv_options_parse(&text, argc, argv, &options, NULL, &exit_code)) {
        return exit_code;
    }
    const char *transport = options.transport != NULL ? options.transport : "libfabric";
    if (!prs_nvshmem_is_transport(transport)) {
        return prs_nv_options_mistake(&text, "--transport takes libfabric or ibrc, not ",
                                      transport);
    }
    if (options.heap != NULL && heap_kind(options.heap) == NULL) {
        return prs_nv_options_mistake(&text, "--heap takes device or system, not ", options.heap);
    }
    char plugins[PRS_NVSHMEM_PATH_BYTES];
    struct prs_nvshmem_majors majors;
    if (!prs_nvshmem_plugins(options.plugins, plugins) ||
        !find_majors(text.name, options.nvshmem, &majors) ||
        !print_preload(plugins, transport, majors)) {
        return PRS_EXIT_FAILED;
    }
    print_export("NVSHMEM_REMOTE_TRANSPORT", transport);
    if (options.heap != NULL) {
        print_export("NVSHMEM_HEAP_KIND", heap_kind(options.heap));
    }
    if (options.provider != NULL) {
        print_export("PERSEUS_PROVIDER", options.provider);
    }
    if (options.ordering != NULL) {
        print_export("PERSEUS_ORDERING", options.ordering);
    }
    return PRS_EXIT_OK;
}
