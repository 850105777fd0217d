/* SPDX-License-Identifier: Apache-2.0 */
/* The program around the contract cases: every case on every row of fabric_rows.
 * Arguments: [pattern], a filter on "row/case" with * and ?. */
#include "suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define TESTS_MAX 1024

struct job {
    const struct row *row;
    const struct contract_case *item;
    char name[128];
};

static void run_job(void **state)
{
    const struct job *job = *state;
    job->item->run(job->row);
}

int main(int argc, char **argv)
{
    static const struct contract_case *const groups[] = {contract_post_cases, contract_data_cases,
                                                         contract_order_cases, contract_loss_cases,
                                                         contract_wake_cases};
    static struct job jobs[TESTS_MAX];
    static struct CMUnitTest tests[TESTS_MAX];
    size_t n = 0;
    for (const struct row *row = fabric_rows; row->name != NULL; row++) {
        for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
            for (const struct contract_case *item = groups[g]; item->name != NULL; item++) {
                if (n == TESTS_MAX) {
                    return 1;
                }
                jobs[n] = (struct job){.row = row, .item = item};
                snprintf(jobs[n].name, sizeof jobs[n].name, "%s/%s", row->name, item->name);
                tests[n] = (struct CMUnitTest){
                    .name = jobs[n].name, .test_func = run_job, .initial_state = &jobs[n]};
                n++;
            }
        }
    }
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    int failures = _cmocka_run_group_tests("fabric contract", tests, n, NULL, NULL);
    return failures == 0 ? 0 : 1;
}
