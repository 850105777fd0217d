/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap under Open MPI's mpirun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"
#include "command.h"
#include "job.h"
#include "support/skip.h"

#define MPIRUN "mpirun --allow-run-as-root --oversubscribe "

static void pes_find_each_other(void **state)
{
    (void)state;
    command_expect(NULL, MPIRUN "-n 1 PE gather 1 5 8", 0, "");
    command_expect(NULL, MPIRUN "-n 2 PE gather 2 5 1048576", 0, "");
    command_expect(NULL, MPIRUN "-n 5 PE gather 5 20 0", 0, "");
    command_expect(NULL, MPIRUN "-n 16 PE gather 16 5 1000", 0, "");
}

static void a_second_open_does_not_get_the_values_of_the_first(void **state)
{
    (void)state;
    command_expect(NULL, MPIRUN "-n 3 PE nested", 0, "");
    setenv("PMIX_MCA_gds", "hash", 1); /* the store that never forgets a key's first value */
    command_expect(NULL, MPIRUN "-n 3 PE nested", 0, "");
    unsetenv("PMIX_MCA_gds");
}

/* When a job ends badly, mpirun's exit code is not to be relied on: now and then it crashes
 * itself. */
static void a_missing_pe_is_named(void **state)
{
    (void)state;
    setenv("PERSEUS_TIMEOUT_MS", "3000", 1);
    command_expect(NULL, MPIRUN "-n 3 PE miss 1", COMMAND_ANY_EXIT,
                   "of this node's PEs not: PE 1.");
    unsetenv("PERSEUS_TIMEOUT_MS");
}

/* mpirun ends the job itself, and says who it was. */
static void a_dead_pe_ends_the_job(void **state)
{
    (void)state;
    command_expect(NULL, MPIRUN "-n 4 PE lose 2 exit 7", COMMAND_ANY_EXIT,
                   "exited with non-zero status");
    command_expect(NULL, MPIRUN "-n 4 PE lose 1 signal 9", COMMAND_ANY_EXIT, "process rank 1");
}

/* Kept alive by mpirun, the others either see the fence end, or, because Open MPI sometimes forgets
 * to end it, reach their deadline. They name the PE both times, and end. */
static void the_others_name_a_dead_pe_and_end(void **state)
{
    (void)state;
    setenv("PERSEUS_TIMEOUT_MS", "5000", 1);
    command_expect(NULL, MPIRUN "--enable-recovery -n 3 PE lose 1 signal 9", COMMAND_ANY_EXIT,
                   " PE 1");
    unsetenv("PERSEUS_TIMEOUT_MS");
}

static void deaths_that_pmix_tells_are_seen(void **state)
{
    (void)state;
    command_expect(NULL, MPIRUN "-n 2 " PMIX_EVENT_PE, 0, "told of 1: right");
}

static void without_a_runtime_there_is_a_clear_error(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(prs_bootstrap_open_pmix(1000, &sink, &bootstrap), PERSEUS_NOT_FOUND);
    assert_null(bootstrap);
    assert_true(job_log_has(&log, "start the program with mpirun"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pes_find_each_other),
        cmocka_unit_test(a_second_open_does_not_get_the_values_of_the_first),
        cmocka_unit_test(a_missing_pe_is_named),
        cmocka_unit_test(a_dead_pe_ends_the_job),
        cmocka_unit_test(the_others_name_a_dead_pe_and_end),
        cmocka_unit_test(deaths_that_pmix_tells_are_seen),
        cmocka_unit_test(without_a_runtime_there_is_a_clear_error),
    };
    if (system("mpirun --version >/dev/null 2>&1") != 0) {
        return test_skip("no mpirun here; scripts/setup installs it");
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
