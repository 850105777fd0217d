/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: engine_mutant_test FOLDER
 *
 * Runs the suites of FOLDER, linked with engine_mutants.c, as they are (they pass) and with one
 * mutant after the other: the suite named must fail in the test named.
 */
#include "mutant/engine_mutants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FAILURE  "mutant_failure_test"
#define GATHER   "mutant_gather_test"
#define MAILBOX  "mutant_mailbox_test"
#define MODES    "mutant_modes_test"
#define PROVE    "mutant_prove_test"
#define STRANGER "mutant_stranger_test"
#define STORM    "mutant_storm_test"
#define ORDERING "mutant_ordering_test"

static const char *const suites[] = {FAILURE, GATHER,   MAILBOX, MODES,
                                     PROVE,   STRANGER, STORM,   ORDERING};

static const struct {
    const char *mutant, *suite, *test;
} rows[] = {
    {MUTANT_UNPOISONED, FAILURE, "test_a_refused_put_lets_no_signal_through"},
    {MUTANT_UNPOISONED, ORDERING, "test_nic_fence"},
    {MUTANT_LEAK, FAILURE, "test_a_fetch_ends_when_its_peer_is_lost"},
    {MUTANT_POOLED_ANSWERS, STORM, "test_storms"},
    {MUTANT_TOLD_ONCE, FAILURE, "test_a_refused_put_lets_no_signal_through"},
    {MUTANT_READ_TWICE, MAILBOX, "test_a_record_is_applied_as_it_was_checked"},
    {MUTANT_UNTAGGED, STRANGER, "loopback"},
    {MUTANT_UNPROVEN, PROVE, "test_a_quiet_waits_for_a_flush"},
    {MUTANT_OVERPROVEN, PROVE, "test_an_answer_proves_what_is_in_front_of_it"},
    {MUTANT_EAGER_RIDING, ORDERING, "test_counted"},
    {MUTANT_FORGOTTEN, MODES,
     "test_nic_fence_flags_behind_a_quiet_where_completed_is_only_transmitted"},
    {MUTANT_MISALIGNED, FAILURE, "test_words_that_are_none_are_refused_at_the_sender"},
    {MUTANT_UNSEALED, GATHER, "test_no_signal_joins_one_that_a_quiet_covers"},
    {MUTANT_CLOCK, FAILURE, "test_time_in_which_nobody_looked_does_not_count"},
};
#define ROWS (sizeof rows / sizeof rows[0])

static const char *folder;

/* Starts a suite; *out_lines is what it says. */
static pid_t start(const char *suite, const char *mutant, FILE **out_lines)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, suite);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("PERSEUS_TEST_SEEDS", "6", 0);
        if (mutant != NULL) {
            setenv(ENGINE_MUTANT_VARIABLE, mutant, 1);
        }
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *out_lines = fdopen(ends[0], "r");
    assert_non_null(*out_lines);
    return child;
}

/* Whether `test` failed. What the suite would still do, once it has, does not matter. */
static bool fails_in(pid_t child, FILE *lines, const char *test)
{
    char line[1024], wanted[256];
    bool found = false;
    snprintf(wanted, sizeof wanted, "[  FAILED  ] %s\n", test);
    while (!found && fgets(line, sizeof line, lines) != NULL) {
        found = strcmp(line, wanted) == 0;
    }
    kill(child, SIGKILL);
    fclose(lines);
    waitpid(child, NULL, 0);
    return found;
}

static void test_every_suite_passes_without_a_mutant(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        FILE *lines;
        char line[1024], last[1024] = "";
        int status = 0;
        pid_t child = start(suites[i], NULL, &lines);
        while (fgets(line, sizeof line, lines) != NULL) {
            memcpy(last, line, sizeof last);
        }
        fclose(lines);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fail_msg("%s fails without a mutant, too: %s", suites[i], last);
        }
    }
}

static void test_every_mutant_is_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        FILE *lines;
        pid_t child = start(rows[i].suite, rows[i].mutant, &lines);
        if (!fails_in(child, lines, rows[i].test)) {
            fail_msg("the mutant \"%s\" survived %s of %s", rows[i].mutant, rows[i].test,
                     rows[i].suite);
        }
        print_message("%s: caught by %s\n", rows[i].mutant, rows[i].test);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: engine_mutant_test FOLDER\n");
        return 2;
    }
    folder = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_suite_passes_without_a_mutant),
        cmocka_unit_test(test_every_mutant_is_caught),
    };
    return cmocka_run_group_tests_name("engine mutants", tests, NULL, NULL);
}
