/* SPDX-License-Identifier: Apache-2.0 */
#include "libfabric/child.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_WAIT_MS 10000

static void child_exchange(int fd, struct side *side, struct side_card *out)
{
    struct side_card mine;
    side_card(side, &mine);
    if (write(fd, &mine, sizeof mine) != (ssize_t)sizeof mine ||
        recv(fd, out, sizeof *out, MSG_WAITALL) != (ssize_t)sizeof *out) {
        side_fail("the other process has gone before the cards were exchanged");
    }
}

static bool child_told_to_stop(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) >= 0;
}

static void child_run(int fd, const char *provider, bool want_atomics, void *memory, size_t bytes,
                      child_step step, void *user)
{
    struct side side;
    side_become_child();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    side_open(&side, provider, want_atomics, memory, bytes);
    struct side_card card;
    child_exchange(fd, &side, &card);
    side_meet(&side, &card);
    struct prs_event events[16];
    uint32_t n;
    do {
        n = side_poll(&side, events, 16);
    } while (!child_told_to_stop(fd) && (step == NULL || step(&side, user, events, n)));
    side_close(&side);
    _exit(0);
}

void child_start(struct child *child, const char *provider, bool want_atomics, void *memory,
                 size_t bytes, child_step step, void *user)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        side_fail("no socket pair");
    }
    child->fd = pair[0];
    child->pid = fork();
    if (child->pid < 0) {
        side_fail("no fork");
    }
    if (child->pid == 0) {
        close(pair[0]);
        child_run(pair[1], provider, want_atomics, memory, bytes, step, user);
    }
    close(pair[1]);
}

void child_swap_cards(struct child *child, struct side *side, struct side_card *out)
{
    child_exchange(child->fd, side, out);
}

void child_meet(struct child *child, struct side *side)
{
    struct side_card card;
    child_exchange(child->fd, side, &card);
    side_meet(side, &card);
}

void child_reap(struct child *child)
{
    waitpid(child->pid, NULL, 0);
    child->pid = 0;
}

void child_kill(struct child *child, bool leave_zombie)
{
    kill(child->pid, SIGKILL);
    if (leave_zombie) {
        siginfo_t info;
        waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT);
    } else {
        child_reap(child);
    }
    close(child->fd);
}

void child_finish(struct child *child)
{
    close(child->fd); /* reads as end of file there */
    uint64_t deadline = side_now_ms() + EXIT_WAIT_MS;
    int status = 0;
    while (waitpid(child->pid, &status, WNOHANG) == 0) {
        if (side_now_ms() > deadline) {
            child_kill(child, false);
            side_fail("the child did not end");
        }
        usleep(1000);
    }
    child->pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        side_fail("the child failed: status %d", status);
    }
}
