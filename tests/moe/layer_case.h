/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_case.h: a layer on PEs that are threads of the test, run over several forwards and compared
 * with the reference: every output, and every count of rows.
 */
#ifndef PRS_TEST_LAYER_CASE_H
#define PRS_TEST_LAYER_CASE_H

#include "core/pes.h"
#include "moe/plan.h"

struct layer_case {
    const char *what; /* for messages */
    struct perseus_moe_config config;
    int n_pes, pes_per_node; /* 0: all on one node */
    enum perseus_ordering ordering;
    const char *routing; /* as prs_routing_spec_parse takes it; NULL: uniform */
    /* Replaces generated ids: of `choice` of `token`, counted over all PEs. */
    int32_t (*id)(const struct layer_case *layer, uint32_t forward, uint32_t token,
                  uint32_t choice);
    uint32_t tokens;   /* of every PE; 0: tokens_max */
    bool ragged;       /* PE p has tokens * p / n_pes of them instead (0 on PE 0) */
    uint32_t forwards; /* 0: 3 */
    bool overlap;      /* two forwards in flight */
    bool twice;        /* again on the same layer: y must be the same to the bit */
    double error_max;  /* 0: by the dtypes */
};

/* Fails the test (and names the case and seed) if anything differs. False if the fabric cannot keep
 * the ordering mode. */
bool layer_case_run(const struct layer_case *layer);

/* A small shape that every test can afford. */
struct perseus_moe_config layer_case_config(enum perseus_moe_protocol protocol);

#endif
