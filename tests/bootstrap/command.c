/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
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

enum { ARGUMENTS_MAX = 24, PATIENCE_MS = 60000 };

void command_prepare(struct command *command)
{
    snprintf(command->directory, sizeof command->directory, "/tmp/perseus-run-test-XXXXXX");
    assert_non_null(mkdtemp(command->directory));
}

void command_path(const struct command *command, const char *name, char out[COMMAND_PATH_BYTES])
{
    snprintf(out, COMMAND_PATH_BYTES, "%s/%s", command->directory, name);
}

void command_start(struct command *command, int (*main)(int argc, char **argv), const char *words)
{
    char copy[512], output[128], input[128];
    char *argv[ARGUMENTS_MAX] = {""};
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", words);
    command_path(command, "output", output);
    command_path(command, "input", input);
    for (char *rest = NULL, *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGUMENTS_MAX - 1);
        argv[argc++] = strcmp(word, "PE") == 0    ? (char *)BOOTSTRAP_PE
                       : strcmp(word, "DIR") == 0 ? command->directory
                                                  : word;
    }
    assert_true(argc > 0);
    command->pid = fork();
    assert_true(command->pid >= 0);
    if (command->pid == 0) {
        int out = open(output, O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0600);
        int in = open(input, O_CREAT | O_RDONLY, 0600);
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        if (main != NULL) {
            exit(main(argc, argv));
        }
        execvp(argv[0], argv);
        _exit(127);
    }
}

int command_end(struct command *command)
{
    int status = 0;
    char path[128];
    assert_int_equal(waitpid(command->pid, &status, 0), command->pid);
    command_path(command, "output", path);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, command->output, sizeof command->output - 1);
    close(fd);
    command->output[n > 0 ? n : 0] = '\0';
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

void command_clean(struct command *command)
{
    char path[400];
    DIR *directory = opendir(command->directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", command->directory, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    rmdir(command->directory);
}

void command_expect(int (*main)(int argc, char **argv), const char *words, int exit_code,
                    const char *output)
{
    struct command command;
    command_prepare(&command);
    command_start(&command, main, words);
    int result = command_end(&command);
    bool is_right = exit_code == COMMAND_ANY_EXIT || result == exit_code;
    if (!is_right || strstr(command.output, output) == NULL) {
        fail_msg("%s: exit code %d instead of %d, output (should have \"%s\"):\n%s", words, result,
                 exit_code, output, command.output);
    }
    command_clean(&command);
}

int command_read_number(const struct command *command, const char *name)
{
    char path[128];
    command_path(command, name, path);
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += 5) {
        int number = 0;
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%d\n", &number) != 1) {
            number = 0;
        }
        if (file != NULL) {
            fclose(file);
        }
        if (number > 0) {
            return number;
        }
        job_sleep_ms(5);
    }
    fail_msg("nothing in %s", path);
    return 0;
}

bool command_is_gone(pid_t pid)
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

void command_wait_until_gone(pid_t pid)
{
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += 5) {
        if (command_is_gone(pid)) {
            return;
        }
        job_sleep_ms(5);
    }
    fail_msg("process %d is still there", (int)pid);
}
