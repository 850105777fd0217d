/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trio.h: three PEs, each an orderer on faulty(loopback), in one thread and in virtual time. The
 * test says what they send; time goes by when nobody moves.
 */
#ifndef TESTS_CONTRACT_TRIO_H
#define TESTS_CONTRACT_TRIO_H

#include "fabric/faulty/faulty.h"
#include "order/engine.h"

#define TRIO_PES    3
#define TRIO_WORDS  64
#define TRIO_TOKENS 4

struct trio_config {
    enum perseus_ordering ordering;
    uint64_t ungranted_mask, unordered_mask; /* prs_fabric_config */
    struct prs_order_pools pools;
    uint32_t parked_max;
    uint64_t timeout_ns;
    struct prs_faulty_config faulty;
    bool first_only; /* the adversary is PE 0's; the others' fabrics behave */
    const struct prs_log *log;
};

struct trio_pe {
    struct prs_fabric *fabric;
    struct prs_orderer *orderer;
    struct prs_window *heap;
    struct prs_window_remote *remotes[TRIO_PES];
    uint64_t memory[TRIO_WORDS];
    bool done[TRIO_TOKENS];
    enum perseus_status status[TRIO_TOKENS];
};

struct trio {
    uint64_t now_ns;
    struct trio_pe pes[TRIO_PES];
    unsigned char directory[TRIO_PES][4 + PRS_ORDERER_ADDRESS_MAX];
};

/* Asserts inside. Peers are connected in the order of their ranks. */
void trio_open(struct trio *trio, const struct trio_config *config);
void trio_close(struct trio *trio);

/* From the first word of PE `self` to that of `peer`, 8 bytes; the signal goes to word 1 + self. */
enum perseus_status trio_put_signal(struct trio *trio, uint32_t self, uint32_t peer,
                                    uint64_t value);
/* Every PE makes one step. Whether any of them moved. */
bool trio_step(struct trio *trio);

#endif
