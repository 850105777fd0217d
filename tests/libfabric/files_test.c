/* SPDX-License-Identifier: Apache-2.0 */
/* What shm leaves in /dev/shm: nothing after a close, and a killed process's file goes with the
 * next one who notices. Files of the living stay. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/libfabric/libfabric.h"
#include "libfabric/child.h"
#include "libfabric/program.h"

#define BYTES 65536

static _Alignas(64) unsigned char memory[BYTES];

static void a_closed_endpoint_leaves_nothing(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a, "shm", false, memory, BYTES);
    side_open_beside(&b, &a, memory, BYTES);
    assert_int_equal(program_count_files(getpid()), 2);
    side_close(&b);
    assert_int_equal(program_count_files(getpid()), 1);
    side_close(&a);
    assert_int_equal(program_count_files(getpid()), 0);
}

static void start(struct child *child, pid_t *out_pid, unsigned char *shared, struct side *side,
                  struct side_card *card)
{
    child_start(child, "shm", false, shared, BYTES, NULL, NULL);
    side_open(side, "shm", false, memory, BYTES);
    child_swap_cards(child, side, card);
    *out_pid = child->pid;
    assert_int_equal(program_count_files(child->pid), 1);
}

static void the_next_open_sweeps_for_the_dead(void **state)
{
    (void)state;
    struct child dead, alive;
    struct side side;
    struct side_card card;
    pid_t dead_pid, alive_pid;
    unsigned char *shared = side_shared_memory(BYTES);
    start(&alive, &alive_pid, shared, &side, &card);
    side_close(&side);
    start(&dead, &dead_pid, shared, &side, &card);
    side_close(&side);
    child_kill(&dead, false);
    assert_int_equal(program_count_files(dead_pid), 1);
    side_open(&side, "shm", false, memory, BYTES);
    assert_int_equal(program_count_files(dead_pid), 0);
    assert_int_equal(program_count_files(alive_pid), 1);
    side_close(&side);
    child_finish(&alive);
    assert_int_equal(program_count_files(alive_pid), 0);
    side_shared_free(shared, BYTES);
}

static void a_peer_that_sees_it_die_removes_its_file(void **state)
{
    (void)state;
    struct child child;
    struct side side;
    struct side_card card;
    pid_t pid;
    unsigned char *shared = side_shared_memory(BYTES);
    start(&child, &pid, shared, &side, &card);
    side_meet(&side, &card);
    child_kill(&child, true);
    uint64_t deadline = side_now_ms() + 10000;
    while (program_count_files(pid) != 0) {
        struct prs_event event;
        assert_int_equal(side_poll(&side, &event, 1), 0);
        assert_true(side_now_ms() < deadline);
    }
    child_reap(&child);
    side_close(&side);
    side_shared_free(shared, BYTES);
}

/* Many fabrics of one process at once: no name is taken twice. */
static void names_are_unique(void **state)
{
    (void)state;
    enum { MANY = 12 };
    struct side sides[MANY];
    for (int i = 0; i < MANY; i++) {
        side_open(&sides[i], "shm", false, memory, BYTES);
    }
    assert_int_equal(program_count_files(getpid()), MANY);
    for (int i = 0; i < MANY; i++) {
        side_close(&sides[i]);
    }
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_endpoint_leaves_nothing),
        cmocka_unit_test(the_next_open_sweeps_for_the_dead),
        cmocka_unit_test(a_peer_that_sees_it_die_removes_its_file),
        cmocka_unit_test(names_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
