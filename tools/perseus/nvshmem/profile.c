/* SPDX-License-Identifier: Apache-2.0 */
/* perseus nvshmem-profile: runs an NVSHMEM program with its transport under the profiler, and
 * reports. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvshmem/commands.h"
#include "kit/exit.h"
#include "host/interface.h"
#include "nvshmem/files.h"
#include "nvshmem/report.h"
#include "nvshmem/nv_options.h"

#define RECORDS_MAX 4096

/* ---- the program's environment ---- */

static bool is_transport_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash != NULL ? slash + 1 : path, "nvshmem_transport_", 18) == 0;
}

/* What LD_PRELOAD holds, without transports; the folder of the first of those goes to `inner`. */
static bool split_preload(char *rest, size_t rest_bytes, char *inner, size_t inner_bytes)
{
    bool fits = true;
    const char *before = getenv("LD_PRELOAD");
    char *copy = strdup(before != NULL ? before : ""), *position = NULL;
    rest[0] = inner[0] = '\0';
    for (char *word = copy != NULL ? strtok_r(copy, ": ", &position) : NULL; word != NULL;
         word = strtok_r(NULL, ": ", &position)) {
        char *slash = strrchr(word, '/');
        if (!is_transport_file(word)) {
            fits = prs_nvshmem_list_add(rest, rest_bytes, word) && fits;
        } else if (inner[0] == '\0' && slash != NULL) {
            snprintf(inner, inner_bytes, "%.*s", (int)(slash - word), word);
        }
    }
    free(copy);
    return fits;
}

/* Every name of every interface that the profiler has a file for; how many, or -1: they do not
 * fit. */
static int add_shims(const char *folder, char *list, size_t list_bytes)
{
    static const char *const names[] = {"libfabric", "ibrc", "ucx", "ibdevx", "gpunetio"};
    int n = 0;
    for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            char file[PRS_NVSHMEM_PATH_BYTES];
            if (!prs_nvshmem_file(folder, names[i], major, file)) {
                return -1;
            }
            if (access(file, R_OK) != 0) {
                continue;
            }
            if (!prs_nvshmem_list_add(list, list_bytes, file)) {
                return -1;
            }
            n++;
        }
    }
    return n;
}

/* The profiler's files take the transports' names; what they wrap is found through the
 * environment. */
static bool set_environment(const char *plugins, const char *transport, const char *records)
{
    char preload[32 * PRS_NVSHMEM_PATH_BYTES] = "", rest[PRS_NVSHMEM_PATH_BYTES];
    char inner[PRS_NVSHMEM_PATH_BYTES], folder[PRS_NVSHMEM_PATH_BYTES + 16];
    bool fits = split_preload(rest, sizeof rest, inner, sizeof inner);
    snprintf(folder, sizeof folder, "%s/profile", plugins);
    int found = add_shims(folder, preload, sizeof preload);
    if (found <= 0) {
        fprintf(stderr,
                found == 0 ? "perseus nvshmem-profile: %s lacks the profiler's files\n"
                           : "perseus nvshmem-profile: %s: the path is too long\n",
                folder);
        return false;
    }
    if (!fits || (rest[0] != '\0' && !prs_nvshmem_list_add(preload, sizeof preload, rest))) {
        fprintf(stderr, "perseus nvshmem-profile: LD_PRELOAD would become too long\n");
        return false;
    }
    const char *wrapped = strcmp(transport, "there") == 0     ? inner
                          : strcmp(transport, "perseus") == 0 ? plugins
                          : strcmp(transport, "stock") == 0   ? ""
                                                              : transport;
    if (strcmp(transport, "perseus") == 0) {
        setenv("NVSHMEM_REMOTE_TRANSPORT", "libfabric", 0);
    }
    return setenv("LD_PRELOAD", preload, 1) == 0 &&
           setenv("PERSEUS_PROFILE_INNER", wrapped, 1) == 0 &&
           setenv("PERSEUS_PROFILE_DIR", records, 1) == 0;
}

static int run_program(char **argv, const char *plugins, const char *transport, const char *records)
{
    pid_t child = fork();
    if (child == 0) {
        if (!set_environment(plugins, transport, records)) {
            _exit(PRS_EXIT_FAILED);
        }
        execvp(argv[0], argv);
        fprintf(stderr, "perseus nvshmem-profile: cannot start %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child < 0           ? PRS_EXIT_FAILED
           : WIFEXITED(status) ? WEXITSTATUS(status)
                               : 128 + WTERMSIG(status);
}

/* ---- the records ---- */

static int by_pe(const void *a, const void *b)
{
    const struct prs_nvshmem_record *left = a, *right = b;
    return left->head->pe - right->head->pe;
}

/* Opens what the PEs left, sorted by PE; `remove`: and removes the folder. */
static int collect(const char *folder, bool remove, struct prs_nvshmem_record *records)
{
    DIR *directory = opendir(folder);
    int n = 0;
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[PRS_NVSHMEM_PATH_BYTES];
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n < RECORDS_MAX && prs_nvshmem_record_open(path, &records[n])) {
            n++;
        }
        if (remove) {
            unlink(path);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (remove) {
        rmdir(folder);
    }
    qsort(records, (size_t)n, sizeof *records, by_pe);
    return n;
}

/* ---- the command ---- */

/* What --out names. */
struct files {
    char json[PRS_NVSHMEM_PATH_BYTES], trace[PRS_NVSHMEM_PATH_BYTES];
    struct prs_output outputs[2]; /* the same two; no paths without --out */
};

static void name_files(const char *prefix, struct files *out)
{
    *out = (struct files){.outputs = {{.option = "--out"}, {.option = "--out"}}};
    if (prefix != NULL) {
        snprintf(out->json, sizeof out->json, "%s.json", prefix);
        snprintf(out->trace, sizeof out->trace, "%s.trace.json", prefix);
        out->outputs[0].path = out->json;
        out->outputs[1].path = out->trace;
    }
}

static bool report(const struct prs_nvshmem_record *records, int n, const struct files *files)
{
    prs_nvshmem_print(records, n, stdout);
    if (files->outputs[0].path == NULL) {
        return true;
    }
    if (!prs_nvshmem_write_json(records, n, &files->outputs[0]) ||
        !prs_nvshmem_write_trace(records, n, &files->outputs[1])) {
        return false;
    }
    printf("written: %s, %s (open it in ui.perfetto.dev)\n", files->json, files->trace);
    return true;
}

/* Runs the program, unless records of other runs are to be reported. */
static int run_and_collect(const struct prs_nv_options *options, char **program,
                           struct prs_nvshmem_record *records, int *out_n)
{
    char plugins[PRS_NVSHMEM_PATH_BYTES], folder[] = "/tmp/perseus-profile-XXXXXX";
    *out_n = 0;
    if (options->records != NULL) {
        *out_n = collect(options->records, false, records);
        return PRS_EXIT_OK;
    }
    if (!prs_nvshmem_plugins(options->plugins, plugins) || mkdtemp(folder) == NULL) {
        return PRS_EXIT_FAILED;
    }
    int code = run_program(program, plugins, options->transport, folder);
    *out_n = collect(folder, true, records);
    if (*out_n == 0) {
        fprintf(stderr, "perseus nvshmem-profile: no PE used a remote transport: is "
                        "NVSHMEM_REMOTE_TRANSPORT\nset, and are there PEs that peer-to-peer access "
                        "does not reach (NVSHMEM_DISABLE_P2P=1)?\n");
        code = code != 0 ? code : PRS_EXIT_FAILED;
    }
    return code;
}

int prs_tool_nvshmem_profile(int argc, char **argv)
{
    static const struct prs_nv_command_text text = {
        .command = PRS_NV_PROFILE,
        .name = "perseus nvshmem-profile",
        .operands = "-- PROGRAM [ARGUMENTS]",
        .summary =
            "Runs an NVSHMEM program (mpirun too, on this host) and reports what its proxy "
            "threads\ndid: calls, bytes and time per kind and peer, the time lost in fences, "
            "what was in\nflight when each came, and what Perseus would save.",
    };
    struct prs_nv_options options;
    int rest, exit_code, n = 0;
    if (!prs_nv_options_parse(&text, argc, argv, &options, &rest, &exit_code)) {
        return exit_code;
    }
    options.transport = options.transport != NULL ? options.transport : "there";
    if ((rest < argc) == (options.records != NULL)) {
        return prs_nv_options_mistake(&text, "name the program to run, or a folder of records", "");
    }
    struct files files;
    name_files(options.prefix, &files);
    if (!prs_output_check(files.outputs, 2)) {
        return PRS_EXIT_FAILED;
    }
    struct prs_nvshmem_record *records = calloc(RECORDS_MAX, sizeof *records);
    if (records == NULL) {
        return PRS_EXIT_FAILED;
    }
    int code = run_and_collect(&options, argv + rest, records, &n);
    if (n > 0 && !report(records, n, &files)) {
        code = code != 0 ? code : PRS_EXIT_FAILED;
    }
    if (n == 0 && options.records != NULL) {
        fprintf(stderr, "perseus nvshmem-profile: %s holds no records (pe-N.profile)\n",
                options.records);
        code = PRS_EXIT_FAILED;
    }
    for (int i = 0; i < n; i++) {
        prs_nvshmem_record_close(&records[i]);
    }
    free(records);
    return code;
}
