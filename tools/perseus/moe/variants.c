/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/job.h"
#include "moe/protocol.h"

void prs_moe_group_name(uint32_t group_experts, char out[16])
{
    bool is_pe = group_experts == PERSEUS_MOE_GROUP_PE;
    snprintf(out, 16, "%u", group_experts);
    if (group_experts == 0) {
        out[0] = '\0';
    } else if (group_experts > PERSEUS_MOE_EXPERTS_MAX) {
        snprintf(out, 16, "%s", is_pe ? "pe" : "all");
    }
}

/* What the table of variants is made of: one row of each, or one for every size of groups. Those
 * that need no order are measured under the best mode too, in the same turns as what they are
 * compared with. */
struct kind {
    enum prs_moe_role role;
    enum perseus_moe_protocol number;
    const struct prs_moe_protocol *protocol;
    const char *words; /* NULL: the protocol's name */
    bool is_best, are_answers_grouped, is_ordered /* its name says by which mode */;
};
static const struct kind kinds[] = {
    {PRS_MOE_VANILLA, PERSEUS_MOE_COUPLED, &prs_moe_coupled, NULL, false, false, true},
    {PRS_MOE_GROUPED, PERSEUS_MOE_DECOUPLED, &prs_moe_decoupled, NULL, false, false, true},
    {PRS_MOE_GROUPED, PERSEUS_MOE_DECOUPLED, &prs_moe_decoupled, "both ways", false, true, true},
    {PRS_MOE_ORDERED, PERSEUS_MOE_COUPLED, &prs_moe_coupled, NULL, true, false, true},
    {PRS_MOE_BOTH, PERSEUS_MOE_DECOUPLED, &prs_moe_decoupled, NULL, true, false, true},
    {PRS_MOE_BOTH, PERSEUS_MOE_DECOUPLED, &prs_moe_decoupled, "both ways", true, true, true},
    {PRS_MOE_OTHER, PERSEUS_MOE_COLLECTIVE, &prs_moe_collective, NULL, true, false, false},
    {PRS_MOE_OTHER, PERSEUS_MOE_PUT_ONLY, &prs_moe_put_only, NULL, true, false, false},
    {PRS_MOE_CEILING, PERSEUS_MOE_COUPLED, &prs_moe_coupled_unordered, "ceiling, each signaled",
     true, false, false},
    {PRS_MOE_CEILING, PERSEUS_MOE_PUT_ONLY, &prs_moe_put_only_unordered, "ceiling, signals last",
     true, false, false},
    {PRS_MOE_CEILING, PERSEUS_MOE_COLLECTIVE, &prs_moe_collective_unordered, "ceiling, one per PE",
     true, false, false},
};

/* "decoupled 4 both ways + fifo" */
static void name_variant(const struct kind *kind, const struct prs_moe_setup *setup,
                         enum perseus_ordering mode, struct prs_moe_variant *variant)
{
    char group[16] = "";
    if (kind->protocol->has_groups) {
        prs_moe_group_name(setup->groups[variant->group], group);
    }
    bool replaces = kind->role == PRS_MOE_CEILING;
    snprintf(variant->name, sizeof variant->name, "%s%s%s%s%s%s%s",
             replaces ? kind->words : perseus_moe_protocol_name(kind->number),
             group[0] != '\0' ? " " : "", group, kind->words != NULL && !replaces ? " " : "",
             kind->words != NULL && !replaces ? kind->words : "", kind->is_ordered ? " + " : "",
             kind->is_ordered ? perseus_ordering_name(mode) : "");
}

uint32_t prs_moe_variants(const struct prs_moe_setup *setup, enum perseus_ordering best,
                          struct prs_moe_variant out[PRS_MOE_VARIANTS_MAX])
{
    bool has_best = best != PERSEUS_ORDERING_DRAIN;
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct kind *kind = &kinds[i];
        bool only_once = kind->role == PRS_MOE_ORDERED || kind->role == PRS_MOE_BOTH;
        if (!has_best && only_once) { /* the same as the rows under drain */
            continue;
        }
        uint32_t sizes = kind->protocol->has_groups ? setup->n_groups : 1;
        for (uint32_t group = 0; group < sizes; group++) {
            struct prs_moe_variant *variant = &out[n++];
            *variant = (struct prs_moe_variant){.role = kind->role,
                                                .protocol = kind->protocol,
                                                .number = kind->number,
                                                .group = group,
                                                .are_answers_grouped = kind->are_answers_grouped,
                                                .is_best = kind->is_best && has_best};
            name_variant(kind, setup, kind->is_best ? best : PERSEUS_ORDERING_DRAIN, variant);
        }
    }
    return n;
}
