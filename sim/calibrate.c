/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/calibrate.h"

#include <math.h>

static const struct sim_fit_field fields[] = {
    {"fabric.post_ns", 20, 50000},
    {"fabric.put_ns", 20, 50000},
    {"fabric.step_ns", 20, 20000},
    {"fabric.event_ns", 10, 20000},
    {"fabric.message_ns", 10, 100000},
    {"fabric.line_gbit_s", 0.5, 1000},
    {"fabric.hop_ns", 100, 1e6},
    {"fabric.completion_ns", 100, 1e7},
    {"fabric.receive_message_ns", 10, 100000},
};

struct search {
    struct sim_measured *rows;
    uint32_t n;
    uint64_t seed;
    const struct prs_log *log;
};

bool sim_platform_keeps(const struct sim_platform *platform, enum perseus_ordering ordering)
{
    return ordering == PERSEUS_ORDERING_NIC_FENCE ? platform->fabric.fence
           : ordering == PERSEUS_ORDERING_FIFO    ? platform->fabric.ordered
           : ordering == PERSEUS_ORDERING_COUNTED ? platform->fabric.immediate_bits >= 32
                                                  : true;
}

static double simulate(const struct search *search, const struct sim_measured *row,
                       const struct sim_platform *platform)
{
    struct sim_platform alone = *platform;
    alone.pes_per_node = 1;
    /* One line, whatever reads and stores the payload. */
    alone.fabric.pcie_gbit_s = alone.fabric.receive_gbit_s = alone.fabric.line_gbit_s;
    const struct sim_exchange_config config = {.platform = &alone,
                                               .nodes = row->peers + 1,
                                               .transfers = row->transfers,
                                               .senders = row->all_send ? 0 : 1,
                                               .bytes = row->bytes,
                                               .kind = row->kind,
                                               .ordering = row->ordering,
                                               .seed = search->seed,
                                               .log = search->log};
    struct sim_exchange_result result;
    return sim_exchange_run(&config, &result) == PERSEUS_OK ? result.quiet_ms : NAN;
}

static double misfit(void *context, const struct sim_platform *platform)
{
    struct search *search = context;
    double sum = 0;
    for (uint32_t i = 0; i < search->n; i++) {
        struct sim_measured *row = &search->rows[i];
        if (sim_platform_keeps(platform, row->ordering)) {
            row->simulated_ms = simulate(search, row, platform);
            sum += pow(log(row->simulated_ms / row->ms), 2);
        }
    }
    return sum;
}

enum perseus_status sim_calibrate(struct sim_measured *rows, uint32_t n, uint32_t rounds,
                                  uint64_t seed, const struct prs_log *log,
                                  struct sim_platform *platform, double *out_error)
{
    struct search search = {.rows = rows, .n = n, .seed = seed, .log = log};
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        rows[i].simulated_ms = NAN;
        used += sim_platform_keeps(platform, rows[i].ordering);
    }
    if (used == 0) {
        return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                        "%s keeps none of the measured modes; choose a scenario that grants what "
                        "the measured fabric does",
                        platform->name);
    }
    struct sim_fit fit = {.platform = platform,
                          .fields = fields,
                          .n_fields = sizeof fields / sizeof fields[0],
                          .rounds = rounds,
                          .misfit = misfit,
                          .context = &search};
    enum perseus_status status = sim_fit_run(&fit, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    platform->fabric.pcie_gbit_s = platform->fabric.receive_gbit_s = platform->fabric.line_gbit_s;
    (void)misfit(&search, platform); /* leaves the rows with the best found */
    double squares = 0;
    for (uint32_t i = 0; i < n; i++) {
        double error = rows[i].simulated_ms / rows[i].ms - 1;
        squares += isnan(error) ? 0 : error * error;
    }
    *out_error = sqrt(squares / used);
    return PERSEUS_OK;
}
