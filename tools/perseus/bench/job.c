/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/job.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "kit/exit.h"
#include "kit/launch.h"

enum {
    GRACE_MS = 2000, /* for the other PEs when one failed */
    LEAVE_MS = 5000  /* for a job that was told to end */
};

/* ---- in the job's processes ---- */

struct pe_start { /* how a PE begins its life */
    const struct prs_bench_pe_config *config;
    struct prs_bench_board *board;
    int control, rank;
};

static int pe_process(int rank, void *context)
{
    const struct pe_start *start = context;
    if (rank != 0) {
        close(start->control);
    }
    return prs_bench_pe_main(start->config, start->board, start->control);
}

static int run_processes(struct pe_start *start, const struct prs_log *log)
{
    struct prs_launch launch = {
        .size = (int)start->config->workload->n_pes,
        .pe_main = pe_process,
        .context = start,
        .grace_ms = GRACE_MS,
    };
    return prs_launch(&launch, log);
}

static void *pe_thread(void *argument)
{
    struct pe_start *start = argument;
    struct prs_bench_pe_config config = *start->config;
    config.attr.rank = start->rank;
    int exit_code = prs_bench_pe_main(&config, start->board, start->control);
    if (exit_code != PRS_EXIT_OK) {
        _exit(exit_code); /* the others would wait for this PE */
    }
    return NULL;
}

static int run_threads(struct pe_start *start, const struct prs_log *log)
{
    uint32_t n = start->config->workload->n_pes, started = 0;
    struct perseus_unique_id id;
    struct prs_bench_pe_config config = *start->config;
    config.attr.bootstrap = PERSEUS_BOOTSTRAP_TCP;
    config.attr.unique_id = &id;
    config.attr.size = (int)n;
    struct pe_start *starts = calloc(n, sizeof *starts);
    pthread_t *threads = calloc(n, sizeof *threads);
    int exit_code = PRS_EXIT_FAILED;
    if (starts == NULL || threads == NULL || perseus_unique_id_create(NULL, &id) != PERSEUS_OK) {
        prs_log(log, PERSEUS_LOG_ERROR, "cannot set up a job of %u PEs in one process", n);
    } else {
        for (; started < n; started++) {
            starts[started] = *start;
            starts[started].config = &config;
            starts[started].rank = (int)started;
            if (pthread_create(&threads[started], NULL, pe_thread, &starts[started]) != 0) {
                prs_log(log, PERSEUS_LOG_ERROR, "cannot start a thread for PE %u", started);
                _exit(PRS_EXIT_FAILED); /* the PEs that did start would wait for it */
            }
        }
        exit_code = PRS_EXIT_OK;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    free(starts);
    free(threads);
    return exit_code;
}

static bool is_in_process(const struct prs_bench_pe_config *config)
{
    return strcmp(config->attr.fabric, "loopback") == 0;
}

/* Never returns. */
static void lead(const struct prs_bench_job *job, int control, pid_t driver)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != driver) {
        _exit(PRS_EXIT_FAILED);
    }
    sigset_t none; /* the driver blocks what it reads from stop_fd */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct pe_start start = {.config = job->config, .board = job->board, .control = control};
    exit(is_in_process(job->config) ? run_threads(&start, job->log)
                                    : run_processes(&start, job->log));
}

/* ---- in the driver ---- */

static const char *job_name(const struct prs_bench_job *job)
{
    return perseus_ordering_name(job->config->attr.ordering);
}

/* PE 0's byte, or why it does not come. */
static enum perseus_status await_reply(const struct prs_bench_job *job)
{
    struct prs_clock clock = prs_clock_monotonic();
    uint64_t end_ns = prs_clock_now_ns(&clock) + (uint64_t)job->timeout_ms * 1000000;
    struct pollfd fds[2] = {{.fd = job->control, .events = POLLIN},
                            {.fd = job->stop_fd, .events = POLLIN}};
    for (;;) {
        uint64_t now_ns = prs_clock_now_ns(&clock);
        int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) : 0;
        int n = poll(fds, 2, left_ms);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n == 0) {
            return prs_fail(job->log, PERSEUS_TIMEOUT,
                            "the PEs in mode %s did not finish their turn in %u ms; raise "
                            "--timeout-ms or measure less at once",
                            job_name(job), job->timeout_ms);
        }
        if (fds[1].revents != 0) {
            return PERSEUS_CANCELED;
        }
        char byte;
        if (n < 0 || recv(job->control, &byte, 1, 0) != 1) {
            return prs_fail(job->log, PERSEUS_PEER_LOST,
                            "the PEs in mode %s ended early; the messages above say why",
                            job_name(job));
        }
        return PERSEUS_OK;
    }
}

/* Also of the beginning, which ends with PE 0's first byte. */
static enum perseus_status await_end_of_turn(struct prs_bench_job *job)
{
    enum perseus_status status = await_reply(job);
    job->is_broken = status != PERSEUS_OK;
    if (status == PERSEUS_OK) {
        kill(-job->leader, SIGSTOP);
    }
    return status;
}

static enum perseus_status fork_job(struct prs_bench_job *job, const struct prs_bench_job *others,
                                    uint32_t n_others)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return prs_fail(job->log, PERSEUS_IO, "socketpair: %s", strerror(errno));
    }
    pid_t driver = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        close(pair[0]);
        for (uint32_t i = 0; i < n_others; i++) {
            close(others[i].control);
        }
        lead(job, pair[1], driver);
    }
    close(pair[1]);
    job->control = pair[0];
    if (pid < 0) {
        return prs_fail(job->log, PERSEUS_IO, "cannot start a job: %s", strerror(errno));
    }
    setpgid(pid, pid); /* here too: whoever comes first */
    job->leader = pid;
    return PERSEUS_OK;
}

enum perseus_status prs_bench_job_start(struct prs_bench_job *job,
                                        const struct prs_bench_pe_config *config,
                                        const struct prs_bench_job *others, uint32_t n_others,
                                        int stop_fd, uint32_t timeout_ms, const struct prs_log *log)
{
    *job = (struct prs_bench_job){
        .config = config,
        .log = log,
        .stop_fd = stop_fd,
        .timeout_ms = timeout_ms,
        .control = -1,
        .board_bytes = prs_bench_board_bytes(config->workload->n_pes),
    };
    void *board =
        mmap(NULL, job->board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "out of memory for a job's samples");
    }
    job->board = board;
    prs_bench_gate_init(&job->board->all);
    prs_bench_gate_init(&job->board->players);
    enum perseus_status status = fork_job(job, others, n_others);
    return status == PERSEUS_OK ? await_end_of_turn(job) : status;
}

static void announce(const struct prs_bench_job *job, const struct prs_bench_turn *turn)
{
    job->board->turn = *turn;
    kill(-job->leader, SIGCONT);
    send(job->control, "t", 1, MSG_NOSIGNAL); /* if PE 0 is gone, its reply will not come */
}

/* Waits for the leader, which was told to end; if it does not, kills its group. */
static bool end_leader(const struct prs_bench_job *job)
{
    uint32_t patience_ms = job->is_broken ? LEAVE_MS : job->timeout_ms;
    int wait_status = 0;
    for (uint32_t waited_ms = 0; waited_ms < patience_ms; waited_ms++) {
        if (waitpid(job->leader, &wait_status, WNOHANG) == job->leader) {
            return wait_status == 0;
        }
        usleep(1000);
    }
    kill(-job->leader, SIGKILL);
    waitpid(job->leader, NULL, 0);
    prs_log(job->log, PERSEUS_LOG_ERROR, "the PEs in mode %s did not end and were killed",
            job_name(job));
    return false;
}

bool prs_bench_job_end(struct prs_bench_job *job)
{
    bool is_well = true;
    if (job->leader != 0) {
        struct prs_bench_turn end = {.is_end = true};
        announce(job, &end);
        is_well = end_leader(job);
    }
    if (job->control >= 0) {
        close(job->control);
    }
    if (job->board != NULL) {
        munmap(job->board, job->board_bytes);
    }
    return is_well;
}

enum perseus_status prs_bench_job_play(struct prs_bench_job *job, const struct prs_bench_turn *turn)
{
    announce(job, turn);
    return await_end_of_turn(job);
}
