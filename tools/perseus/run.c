/* SPDX-License-Identifier: Apache-2.0 */
/* perseus run: starts a program as the PEs of one job on this host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "command.h"
#include "kit/exit.h"
#include "kit/launch.h"
#include "kit/options.h"
#include "kit/tool_log.h"

/* What shells return for a program that is not there, or cannot be run. */
enum { EXIT_NOT_FOUND = 127, EXIT_CANNOT_RUN = 126 };

struct run_options {
    uint32_t n, pes_per_node;
    uint32_t timeout_s, grace_s;
};

/* A terminal belongs to the launcher's process group: a PE that read it would be stopped. */
static void choose_stdin(int rank)
{
    if (rank == 0 && !isatty(STDIN_FILENO)) {
        return;
    }
    int fd = open("/dev/null", O_RDONLY);
    if (fd >= 0) {
        dup2(fd, STDIN_FILENO);
        close(fd);
    }
}

static int become_program(int rank, void *context)
{
    char **argv = context;
    choose_stdin(rank);
    execvp(argv[0], argv);
    int error = errno;
    if (rank == 0) {
        fprintf(stderr, "perseus run: cannot start %s: %s\n", argv[0], strerror(error));
    }
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int prs_tool_run(int argc, char **argv)
{
    struct run_options options = {.grace_s = 5};
    const struct prs_option table[] = {
        {"n", "N", "number of PEs", prs_parse_count, &options.n},
        {"pes-per-node", "K",
         "PEs that share a node: [0,K) are node 0, [K,2K) node 1, ...\n"
         "as if on different hosts (default: all PEs are one node)",
         prs_parse_count, &options.pes_per_node},
        {"timeout", "S", "ends the job after S seconds, with exit code 124", prs_parse_count,
         &options.timeout_s},
        {"grace", "S",
         "when a PE fails, the others have S seconds to end by\n"
         "themselves, S more after SIGTERM, then SIGKILL (default: 5)",
         prs_parse_count, &options.grace_s},
    };
    const struct prs_command command = {
        .name = "perseus run",
        .operands = "-- PROGRAM [ARGUMENTS]",
        .summary =
            "Starts PROGRAM as N PEs on this host and serves their start-up. Ends when all have\n"
            "ended: with 0, or like the first PE that failed (128 + signal number if one killed\n"
            "it). Passes SIGINT, SIGTERM, SIGHUP and SIGQUIT on; a second one kills. PE 0 has "
            "this\n"
            "program's standard input, unless that is a terminal.",
        .options = table,
        .n_options = sizeof table / sizeof *table,
    };
    int rest, exit_code;
    if (!prs_command_parse(&command, argc, argv, &rest, &exit_code)) {
        return exit_code;
    }
    if (options.n == 0) {
        return prs_command_mistake(&command, "say how many PEs: -n N");
    }
    if (rest == argc) {
        return prs_command_mistake(&command, "say which program: -- PROGRAM [ARGUMENTS]");
    }
    if (options.pes_per_node > 0) {
        char text[16];
        snprintf(text, sizeof text, "%u", options.pes_per_node);
        setenv(prs_env_row(PRS_ENV_PES_PER_NODE)->name, text, 1);
    }
    const struct prs_log log = prs_tool_log();
    const struct prs_launch launch = {
        .size = (int)options.n,
        .pe_main = become_program,
        .context = argv + rest,
        .grace_ms = options.grace_s * 1000,
        .timeout_ms = options.timeout_s * 1000,
        .owns_groups = true,
    };
    return prs_launch(&launch, &log);
}
