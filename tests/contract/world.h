/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h: several PEs, each an orderer on faulty(loopback) or faulty(libfabric), in one thread.
 * The adversary lives in virtual time. A seed decides the programs, the adversary and the
 * interleaving; the same seed gives the same run.
 */
#ifndef TESTS_CONTRACT_WORLD_H
#define TESTS_CONTRACT_WORLD_H

#include "contract/program.h"
#include "order/engine.h"

#define WORLD_PES 3

/* Loses: everything ends, what is visible keeps its promises, and a quiet that says OK covers
 * nothing that was lost. */
struct world_case {
    const char *name;
    enum perseus_ordering ordering;
    const struct prs_mode *mode; /* NULL: the registry's */
    enum program_style style;
    uint64_t unordered_mask, ungranted_mask; /* prs_fabric_config */
    uint32_t lanes;                          /* 0: as many as are useful to the fabric */
    uint32_t piece_bytes;                    /* prs_orderer_config */
    bool no_immediate_signal;
    bool native_atomics;  /* prs_orderer_config */
    bool small_pools;     /* everything that can run out has its minimum */
    bool loses;           /* an operation of one PE fails or is refused, and with it that pair */
    uint64_t latency_ns;  /* 0: a few hundred */
    const char *fabric;   /* with provider; NULL: libfabric */
    const char *provider; /* a libfabric provider inside the adversary; NULL: loopback */
    bool staged;          /* heaps say that they are a GPU's, which the fabric does not reach */
};

/* Runs one seed. NULL: every promise was kept; else what broke, in `why`, which is returned. */
const char *world_run(const struct world_case *what, uint64_t seed, char *why, size_t why_bytes);

/* NOT_SUPPORTED when the case's fabric cannot keep its mode. */
enum perseus_status world_supported(const struct world_case *what);

#endif
