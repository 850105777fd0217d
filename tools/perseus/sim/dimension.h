/* SPDX-License-Identifier: Apache-2.0 */
/* dimension.h: what may be changed about a forward: each is an option, and --sweep runs over it. */
#ifndef PRS_TOOLS_SIM_DIMENSION_H
#define PRS_TOOLS_SIM_DIMENSION_H

#include "sim/moe.h"

/* One run of a what-if. */
struct prs_sim_what {
    struct sim_platform platform;
    struct sim_moe_config config;
    struct prs_log log;
};

enum prs_sim_kind {
    PRS_SIM_COUNT,
    PRS_SIM_NUMBER,
    PRS_SIM_SWITCH,   /* 0 or 1; as an option it is given or not */
    PRS_SIM_ORDERING, /* by name */
    PRS_SIM_MODEL,    /* by name: sizes, experts, top-k */
    PRS_SIM_QPS,      /* lanes of the scenario, and the queues that they are on */
    PRS_SIM_FIELD     /* of the scenario */
};

struct prs_sim_dimension {
    const char *name, *argument, *help; /* argument NULL: a switch */
    enum prs_sim_kind kind;
    size_t offset;     /* in the config */
    double min, max;   /* of a count or number */
    const char *field; /* PRS_SIM_FIELD: its full name */
};

/* In the order in which they are to be set: a model before what differs from it. */
enum { PRS_SIM_DIMENSION_MODEL = 0, PRS_SIM_DIMENSIONS = 17 };
extern const struct prs_sim_dimension prs_sim_dimensions[PRS_SIM_DIMENSIONS];

/* Sets what `name` says, a dimension or a field of the scenario, from text. NULL, or what it
 * takes. */
const char *prs_sim_what_set(struct prs_sim_what *what, const char *name, const char *text);

#endif
