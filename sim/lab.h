/* SPDX-License-Identifier: Apache-2.0 */
/* lab.h: runs of named set-ups on the platforms of the paper, each made at most once. */
#ifndef SIM_LAB_H
#define SIM_LAB_H

#include "sim/exchange.h"
#include "sim/moe.h"

enum sim_lab_platform { SIM_LAB_SLINGSHOT, SIM_LAB_IBRC, SIM_LAB_IBGDA, SIM_LAB_PLATFORMS };
const char *sim_lab_preset(enum sim_lab_platform platform);

/* Who orders, and who signals when: the paper's ablation. */
enum sim_variant {
    SIM_VANILLA,  /* coupled, the stock transport's fence */
    SIM_NIC_ONLY, /* coupled, order by the NIC */
    SIM_DECOUPLED_ONLY,
    SIM_PERSEUS, /* both */
    SIM_VARIANTS
};
const char *sim_variant_name(enum sim_variant variant);

struct sim_lab;

/* Platforms are copied; sim_lab_set_platform forgets what was run on the one it replaces. */
enum perseus_status sim_lab_create(const struct sim_platform platforms[SIM_LAB_PLATFORMS],
                                   uint64_t seed, const struct prs_log *log, struct sim_lab **out);
void sim_lab_destroy(struct sim_lab *lab);
const struct sim_platform *sim_lab_get_platform(const struct sim_lab *lab,
                                                enum sim_lab_platform platform);
void sim_lab_set_platform(struct sim_lab *lab, enum sim_lab_platform which,
                          const struct sim_platform *platform);

/* A forward of a named model. group 0: per PE. Models with fewer experts than PEs run in expert
 * groups of as many whole nodes as they can fill. NaN after a failure, which is kept. */
struct sim_lab_forward {
    enum sim_lab_platform platform;
    const char *model;
    uint32_t nodes, tokens;
    enum sim_variant variant;
    uint32_t group;
};
const struct sim_moe_result *sim_lab_moe(struct sim_lab *lab, const struct sim_lab_forward *what);

struct sim_lab_transfers {
    uint32_t nodes, transfers;
    uint64_t bytes;
    enum sim_exchange_kind kind;
    bool by_nic; /* order by the NIC, else the stock fence */
};
const struct sim_exchange_result *sim_lab_exchange(struct sim_lab *lab,
                                                   const struct sim_lab_transfers *what);

/* Quick: sweeps are cut to what a fit needs (published.c). */
void sim_lab_set_quick(struct sim_lab *lab, bool quick);
bool sim_lab_is_quick(const struct sim_lab *lab);

/* The first failure of a run, or OK. */
enum perseus_status sim_lab_status(const struct sim_lab *lab);
uint64_t sim_lab_operations(const struct sim_lab *lab);

#endif
