/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/models.h"

struct forward {
    struct forward *next;
    struct sim_lab_forward what;
    struct sim_moe_result result;
};

struct transfers {
    struct transfers *next;
    struct sim_lab_transfers what;
    struct sim_exchange_result result;
};

struct sim_lab {
    struct sim_platform platforms[SIM_LAB_PLATFORMS];
    uint64_t seed, operations;
    const struct prs_log *log;
    struct forward *forwards;
    struct transfers *transfers;
    enum perseus_status status;
    bool is_quick;
};

const char *sim_lab_preset(enum sim_lab_platform platform)
{
    static const char *const names[] = {"slingshot11-a100", "cx7-h100-ibrc-4qp", "cx7-h100-ibgda"};
    return names[platform];
}

const char *sim_variant_name(enum sim_variant variant)
{
    static const char *const names[] = {"vanilla", "nic-ordering", "decoupled", "perseus"};
    return names[variant];
}

enum perseus_status sim_lab_create(const struct sim_platform platforms[SIM_LAB_PLATFORMS],
                                   uint64_t seed, const struct prs_log *log, struct sim_lab **out)
{
    struct sim_lab *lab = calloc(1, sizeof *lab);
    if (lab == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the runs");
    }
    memcpy(lab->platforms, platforms, sizeof lab->platforms);
    lab->seed = seed;
    lab->log = log;
    *out = lab;
    return PERSEUS_OK;
}

/* Drops what ran on a platform; SIM_LAB_PLATFORMS: on any. */
static void forget(struct sim_lab *lab, enum sim_lab_platform which)
{
    struct forward **link = &lab->forwards;
    while (*link != NULL) {
        struct forward *forward = *link;
        if (which == SIM_LAB_PLATFORMS || forward->what.platform == which) {
            *link = forward->next;
            free(forward);
        } else {
            link = &forward->next;
        }
    }
    while (lab->transfers != NULL && (which == SIM_LAB_PLATFORMS || which == SIM_LAB_SLINGSHOT)) {
        struct transfers *transfers = lab->transfers;
        lab->transfers = transfers->next;
        free(transfers);
    }
}

void sim_lab_destroy(struct sim_lab *lab)
{
    if (lab != NULL) {
        forget(lab, SIM_LAB_PLATFORMS);
        free(lab);
    }
}

const struct sim_platform *sim_lab_get_platform(const struct sim_lab *lab,
                                                enum sim_lab_platform platform)
{
    return &lab->platforms[platform];
}

void sim_lab_set_platform(struct sim_lab *lab, enum sim_lab_platform which,
                          const struct sim_platform *platform)
{
    lab->platforms[which] = *platform;
    forget(lab, which);
}

static void run_forward(struct sim_lab *lab, struct forward *forward)
{
    const struct sim_lab_forward *what = &forward->what;
    const struct sim_platform *platform = &lab->platforms[what->platform];
    const struct prs_moe_model *model = prs_moe_model_find(what->model);
    bool by_nic = what->variant == SIM_NIC_ONLY || what->variant == SIM_PERSEUS;
    bool decoupled = what->variant == SIM_DECOUPLED_ONLY || what->variant == SIM_PERSEUS;
    struct sim_moe_config config = {.platform = platform,
                                    .hidden = model->hidden,
                                    .intermediate = model->intermediate,
                                    .experts = model->experts,
                                    .top_k = model->top_k,
                                    .nodes = what->nodes,
                                    .tokens = what->tokens,
                                    .protocol = decoupled ? SIM_DECOUPLED : SIM_COUPLED,
                                    .group_experts = what->group,
                                    .ordering = by_nic ? platform->perseus : platform->vanilla,
                                    .stock = true,
                                    .seed = lab->seed,
                                    .log = lab->log};
    if (model->experts < what->nodes * platform->pes_per_node) {
        config.job_pes = model->experts / platform->pes_per_node * platform->pes_per_node;
    }
    enum perseus_status status = sim_moe_run(&config, &forward->result);
    lab->operations += forward->result.operations;
    if (status != PERSEUS_OK) {
        forward->result = (struct sim_moe_result){.total_ms = NAN, .busy = NAN};
        lab->status = lab->status == PERSEUS_OK ? status : lab->status;
    }
}

static bool is_same(const struct sim_lab_forward *a, const struct sim_lab_forward *b)
{
    return a->platform == b->platform && strcmp(a->model, b->model) == 0 && a->nodes == b->nodes &&
           a->tokens == b->tokens && a->variant == b->variant && a->group == b->group;
}

const struct sim_moe_result *sim_lab_moe(struct sim_lab *lab, const struct sim_lab_forward *what)
{
    static const struct sim_moe_result none = {.total_ms = NAN, .busy = NAN};
    for (const struct forward *one = lab->forwards; one != NULL; one = one->next) {
        if (is_same(&one->what, what)) {
            return &one->result;
        }
    }
    struct forward *forward = calloc(1, sizeof *forward);
    if (forward == NULL) {
        lab->status = PERSEUS_OUT_OF_MEMORY;
        return &none;
    }
    forward->what = *what;
    run_forward(lab, forward);
    forward->next = lab->forwards;
    lab->forwards = forward;
    return &forward->result;
}

const struct sim_exchange_result *sim_lab_exchange(struct sim_lab *lab,
                                                   const struct sim_lab_transfers *what)
{
    static const struct sim_exchange_result none = {.quiet_ms = NAN, .arrived_ms = NAN};
    for (const struct transfers *one = lab->transfers; one != NULL; one = one->next) {
        if (one->what.nodes == what->nodes && one->what.transfers == what->transfers &&
            one->what.bytes == what->bytes && one->what.kind == what->kind &&
            one->what.by_nic == what->by_nic) {
            return &one->result;
        }
    }
    struct transfers *transfers = calloc(1, sizeof *transfers);
    if (transfers == NULL) {
        lab->status = PERSEUS_OUT_OF_MEMORY;
        return &none;
    }
    const struct sim_platform *platform = &lab->platforms[SIM_LAB_SLINGSHOT];
    transfers->what = *what;
    struct sim_exchange_config config = {.platform = platform,
                                         .nodes = what->nodes,
                                         .transfers = what->transfers,
                                         .bytes = what->bytes,
                                         .kind = what->kind,
                                         .ordering =
                                             what->by_nic ? platform->perseus : platform->vanilla,
                                         .stock = true,
                                         .seed = lab->seed,
                                         .log = lab->log};
    enum perseus_status status = sim_exchange_run(&config, &transfers->result);
    lab->operations += transfers->result.operations;
    if (status != PERSEUS_OK) {
        transfers->result = none;
        lab->status = lab->status == PERSEUS_OK ? status : lab->status;
    }
    transfers->next = lab->transfers;
    lab->transfers = transfers;
    return &transfers->result;
}

void sim_lab_set_quick(struct sim_lab *lab, bool quick)
{
    lab->is_quick = quick;
}

bool sim_lab_is_quick(const struct sim_lab *lab)
{
    return lab->is_quick;
}

enum perseus_status sim_lab_status(const struct sim_lab *lab)
{
    return lab->status;
}

uint64_t sim_lab_operations(const struct sim_lab *lab)
{
    return lab->operations;
}
