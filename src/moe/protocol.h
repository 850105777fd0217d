/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h: who signals when, as a table of what differs.
 *
 *   coupled     every transfer: payload and its own signal
 *   decoupled   payloads, and one fence and all signals when a group of experts is through
 *   put-only    payloads; one quiet when all are sent; then the signals, one message a PE
 *   collective  nothing until all is staged; one payload and one message of signals a PE; a
 *               barrier; nobody looks before
 *
 * PEs that share memory get every transfer's signal at once, whatever the protocol (but for
 * collective, which treats all alike). An expert without rows gets a signal too, and is answered:
 * so every PE knows, without counting messages, when it has heard of everybody, and when its
 * buffers are free again.
 *
 * To add one: a file in protocol/, and its line in protocol/registry.c.
 */
#ifndef PRS_MOE_PROTOCOL_H
#define PRS_MOE_PROTOCOL_H

#include "moe/transfer.h"

struct prs_moe_protocol {
    bool treats_all_alike;  /* PEs that share memory are sent to like others */
    bool opens_doors;       /* signals are not looked at before `end` has set round->open[way] */
    bool has_groups;        /* needs the layer's signal groups */
    uint32_t in_flight_max; /* forwards; at most PRS_MOE_HALVES */
    /* One transfer to another node. */
    enum perseus_status (*send)(struct perseus_moe *moe, const struct prs_round *round,
                                const struct prs_moe_transfer *transfer);
    /* All transfers of a pair to another node have been given to send. NULL: nothing to do. */
    enum perseus_status (*arrive)(struct perseus_moe *moe, const struct prs_round *round,
                                  const struct prs_moe_transfer *pair);
    /* All pairs of one way have arrived. NULL: nothing to do. */
    enum perseus_status (*end)(struct perseus_moe *moe, struct prs_round *round,
                               enum prs_moe_way way);
};

extern const struct prs_moe_protocol prs_moe_coupled, prs_moe_decoupled, prs_moe_put_only,
    prs_moe_collective;
/* For tools, where results do not matter: coupled without its fences, put-only without its quiet,
 * collective without its barriers. Nothing keeps a signal behind its payload, so no protocol that
 * does can be faster with the same messages: the least that these take is the ceiling. The caller's
 * quiet and a meeting of all PEs must come before the next forward. */
extern const struct prs_moe_protocol prs_moe_coupled_unordered, prs_moe_put_only_unordered,
    prs_moe_collective_unordered;

const struct prs_moe_protocol *prs_moe_protocol_find(enum perseus_moe_protocol protocol);

/* ---- steps that protocols share ---- */

enum perseus_status prs_protocol_put(struct perseus_moe *moe, const struct prs_round *round,
                                     const struct prs_moe_transfer *transfer);
enum perseus_status prs_protocol_put_signal(struct perseus_moe *moe, const struct prs_round *round,
                                            const struct prs_moe_transfer *transfer);

/* For every PE that is not direct, the next one first: */
/* all payload for it, in one put; */
enum perseus_status prs_bulk_put(struct perseus_moe *moe, const struct prs_round *round,
                                 enum prs_moe_way way);
/* the signals of all its pairs, as vectors. */
enum perseus_status prs_bulk_signal(struct perseus_moe *moe, const struct prs_round *round,
                                    enum prs_moe_way way);

#endif
