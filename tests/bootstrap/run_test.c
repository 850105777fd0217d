/* SPDX-License-Identifier: Apache-2.0 */
/* perseus run: exit codes, messages, signals, and nothing left behind. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"
#include "job.h"
#include "tools/perseus/command.h"

static void expect(const char *words, int exit_code, const char *output)
{
    command_expect(prs_tool_run, words, exit_code, output);
}

/* ---- jobs that end well ---- */

static void pes_find_each_other(void **state)
{
    (void)state;
    expect("run -n 1 -- PE gather 1 20 8", 0, "");
    expect("run -n 2 -- PE gather 2 20 1048576", 0, "");
    expect("run -n 5 -- PE gather 5 50 1000", 0, "");
    expect("run -n 16 -- PE gather 16 20 0", 0, "");
}

static void programs_that_are_not_ours_run_too(void **state)
{
    (void)state;
    expect("run -n 3 -- true", 0, "");
    expect("run -n 3 sh -c :", 0, "");
    expect("run -n 4 --pes-per-node 2 -- printenv PERSEUS_PES_PER_NODE", 0, "2\n2\n2\n2\n");
}

static void only_pe_0_has_the_input(void **state)
{
    (void)state;
    struct command command;
    char path[COMMAND_PATH_BYTES];
    command_prepare(&command);
    command_path(&command, "input", path);
    FILE *file = fopen(path, "w");
    fputs("one line\n", file);
    fclose(file);
    command_start(&command, prs_tool_run, "run -n 3 -- cat");
    assert_int_equal(command_end(&command), 0);
    assert_string_equal(command.output, "one line\n");
    command_clean(&command);
}

/* ---- PEs that fail ---- */

static void the_first_failure_is_named_and_is_the_exit_code(void **state)
{
    (void)state;
    /* The others end with 3 because of it, often before the launcher has seen the first. */
    for (int i = 0; i < 5; i++) {
        expect("run -n 5 -- PE lose 2 exit 7", 7, "PE 2 ended with exit code 7\n");
        expect("run -n 5 -- PE lose 4 exit 1", 1, "PE 4 ended with exit code 1\n");
    }
    expect("run -n 5 -- PE lose 3 signal 9", 128 + 9, "PE 3 was killed by signal 9 (Killed)\n");
    expect("run -n 2 -- PE lose 0 signal 15", 128 + 15,
           "PE 0 was killed by signal 15 (Terminated)\n");
}

static void an_end_without_goodbye_is_named(void **state)
{
    (void)state;
    expect("run -n 3 -- PE lose 1 exit 0", 3, "PE 1 ended with exit code 0, but without");
}

static void failure_is_told_in_one_line(void **state)
{
    (void)state;
    struct command command;
    command_prepare(&command);
    command_start(&command, prs_tool_run, "run -n 4 -- false");
    assert_int_equal(command_end(&command), 1);
    char *newline = strchr(command.output, '\n');
    assert_non_null(newline);
    assert_int_equal(newline[1], '\0');
    command_clean(&command);
}

static void a_missing_pe_is_named(void **state)
{
    (void)state;
    setenv("PERSEUS_TIMEOUT_MS", "3000", 1);
    expect("run -n 3 --grace 1 -- PE miss 1", 3,
           "1 of 3 PEs did not make the collective call before the deadline: 1.");
    unsetenv("PERSEUS_TIMEOUT_MS");
}

static void pes_that_do_not_end_by_themselves_are_killed(void **state)
{
    (void)state;
    struct command command;
    command_prepare(&command);
    command_start(&command, prs_tool_run, "run -n 4 --grace 1 -- PE stay DIR ignore 2 5");
    assert_int_equal(command_end(&command), 5);
    assert_non_null(strstr(command.output, "PE 2 ended with exit code 5\n"));
    assert_true(command_is_gone(command_read_number(&command, "0")));
    assert_true(command_is_gone(command_read_number(&command, "1")));
    assert_true(command_is_gone(command_read_number(&command, "3")));
    command_clean(&command);
}

static void programs_that_cannot_start_are_told_once(void **state)
{
    (void)state;
    struct command command;
    expect("run -n 3 -- /nowhere/program", 127, "cannot start /nowhere/program: No such file");
    expect("run -n 3 -- /etc/passwd", 126, "cannot start /etc/passwd: Permission denied");
    command_prepare(&command);
    command_start(&command, prs_tool_run, "run -n 3 -- no-such-program-anywhere");
    assert_int_equal(command_end(&command), 127);
    char *told = strstr(command.output, "cannot start");
    assert_non_null(told);
    assert_null(strstr(told + 1, "cannot start"));
    command_clean(&command);
}

/* ---- the end from outside ---- */

static void signals_are_passed_on(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct command command;
        command_prepare(&command);
        command_start(&command, prs_tool_run, "run -n 3 -- PE stay DIR default");
        pid_t pids[] = {command_read_number(&command, "0"), command_read_number(&command, "1"),
                        command_read_number(&command, "2")};
        kill(command.pid, signals[i]);
        assert_int_equal(command_end(&command), 128 + signals[i]);
        for (int rank = 0; rank < 3; rank++) {
            assert_true(command_is_gone(pids[rank]));
        }
        command_clean(&command);
    }
}

static void pes_get_the_same_signal_and_do_not_hide_it(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct command command;
        command_prepare(&command);
        command_start(&command, prs_tool_run, "run -n 2 -- PE stay DIR handle");
        command_read_number(&command, "0");
        command_read_number(&command, "1");
        kill(command.pid, signals[i]);
        assert_int_equal(command_end(&command), 128 + signals[i]);
        assert_int_equal(command_read_number(&command, "signal"), signals[i]);
        command_clean(&command);
    }
}

static char state_of(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
        fclose(file);
    }
    return state;
}

static bool comes_to(pid_t pid, bool is_stopped)
{
    for (int tries = 0; tries < 1000; tries++) {
        if ((state_of(pid) == 'T') == is_stopped) {
            return true;
        }
        job_sleep_ms(10);
    }
    return false;
}

/* As with ^Z and fg: a stopped launcher whose PEs run on would be a job that nobody can stop. */
static void a_stopped_job_stands_still_and_goes_on(void **state)
{
    (void)state;
    struct command command;
    command_prepare(&command);
    command_start(&command, prs_tool_run, "run -n 2 -- PE stay DIR default");
    pid_t pids[] = {command_read_number(&command, "0"), command_read_number(&command, "1"),
                    command.pid};
    for (int round = 0; round < 2; round++) {
        kill(command.pid, SIGTSTP);
        for (int i = 0; i < 3; i++) {
            assert_true(comes_to(pids[i], true));
        }
        kill(command.pid, SIGCONT);
        for (int i = 0; i < 3; i++) {
            assert_true(comes_to(pids[i], false));
        }
    }
    kill(command.pid, SIGSTOP); /* the PEs do not learn of it, and need no more than they had */
    assert_true(comes_to(command.pid, true));
    kill(pids[0], SIGSTOP);
    assert_true(comes_to(pids[0], true));
    kill(command.pid, SIGCONT);
    assert_true(comes_to(pids[0], false));
    kill(command.pid, SIGTERM);
    assert_int_equal(command_end(&command), 128 + SIGTERM);
    command_clean(&command);
}

static void signals_that_end_nothing_are_passed_on(void **state)
{
    (void)state;
    static const int signals[] = {SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct command command;
        command_prepare(&command);
        command_start(&command, prs_tool_run, "run -n 2 -- PE stay DIR default");
        command_read_number(&command, "0");
        command_read_number(&command, "1");
        kill(command.pid, signals[i]); /* a PE that does not handle it ends by it */
        assert_int_equal(command_end(&command), 128 + signals[i]);
        command_clean(&command);
    }
}

static void a_second_signal_does_not_wait(void **state)
{
    (void)state;
    struct command command;
    command_prepare(&command);
    command_start(&command, prs_tool_run, "run -n 2 --grace 1000 -- PE stay DIR ignore");
    pid_t pids[] = {command_read_number(&command, "0"), command_read_number(&command, "1")};
    kill(command.pid, SIGINT);
    kill(command.pid, SIGTERM); /* another one, because two of a kind may be seen as one */
    assert_int_equal(command_end(&command), 128 + SIGINT);
    assert_true(command_is_gone(pids[0]));
    assert_true(command_is_gone(pids[1]));
    command_clean(&command);
}

static void a_killed_launcher_takes_its_pes_along(void **state)
{
    (void)state;
    struct command command;
    command_prepare(&command);
    command_start(&command, prs_tool_run, "run -n 3 -- PE stay DIR ignore");
    pid_t pids[] = {command_read_number(&command, "0"), command_read_number(&command, "1"),
                    command_read_number(&command, "2")};
    kill(command.pid, SIGKILL);
    assert_int_equal(command_end(&command), 1000 + SIGKILL);
    for (int rank = 0; rank < 3; rank++) {
        command_wait_until_gone(pids[rank]);
    }
    command_clean(&command);
}

static void the_time_limit_ends_the_job(void **state)
{
    (void)state;
    expect("run -n 2 --timeout 1 --grace 1 -- sleep 1000", 124, "2 of 2 PEs still run after 1000");
}

static void what_pes_left_running_is_ended(void **state)
{
    (void)state;
    struct command command;
    char script[COMMAND_PATH_BYTES];
    command_prepare(&command);
    command_path(&command, "script", script);
    FILE *file = fopen(script, "w");
    fprintf(file, "#!/bin/sh\nsleep 1000 &\necho $! >%s/child\nexit 0\n", command.directory);
    fclose(file);
    chmod(script, 0700);
    char words[200];
    snprintf(words, sizeof words, "run -n 1 -- %s", script);
    command_start(&command, prs_tool_run, words);
    assert_int_equal(command_end(&command), 0);
    command_wait_until_gone(command_read_number(&command, "child"));
    command_clean(&command);
}

/* ---- the command line ---- */

static void wrong_usage_is_refused(void **state)
{
    (void)state;
    expect("run -- true", 2, "say how many PEs: -n N");
    expect("run -n 2", 2, "say which program");
    expect("run -n 2 --", 2, "say which program");
    expect("run -n 0 -- true", 2, "-n 0: expected a number from 1");
    expect("run -n x -- true", 2, "-n x: expected a number from 1");
    expect("run --n 2 -- true", 2, "unknown option --n");
    expect("run -x -- true", 2, "unknown option -x");
    expect("run --help", 0, "usage: perseus run [options] -- PROGRAM");
    expect("run --help", 0, "-n N");
}

/* The launcher gets no chance to do anything, and its PEs are shells that started something. */
static void nothing_goes_on_when_the_launcher_is_killed(void **state)
{
    (void)state;
    char path[] = "/tmp/perseus-groups-XXXXXX", script[128], line[32];
    int fd = mkstemp(path), n_groups = 0;
    assert_true(fd >= 0);
    snprintf(script, sizeof script, "echo $$ >>%s; sleep 300; true", path);
    pid_t launcher = fork();
    if (launcher == 0) {
        char *argv[] = {"run", "-n", "2", "--", "sh", "-c", script, NULL};
        _exit(prs_tool_run(7, argv));
    }
    pid_t groups[2] = {0, 0};
    for (int i = 0; i < 1000 && n_groups < 2; i++) {
        FILE *file = fopen(path, "r");
        n_groups = 0;
        while (n_groups < 2 && fgets(line, sizeof line, file) != NULL) {
            groups[n_groups++] = (pid_t)atoi(line);
        }
        fclose(file);
        job_sleep_ms(10);
    }
    assert_int_equal(n_groups, 2);
    job_sleep_ms(100); /* until they sleep */
    kill(launcher, SIGKILL);
    waitpid(launcher, NULL, 0);
    for (int i = 0; i < 2; i++) {
        int tries = 0;
        while (kill(-groups[i], 0) == 0 && tries++ < 500) {
            job_sleep_ms(10);
        }
        bool is_left = kill(-groups[i], SIGKILL) == 0;
        assert_false(is_left);
    }
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_on_when_the_launcher_is_killed),
        cmocka_unit_test(pes_find_each_other),
        cmocka_unit_test(programs_that_are_not_ours_run_too),
        cmocka_unit_test(only_pe_0_has_the_input),
        cmocka_unit_test(the_first_failure_is_named_and_is_the_exit_code),
        cmocka_unit_test(an_end_without_goodbye_is_named),
        cmocka_unit_test(failure_is_told_in_one_line),
        cmocka_unit_test(a_missing_pe_is_named),
        cmocka_unit_test(pes_that_do_not_end_by_themselves_are_killed),
        cmocka_unit_test(programs_that_cannot_start_are_told_once),
        cmocka_unit_test(signals_are_passed_on),
        cmocka_unit_test(pes_get_the_same_signal_and_do_not_hide_it),
        cmocka_unit_test(a_stopped_job_stands_still_and_goes_on),
        cmocka_unit_test(signals_that_end_nothing_are_passed_on),
        cmocka_unit_test(a_second_signal_does_not_wait),
        cmocka_unit_test(a_killed_launcher_takes_its_pes_along),
        cmocka_unit_test(the_time_limit_ends_the_job),
        cmocka_unit_test(what_pes_left_running_is_ended),
        cmocka_unit_test(wrong_usage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
