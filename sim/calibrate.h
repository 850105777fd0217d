/* SPDX-License-Identifier: Apache-2.0 */
/* calibrate.h: a platform's fabric fitted to times that perseus bench put-signal measured on it. */
#ifndef SIM_CALIBRATE_H
#define SIM_CALIBRATE_H

#include "sim/exchange.h"
#include "sim/fit.h"

/* A median of one exchange: each PE is a node of its own. */
struct sim_measured {
    uint32_t transfers, peers;
    uint64_t bytes;
    bool all_send;
    enum sim_exchange_kind kind;
    enum perseus_ordering ordering;
    double ms, simulated_ms;
};

/* Whether the platform's fabric can keep that order. */
bool sim_platform_keeps(const struct sim_platform *platform, enum perseus_ordering ordering);

/* Fits *platform, whose fabric grants what the measured one does, and fills in simulated_ms.
 * *out_error: root mean square of the relative errors. NOT_SUPPORTED: no row is of a mode that the
 * platform keeps; the others are left out, with NaN. */
enum perseus_status sim_calibrate(struct sim_measured *rows, uint32_t n, uint32_t rounds,
                                  uint64_t seed, const struct prs_log *log,
                                  struct sim_platform *platform, double *out_error);

#endif
