/* SPDX-License-Identifier: Apache-2.0 */
/* perseus bench alltoall: every PE sends its tokens to the experts they are routed to, one transfer
 * and one signal per remote expert: the shape of a mixture-of-experts dispatch. */
#include "bench/alltoall.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "bench/commands.h"

enum { ELEMENT_BYTES = 2 /* bfloat16 */ };

/* ---- the workload ---- */

uint32_t prs_alltoall_home(const struct prs_alltoall *self, uint32_t expert)
{
    return (uint32_t)((uint64_t)expert * self->shared.workload.n_pes / self->experts);
}

static uint32_t *routed_at(const struct prs_alltoall *self, uint32_t cell, uint32_t sender)
{
    return self->routed + ((size_t)cell * self->shared.workload.n_pes + sender) * self->experts;
}

uint32_t prs_alltoall_routed(const struct prs_alltoall *self, uint32_t cell, uint32_t sender,
                             uint32_t expert)
{
    return routed_at(self, cell, sender)[expert];
}

/* Every token goes to top_k different experts, all equally likely. */
static void route(const struct prs_alltoall *self, struct prs_rng *rng, uint64_t tokens,
                  uint32_t *experts, uint32_t *routed)
{
    for (uint32_t i = 0; i < self->experts; i++) {
        experts[i] = i;
    }
    for (uint64_t token = 0; token < tokens; token++) {
        for (uint32_t k = 0; k < self->top_k; k++) { /* the first top_k of a shuffle */
            uint32_t other = k + prs_rng_below(rng, self->experts - k), kept = experts[k];
            experts[k] = experts[other];
            experts[other] = kept;
            routed[experts[k]]++;
        }
    }
}

static uint64_t payload_bytes(const struct prs_alltoall *self, uint32_t tokens)
{
    uint64_t bytes = (uint64_t)tokens * self->hidden * ELEMENT_BYTES;
    return (bytes + 7) / 8 * 8;
}

static bool is_remote(const struct prs_alltoall *self, uint32_t sender, uint32_t target)
{
    return sender / self->shared.setup.pes_per_node != target / self->shared.setup.pes_per_node;
}

/* Experts in turn, beginning behind the sender's own, so that senders do not all begin with the
 * same PE. */
static uint32_t sends(const void *context, uint32_t cell, uint32_t sender,
                      struct prs_bench_transfer *out)
{
    const struct prs_alltoall *self = context;
    const uint32_t *routed = routed_at(self, cell, sender);
    uint32_t n = 0, first = 0;
    while (prs_alltoall_home(self, first) < sender) {
        first++;
    }
    for (uint32_t i = 0; i < self->experts; i++) {
        uint32_t expert = (first + i) % self->experts;
        uint32_t target = prs_alltoall_home(self, expert);
        if (is_remote(self, sender, target)) {
            out[n].target = target;
            out[n].bytes = payload_bytes(self, routed[expert]);
            n++;
        }
    }
    return n;
}

double prs_alltoall_bytes(const struct prs_alltoall *self, uint32_t cell)
{
    double bytes = 0;
    for (uint32_t sender = 0; sender < self->shared.workload.n_pes; sender++) {
        for (uint32_t expert = 0; expert < self->experts; expert++) {
            if (is_remote(self, sender, prs_alltoall_home(self, expert))) {
                uint32_t tokens = prs_alltoall_routed(self, cell, sender, expert);
                bytes += (double)payload_bytes(self, tokens);
            }
        }
    }
    return bytes / self->shared.workload.n_pes;
}

static bool lay_out(struct prs_comparison *shared)
{
    struct prs_alltoall *self = (struct prs_alltoall *)shared;
    struct prs_bench_workload *workload = &self->shared.workload;
    *workload = (struct prs_bench_workload){
        .n_pes = self->shared.setup.nodes * self->shared.setup.pes_per_node,
        .n_cells = self->tokens.n,
        .transfers_max = self->experts,
        .context = self,
        .sends = sends,
    };
    uint32_t *experts = calloc(self->experts, sizeof *experts);
    size_t lists = (size_t)workload->n_cells * workload->n_pes;
    self->routed = calloc(lists * self->experts, sizeof *self->routed);
    bool is_complete = experts != NULL && self->routed != NULL;
    struct prs_rng rng = prs_rng_seeded(self->shared.setup.seed);
    for (uint32_t cell = 0; cell < workload->n_cells && is_complete; cell++) {
        for (uint32_t sender = 0; sender < workload->n_pes; sender++) {
            uint32_t *routed = routed_at(self, cell, sender);
            route(self, &rng, self->tokens.values[cell], experts, routed);
            for (uint32_t i = 0; i < self->experts; i++) {
                uint64_t bytes = payload_bytes(self, routed[i]);
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

static const char *check(struct prs_comparison *shared)
{
    const struct prs_alltoall *self = (const struct prs_alltoall *)shared;
    uint64_t nodes = self->shared.setup.nodes, pes = nodes * self->shared.setup.pes_per_node;
    if (nodes < 2) {
        return "--nodes must be 2 or more: within one node nothing goes through the proxy";
    }
    if (pes > 1024) {
        return "more than 1024 PEs are too many for one machine";
    }
    if (self->experts > PRS_BENCH_WINDOW_STARTS - 1 || self->experts < pes) {
        return "--experts must be from one per PE to 1020";
    }
    if (self->top_k > self->experts) {
        return "--top-k must not exceed --experts";
    }
    for (uint32_t i = 0; i < self->tokens.n; i++) {
        if (self->tokens.values[i] * self->hidden > UINT64_C(1) << 32) {
            return "--tokens times --hidden must not exceed 2^32";
        }
    }
    return NULL;
}

/* ---- the command ---- */

static bool is_left_out(const struct prs_comparison *shared, uint32_t cell)
{
    (void)shared, (void)cell;
    return false;
}

int prs_tool_bench_alltoall(int argc, char **argv)
{
    struct prs_alltoall self = {
        .tokens = {.values = {128, 256, 512, 1024}, .n = 4},
        .experts = 128,
        .top_k = 8,
        .hidden = 512,
    };
    const struct prs_option options[] = {
        {"tokens", "LIST", "tokens of every PE (128,256,512,1024)", prs_parse_counts, &self.tokens},
        {"experts", "N", "experts, spread over all PEs (128)", prs_parse_count, &self.experts},
        {"top-k", "N", "experts of a token (8)", prs_parse_count, &self.top_k},
        {"hidden", "N", "values of a token, 2 bytes each (512)", prs_parse_count, &self.hidden},
        {"nodes", "N", "start that many nodes (4)", prs_parse_count, &self.shared.setup.nodes},
    };
    const struct prs_comparison_kind kind = {
        .name = "bench alltoall",
        .summary = "Starts its own PEs on this machine and times the dispatch of a mixture of\n"
                   "experts: each PE sends its tokens to their experts on other nodes. Time is\n"
                   "fitted as alpha + bytes / bandwidth. docs/benchmarks.md defines each number.",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .check = check,
        .lay_out = lay_out,
        .is_left_out = is_left_out,
        .print = prs_alltoall_print,
        .describe = prs_alltoall_describe,
        .cell_json = prs_alltoall_cell_json,
    };
    prs_bench_setup_init(&self.shared.setup);
    self.shared.setup.nodes = 4;
    int exit_code = prs_comparison_run(&kind, &self.shared, argc, argv);
    free(self.routed);
    return exit_code;
}
