/* SPDX-License-Identifier: Apache-2.0 */
#include "dimension.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/models.h"

#define CONFIG(field) offsetof(struct sim_moe_config, field)

const struct prs_sim_dimension prs_sim_dimensions[PRS_SIM_DIMENSIONS] = {
    {.name = "model",
     .argument = "NAME",
     .help = "a forward of this model on the scenario, and what each change would win",
     .kind = PRS_SIM_MODEL},
    {.name = "experts",
     .argument = "N",
     .help = "instead of the model's",
     .kind = PRS_SIM_COUNT,
     .offset = CONFIG(experts),
     .min = 1,
     .max = 1 << 16},
    {.name = "top-k",
     .argument = "N",
     .help = "instead of the model's",
     .kind = PRS_SIM_COUNT,
     .offset = CONFIG(top_k),
     .min = 1,
     .max = 64},
    {.name = "nodes",
     .argument = "N",
     .help = "of --model (default 8)",
     .kind = PRS_SIM_COUNT,
     .offset = CONFIG(nodes),
     .min = 1,
     .max = 1 << 16},
    {.name = "pes-per-node",
     .argument = "N",
     .help = "instead of the scenario's",
     .kind = PRS_SIM_FIELD,
     .field = "cluster.pes_per_node"},
    {.name = "tokens",
     .argument = "N",
     .help = "of one PE (default 1024)",
     .kind = PRS_SIM_COUNT,
     .offset = CONFIG(tokens),
     .min = 1,
     .max = 1 << 24},
    {.name = "skew",
     .argument = "X",
     .help = "exponent of a Zipf routing (default 0: balanced)",
     .kind = PRS_SIM_NUMBER,
     .offset = CONFIG(skew),
     .max = 8},
    {.name = "job-pes",
     .argument = "N",
     .help = "PEs of an expert group (default all)",
     .kind = PRS_SIM_COUNT,
     .offset = CONFIG(job_pes),
     .max = 1 << 16},
    {.name = "group",
     .argument = "N",
     .help = "experts of a signal group (default those of one PE)",
     .kind = PRS_SIM_COUNT,
     .offset = CONFIG(group_experts),
     .max = 1 << 16},
    {.name = "decoupled",
     .help = "decoupled dispatch (default coupled)",
     .kind = PRS_SIM_SWITCH,
     .offset = CONFIG(protocol),
     .max = 1},
    {.name = "answers-decoupled",
     .help = "answers too",
     .kind = PRS_SIM_SWITCH,
     .offset = CONFIG(answers_decoupled),
     .max = 1},
    {.name = "bulk",
     .help = "decoupled, one put for all experts of a PE",
     .kind = PRS_SIM_SWITCH,
     .offset = CONFIG(bulk),
     .max = 1},
    {.name = "vector",
     .help = "a group's signals as one write",
     .kind = PRS_SIM_SWITCH,
     .offset = CONFIG(vector),
     .max = 1},
    {.name = "in-turn",
     .help = "each PE begins its dispatch with another PE",
     .kind = PRS_SIM_SWITCH,
     .offset = CONFIG(in_turn),
     .max = 1},
    {.name = "ordering",
     .argument = "MODE",
     .help = "how a signal stays behind its put (default the scenario's)",
     .kind = PRS_SIM_ORDERING},
    {.name = "channels",
     .argument = "N",
     .help = "of a PE's proxy, each a thread with queue pairs of its own (default 1)",
     .kind = PRS_SIM_COUNT,
     .offset = CONFIG(channels),
     .min = 1,
     .max = 64},
    {.name = "qps",
     .argument = "N",
     .help = "queue pairs to a peer, the engine's lanes (default the scenario's)",
     .kind = PRS_SIM_QPS},
};

static const char *set_model(struct prs_sim_what *what, const char *name)
{
    const struct prs_moe_model *model = prs_moe_model_find(name);
    if (model == NULL) {
        return "a model; perseus moe --help lists them";
    }
    what->config.hidden = model->hidden;
    what->config.intermediate = model->intermediate;
    what->config.experts = model->experts;
    what->config.top_k = model->top_k;
    return NULL;
}

static bool parse_number(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == '\0';
}

static const char *set_field(struct prs_sim_what *what, const char *name, const char *text)
{
    double value;
    return parse_number(text, &value) &&
                   sim_platform_set(&what->platform, name, value, &what->log) == PERSEUS_OK
               ? NULL
               : "a number that the field can have (--fields)";
}

static const char *set_number(struct prs_sim_what *what, const struct prs_sim_dimension *of,
                              const char *text)
{
    unsigned char *at = (unsigned char *)&what->config + of->offset;
    double value;
    if (!parse_number(text, &value) || !(value >= of->min && value <= of->max)) {
        return "a number in its range";
    }
    if (of->kind == PRS_SIM_NUMBER) {
        *(double *)(void *)at = value;
        return NULL;
    }
    if (value != floor(value)) {
        return of->kind == PRS_SIM_SWITCH ? "0 or 1" : "a whole number";
    }
    if (of->kind == PRS_SIM_COUNT) {
        *(uint32_t *)(void *)at = (uint32_t)value;
    } else if (of->offset == CONFIG(protocol)) {
        what->config.protocol = value != 0 ? SIM_DECOUPLED : SIM_COUPLED;
    } else {
        *(bool *)(void *)at = value != 0;
    }
    return NULL;
}

/* Lanes, and where all peers share command queues, one for the n-th lane of each. */
static const char *set_qps(struct prs_sim_what *what, const char *text)
{
    double value;
    if (!parse_number(text, &value) || !(value >= 1)) {
        return "a number in its range";
    }
    const char *wrong = set_field(what, "fabric.lanes", text);
    return wrong == NULL && what->platform.fabric.queues > 0
               ? set_field(what, "fabric.queues", text)
               : wrong;
}

const char *prs_sim_what_set(struct prs_sim_what *what, const char *name, const char *text)
{
    for (uint32_t i = 0; i < PRS_SIM_DIMENSIONS; i++) {
        const struct prs_sim_dimension *of = &prs_sim_dimensions[i];
        if (strcmp(of->name, name) != 0) {
            continue;
        }
        switch (of->kind) {
        case PRS_SIM_MODEL:
            return set_model(what, text);
        case PRS_SIM_FIELD:
            return set_field(what, of->field, text);
        case PRS_SIM_QPS:
            return set_qps(what, text);
        case PRS_SIM_ORDERING:
            return perseus_ordering_parse(text, &what->config.ordering) == PERSEUS_OK
                       ? NULL
                       : "auto, drain, drain-peer, deferred, nic-fence, fifo or counted";
        default:
            return set_number(what, of, text);
        }
    }
    return set_field(what, name, text);
}
