/* SPDX-License-Identifier: Apache-2.0 */
/* perseus nvshmem-env: the shell lines that put Perseus under NVSHMEM programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvshmem/commands.h"
#include "kit/exit.h"
#include "nvshmem/files.h"
#include "kit/options.h"

struct env_options {
    const char *transport, *provider, *ordering, *heap, *plugins, *nvshmem;
};

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

/* The object whose SONAME NVSHMEM asks for is found first when it is loaded already. Of an unknown NVSHMEM,
 * both versions are: it asks for the one it speaks. */
static bool print_preload(const char *plugins, const char *transport,
                          struct prs_nvshmem_majors majors)
{
    char list[2 * PRS_NVSHMEM_PATH_BYTES] = "", file[PRS_NVSHMEM_PATH_BYTES];
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

/* The lib folder of the NVSHMEM that the program will use, as far as known: NULL, or what was given, or
 * NVSHMEM_HOME's. */
static const char *nvshmem_folder(const char *given, char *buffer, size_t bytes)
{
    const char *home = getenv("NVSHMEM_HOME");
    if (given != NULL || home == NULL || home[0] == '\0') {
        return given;
    }
    snprintf(buffer, bytes, "%s/lib", home);
    return access(buffer, R_OK) == 0 ? buffer : NULL;
}

static const char *heap_kind(const char *heap)
{
    return strcmp(heap, "system") == 0 ? "SYSMEM" : strcmp(heap, "device") == 0 ? "DEVICE" : NULL;
}

int prs_tool_nvshmem_env(int argc, char **argv)
{
    struct env_options options = {.transport = "libfabric"};
    const struct prs_option table[] = {
        {"transport", "NAME", "libfabric (default) or ibrc: the transport to stand in for",
         prs_parse_text, &options.transport},
        {"provider", "NAME",
         "libfabric provider: tcp, sockets, shm, verbs, cxi, efa\n(default: the best one found)",
         prs_parse_text, &options.provider},
        {"ordering", "MODE",
         "auto (default), drain, drain-peer, deferred, nic-fence, fifo or counted;\ndrain is what "
         "NVSHMEM does by itself",
         prs_parse_text, &options.ordering},
        {"heap", "KIND", "device or system: where NVSHMEM puts the symmetric heap", prs_parse_text,
         &options.heap},
        {"nvshmem", "DIR",
         "lib folder of the NVSHMEM to be used: its interface is checked\n(default: "
         "NVSHMEM_HOME's, if that is set)",
         prs_parse_text, &options.nvshmem},
        {"plugins", "DIR", "where the built transports are (default: beside this program)",
         prs_parse_text, &options.plugins},
    };
    const struct prs_command command = {
        .name = "perseus nvshmem-env",
        .summary = "Prints the lines that make NVSHMEM programs use Perseus, unchanged:\n"
                   "  eval \"$(perseus nvshmem-env --provider tcp)\"\n"
                   "  mpirun ./program",
        .options = table,
        .n_options = sizeof table / sizeof *table,
    };
    int exit_code;
    if (!prs_command_parse(&command, argc, argv, NULL, &exit_code)) {
        return exit_code;
    }
    if (!prs_nvshmem_is_transport(options.transport)) {
        return prs_command_mistake(&command, "--transport %s: it takes libfabric or ibrc",
                                   options.transport);
    }
    if (options.heap != NULL && heap_kind(options.heap) == NULL) {
        return prs_command_mistake(&command, "--heap %s: it takes device or system", options.heap);
    }
    char plugins[PRS_NVSHMEM_PATH_BYTES];
    if (!prs_nvshmem_plugins(options.plugins, plugins)) {
        return PRS_EXIT_FAILED;
    }
    char home[PRS_NVSHMEM_PATH_BYTES];
    struct prs_nvshmem_majors majors;
    if (!prs_nvshmem_majors_find(command.name, nvshmem_folder(options.nvshmem, home, sizeof home),
                                 &majors) ||
        !print_preload(plugins, options.transport, majors)) {
        return PRS_EXIT_FAILED;
    }
    print_export("NVSHMEM_REMOTE_TRANSPORT", options.transport);
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
