/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h: which experts' signals share a fence. Groups are of one direction and one half, in the
 * order of PEs and experts. */
#ifndef PRS_MOE_GROUPS_H
#define PRS_MOE_GROUPS_H

#include "moe/transfer.h"

/* What the core keeps for each member of a signal group. */
#define PRS_MOE_GROUP_MEMBER_BYTES 64

/* Where a pair arrives: a place in a signal group. */
struct prs_membership {
    struct perseus_signal_group *group;
    uint32_t member;
};

struct prs_groups;

/* group_experts as in struct perseus_moe_config. Not collective. */
enum perseus_status prs_groups_create(const struct perseus_moe *moe, uint32_t group_experts,
                                      struct prs_groups **out);
void prs_groups_destroy(struct prs_groups *groups); /* NULL allowed */

/* The place of a pair that is not direct, in the layer's groups in force. */
const struct prs_membership *prs_groups_place(const struct perseus_moe *moe, uint32_t half,
                                              const struct prs_moe_transfer *pair);

#endif
