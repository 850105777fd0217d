/* SPDX-License-Identifier: Apache-2.0 */
/* row.h: one fabric that the contract suite runs on. A program of the suite links the suite and
 * defines fabric_rows; adding a back end is adding rows (docs/adding-a-fabric.md). */
#ifndef TEST_FABRIC_ROW_H
#define TEST_FABRIC_ROW_H

#include "fabric/fabric.h"
#include "fabric/faulty/faulty.h"

struct row;

/* Opens the fabric of one PE. Called once per PE; everything of one test comes from one seed.
 * A status of NOT_FOUND skips the row. */
typedef enum perseus_status (*row_open_fn)(const struct row *row, uint64_t seed,
                                           const struct prs_log *log, struct prs_clock clock,
                                           struct prs_fabric **out);

struct row {
    const char *name;
    row_open_fn open;
    uint32_t seeds;    /* how many seeds the seeded tests run */
    bool shuffles;     /* an adversary: what caps do not order must be seen out of order */
    bool notices_loss; /* a peer that closes becomes PEER_LOST */
    enum prs_memory_kind memory; /* what regions say they are; 0: the host's */
    const char *provider;        /* for `open`, like all below */
    uint64_t unordered_mask, ungranted_mask;
    enum prs_fence_scope fence_scope; /* NONE: what the loopback grants */
    struct prs_faulty_config faulty;
};

/* `inside`, which is taken over, behind the row's adversary with this seed: an `open` of its own
 * calls it last. */
enum perseus_status row_shuffle(const struct row *row, uint64_t seed, const struct prs_log *log,
                                struct prs_clock clock, struct prs_fabric *inside,
                                struct prs_fabric **out);

/* Ends with a row without a name. */
extern const struct row fabric_rows[];

#endif
