/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/exchange.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLED_FROM = 16384, SAMPLE_STEP = 4096, SAMPLE_LINE = 64 };

uint64_t prs_bench_window(const struct prs_bench_transfer *transfer, uint64_t round)
{
    uint64_t start = (round * 7 + transfer->sender * 131 + transfer->index);
    return start % PRS_BENCH_WINDOW_STARTS * PRS_BENCH_WINDOW_STEP;
}

uint64_t prs_bench_source_bytes(const struct prs_bench_workload *workload)
{
    return workload->bytes_max + PRS_BENCH_WINDOW_STARTS * PRS_BENCH_WINDOW_STEP;
}

/* Where the next transfer to one target lands. */
struct landing {
    uint64_t offset;
    uint32_t slot;
    bool is_sender; /* itself */
};

/* Numbers the transfers of all senders and keeps those of `self`. landings: one zeroed per PE;
 * sends: room for one sender's. */
static void place(const struct prs_bench_workload *workload, uint32_t cell, uint32_t self,
                  struct landing *landings, struct prs_bench_transfer *sends,
                  struct prs_bench_exchange *exchange)
{
    for (uint32_t sender = 0; sender < workload->n_pes; sender++) {
        uint32_t n = workload->sends(workload->context, cell, sender, sends);
        landings[sender].is_sender = n > 0;
        for (uint32_t i = 0; i < n; i++) {
            struct landing *landing = &landings[sends[i].target];
            sends[i].sender = sender;
            sends[i].index = i;
            sends[i].slot = landing->slot++;
            sends[i].offset = landing->offset;
            landing->offset += sends[i].bytes;
            if (sends[i].target == self) {
                exchange->incoming[exchange->n_incoming++] = sends[i];
            }
            if (sender == self) {
                exchange->outgoing[exchange->n_outgoing++] = sends[i];
            }
        }
    }
    for (uint32_t pe = 0; pe < workload->n_pes; pe++) {
        exchange->n_taking_part += landings[pe].is_sender || landings[pe].slot > 0;
        if (landings[pe].offset > exchange->payload_bytes_max) {
            exchange->payload_bytes_max = landings[pe].offset;
        }
        if (landings[pe].slot > exchange->slots_max) {
            exchange->slots_max = landings[pe].slot;
        }
    }
}

bool prs_bench_exchange_create(const struct prs_bench_workload *workload, uint32_t cell,
                               uint32_t self, struct prs_bench_exchange *out)
{
    size_t n = workload->transfers_max, pes = workload->n_pes;
    struct prs_bench_exchange exchange = {
        .outgoing = calloc(n, sizeof *exchange.outgoing),
        .incoming = calloc(n * pes, sizeof *exchange.incoming),
    };
    struct landing *landings = calloc(pes, sizeof *landings);
    struct prs_bench_transfer *sends = calloc(n, sizeof *sends);
    bool is_complete =
        exchange.outgoing != NULL && exchange.incoming != NULL && landings != NULL && sends != NULL;
    if (is_complete) {
        place(workload, cell, self, landings, sends, &exchange);
        *out = exchange;
    } else {
        prs_bench_exchange_destroy(&exchange);
    }
    free(landings);
    free(sends);
    return is_complete;
}

void prs_bench_exchange_destroy(struct prs_bench_exchange *exchange)
{
    free(exchange->outgoing);
    free(exchange->incoming);
    *exchange = (struct prs_bench_exchange){0};
}

bool prs_bench_space(const struct prs_bench_workload *workload, uint64_t *out_payload_bytes,
                     uint32_t *out_slots)
{
    uint64_t payload_bytes = 0;
    uint32_t slots = 0;
    for (uint32_t cell = 0; cell < workload->n_cells; cell++) {
        struct prs_bench_exchange exchange;
        if (!prs_bench_exchange_create(workload, cell, 0, &exchange)) {
            return false;
        }
        if (exchange.payload_bytes_max > payload_bytes) {
            payload_bytes = exchange.payload_bytes_max;
        }
        if (exchange.slots_max > slots) {
            slots = exchange.slots_max;
        }
        prs_bench_exchange_destroy(&exchange);
    }
    *out_payload_bytes = payload_bytes;
    *out_slots = slots;
    return true;
}

bool prs_bench_payload_matches(const unsigned char *arrived, const unsigned char *expected,
                               uint64_t bytes, bool is_whole)
{
    if (is_whole || bytes < SAMPLED_FROM) {
        return memcmp(arrived, expected, bytes) == 0;
    }
    for (uint64_t at = 0; at + SAMPLE_LINE <= bytes; at += SAMPLE_STEP) {
        if (memcmp(arrived + at, expected + at, SAMPLE_LINE) != 0) {
            return false;
        }
    }
    uint64_t tail = bytes - SAMPLE_LINE;
    return memcmp(arrived + tail, expected + tail, SAMPLE_LINE) == 0;
}
