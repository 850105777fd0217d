/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: a command line in a child of the test, with its output in a file. */
#ifndef TESTS_BOOTSTRAP_COMMAND_H
#define TESTS_BOOTSTRAP_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

enum { COMMAND_OUTPUT_BYTES = 16384, COMMAND_PATH_BYTES = 128, COMMAND_ANY_EXIT = -1 };

struct command {
    pid_t pid;
    char directory[64]; /* the test's own */
    char output[COMMAND_OUTPUT_BYTES];
};

void command_prepare(struct command *command);
/* A path in the command's directory. */
void command_path(const struct command *command, const char *name, char out[COMMAND_PATH_BYTES]);
/* words: separated by one space each; "PE" is the program pe.c, "DIR" the command's directory. The
 * child calls main with them, or executes the first of them if main is NULL. Its standard input is
 * the file "input", which may be written before. */
void command_start(struct command *command, int (*main)(int argc, char **argv), const char *words);
/* Waits for its end and reads the output; the exit code, or 1000 + the signal that killed it. */
int command_end(struct command *command);
/* Removes the directory. */
void command_clean(struct command *command);

/* All of it; asserts the exit code, unless it is COMMAND_ANY_EXIT, and that the output has `output`
 * in it. */
void command_expect(int (*main)(int argc, char **argv), const char *words, int exit_code,
                    const char *output);

/* The number, above 0, that a PE or a shell leaves in the file `name`; waits for it. */
int command_read_number(const struct command *command, const char *name);
/* Gone, or a zombie whose parent has not looked yet. */
bool command_is_gone(pid_t pid);
void command_wait_until_gone(pid_t pid);

#endif
