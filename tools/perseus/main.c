/* SPDX-License-Identifier: Apache-2.0 */
/* The program `perseus`: finds the sub-command and hands over. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perseus/perseus.h>

#include "kit/exit.h"
#include "kit/output.h"
#include "module.h"
#include "nvshmem/commands.h"

struct row {
    const char *group, *name;          /* group NULL: perseus NAME, else perseus GROUP NAME */
    int (*run)(int argc, char **argv); /* NULL: it is `function` of a module (module.h) */
    const char *module, *function;
    const char *summary;
};

/* A sub-command is a row here and a file of its own. */
static const struct row rows[] = {
    {NULL, "info", NULL, "jobs", "prs_tool_info",
     "fabrics here, what each grants, and the ordering mode to use"},
    {NULL, "run", NULL, "jobs", "prs_tool_run", "a program as the PEs of one job on this host"},
    {NULL, "unique-id", NULL, "jobs", "prs_tool_unique_id",
     "what PEs on several hosts need to find each other"},
    {NULL, "moe", NULL, "moe", "prs_tool_moe",
     "a Mixture-of-Experts layer across PEs, vanilla against Perseus, results checked"},
    {NULL, "sim", NULL, "sim", "prs_tool_sim",
     "a cluster that is not here, in virtual time, beside the paper's numbers"},
    {NULL, "nvshmem-env", prs_tool_nvshmem_env, NULL, NULL,
     "the shell lines that put Perseus under unchanged NVSHMEM programs"},
    {NULL, "nvshmem-install", prs_tool_nvshmem_install, NULL, NULL,
     "links the transports beside an NVSHMEM library, and undoes it"},
    {NULL, "nvshmem-profile", prs_tool_nvshmem_profile, NULL, NULL,
     "what an NVSHMEM program's proxy does, and what Perseus would save"},
    {"bench", "put-signal", NULL, "jobs", "prs_tool_bench_put_signal",
     "what share of the put-only ceiling each protocol and ordering mode leaves"},
    {"bench", "alltoall", NULL, "jobs", "prs_tool_bench_alltoall",
     "a dispatch-shaped all-to-all, latency and bandwidth fitted"},
    {"bench", "ring", NULL, "jobs", "prs_tool_bench_ring",
     "descriptors per second through the channel ring"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* With --device these hand over to another one. */
static const struct {
    const char *function, *device_function;
} devices[] = {
    {"prs_tool_bench_put_signal", "prs_tool_bench_put_signal_cuda"},
    {"prs_tool_bench_ring", "prs_tool_bench_ring_cuda"},
};

static bool is_in_group(const struct row *row, const char *group)
{
    return group == NULL || (row->group != NULL && strcmp(row->group, group) == 0);
}

static void print_usage(FILE *to, const char *group)
{
    fprintf(to, "usage: perseus%s%s COMMAND [options]\n\n", group != NULL ? " " : "",
            group != NULL ? group : "");
    for (size_t i = 0; i < N_ROWS; i++) {
        if (is_in_group(&rows[i], group)) {
            char words[64];
            snprintf(words, sizeof words, "%s%s%s", rows[i].group != NULL ? rows[i].group : "",
                     rows[i].group != NULL ? " " : "", rows[i].name);
            fprintf(to, "  perseus %-18s %s\n", words, rows[i].summary);
        }
    }
    fprintf(to, "\nperseus COMMAND --help tells the options of one, perseus --version the version."
                "\nExit code: 0 done, 1 failed, 2 wrong usage.\n");
}

static const struct row *find_row(const char *group, const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        bool is_same_group = group == NULL ? rows[i].group == NULL : is_in_group(&rows[i], group);
        if (is_same_group && strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool is_group(const char *word)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].group != NULL && strcmp(rows[i].group, word) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * For us and for every PE that we start, which inherit it: ofi_rxm posts 128 receive buffers of 16
 * KiB on every connection, for messages that Perseus never sends: 5 MiB a peer, 88 MiB in a job of
 * 16 PEs. The environment is the provider's only way, and the library must not write it: its
 * process has threads by then. A value that the user has set stays.
 */
static void trim_rxm(void)
{
    setenv("FI_OFI_RXM_BUFFER_SIZE", "1024", 0);
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 0);
}

/* Whether the command's options ask for kernels; the module says what else there may be. */
static bool wants_device(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--device") == 0 || strncmp(argv[i], "--device=", 9) == 0) {
            return true;
        }
    }
    return false;
}

static int hand_over(const struct row *row, int argc, char **argv)
{
    if (row->run != NULL) {
        return row->run(argc, argv);
    }
    for (size_t i = 0; i < sizeof devices / sizeof devices[0] && wants_device(argc, argv); i++) {
        if (strcmp(devices[i].function, row->function) == 0) {
            return prs_module_run("cuda", devices[i].device_function, argc, argv);
        }
    }
    return prs_module_run(row->module, row->function, argc, argv);
}

static int run(int argc, char **argv)
{
    trim_rxm();
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        puts("perseus " PERSEUS_VERSION_STRING);
        return PRS_EXIT_OK;
    }
    const char *group = argc >= 2 && is_group(argv[1]) ? argv[1] : NULL;
    int at = group != NULL ? 2 : 1;
    if (argc <= at) {
        print_usage(stderr, group);
        return PRS_EXIT_USAGE;
    }
    if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "help") == 0) {
        print_usage(stdout, group);
        return PRS_EXIT_OK;
    }
    const struct row *row = find_row(group, argv[at]);
    if (row == NULL) {
        fprintf(stderr, "perseus: no command \"%s%s%s\"; see perseus --help\n",
                group != NULL ? group : "", group != NULL ? " " : "", argv[at]);
        return PRS_EXIT_USAGE;
    }
    return hand_over(row, argc - at, argv + at);
}

/* With it a file that grows beyond `ulimit -f` is an error of the write, which says so. A handler,
 * as PEs of `run` would inherit SIG_IGN. */
static void go_on(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    prs_output_begin();
    signal(SIGXFSZ, go_on);
    /* Libraries that libfabric loads (libinfinipath) turn these into exit code 1. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    int exit_code = run(argc, argv);
    if (!prs_output_end_stdout() && exit_code == PRS_EXIT_OK) {
        exit_code = PRS_EXIT_FAILED;
    }
    return exit_code;
}
