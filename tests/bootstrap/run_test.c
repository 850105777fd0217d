/* perseus run: exit codes, messages, signals, and nothing left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#include "job.h"
#include "tools/perseus/command.h"

enum { ARGUMENTS_MAX = 24, OUTPUT_BYTES = 16384, PATIENCE_MS = 60000 };

/* One `perseus run`, in a child of the test, with its output in a file. */
struct launcher {
    pid_t pid;
    char directory[64]; /* the test's own */
    char output[OUTPUT_BYTES];
};

static void prepare(struct launcher *launcher)
{
    snprintf(launcher->directory, sizeof launcher->directory, "/tmp/perseus-run-test-XXXXXX");
    assert_non_null(mkdtemp(launcher->directory));
}

static void path_in(const struct launcher *launcher, const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", launcher->directory, name);
}

/* words: separated by one space each; "PE" is the test's program, "DIR" the test's directory. */
static void start(struct launcher *launcher, const char *words)
{
    char copy[512], output[128], input[128];
    char *argv[ARGUMENTS_MAX] = {"run"};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", words);
    path_in(launcher, "output", output);
    path_in(launcher, "input", input);
    for (char *rest = NULL, *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGUMENTS_MAX - 1);
        argv[argc++] = strcmp(word, "PE") == 0    ? (char *)BOOTSTRAP_PE
                       : strcmp(word, "DIR") == 0 ? launcher->directory
                                                  : word;
    }
    launcher->pid = fork();
    assert_true(launcher->pid >= 0);
    if (launcher->pid == 0) {
        int out = open(output, O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0600);
        int in = open(input, O_CREAT | O_RDONLY, 0600);
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        exit(prs_tool_run(argc, argv));
    }
}

/* Waits for its end; the exit code, or 1000 + the signal that killed it. */
static int end(struct launcher *launcher)
{
    int status = 0;
    char path[128];
    assert_int_equal(waitpid(launcher->pid, &status, 0), launcher->pid);
    path_in(launcher, "output", path);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, launcher->output, sizeof launcher->output - 1);
    close(fd);
    launcher->output[n > 0 ? n : 0] = '\0';
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void clean(struct launcher *launcher)
{
    char path[400];
    DIR *directory = opendir(launcher->directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", launcher->directory, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    rmdir(launcher->directory);
}

static void expect(const char *words, int exit_code, const char *output)
{
    struct launcher launcher;
    prepare(&launcher);
    start(&launcher, words);
    int result = end(&launcher);
    if (result != exit_code || strstr(launcher.output, output) == NULL) {
        fail_msg("run %s: exit code %d instead of %d, output (should have \"%s\"):\n%s", words,
                 result, exit_code, output, launcher.output);
    }
    clean(&launcher);
}

/* The process number that a PE, or a shell, has left under `name`; waits for it. */
static pid_t read_pid(const struct launcher *launcher, const char *name)
{
    char path[128];
    path_in(launcher, name, path);
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += 5) {
        int pid = 0;
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%d\n", &pid) != 1) {
            pid = 0;
        }
        if (file != NULL) {
            fclose(file);
        }
        if (pid > 0) {
            return pid;
        }
        job_sleep_ms(5);
    }
    fail_msg("nothing in %s", path);
    return 0;
}

/* Gone, or a zombie whose parent has not looked yet. */
static bool is_gone(pid_t pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return true;
    }
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
        state = 'Z';
    }
    fclose(file);
    return state == 'Z' || state == 'X';
}

static void wait_until_gone(pid_t pid)
{
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += 5) {
        if (is_gone(pid)) {
            return;
        }
        job_sleep_ms(5);
    }
    fail_msg("process %d is still there", (int)pid);
}

/* ---- jobs that end well ---- */

static void pes_find_each_other(void **state)
{
    (void)state;
    expect("-n 1 -- PE gather 1 20 8", 0, "");
    expect("-n 2 -- PE gather 2 20 1048576", 0, "");
    expect("-n 5 -- PE gather 5 50 1000", 0, "");
    expect("-n 16 -- PE gather 16 20 0", 0, "");
}

static void programs_that_are_not_ours_run_too(void **state)
{
    (void)state;
    expect("-n 3 -- true", 0, "");
    expect("-n 3 sh -c :", 0, "");
    expect("-n 4 --pes-per-node 2 -- printenv PERSEUS_PES_PER_NODE", 0, "2\n2\n2\n2\n");
}

static void only_pe_0_has_the_input(void **state)
{
    (void)state;
    struct launcher launcher;
    char path[128];
    prepare(&launcher);
    path_in(&launcher, "input", path);
    FILE *file = fopen(path, "w");
    fputs("one line\n", file);
    fclose(file);
    start(&launcher, "-n 3 -- cat");
    assert_int_equal(end(&launcher), 0);
    assert_string_equal(launcher.output, "one line\n");
    clean(&launcher);
}

/* ---- PEs that fail ---- */

static void the_first_failure_is_named_and_is_the_exit_code(void **state)
{
    (void)state;
    /* The others end with 3 because of it, often before the launcher has seen the first. */
    for (int i = 0; i < 5; i++) {
        expect("-n 5 -- PE lose 2 exit 7", 7, "PE 2 ended with exit code 7\n");
        expect("-n 5 -- PE lose 4 exit 1", 1, "PE 4 ended with exit code 1\n");
    }
    expect("-n 5 -- PE lose 3 signal 9", 128 + 9, "PE 3 was killed by signal 9 (Killed)\n");
    expect("-n 2 -- PE lose 0 signal 15", 128 + 15, "PE 0 was killed by signal 15 (Terminated)\n");
}

static void an_end_without_goodbye_is_named(void **state)
{
    (void)state;
    expect("-n 3 -- PE lose 1 exit 0", 3, "PE 1 ended with exit code 0, but without");
}

static void failure_is_told_in_one_line(void **state)
{
    (void)state;
    struct launcher launcher;
    prepare(&launcher);
    start(&launcher, "-n 4 -- false");
    assert_int_equal(end(&launcher), 1);
    char *newline = strchr(launcher.output, '\n');
    assert_non_null(newline);
    assert_int_equal(newline[1], '\0');
    clean(&launcher);
}

static void a_missing_pe_is_named(void **state)
{
    (void)state;
    setenv("PERSEUS_TIMEOUT_MS", "1000", 1);
    expect("-n 3 --grace 1 -- PE miss 1", 3,
           "1 of 3 PEs did not make the collective call before the deadline: 1.");
    unsetenv("PERSEUS_TIMEOUT_MS");
}

static void pes_that_do_not_end_by_themselves_are_killed(void **state)
{
    (void)state;
    struct launcher launcher;
    prepare(&launcher);
    start(&launcher, "-n 4 --grace 1 -- PE stay DIR ignore 2 5");
    assert_int_equal(end(&launcher), 5);
    assert_non_null(strstr(launcher.output, "PE 2 ended with exit code 5\n"));
    assert_true(is_gone(read_pid(&launcher, "0")));
    assert_true(is_gone(read_pid(&launcher, "1")));
    assert_true(is_gone(read_pid(&launcher, "3")));
    clean(&launcher);
}

static void programs_that_cannot_start_are_told_once(void **state)
{
    (void)state;
    struct launcher launcher;
    expect("-n 3 -- /nowhere/program", 127, "cannot start /nowhere/program: No such file");
    expect("-n 3 -- /etc/passwd", 126, "cannot start /etc/passwd: Permission denied");
    prepare(&launcher);
    start(&launcher, "-n 3 -- no-such-program-anywhere");
    assert_int_equal(end(&launcher), 127);
    char *told = strstr(launcher.output, "cannot start");
    assert_non_null(told);
    assert_null(strstr(told + 1, "cannot start"));
    clean(&launcher);
}

/* ---- the end from outside ---- */

static void signals_are_passed_on(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct launcher launcher;
        prepare(&launcher);
        start(&launcher, "-n 3 -- PE stay DIR default");
        pid_t pids[] = {read_pid(&launcher, "0"), read_pid(&launcher, "1"),
                        read_pid(&launcher, "2")};
        kill(launcher.pid, signals[i]);
        assert_int_equal(end(&launcher), 128 + signals[i]);
        for (int rank = 0; rank < 3; rank++) {
            assert_true(is_gone(pids[rank]));
        }
        clean(&launcher);
    }
}

static void pes_that_handle_the_signal_do_not_hide_it(void **state)
{
    (void)state;
    struct launcher launcher;
    prepare(&launcher);
    start(&launcher, "-n 2 -- PE stay DIR handle");
    read_pid(&launcher, "0");
    read_pid(&launcher, "1");
    kill(launcher.pid, SIGTERM);
    assert_int_equal(end(&launcher), 128 + SIGTERM);
    clean(&launcher);
}

static void a_second_signal_does_not_wait(void **state)
{
    (void)state;
    struct launcher launcher;
    prepare(&launcher);
    start(&launcher, "-n 2 --grace 1000 -- PE stay DIR ignore");
    pid_t pids[] = {read_pid(&launcher, "0"), read_pid(&launcher, "1")};
    kill(launcher.pid, SIGINT);
    /* Two that come together may be seen as one, so until it ends. */
    siginfo_t ended = {.si_pid = 0};
    while (waitid(P_PID, (id_t)launcher.pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0) {
        job_sleep_ms(50);
        kill(launcher.pid, SIGINT);
    }
    assert_int_equal(end(&launcher), 128 + SIGINT);
    assert_true(is_gone(pids[0]));
    assert_true(is_gone(pids[1]));
    clean(&launcher);
}

static void a_killed_launcher_takes_its_pes_along(void **state)
{
    (void)state;
    struct launcher launcher;
    prepare(&launcher);
    start(&launcher, "-n 3 -- PE stay DIR ignore");
    pid_t pids[] = {read_pid(&launcher, "0"), read_pid(&launcher, "1"), read_pid(&launcher, "2")};
    kill(launcher.pid, SIGKILL);
    assert_int_equal(end(&launcher), 1000 + SIGKILL);
    for (int rank = 0; rank < 3; rank++) {
        wait_until_gone(pids[rank]);
    }
    clean(&launcher);
}

static void the_time_limit_ends_the_job(void **state)
{
    (void)state;
    struct launcher launcher;
    prepare(&launcher);
    start(&launcher, "-n 2 --timeout 1 --grace 1 -- PE stay DIR ignore");
    assert_int_equal(end(&launcher), 124);
    assert_non_null(strstr(launcher.output, "2 of 2 PEs still run after 1000 ms"));
    assert_true(is_gone(read_pid(&launcher, "0")));
    assert_true(is_gone(read_pid(&launcher, "1")));
    clean(&launcher);
}

static void what_pes_left_running_is_ended(void **state)
{
    (void)state;
    struct launcher launcher;
    char script[128];
    prepare(&launcher);
    path_in(&launcher, "script", script);
    FILE *file = fopen(script, "w");
    fprintf(file, "#!/bin/sh\nsleep 1000 &\necho $! >%s/child\nexit 0\n", launcher.directory);
    fclose(file);
    chmod(script, 0700);
    char words[200];
    snprintf(words, sizeof words, "-n 1 -- %s", script);
    start(&launcher, words);
    assert_int_equal(end(&launcher), 0);
    wait_until_gone(read_pid(&launcher, "child"));
    clean(&launcher);
}

/* ---- the command line ---- */

static void wrong_usage_is_refused(void **state)
{
    (void)state;
    expect("-- true", 2, "say how many PEs: -n N");
    expect("-n 2", 2, "say which program");
    expect("-n 2 --", 2, "say which program");
    expect("-n 0 -- true", 2, "-n 0: expected a number from 1");
    expect("-n x -- true", 2, "-n x: expected a number from 1");
    expect("--n 2 -- true", 2, "unknown option --n");
    expect("-x -- true", 2, "unknown option -x");
    expect("--help", 0, "usage: perseus run [options] -- PROGRAM");
    expect("--help", 0, "-n N");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(pes_that_handle_the_signal_do_not_hide_it),
        cmocka_unit_test(a_second_signal_does_not_wait),
        cmocka_unit_test(a_killed_launcher_takes_its_pes_along),
        cmocka_unit_test(the_time_limit_ends_the_job),
        cmocka_unit_test(what_pes_left_running_is_ended),
        cmocka_unit_test(wrong_usage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
