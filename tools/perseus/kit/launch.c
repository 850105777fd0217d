/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "bootstrap/hub.h"
#include "kit/guard.h"
#include "kit/exit.h"

enum {
    SERVE_MS = 20,    /* how soon the end of a PE, or a signal, is noticed */
    SUSPECT_MS = 1000 /* how long the end of a process may come after the end of its socket */
};

/* How far the end of the job has come. */
enum stage {
    RUNNING,
    FAILED, /* a PE failed; the others know, and may end by themselves */
    ASKED,  /* they have a signal to end */
    KILLED
};

struct children {
    const struct prs_launch *launch;
    const struct prs_log *log;
    struct prs_hub *hub;
    int guard;     /* with owns_groups: kit/guard.h, or -1 */
    pid_t *pids;   /* by rank; 0: not started, or ended */
    int *statuses; /* by rank, as wait gave it */
    int n_running;
    int first_failed; /* the first rank seen to end with failure, or -1 */
    uint64_t suspect_until_ns;
    int exit_code;
    enum stage stage;
    uint64_t next_stage_ns; /* of FAILED and ASKED; of RUNNING the timeout, or UINT64_MAX */
    sigset_t signals, old_signals;
};

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

static uint64_t after_ms(uint32_t ms)
{
    return now_ns() + (uint64_t)ms * 1000000;
}

static void set_number(enum prs_env_id id, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(prs_env_row(id)->name, text, 1);
}

/* ---- start ---- */

/* In the child; never returns. */
static void child(struct children *children, int rank, int fd, pid_t parent)
{
    const struct prs_launch *launch = children->launch;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(PRS_EXIT_FAILED); /* it died before the line above took effect */
    }
    if (children->guard >= 0) {
        close(children->guard);
    }
    if (launch->owns_groups) {
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, &children->old_signals, NULL);
    }
    prs_hub_destroy(children->hub); /* closes the other PEs' ends here, so that their loss shows */
    fcntl(fd, F_SETFD, 0);
    set_number(PRS_ENV_RANK, rank);
    set_number(PRS_ENV_SIZE, launch->size);
    set_number(PRS_ENV_BOOTSTRAP_FD, fd);
    free(children->pids);
    free(children->statuses);
    exit(launch->pe_main(rank, launch->context));
}

static enum perseus_status start_all(struct children *children)
{
    pid_t self = getpid();
    fflush(NULL); /* or every child would print what is buffered again */
    for (int rank = 0; rank < children->launch->size; rank++) {
        int fd = prs_hub_take_fd(children->hub, rank);
        if (fd < 0) {
            return PERSEUS_IO;
        }
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
        if (children->launch->owns_groups) {
            setpgid(pid, pid); /* whoever comes first: a signal must find the group */
            prs_guard_add(children->guard, pid);
        }
        children->pids[rank] = pid;
        children->n_running++;
    }
    return PERSEUS_OK;
}

/* ---- end ---- */

static void signal_all(const struct children *children, int signal)
{
    for (int rank = 0; rank < children->launch->size; rank++) {
        pid_t pid = children->pids[rank];
        if (pid != 0) {
            kill(children->launch->owns_groups ? -pid : pid, signal);
        }
    }
}

static void enter(struct children *children, enum stage stage, int signal)
{
    if (signal != 0) {
        signal_all(children, signal);
    }
    children->stage = stage;
    children->next_stage_ns = stage == KILLED ? UINT64_MAX : after_ms(children->launch->grace_ms);
}

static void tell_end(const struct children *children, int rank)
{
    int status = children->statuses[rank];
    if (WIFSIGNALED(status)) {
        prs_log(children->log, PERSEUS_LOG_ERROR, "PE %d was killed by signal %d (%s%s)", rank,
                WTERMSIG(status), strsignal(WTERMSIG(status)),
                WCOREDUMP(status) ? ", core dumped" : "");
    } else {
        prs_log(children->log, PERSEUS_LOG_ERROR, "PE %d ended with exit code %d%s", rank,
                WEXITSTATUS(status),
                status == 0 ? ", but without perseus_finalize, and the others still needed it"
                            : "");
    }
}

/* Finds out who failed first. The PEs that end because another was lost may well be collected
 * before that one is: only the hub knows the order. */
static void judge(struct children *children)
{
    if (children->stage != RUNNING || children->first_failed < 0) {
        return;
    }
    int suspect = prs_hub_first_lost(children->hub);
    int failed = children->first_failed;
    if (suspect >= 0 && children->pids[suspect] != 0 && now_ns() < children->suspect_until_ns) {
        return; /* its socket is closed, so it is about to end */
    }
    if (suspect >= 0 && children->pids[suspect] == 0) {
        tell_end(children, suspect);
        failed = children->statuses[suspect] != 0 ? suspect : failed;
    } else {
        tell_end(children, failed);
    }
    int status = children->statuses[failed];
    children->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    enter(children, FAILED, 0);
}

/* Collects every child that has ended. */
static void reap(struct children *children)
{
    for (int rank = 0; rank < children->launch->size; rank++) {
        pid_t pid = children->pids[rank];
        siginfo_t ended = {.si_pid = 0};
        if (pid == 0 || waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            ended.si_pid != pid) {
            continue;
        }
        if (children->launch->owns_groups) {
            /* Before it is collected: until then nobody else can get this number. */
            kill(-pid, SIGKILL);
            prs_guard_remove(children->guard, pid);
        }
        waitpid(pid, &children->statuses[rank], 0);
        children->pids[rank] = 0;
        children->n_running--;
        if (children->statuses[rank] == 0) {
            continue;
        }
        prs_hub_report_death(children->hub, rank);
        if (children->first_failed < 0) {
            children->first_failed = rank;
            children->suspect_until_ns = after_ms(SUSPECT_MS);
        }
    }
}

static void advance(struct children *children)
{
    if (now_ns() < children->next_stage_ns) {
        return;
    }
    switch (children->stage) {
    case RUNNING:
        prs_log(children->log, PERSEUS_LOG_ERROR, "%d of %d PEs still run after %u ms: ending them",
                children->n_running, children->launch->size, children->launch->timeout_ms);
        children->exit_code = PRS_LAUNCH_TIMEOUT;
        enter(children, ASKED, SIGTERM);
        break;
    case FAILED:
        enter(children, ASKED, SIGTERM);
        break;
    case ASKED:
        enter(children, KILLED, SIGKILL);
        break;
    case KILLED:
        break;
    }
}

/* What a terminal tells its foreground group, which the PEs' groups are not, and what users send
 * to a job: passed on, and nothing ends. SIGCONT is among it, whatever stopped the launcher. */
static bool pass_on(const struct children *children, int signal)
{
    switch (signal) {
    case SIGTSTP:
        signal_all(children, SIGTSTP);
        raise(SIGSTOP); /* not SIGTSTP, which is blocked to be waited for */
        return true;
    case SIGCONT:
    case SIGWINCH:
    case SIGUSR1:
    case SIGUSR2:
        signal_all(children, signal);
        return true;
    default:
        return false;
    }
}

/* Of those that end the job the first is passed on; the second does not wait any more. */
static void on_signal(struct children *children, int signal)
{
    if (signal == SIGCHLD || pass_on(children, signal)) {
        return;
    }
    if (children->stage >= ASKED) {
        enter(children, KILLED, SIGKILL);
        return;
    }
    if (children->stage == RUNNING) {
        children->exit_code = 128 + signal;
    }
    enter(children, ASKED, signal);
}

/* ---- between ---- */

static void block_signals(struct children *children)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGCHLD,
                                  SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2};
    sigemptyset(&children->signals);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaddset(&children->signals, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &children->signals, &children->old_signals);
}

static void serve(struct children *children)
{
    const struct timespec no_time = {0}, some_time = {.tv_nsec = SERVE_MS * 1000000L};
    while (children->n_running > 0) {
        /* When all PEs have left the bootstrap there is only the end of processes to wait for. */
        bool has_left = prs_hub_serve(children->hub, SERVE_MS) == PERSEUS_OK;
        if (children->launch->owns_groups) {
            int signal = sigtimedwait(&children->signals, NULL, has_left ? &some_time : &no_time);
            if (signal > 0) {
                on_signal(children, signal);
            }
        } else if (has_left) {
            nanosleep(&some_time, NULL);
        }
        reap(children);
        judge(children);
        advance(children);
    }
}

static enum perseus_status run(struct children *children)
{
    const struct prs_launch *launch = children->launch;
    children->next_stage_ns = launch->timeout_ms == 0 ? UINT64_MAX : after_ms(launch->timeout_ms);
    if (launch->owns_groups) {
        children->guard = prs_guard_start(launch->size);
        block_signals(children);
    }
    enum perseus_status status = start_all(children);
    if (status != PERSEUS_OK) {
        enter(children, KILLED, SIGKILL);
    }
    serve(children);
    if (launch->owns_groups) {
        sigprocmask(SIG_SETMASK, &children->old_signals, NULL);
        if (children->guard >= 0) {
            close(children->guard);
        }
    }
    return status;
}

int prs_launch(const struct prs_launch *launch, const struct prs_log *log)
{
    struct children children = {.launch = launch, .log = log, .first_failed = -1, .guard = -1};
    children.pids = calloc((size_t)launch->size, sizeof *children.pids);
    children.statuses = calloc((size_t)launch->size, sizeof *children.statuses);
    enum perseus_status status = PERSEUS_OUT_OF_MEMORY;
    if (children.pids == NULL || children.statuses == NULL) {
        prs_log(log, PERSEUS_LOG_ERROR, "out of memory for %d PEs", launch->size);
    } else {
        status = prs_hub_create(launch->size, log, &children.hub);
    }
    if (status == PERSEUS_OK) {
        status = run(&children);
    }
    prs_hub_destroy(children.hub);
    free(children.pids);
    free(children.statuses);
    return status != PERSEUS_OK ? PRS_EXIT_FAILED : children.exit_code;
}
