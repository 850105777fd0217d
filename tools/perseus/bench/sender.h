/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/sender.h: submits one round of an exchange under one protocol, from one or several threads
 * that stand for a GPU's thread blocks (CTAs).
 */
#ifndef PRS_TOOLS_BENCH_SENDER_H
#define PRS_TOOLS_BENCH_SENDER_H

#include <perseus/perseus.h>

#include "bench/exchange.h"

enum prs_bench_protocol {
    PRS_BENCH_PUT_ONLY,         /* puts; the ceiling */
    PRS_BENCH_PUT_ONLY_SIGNALS, /* one bare signal message beside every put, in no order */
    PRS_BENCH_COUPLED,          /* put_signal_nbi per transfer */
    PRS_BENCH_DECOUPLED,        /* signal groups, a message per signal */
    PRS_BENCH_DECOUPLED_VECTOR, /* signal groups, contiguous signals in one message */
    PRS_BENCH_COLLECTIVE,       /* puts, then a barrier tells */
    PRS_BENCH_PROTOCOL_COUNT
};

struct prs_bench_protocol_info {
    const char *name;  /* of options and JSON */
    const char *title; /* of tables */
    bool is_vector;
    bool has_signals; /* a receiver sees one per transfer */
    bool is_ordered;  /* a seen signal promises the payload */
};
const struct prs_bench_protocol_info *prs_bench_protocol_info(enum prs_bench_protocol protocol);

#define PRS_BENCH_GROUP_TARGET 0          /* one group per destination PE */
#define PRS_BENCH_GROUP_ALL    UINT32_MAX /* one group for everything */

/* The PE's areas, see bench/exchange.h; symmetric. */
struct prs_bench_areas {
    unsigned char *source, *payload;
    uint64_t *signals;
    uint64_t *ends;  /* a word per sender: the last round without signals that it has ended */
    uint64_t *round; /* the round, as the source of bare messages */
};

struct prs_bench_sender;

/* group_size: transfers per signal group, taken in the order of their targets, or one of the words
 * above. ctas: threads that submit, 1 and more; the caller's is one of them. */
enum perseus_status prs_bench_sender_create(struct perseus_pe *pe,
                                            const struct prs_bench_areas *areas,
                                            uint32_t transfers_max, uint32_t group_size,
                                            uint32_t ctas, struct prs_bench_sender **out);
void prs_bench_sender_destroy(struct prs_bench_sender *sender); /* NULL allowed */

/* What is to be sent from now on, with its signal groups; kept by the caller until the next. */
enum perseus_status prs_bench_sender_set(struct prs_bench_sender *sender,
                                         const struct prs_bench_exchange *exchange);
/* Returns once everything is submitted; nothing is complete yet. Signals carry `round`. */
enum perseus_status prs_bench_sender_submit(struct prs_bench_sender *sender,
                                            enum prs_bench_protocol protocol, uint64_t round);

#endif
