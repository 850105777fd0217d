/* SPDX-License-Identifier: Apache-2.0 */
/* suite.h: the contract of fabric.h as test cases; each runs on every row. */
#ifndef TEST_FABRIC_SUITE_H
#define TEST_FABRIC_SUITE_H

#include "row.h"

struct contract_case {
    const char *name;
    void (*run)(const struct row *row);
};

/* Each ends with a case without a name. */
extern const struct contract_case contract_post_cases[];
extern const struct contract_case contract_data_cases[];
extern const struct contract_case contract_order_cases[];
extern const struct contract_case contract_loss_cases[];
extern const struct contract_case contract_wake_cases[];

#endif
