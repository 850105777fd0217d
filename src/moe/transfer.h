/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h: what travels between one PE and one expert of another, in either way: rows to the
 * expert, or its results back. All of it is a pair; a transfer is a pair, or one of its tiles. What
 * it needs (addresses, bytes, signal, word) is computed here, once, and handed on.
 */
#ifndef PRS_MOE_TRANSFER_H
#define PRS_MOE_TRANSFER_H

#include "moe/word.h"

struct perseus_moe;
struct prs_round;

enum prs_moe_way { PRS_MOE_DISPATCH, PRS_MOE_ANSWERS, PRS_MOE_WAYS };

struct prs_transfer_rows {
    uint32_t first, count; /* as their source numbers them (rows.h) */
};

struct prs_moe_transfer {
    enum prs_moe_way way;
    uint32_t pe;    /* where it goes */
    uint32_t index; /* of the expert, among those of its host */
    bool is_direct; /* pe shares memory: the payload is written there, only the signal is sent */
    struct prs_transfer_rows rows;
    void *dst;     /* symmetric, at pe */
    void *src;     /* here: where rows are staged, or where they arrived and are overwritten */
    void *payload; /* what to fill before it is sent: src, or dst at a PE that shares memory */
    size_t bytes;
    uint64_t *signal; /* symmetric, at pe */
    struct prs_moe_word word;
};

/* All rows of a pair, with the signal that stands for all its tiles. ANSWERS: the pair has been
 * met. */
struct prs_moe_transfer prs_moe_transfer_pair(const struct perseus_moe *moe,
                                              const struct prs_round *round, enum prs_moe_way way,
                                              uint32_t pe, uint32_t index);
/* Tile `tile` of `pair`, with its own signal. */
struct prs_moe_transfer prs_moe_transfer_tile(const struct perseus_moe *moe,
                                              const struct prs_moe_transfer *pair, uint32_t tile);

/* In how many transfers a pair goes, one or more: as many as it has tiles if the way signals
 * each. */
uint32_t prs_moe_transfers(const struct perseus_moe *moe, const struct prs_moe_transfer *pair);

/* The signal word for all of expert `index` in one half of the buffers. */
uint64_t *prs_moe_signal(const struct perseus_moe *moe, uint32_t half, enum prs_moe_way way,
                         uint32_t index);

/* Sends a filled payload and, as the protocol wants it, its signal. */
enum perseus_status prs_moe_transfer_send(struct perseus_moe *moe, const struct prs_round *round,
                                          const struct prs_moe_transfer *transfer);
/* Every transfer of `pair` has been sent. */
enum perseus_status prs_moe_transfer_end(struct perseus_moe *moe, const struct prs_round *round,
                                         const struct prs_moe_transfer *pair);

#endif
