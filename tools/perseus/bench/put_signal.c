/* SPDX-License-Identifier: Apache-2.0 */
/* perseus bench put-signal: what share of the put-only rate is left when every put is followed by a
 * signal that must not overtake it (the paper's section 3.3). */
#include <stdio.h>
#include <stdlib.h>

#include "bench/put_signal.h"
#include "bench/commands.h"

/* ---- the workload ---- */

bool prs_put_signal_is_left_out(const struct prs_comparison *shared, uint32_t cell)
{
    const struct prs_put_signal *self = (const struct prs_put_signal *)shared;
    return self->cells[cell].transfers * self->cells[cell].bytes > self->round_bytes_max;
}

/* Transfer t goes to the (t mod peers)-th PE after the sender's node. */
static uint32_t sends(const void *context, uint32_t cell_index, uint32_t sender,
                      struct prs_bench_transfer *out)
{
    const struct prs_put_signal *self = context;
    const struct prs_put_signal_cell *cell = &self->cells[cell_index];
    if ((sender != 0 && !self->do_all) || prs_put_signal_is_left_out(&self->shared, cell_index)) {
        return 0;
    }
    uint32_t per_node = self->shared.setup.pes_per_node;
    uint32_t first = sender / per_node * per_node + per_node;
    for (uint32_t i = 0; i < cell->transfers; i++) {
        out[i].target = (first + i % cell->peers) % self->shared.workload.n_pes;
        out[i].bytes = cell->bytes;
    }
    return cell->transfers;
}

static uint64_t list_max(const struct prs_list *list)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        max = list->values[i] > max ? list->values[i] : max;
    }
    return max;
}

static bool lay_out(struct prs_comparison *shared)
{
    struct prs_put_signal *self = (struct prs_put_signal *)shared;
    const struct prs_list *peers = &self->peers, *bytes = &self->bytes;
    const struct prs_list *transfers = &self->transfers;
    self->cells = calloc((size_t)peers->n * bytes->n * transfers->n, sizeof *self->cells);
    if (self->cells == NULL) {
        fprintf(stderr, "perseus: out of memory\n");
        return false;
    }
    for (uint32_t p = 0; p < peers->n; p++) {
        for (uint32_t b = 0; b < bytes->n; b++) {
            for (uint32_t t = 0; t < transfers->n; t++) {
                self->cells[self->n_cells++] = (struct prs_put_signal_cell){
                    .transfers = (uint32_t)transfers->values[t],
                    .peers = (uint32_t)peers->values[p],
                    .bytes = bytes->values[b],
                };
            }
        }
    }
    self->shared.workload = (struct prs_bench_workload){
        .n_pes = self->shared.setup.nodes * self->shared.setup.pes_per_node,
        .n_cells = self->n_cells,
        .transfers_max = (uint32_t)list_max(transfers),
        .bytes_max = list_max(bytes),
        .context = self,
        .sends = sends,
    };
    return true;
}

/* ---- options ---- */

static const char *parse_full(const char *text, void *target)
{
    (void)text;
    struct prs_put_signal *self = target;
    self->bytes =
        (struct prs_list){.values = {4096, 16384, 65536, 262144, 1048576, 4194304}, .n = 6};
    self->round_bytes_max = UINT64_MAX;
    return NULL;
}

static const char *parse_bytes(const char *text, void *target)
{
    struct prs_put_signal *self = target;
    self->round_bytes_max = UINT64_MAX; /* who asks for a size gets it */
    return prs_parse_sizes(text, &self->bytes);
}

static const char *check(struct prs_comparison *shared)
{
    const struct prs_put_signal *self = (const struct prs_put_signal *)shared;
    struct prs_bench_setup *setup = &shared->setup;
    uint64_t per_node = setup->pes_per_node, peers = list_max(&self->peers);
    if (list_max(&self->transfers) > PRS_BENCH_WINDOW_STARTS - 1) {
        return "--transfers must not exceed 1020";
    }
    for (uint32_t i = 0; i < self->bytes.n; i++) {
        if (self->bytes.values[i] % sizeof(uint64_t) != 0) {
            return "--bytes must be multiples of 8";
        }
    }
    uint64_t needed = 1 + (peers + per_node - 1) / per_node;
    if (needed * per_node > 1024 || setup->nodes > 1024 / per_node) {
        return "more than 1024 PEs are too many for one machine";
    }
    if (setup->nodes == 0) {
        setup->nodes = (uint32_t)needed;
    }
    return setup->nodes < needed ? "--nodes are too few for that many --peers on other nodes"
                                 : NULL;
}

/* ---- the file ---- */

static void describe(const struct prs_comparison *shared, json_t *document)
{
    const struct prs_put_signal *self = (const struct prs_put_signal *)shared;
    json_object_set_new(document, "all_send", json_boolean(self->do_all));
}

static json_t *cell_json(const struct prs_comparison *shared, uint32_t index)
{
    const struct prs_put_signal *self = (const struct prs_put_signal *)shared;
    const struct prs_put_signal_cell *cell = &self->cells[index];
    return json_pack("{s:I, s:I, s:I}", "transfers", (json_int_t)cell->transfers, "bytes",
                     (json_int_t)cell->bytes, "peers", (json_int_t)cell->peers);
}

/* ---- the command ---- */

int prs_tool_bench_put_signal(int argc, char **argv)
{
    struct prs_put_signal self = {
        .transfers = {.values = {1, 8, 32, 96}, .n = 4},
        .bytes = {.values = {4096, 65536, 1048576, 4194304}, .n = 4},
        .peers = {.values = {1, 3, 7}, .n = 3},
        .round_bytes_max = 16 << 20,
    };
    const struct prs_option options[] = {
        {"transfers", "LIST", "concurrent transfers of a sending PE (1,8,32,96)", prs_parse_counts,
         &self.transfers},
        {"bytes", "LIST",
         "of one transfer; K and M suffixes (4K,64K,1M,4M, but no\nmore than 16M a round)",
         parse_bytes, &self},
        {"peers", "LIST", "remote PEs that they go to, in turn (1,3,7)", prs_parse_counts,
         &self.peers},
        {"full", NULL,
         "six sizes from 4K to 4M without that limit; takes long,\nand gigabytes of memory",
         parse_full, &self},
        {"all", NULL, "every PE sends, not only PE 0", prs_parse_on, &self.do_all},
        {"details", NULL, "a table for every cell, with times and counts", prs_parse_on,
         &self.has_details},
        {"nodes", "N", "start that many nodes (as many as the peers need)", prs_parse_count,
         &self.shared.setup.nodes},
    };
    const struct prs_comparison_kind kind = {
        .name = "bench put-signal",
        .summary =
            "Starts its own PEs on this machine and measures what share of the put-only rate\n"
            "every signaling protocol leaves under every ordering mode that the fabric can\n"
            "keep. docs/benchmarks.md defines each number. With --device cuda kernels are the\n"
            "producers, and other options count: --device cuda --help.",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .check = check,
        .lay_out = lay_out,
        .is_left_out = prs_put_signal_is_left_out,
        .print = prs_put_signal_print,
        .describe = describe,
        .cell_json = cell_json,
    };
    prs_bench_setup_init(&self.shared.setup);
    int exit_code = prs_comparison_run(&kind, &self.shared, argc, argv);
    free(self.cells);
    return exit_code;
}
