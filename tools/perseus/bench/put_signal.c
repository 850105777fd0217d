/* SPDX-License-Identifier: Apache-2.0 */
/* perseus bench put-signal: what share of the put-only rate is left when every put is followed by a
 * signal that must not overtake it (the paper's section 3.3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/drive.h"
#include "bench/put_signal.h"
#include "bench/commands.h"
#include "kit/exit.h"
#include "kit/json_out.h"

/* ---- the workload ---- */

bool prs_put_signal_is_left_out(const struct prs_put_signal *bench, uint32_t cell)
{
    return bench->cells[cell].transfers * bench->cells[cell].bytes > bench->round_bytes_max;
}

/* Transfer t goes to the (t mod peers)-th PE after the sender's node. */
static uint32_t sends(const void *context, uint32_t cell_index, uint32_t sender,
                      struct prs_bench_transfer *out)
{
    const struct prs_put_signal *bench = context;
    const struct prs_put_signal_cell *cell = &bench->cells[cell_index];
    if ((sender != 0 && !bench->do_all) || prs_put_signal_is_left_out(bench, cell_index)) {
        return 0;
    }
    uint32_t per_node = bench->setup.pes_per_node;
    uint32_t first = sender / per_node * per_node + per_node;
    for (uint32_t i = 0; i < cell->transfers; i++) {
        out[i].target = (first + i % cell->peers) % bench->workload.n_pes;
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

static bool lay_out(struct prs_put_signal *bench)
{
    const struct prs_list *peers = &bench->peers, *bytes = &bench->bytes;
    const struct prs_list *transfers = &bench->transfers;
    bench->cells = calloc((size_t)peers->n * bytes->n * transfers->n, sizeof *bench->cells);
    if (bench->cells == NULL) {
        fprintf(stderr, "perseus: out of memory\n");
        return false;
    }
    for (uint32_t p = 0; p < peers->n; p++) {
        for (uint32_t b = 0; b < bytes->n; b++) {
            for (uint32_t t = 0; t < transfers->n; t++) {
                bench->cells[bench->n_cells++] = (struct prs_put_signal_cell){
                    .transfers = (uint32_t)transfers->values[t],
                    .peers = (uint32_t)peers->values[p],
                    .bytes = bytes->values[b],
                };
            }
        }
    }
    bench->workload = (struct prs_bench_workload){
        .n_pes = bench->setup.nodes * bench->setup.pes_per_node,
        .n_cells = bench->n_cells,
        .transfers_max = (uint32_t)list_max(transfers),
        .bytes_max = list_max(bytes),
        .context = bench,
        .sends = sends,
    };
    return true;
}

/* ---- options ---- */

static const char *parse_full(const char *text, void *target)
{
    (void)text;
    struct prs_put_signal *bench = target;
    bench->bytes =
        (struct prs_list){.values = {4096, 16384, 65536, 262144, 1048576, 4194304}, .n = 6};
    bench->round_bytes_max = UINT64_MAX;
    return NULL;
}

static const char *parse_bytes(const char *text, void *target)
{
    struct prs_put_signal *bench = target;
    bench->round_bytes_max = UINT64_MAX; /* who asks for a size gets it */
    return prs_parse_sizes(text, &bench->bytes);
}

enum { OWN_OPTIONS = 7, N_OPTIONS = OWN_OPTIONS + PRS_BENCH_SETUP_OPTIONS };

static const char *check_options(struct prs_put_signal *bench)
{
    struct prs_bench_setup *setup = &bench->setup;
    uint64_t per_node = setup->pes_per_node, peers = list_max(&bench->peers);
    if (list_max(&bench->transfers) > PRS_BENCH_WINDOW_STARTS - 1) {
        return "--transfers must not exceed 1020";
    }
    for (uint32_t i = 0; i < bench->bytes.n; i++) {
        if (bench->bytes.values[i] % sizeof(uint64_t) != 0) {
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

/* Whether to go on; else *out_exit is set. */
static bool read_options(struct prs_put_signal *bench, int argc, char **argv, int *out_exit)
{
    struct prs_option options[N_OPTIONS] = {
        {"transfers", "LIST", "concurrent transfers of a sending PE (1,8,32,96)", prs_parse_counts,
         &bench->transfers},
        {"bytes", "LIST",
         "of one transfer; K and M suffixes (4K,64K,1M,4M, but no\nmore than 16M a round)",
         parse_bytes, bench},
        {"peers", "LIST", "remote PEs that they go to, in turn (1,3,7)", prs_parse_counts,
         &bench->peers},
        {"full", NULL,
         "six sizes from 4K to 4M without that limit; takes long,\nand gigabytes of memory",
         parse_full, bench},
        {"all", NULL, "every PE sends, not only PE 0", prs_parse_on, &bench->do_all},
        {"details", NULL, "a table for every cell, with times and counts", prs_parse_on,
         &bench->has_details},
        {"nodes", "N", "start that many nodes (as many as the peers need)", prs_parse_count,
         &bench->setup.nodes},
    };
    prs_bench_setup_options(&bench->setup, options + OWN_OPTIONS);
    const struct prs_command command = {
        .name = "perseus bench put-signal",
        .summary =
            "Starts its own PEs on this machine and measures what share of the put-only rate\n"
            "every signaling protocol leaves under every ordering mode that the fabric can\n"
            "keep. docs/benchmarks.md defines each number.",
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

/* ---- the file ---- */

static json_t *rows_json(const struct prs_put_signal *bench)
{
    json_t *rows = json_array();
    for (uint32_t c = 0; c < bench->n_cells; c++) {
        const struct prs_put_signal_cell *cell = &bench->cells[c];
        if (prs_put_signal_is_left_out(bench, c)) {
            continue;
        }
        for (int p = 0; p < PRS_BENCH_PROTOCOL_COUNT; p++) {
            enum prs_bench_protocol protocol = (enum prs_bench_protocol)p;
            for (uint32_t m = 0; m < bench->modes.n; m++) {
                if (!prs_bench_has_protocol(&bench->setup, protocol)) {
                    continue;
                }
                json_t *row =
                    json_pack("{s:I, s:I, s:I}", "transfers", (json_int_t)cell->transfers, "bytes",
                              (json_int_t)cell->bytes, "peers", (json_int_t)cell->peers);
                struct prs_bench_summary summary = prs_bench_results_summary(
                    bench->results, c, m, protocol, bench->modes.reference);
                prs_bench_summary_json(&summary, &bench->modes.mode[m], protocol, row);
                json_array_append_new(rows, row);
            }
        }
    }
    return rows;
}

static bool write_json(const struct prs_put_signal *bench)
{
    if (bench->setup.json.path == NULL) {
        return true;
    }
    json_t *document = prs_json_begin("bench put-signal", bench->setup.seed);
    prs_bench_job_json(&bench->setup, &bench->modes, document);
    json_object_set_new(document, "all_send", json_boolean(bench->do_all));
    json_object_set_new(document, "rows", rows_json(bench));
    json_object_set_new(document, "counters",
                        prs_bench_counters_json(bench->results, &bench->modes));
    return prs_json_write(document, &bench->setup.json);
}

/* ---- the command ---- */

static bool run(struct prs_put_signal *bench)
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
        prs_put_signal_print(bench) &&
        (!bench->setup.has_stats || prs_bench_print_counters(bench->results, &bench->modes));
    return write_json(bench) && is_told && prs_bench_is_right(bench->results);
}

int prs_tool_bench_put_signal(int argc, char **argv)
{
    struct prs_put_signal bench = {
        .transfers = {.values = {1, 8, 32, 96}, .n = 4},
        .bytes = {.values = {4096, 65536, 1048576, 4194304}, .n = 4},
        .peers = {.values = {1, 3, 7}, .n = 3},
        .round_bytes_max = 16 << 20,
    };
    int exit_code = PRS_EXIT_OK;
    prs_bench_setup_init(&bench.setup);
    if (read_options(&bench, argc, argv, &exit_code)) {
        exit_code = run(&bench) ? PRS_EXIT_OK : PRS_EXIT_FAILED;
    }
    prs_bench_results_destroy(bench.results);
    free(bench.cells);
    return exit_code;
}
