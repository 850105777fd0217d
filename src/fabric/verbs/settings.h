/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: what the user says about verbs (PERSEUS_IB_*, docs/verbs.md). */
#ifndef PRS_VERBS_SETTINGS_H
#define PRS_VERBS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

#define PRS_VERBS_LANES_MAX 8
#define PRS_VERBS_HCAS_MAX  32
#define PRS_VERBS_NAME_MAX  64

/* A list of devices: names, or beginnings of names, each perhaps with a port. */
struct prs_verbs_hcas {
    bool excludes; /* ^: all but these */
    bool exact;    /* =: whole names */
    uint32_t n;    /* 0: every device */
    struct {
        char name[PRS_VERBS_NAME_MAX];
        uint32_t port; /* 0: any */
    } list[PRS_VERBS_HCAS_MAX];
};

struct prs_verbs_settings {
    struct prs_verbs_hcas hcas;
    int gid_index; /* -1: the best one */
    int pkey;      /* the key's 15 bits, -1: the first of the port */
    uint32_t mtu;  /* bytes, 0: the port's */
    uint8_t sl, traffic_class, timeout, retry, lanes;
    bool atomics;
};

enum perseus_status prs_verbs_settings_read(const struct prs_log *log,
                                            struct prs_verbs_settings *out);

/* "mlx5_0:1,mlx5_1", "=mlx5_0", "^mlx5_2", "^=mlx5_2:1". INVALID_ARGUMENT with a message. */
enum perseus_status prs_verbs_hcas_parse(const char *text, const struct prs_log *log,
                                         struct prs_verbs_hcas *out);
bool prs_verbs_hcas_allow(const struct prs_verbs_hcas *hcas, const char *name, uint32_t port);

#endif
