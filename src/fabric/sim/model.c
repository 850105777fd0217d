/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/sim/model.h"

#include <string.h>

#define TIME_MAX_NS 1e9
#define RATE_MAX    1e6

#define NUMBER(field, low, high, text)                                        \
    {                                                                         \
#field, offsetof(struct prs_sim_model, field), false, low, high, text \
    }
#define FLAG(field, text)                                               \
    {                                                                   \
#field, offsetof(struct prs_sim_model, field), true, 0, 1, text \
    }

static const struct prs_sim_field fields[] = {
    NUMBER(step_ns, 0, TIME_MAX_NS, "proxy: one look at the completion queue"),
    NUMBER(post_ns, 0, TIME_MAX_NS, "proxy: one posted operation"),
    NUMBER(put_ns, 0, TIME_MAX_NS, "proxy: more of it for a payload that is not inline"),
    NUMBER(event_ns, 0, TIME_MAX_NS, "proxy: one completion or immediate taken"),
    NUMBER(ask_ns, 0, TIME_MAX_NS, "stock proxy: asking for one PE, at a fence or quiet"),
    NUMBER(doorbell_ns, 0, TIME_MAX_NS, "post until the NIC has the descriptor"),
    NUMBER(message_ns, 0, TIME_MAX_NS, "sending NIC: least time between two messages"),
    NUMBER(line_gbit_s, 0, RATE_MAX, "line rate of a NIC, each direction"),
    NUMBER(pcie_ns, 0, TIME_MAX_NS, "latency of reading a payload"),
    NUMBER(pcie_gbit_s, 0, RATE_MAX, "rate of reading payloads"),
    NUMBER(store_gbit_s, 0, RATE_MAX, "rate of storing a payload on its way, before it goes on"),
    NUMBER(store_bytes, 0, 1ull << 40, "so much of it; what is longer is cut"),
    NUMBER(lanes, 0, PRS_SIM_LANES_MAX, "connections (queue pairs) to a peer; 0: one"),
    NUMBER(queues, 0, 4096, "queues of an endpoint, connections over them; 0: one for each"),
    NUMBER(fence_ns, 0, TIME_MAX_NS, "NIC's own time for a fence flag"),
    NUMBER(inflight, 1, 1 << 20, "operations of an endpoint before AGAIN"),
    NUMBER(hops, 0, 64, "switches and links between two NICs"),
    NUMBER(hop_ns, 0, TIME_MAX_NS, "latency of one of them"),
    NUMBER(jitter_ns, 0, TIME_MAX_NS, "uniform, per message"),
    NUMBER(receive_message_ns, 0, TIME_MAX_NS, "receiving NIC: least time between two messages"),
    NUMBER(receive_gbit_s, 0, RATE_MAX, "rate of writing what arrives"),
    NUMBER(ack_ns, 0, TIME_MAX_NS, "delivery until the sending NIC knows"),
    NUMBER(completion_ns, 0, TIME_MAX_NS, "from there until software sees it"),
    NUMBER(tail_ns, 0, TIME_MAX_NS, "more of it, times destinations ^ tail_exponent"),
    NUMBER(tail_exponent, 0, 4, "how that grows with destinations"),
    FLAG(ordered, "granted: write-after-write order on a connection"),
    FLAG(fence, "granted: a fence flag waits for its connection and holds its queue"),
    FLAG(fence_queue, "a fence flag waits for all of its queue, not its connection only"),
    FLAG(atomics, "granted: native atomics, not coherent with the CPU"),
    NUMBER(immediate_bits, 0, 64, "granted: bits of immediate data"),
};

const struct prs_sim_field *prs_sim_model_fields(size_t *out_count)
{
    *out_count = sizeof fields / sizeof fields[0];
    return fields;
}

const struct prs_sim_field *prs_sim_model_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}
