/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/guard.h"

#include <errno.h>
#include <sys/socket.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Group numbers: positive ones come, negative ones go. Until the other end is closed. */
static void watch(int fd, pid_t *groups, int n_max)
{
    int n = 0;
    pid_t word = 0;
    ssize_t got;
    while ((got = read(fd, &word, sizeof word)) == sizeof word || (got < 0 && errno == EINTR)) {
        if (got < 0) {
            continue;
        }
        if (word > 0 && n < n_max) {
            groups[n++] = word;
        }
        for (int i = 0; word < 0 && i < n; i++) {
            if (groups[i] == -word) {
                groups[i] = groups[--n];
                break;
            }
        }
    }
    for (int i = 0; i < n; i++) {
        kill(-groups[i], SIGKILL);
    }
}

int prs_guard_start(int groups)
{
    int ends[2];
    pid_t *room = calloc((size_t)groups, sizeof *room);
    if (room == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        free(room);
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        setsid(); /* no terminal's signal is meant for it */
        close(ends[1]);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
            close(fd); /* whoever reads the launcher's output waits for its end */
        }
        watch(ends[0], room, groups);
        _exit(0);
    }
    free(room);
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return -1;
    }
    return ends[1];
}

static void tell(int fd, pid_t word)
{
    while (fd >= 0 && send(fd, &word, sizeof word, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

void prs_guard_add(int fd, pid_t group)
{
    tell(fd, group);
}

void prs_guard_remove(int fd, pid_t group)
{
    tell(fd, -group);
}
