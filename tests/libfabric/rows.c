/* SPDX-License-Identifier: Apache-2.0 */
/* The contract suite (tests/fabric) on libfabric's software providers, all PEs in one process. That
 * peers are lost is tested with processes (death_test.c): an endpoint that closes while its process
 * lives is noticed after a minute at worst (PRS_LF_REFUSING_NS), and by shm never. */
#include "fabric/libfabric/libfabric.h"
#include "fabric/row.h"

static enum perseus_status open_provider(const struct row *row, uint64_t seed,
                                         const struct prs_log *log, struct prs_clock clock,
                                         struct prs_fabric **out)
{
    (void)seed;
    const struct prs_fabric_config config = {
        .provider = row->provider,
        .memory_kinds = PRS_MEMORY_HOST,
        .want_atomics = true,
        .log = log,
        .clock = clock,
    };
    return prs_libfabric_ops.open(&config, out);
}

/* The same behind the adversary, which shuffles what the provider did not grant. */
static enum perseus_status open_shuffled(const struct row *row, uint64_t seed,
                                         const struct prs_log *log, struct prs_clock clock,
                                         struct prs_fabric **out)
{
    struct prs_fabric *inside;
    enum perseus_status status = open_provider(row, seed, log, clock, &inside);
    return status == PERSEUS_OK ? row_shuffle(row, seed, log, clock, inside, out) : status;
}

#define SHUFFLED \
    .open = open_shuffled, .seeds = 3, .faulty = {.reorder = true, .again_probability = 0.1}

const struct row fabric_rows[] = {
    {.name = "tcp", .open = open_provider, .seeds = 3, .provider = "tcp"},
    {.name = "net", .open = open_provider, .seeds = 3, .provider = "net"},
    {.name = "sockets", .open = open_provider, .seeds = 3, .provider = "sockets"},
    {.name = "shm", .open = open_provider, .seeds = 3, .provider = "shm"},
    {.name = "udp", .open = open_provider, .seeds = 3, .provider = "udp"},
    {.name = "shuffled-tcp", SHUFFLED, .provider = "tcp"},
    {.name = "shuffled-sockets", SHUFFLED, .provider = "sockets"},
    {.name = "shuffled-shm", SHUFFLED, .provider = "shm"},
    {0},
};
