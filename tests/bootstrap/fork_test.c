/* SPDX-License-Identifier: Apache-2.0 */
/* A PE that dies is dead, whatever its children hold: processes that it forked have copies of its
 * descriptors, and live on. Every case is a tcp job of two processes. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "job.h"

enum { SIZE = 2, DEADLINE_MS = 20000, AT_ONCE_MS = 5000 };

/* A child of the PE that outlives it, until the test kills the group. */
static void leave_child(bool uses_bootstrap, struct prs_bootstrap *bootstrap)
{
    int ready[2];
    char byte = 0;
    if (pipe(ready) != 0) {
        _exit(90);
    }
    if (fork() == 0) {
        if (uses_bootstrap) {
            bootstrap->ops->close(bootstrap); /* it is not the PE: its goodbye counts for nothing */
        }
        if (write(ready[1], &byte, 1) != 1) {
            _exit(91);
        }
        pause();
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1) {
        _exit(92);
    }
}

/* In a process of its own: joins, leaves a child behind, and dies. */
static void run_victim(const struct perseus_unique_id *id, int rank, bool uses_bootstrap)
{
    struct prs_bootstrap *bootstrap = NULL;
    setpgid(0, 0);
    if (prs_bootstrap_open_tcp(id, rank, SIZE, DEADLINE_MS, NULL, &bootstrap) != PERSEUS_OK ||
        job_gather(bootstrap, 0, 100) != PERSEUS_OK) {
        _exit(93);
    }
    leave_child(uses_bootstrap, bootstrap);
    if (uses_bootstrap && job_gather(bootstrap, 1, 100) != PERSEUS_OK) {
        _exit(94); /* what the child did is no business of the job's */
    }
    raise(SIGKILL);
}

static void lose(int victim_rank, bool uses_bootstrap)
{
    struct perseus_unique_id id;
    struct prs_bootstrap *bootstrap = NULL;
    int lost = -1;
    assert_int_equal(perseus_unique_id_create("127.0.0.1", &id), PERSEUS_OK);
    pid_t victim = fork();
    if (victim == 0) {
        run_victim(&id, victim_rank, uses_bootstrap);
    }
    setpgid(victim, victim);
    struct prs_clock clock = prs_clock_monotonic();
    assert_int_equal(
        prs_bootstrap_open_tcp(&id, 1 - victim_rank, SIZE, DEADLINE_MS, NULL, &bootstrap),
        PERSEUS_OK);
    assert_int_equal(job_gather(bootstrap, 0, 100), PERSEUS_OK);
    if (uses_bootstrap) {
        assert_int_equal(job_gather(bootstrap, 1, 100), PERSEUS_OK);
    }
    uint64_t start_ns = prs_clock_now_ns(&clock);
    assert_int_equal(job_gather(bootstrap, 2, 100), PERSEUS_PEER_LOST);
    assert_true(prs_clock_now_ns(&clock) - start_ns < (uint64_t)AT_ONCE_MS * 1000000u);
    assert_int_equal(bootstrap->ops->health(bootstrap, &lost), PERSEUS_PEER_LOST);
    assert_int_equal(lost, victim_rank);
    bootstrap->ops->abandon(bootstrap);
    int status = 0;
    assert_int_equal(waitpid(victim, &status, 0), victim);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    kill(-victim, SIGKILL); /* the child */
}

static void a_pe_dies_at_once_although_its_child_lives(void **state)
{
    (void)state;
    lose(1, false);
}

/* The hub is in it. */
static void so_does_pe_0(void **state)
{
    (void)state;
    lose(0, false);
}

static void a_child_that_says_goodbye_does_not_say_it_for_the_pe(void **state)
{
    (void)state;
    lose(1, true);
}

/* Without the handlers of pthread_atfork: as after clone, and between fork and the handler's
 * end. */
static pid_t leave_child_with_everything(void)
{
    pid_t child = _Fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    return child;
}

/* PE 0, which has the hub, closes while a child of it holds both ends of its own connection, the
 * other end of PE 1's, and epoll's descriptor. */
static void close_under_a_child(bool says_goodbye)
{
    struct perseus_unique_id id;
    struct prs_bootstrap *bootstrap = NULL;
    struct prs_clock clock = prs_clock_monotonic();
    assert_int_equal(perseus_unique_id_create("127.0.0.1", &id), PERSEUS_OK);
    pid_t other = fork();
    if (other == 0) {
        bool is_right =
            prs_bootstrap_open_tcp(&id, 1, SIZE, DEADLINE_MS, NULL, &bootstrap) == PERSEUS_OK &&
            job_gather(bootstrap, 0, 100) == PERSEUS_OK;
        uint64_t start_ns = prs_clock_now_ns(&clock);
        enum perseus_status status = is_right ? job_gather(bootstrap, 1, 100) : PERSEUS_OK;
        bool was_at_once = prs_clock_now_ns(&clock) - start_ns < (uint64_t)AT_ONCE_MS * 1000000u;
        _exit(status == PERSEUS_PEER_LOST && was_at_once ? 0 : 95);
    }
    assert_int_equal(prs_bootstrap_open_tcp(&id, 0, SIZE, DEADLINE_MS, NULL, &bootstrap),
                     PERSEUS_OK);
    assert_int_equal(job_gather(bootstrap, 0, 100), PERSEUS_OK);
    pid_t child = leave_child_with_everything();
    assert_true(child > 0);
    uint64_t start_ns = prs_clock_now_ns(&clock);
    alarm(2 * AT_ONCE_MS / 1000); /* it would wait for as long as the child lives */
    if (says_goodbye) {
        bootstrap->ops->close(bootstrap);
    } else {
        bootstrap->ops->abandon(bootstrap);
    }
    alarm(0);
    assert_true(prs_clock_now_ns(&clock) - start_ns < (uint64_t)AT_ONCE_MS * 1000000u);
    int status = 0;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void pe_0_gives_up_at_once_under_a_child_that_holds_everything(void **state)
{
    (void)state;
    close_under_a_child(false);
}

static void pe_0_leaves_at_once_under_a_child_that_holds_everything(void **state)
{
    (void)state;
    close_under_a_child(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pe_dies_at_once_although_its_child_lives),
        cmocka_unit_test(so_does_pe_0),
        cmocka_unit_test(a_child_that_says_goodbye_does_not_say_it_for_the_pe),
        cmocka_unit_test(pe_0_gives_up_at_once_under_a_child_that_holds_everything),
        cmocka_unit_test(pe_0_leaves_at_once_under_a_child_that_holds_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
