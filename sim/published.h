/* SPDX-License-Identifier: Apache-2.0 */
/* published.h: the numbers of the paper (arXiv 2605.00686), each with the set-up that gives it
 * here. Where the paper leaves a condition open, the comment at the set-up says what was taken. */
#ifndef SIM_PUBLISHED_H
#define SIM_PUBLISHED_H

#include "sim/lab.h"

enum sim_published_kind { SIM_VALUE, SIM_AT_MOST, SIM_AT_LEAST };

struct sim_published {
    const char *id, *what, *unit;
    double value;
    enum sim_published_kind kind;
    bool is_secondary;              /* second hand, less certain */
    enum sim_lab_platform platform; /* whose parameters it depends on */
    double (*simulate)(struct sim_lab *lab);
};

extern const struct sim_published sim_published[];
extern const uint32_t sim_published_count;

#define SIM_TOLERANCE           0.20
#define SIM_TOLERANCE_SECONDARY 0.35

/* (simulated - published) / published; of a bound that holds 0, else how far it is missed. */
double sim_published_error(const struct sim_published *row, double simulated);
bool sim_published_ok(const struct sim_published *row, double simulated);

/* Tokens of a PE at which the figures on Qwen3 are taken unless they sweep it (Figure 7 says
 * 1K). */
#define SIM_FIGURE_TOKENS 1024

/* Sizes of all-to-all messages, and how many a PE sends: 128 tokens to 8 experts each, both
 * ways. */
#define SIM_ALLTOALL_MESSAGES 1536
extern const uint64_t sim_alltoall_bytes[];
extern const uint32_t sim_alltoall_count;
double sim_alltoall_ms(struct sim_lab *lab, uint64_t bytes, bool by_nic);

#endif
