/* SPDX-License-Identifier: Apache-2.0 */
/* perseus bench alltoall: every PE sends its tokens to the experts they are routed to, one transfer
 * and one signal per remote expert: the shape of a mixture-of-experts dispatch. */
#include "bench/alltoall.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "bench/drive.h"
#include "bench/commands.h"
#include "kit/exit.h"
#include "kit/json_out.h"

enum { ELEMENT_BYTES = 2 /* bfloat16 */ };

/* ---- the workload ---- */

uint32_t prs_alltoall_home(const struct prs_alltoall *bench, uint32_t expert)
{
    return (uint32_t)((uint64_t)expert * bench->workload.n_pes / bench->experts);
}

static uint32_t *routed_at(const struct prs_alltoall *bench, uint32_t cell, uint32_t sender)
{
    return bench->routed + ((size_t)cell * bench->workload.n_pes + sender) * bench->experts;
}

uint32_t prs_alltoall_routed(const struct prs_alltoall *bench, uint32_t cell, uint32_t sender,
                             uint32_t expert)
{
    return routed_at(bench, cell, sender)[expert];
}

/* Every token goes to top_k different experts, all equally likely. */
static void route(const struct prs_alltoall *bench, struct prs_rng *rng, uint64_t tokens,
                  uint32_t *experts, uint32_t *routed)
{
    for (uint32_t i = 0; i < bench->experts; i++) {
        experts[i] = i;
    }
    for (uint64_t token = 0; token < tokens; token++) {
        for (uint32_t k = 0; k < bench->top_k; k++) { /* the first top_k of a shuffle */
            uint32_t other = k + prs_rng_below(rng, bench->experts - k), kept = experts[k];
            experts[k] = experts[other];
            experts[other] = kept;
            routed[experts[k]]++;
        }
    }
}

static uint64_t payload_bytes(const struct prs_alltoall *bench, uint32_t tokens)
{
    uint64_t bytes = (uint64_t)tokens * bench->hidden * ELEMENT_BYTES;
    return (bytes + 7) / 8 * 8;
}

static bool is_remote(const struct prs_alltoall *bench, uint32_t sender, uint32_t target)
{
    return sender / bench->setup.pes_per_node != target / bench->setup.pes_per_node;
}

/* Experts in turn, beginning behind the sender's own, so that senders do not all begin with the
 * same PE. */
static uint32_t sends(const void *context, uint32_t cell, uint32_t sender,
                      struct prs_bench_transfer *out)
{
    const struct prs_alltoall *bench = context;
    const uint32_t *routed = routed_at(bench, cell, sender);
    uint32_t n = 0, first = 0;
    while (prs_alltoall_home(bench, first) < sender) {
        first++;
    }
    for (uint32_t i = 0; i < bench->experts; i++) {
        uint32_t expert = (first + i) % bench->experts;
        uint32_t target = prs_alltoall_home(bench, expert);
        if (is_remote(bench, sender, target)) {
            out[n].target = target;
            out[n].bytes = payload_bytes(bench, routed[expert]);
            n++;
        }
    }
    return n;
}

double prs_alltoall_bytes(const struct prs_alltoall *bench, uint32_t cell)
{
    double bytes = 0;
    for (uint32_t sender = 0; sender < bench->workload.n_pes; sender++) {
        for (uint32_t expert = 0; expert < bench->experts; expert++) {
            if (is_remote(bench, sender, prs_alltoall_home(bench, expert))) {
                uint32_t tokens = prs_alltoall_routed(bench, cell, sender, expert);
                bytes += (double)payload_bytes(bench, tokens);
            }
        }
    }
    return bytes / bench->workload.n_pes;
}

static bool lay_out(struct prs_alltoall *bench)
{
    struct prs_bench_workload *workload = &bench->workload;
    *workload = (struct prs_bench_workload){
        .n_pes = bench->setup.nodes * bench->setup.pes_per_node,
        .n_cells = bench->tokens.n,
        .transfers_max = bench->experts,
        .context = bench,
        .sends = sends,
    };
    uint32_t *experts = calloc(bench->experts, sizeof *experts);
    size_t lists = (size_t)workload->n_cells * workload->n_pes;
    bench->routed = calloc(lists * bench->experts, sizeof *bench->routed);
    bool is_complete = experts != NULL && bench->routed != NULL;
    struct prs_rng rng = prs_rng_seeded(bench->setup.seed);
    for (uint32_t cell = 0; cell < workload->n_cells && is_complete; cell++) {
        for (uint32_t sender = 0; sender < workload->n_pes; sender++) {
            uint32_t *routed = routed_at(bench, cell, sender);
            route(bench, &rng, bench->tokens.values[cell], experts, routed);
            for (uint32_t i = 0; i < bench->experts; i++) {
                uint64_t bytes = payload_bytes(bench, routed[i]);
                workload->bytes_max = bytes > workload->bytes_max ? bytes : workload->bytes_max;
            }
        }
    }
    free(experts);
    if (!is_complete) {
        fprintf(stderr, "perseus: out of memory\n");
    }
    return is_complete;
}

/* ---- options ---- */

enum { OWN_OPTIONS = 5, N_OPTIONS = OWN_OPTIONS + PRS_BENCH_SETUP_OPTIONS };

static const char *check_options(const struct prs_alltoall *bench)
{
    uint64_t nodes = bench->setup.nodes, pes = nodes * bench->setup.pes_per_node;
    if (nodes < 2) {
        return "--nodes must be 2 or more: within one node nothing goes through the proxy";
    }
    if (pes > 1024) {
        return "more than 1024 PEs are too many for one machine";
    }
    if (bench->experts > PRS_BENCH_WINDOW_STARTS - 1 || bench->experts < pes) {
        return "--experts must be from one per PE to 1020";
    }
    if (bench->top_k > bench->experts) {
        return "--top-k must not exceed --experts";
    }
    for (uint32_t i = 0; i < bench->tokens.n; i++) {
        if (bench->tokens.values[i] * bench->hidden > UINT64_C(1) << 32) {
            return "--tokens times --hidden must not exceed 2^32";
        }
    }
    return NULL;
}

/* Whether to go on; else *out_exit is set. */
static bool read_options(struct prs_alltoall *bench, int argc, char **argv, int *out_exit)
{
    struct prs_option options[N_OPTIONS] = {
        {"tokens", "LIST", "tokens of every PE (128,256,512,1024)", prs_parse_counts,
         &bench->tokens},
        {"experts", "N", "experts, spread over all PEs (128)", prs_parse_count, &bench->experts},
        {"top-k", "N", "experts of a token (8)", prs_parse_count, &bench->top_k},
        {"hidden", "N", "values of a token, 2 bytes each (512)", prs_parse_count, &bench->hidden},
        {"nodes", "N", "start that many nodes (4)", prs_parse_count, &bench->setup.nodes},
    };
    prs_bench_setup_options(&bench->setup, options + OWN_OPTIONS);
    const struct prs_command command = {
        .name = "perseus bench alltoall",
        .summary = "Starts its own PEs on this machine and times the dispatch of a mixture of\n"
                   "experts: each PE sends its tokens to their experts on other nodes. Time is\n"
                   "fitted as alpha + bytes / bandwidth. docs/benchmarks.md defines each number.",
        .options = options,
        .n_options = N_OPTIONS,
    };
    if (!prs_command_parse(&command, argc, argv, NULL, out_exit)) {
        return false;
    }
    const char *mistake = check_options(bench);
    if (mistake != NULL) {
        *out_exit = prs_command_mistake(&command, "%s", mistake);
    }
    return mistake == NULL;
}

/* ---- the command ---- */

static bool run(struct prs_alltoall *bench)
{
    if (!prs_output_check(&bench->setup.json, 1) ||
        !prs_bench_modes_find(&bench->setup, &bench->modes) || !lay_out(bench)) {
        return false;
    }
    bench->results = prs_bench_drive(&bench->setup, &bench->modes, &bench->workload);
    if (bench->results == NULL) {
        return false;
    }
    bool is_told =
        prs_alltoall_print(bench) &&
        (!bench->setup.has_stats || prs_bench_print_counters(bench->results, &bench->modes));
    return prs_alltoall_write(bench) && is_told && prs_bench_is_right(bench->results);
}

int prs_tool_bench_alltoall(int argc, char **argv)
{
    struct prs_alltoall bench = {
        .tokens = {.values = {128, 256, 512, 1024}, .n = 4},
        .experts = 128,
        .top_k = 8,
        .hidden = 512,
    };
    int exit_code = PRS_EXIT_OK;
    prs_bench_setup_init(&bench.setup);
    bench.setup.nodes = 4;
    if (read_options(&bench, argc, argv, &exit_code)) {
        exit_code = run(&bench) ? PRS_EXIT_OK : PRS_EXIT_FAILED;
    }
    prs_bench_results_destroy(bench.results);
    free(bench.routed);
    return exit_code;
}
