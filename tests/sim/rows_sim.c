/* SPDX-License-Identifier: Apache-2.0 */
/* The contract suite on the fabric in virtual time, as each kind of cluster, alone and behind the
 * adversary. PEs that share a clock are on one network. */
#include <stdlib.h>

#include "fabric/row.h"
#include "fabric/sim/sim.h"

/* The network of the world under test; the suite runs one world at a time. */
static struct prs_timeline *timeline;
static struct prs_sim_net *net;
static const void *owner;

static const struct prs_sim_model models[] = {
    /* a command queue for all peers, as Slingshot has it */
    {.step_ns = 100,
     .post_ns = 300,
     .event_ns = 50,
     .doorbell_ns = 200,
     .message_ns = 50,
     .line_gbit_s = 200,
     .pcie_ns = 600,
     .pcie_gbit_s = 250,
     .queues = 1,
     .inflight = 64,
     .hops = 3,
     .hop_ns = 300,
     .jitter_ns = 4000,
     .receive_message_ns = 20,
     .receive_gbit_s = 200,
     .ack_ns = 900,
     .completion_ns = 500,
     .tail_ns = 100,
     .tail_exponent = 1,
     .fence = true,
     .immediate_bits = 64},
    /* several connections to a peer, each in order, and some queues for all of them */
    {.post_ns = 100,
     .message_ns = 10,
     .line_gbit_s = 400,
     .lanes = 3,
     .queues = 2,
     .inflight = 128,
     .hops = 2,
     .hop_ns = 400,
     .jitter_ns = 3000,
     .ack_ns = 800,
     .ordered = true,
     .fence = true,
     .atomics = true,
     .immediate_bits = 32},
    /* nothing but delivered completions, and a queue for every peer */
    {.line_gbit_s = 100, .inflight = 256, .hop_ns = 2000, .hops = 1, .jitter_ns = 9000},
    /* a fence flag for every peer apart */
    {.line_gbit_s = 100,
     .lanes = 1,
     .inflight = 256,
     .hop_ns = 500,
     .hops = 1,
     .jitter_ns = 9000,
     .ack_ns = 500,
     .fence = true,
     .fence_ns = 30,
     .atomics = true,
     .immediate_bits = 64},
};

static enum perseus_status open_net(const struct row *row, uint64_t seed)
{
    prs_sim_net_destroy(net);
    prs_timeline_destroy(timeline);
    net = NULL;
    enum perseus_status status = prs_timeline_create(&timeline);
    return status == PERSEUS_OK
               ? prs_sim_net_create(&models[row->ungranted_mask], seed, timeline, &net)
               : status;
}

/* The row's ungranted_mask chooses the model: the suite asks nothing else of it. */
static enum perseus_status open_sim(const struct row *row, uint64_t seed, const struct prs_log *log,
                                    struct prs_clock clock, struct prs_fabric **out)
{
    enum perseus_status status = PERSEUS_OK;
    if (net == NULL || owner != clock.context || seed % 3 == 0) { /* the first PE of a world */
        owner = clock.context;
        status = open_net(row, seed);
    }
    struct prs_fabric_config config = {.log = log, .clock = clock};
    return status == PERSEUS_OK ? prs_sim_fabric_open(net, &config, out) : status;
}

static enum perseus_status open_shuffled(const struct row *row, uint64_t seed,
                                         const struct prs_log *log, struct prs_clock clock,
                                         struct prs_fabric **out)
{
    struct prs_fabric *inside;
    enum perseus_status status = open_sim(row, seed, log, clock, &inside);
    return status == PERSEUS_OK ? row_shuffle(row, seed, log, clock, inside, out) : status;
}

const struct row fabric_rows[] = {
    {.name = "sim-command-queue",
     .open = open_sim,
     .seeds = 60,
     .notices_loss = true,
     .ungranted_mask = 0},
    {.name = "sim-queue-pairs",
     .open = open_sim,
     .seeds = 60,
     .notices_loss = true,
     .ungranted_mask = 1},
    {.name = "sim-bare", .open = open_sim, .seeds = 60, .notices_loss = true, .ungranted_mask = 2},
    {.name = "sim-fence-peer",
     .open = open_sim,
     .seeds = 60,
     .notices_loss = true,
     .ungranted_mask = 3},
    {.name = "sim-shuffled",
     .open = open_shuffled,
     .seeds = 60,
     .shuffles = true,
     .notices_loss = true,
     .ungranted_mask = 0,
     .faulty = {.reorder = true, .again_probability = 0.2, .jitter_ns = 3000}},
    {0},
};
