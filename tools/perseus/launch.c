#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "bootstrap/hub.h"
#include "command.h"

enum { SERVE_MS = 20 }; /* how soon the end of a PE is noticed */

struct children {
    const struct prs_launch *launch;
    const struct prs_log *log;
    struct prs_hub *hub;
    pid_t *pids; /* by rank; 0: not started, or ended */
    int n_running;
    int exit_code;
    uint64_t kill_ns; /* when patience with the others ends; 0: nobody failed */
};

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

static void set_number(enum prs_env_id id, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(prs_env_row(id)->name, text, 1);
}

/* In the child; never returns. */
static void child(struct children *children, int rank, int fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(PRS_EXIT_FAILED); /* it died before the line above took effect */
    }
    prs_hub_destroy(children->hub); /* closes the other PEs' ends here, so that their loss shows */
    fcntl(fd, F_SETFD, 0);
    set_number(PRS_ENV_RANK, rank);
    set_number(PRS_ENV_SIZE, children->launch->size);
    set_number(PRS_ENV_BOOTSTRAP_FD, fd);
    const struct prs_launch *launch = children->launch;
    free(children->pids);
    exit(launch->pe_main(rank, launch->context));
}

static enum perseus_status start_all(struct children *children)
{
    pid_t self = getpid();
    fflush(NULL); /* or every child would print what is buffered again */
    for (int rank = 0; rank < children->launch->size; rank++) {
        int fd = prs_hub_take_fd(children->hub, rank);
        pid_t pid = fork();
        if (pid == 0) {
            child(children, rank, fd, self);
        }
        close(fd);
        if (pid < 0) {
            return prs_fail(children->log, PERSEUS_IO,
                            "cannot start PE %d: %s; start fewer PEs or raise the process limit "
                            "(ulimit -u)",
                            rank, strerror(errno));
        }
        children->pids[rank] = pid;
        children->n_running++;
    }
    return PERSEUS_OK;
}

static void kill_all(const struct children *children)
{
    for (int rank = 0; rank < children->launch->size; rank++) {
        if (children->pids[rank] != 0) {
            kill(children->pids[rank], SIGKILL);
        }
    }
}

static void note_failure(struct children *children, int rank, int wait_status)
{
    prs_hub_report_death(children->hub, rank);
    if (children->kill_ns != 0) {
        return; /* a consequence of the first failure, most likely */
    }
    if (WIFSIGNALED(wait_status)) {
        children->exit_code = 128 + WTERMSIG(wait_status);
        prs_log(children->log, PERSEUS_LOG_ERROR, "PE %d was killed by signal %d (%s)", rank,
                WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    } else {
        children->exit_code = WEXITSTATUS(wait_status);
        prs_log(children->log, PERSEUS_LOG_ERROR, "PE %d ended with exit code %d", rank,
                WEXITSTATUS(wait_status));
    }
    children->kill_ns = now_ns() + (uint64_t)children->launch->grace_ms * 1000000;
}

/* Collects every child that has ended. */
static void reap(struct children *children)
{
    for (int rank = 0; rank < children->launch->size; rank++) {
        int wait_status = 0;
        pid_t pid = children->pids[rank];
        if (pid == 0 || waitpid(pid, &wait_status, WNOHANG) != pid) {
            continue;
        }
        children->pids[rank] = 0;
        children->n_running--;
        if (wait_status != 0) {
            note_failure(children, rank, wait_status);
        }
    }
}

static void serve(struct children *children)
{
    while (children->n_running > 0) {
        enum perseus_status status = prs_hub_serve(children->hub, SERVE_MS);
        if (status == PERSEUS_OK) {
            usleep(SERVE_MS * 1000 / 4); /* all PEs have left the bootstrap, not yet the process */
        }
        reap(children);
        if (children->kill_ns != 0 && now_ns() > children->kill_ns) {
            kill_all(children);
        }
    }
}

int prs_launch(const struct prs_launch *launch, const struct prs_log *log)
{
    struct children children = {.launch = launch, .log = log};
    children.pids = calloc((size_t)launch->size, sizeof *children.pids);
    if (children.pids == NULL) {
        prs_log(log, PERSEUS_LOG_ERROR, "out of memory for %d PEs", launch->size);
        return PRS_EXIT_FAILED;
    }
    enum perseus_status status = prs_hub_create(launch->size, log, &children.hub);
    if (status == PERSEUS_OK) {
        status = start_all(&children);
        if (status != PERSEUS_OK) {
            kill_all(&children);
        }
        serve(&children);
    }
    prs_hub_destroy(children.hub);
    free(children.pids);
    return status != PERSEUS_OK ? PRS_EXIT_FAILED : children.exit_code;
}
