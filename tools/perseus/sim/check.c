/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: perseus sim --check: schedules that are legal and hostile, on every mode. */
#include "sim/check.h"

#include <stdio.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/progress.h"

static const char *const kinds[] = {"put_signal", "puts, fence, signals", "puts, fence, vector",
                                    "fence, counter"};

/* What is left of a schedule that fails, smallest first found. */
static void show(struct sim_check *check, const char *why)
{
    printf("%s, seed %llu: %s\n", perseus_ordering_name(check->ordering),
           (unsigned long long)check->seed, why);
    uint32_t left = sim_check_shrink(check);
    printf("It still fails with %u steps: %s\n", left, check->why);
    for (uint32_t pe = 0; pe < SIM_CHECK_PES; pe++) {
        for (uint32_t i = 0; i < SIM_CHECK_STEPS; i++) {
            const struct sim_check_step *step = &check->steps[pe][i];
            if (!step->is_left_out) {
                printf("  PE %u step %-2u to PE %u: %s%s, %u members, next after %u ns, leader "
                       "preempted for %u ns\n",
                       pe, i, step->target, kinds[step->kind], step->adds ? " (ADD)" : "",
                       step->members, step->delay_ns, step->preempted_ns);
            }
        }
    }
}

int prs_sim_check(struct prs_sim_job *job)
{
    struct prs_progress progress;
    uint64_t operations = 0;
    uint32_t failures = 0;
    prs_progress_init(&progress, job->schedules);
    for (uint32_t n = 0; n < job->schedules && failures == 0; n++) {
        struct sim_check check = sim_check_cases[n % sim_check_cases_count];
        check.seed = job->seed + n / sim_check_cases_count;
        check.log = &job->log;
        prs_progress_step(&progress, perseus_ordering_name(check.ordering));
        sim_check_plan(&check);
        const char *why = sim_check_run(&check);
        operations += check.operations;
        if (why != NULL) {
            failures++;
            prs_progress_finish(&progress);
            show(&check, why);
        }
    }
    prs_progress_finish(&progress);
    json_t *document = prs_json_begin("sim --check", job->seed);
    json_object_set_new(document, "schedules", json_integer(job->schedules));
    json_object_set_new(document, "operations", json_integer((json_int_t)operations));
    json_object_set_new(document, "failures", json_integer(failures));
    bool ok = prs_json_write(document, &job->json);
    if (failures == 0) {
        printf("%u schedules of %u PEs, %llu operations: every promise kept, in every mode.\n",
               job->schedules, SIM_CHECK_PES, (unsigned long long)operations);
    }
    return ok && failures == 0 ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
