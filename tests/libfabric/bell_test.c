/* SPDX-License-Identifier: Apache-2.0 */
/* Bells: whoever sleeps over shm is woken by what peers send, also when it was about to fall
 * asleep; who is awake is not rung for; and a bell that is not the one that was meant is not
 * touched. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/libfabric/bell.h"
#include "libfabric/pair.h"
#include "libfabric/program.h"

#define BYTES     8192
#define RACES     20000
#define RACE_MS   5000
#define ROUNDS    50
#define PUT_BYTES 64

static _Alignas(64) unsigned char memory_a[BYTES], memory_b[BYTES];

/* ---- the moment of falling asleep ---- */

enum listen_mode {
    LISTEN,
    SENT_BEFORE, /* a peer sends just before */
    SENT_AFTER,  /* and just after, before the owner's last look */
    LISTEN_LATE, /* the mutant: after its last look; sent to in between */
};

static enum listen_mode mode;
static struct pair *sending;
static unsigned char round_byte;
static uint32_t posted;

void __real_prs_lf_bell_listen(struct prs_lf_bell *bell);
void __wrap_prs_lf_bell_listen(struct prs_lf_bell *bell);

static void send_round(struct pair *pair)
{
    memset(memory_a, ++round_byte, PUT_BYTES);
    struct prs_op op = side_put(&pair->a, 0, PUT_BYTES, PUT_BYTES);
    assert_int_equal(pair->a.fabric->ops->post(pair->a.endpoint, &op), PERSEUS_OK);
    posted++;
    struct prs_event events[8];
    pair->done += side_poll(&pair->a, events, 8);
}

void __wrap_prs_lf_bell_listen(struct prs_lf_bell *bell)
{
    if (mode == SENT_BEFORE) {
        send_round(sending);
    }
    if (mode != LISTEN_LATE) {
        __real_prs_lf_bell_listen(bell);
    }
    if (mode == SENT_AFTER) {
        send_round(sending);
    }
}

static bool is_readable(const struct side *side)
{
    struct pollfd watched = {.fd = side->fabric->ops->wait_fd(side->endpoint), .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

static enum perseus_status arm(struct side *side)
{
    uint64_t limit_ns = 0;
    return side->fabric->ops->arm(side->endpoint, &limit_ns);
}

static void fall_asleep(struct side *side)
{
    struct prs_event events[8];
    do {
        side_poll(side, events, 8);
    } while (arm(side) != PERSEUS_OK);
}

static bool arrived(void)
{
    return memory_b[PUT_BYTES] == round_byte && memory_b[2 * PUT_BYTES - 1] == round_byte;
}

static void finish_round(struct pair *pair)
{
    side_wait(&pair->a, &pair->b, &pair->done, posted);
}

static void open_both(struct pair *pair)
{
    mode = LISTEN;
    sending = pair;
    round_byte = 0;
    pair_open(pair, false, memory_a, memory_b, BYTES);
    struct prs_op op = side_put(&pair->a, 0, PUT_BYTES, PUT_BYTES); /* a connection is made */
    assert_int_equal(side_post(&pair->a, &pair->b, &op, &pair->done), PERSEUS_OK);
    posted = 1;
    finish_round(pair);
}

static void who_sleeps_is_woken_and_who_is_awake_is_not(void **state)
{
    (void)state;
    struct pair pair;
    open_both(&pair);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fall_asleep(&pair.b);
        assert_false(is_readable(&pair.b));
        send_round(&pair);
        assert_true(is_readable(&pair.b));
        finish_round(&pair);
        fall_asleep(&pair.b);
        struct prs_event events[8];
        side_poll(&pair.b, events, 8); /* awake again */
        send_round(&pair);
        assert_false(is_readable(&pair.b));
        finish_round(&pair);
    }
    pair_close(&pair);
}

static void what_comes_while_falling_asleep_is_seen_or_wakes(void **state)
{
    (void)state;
    struct pair pair;
    open_both(&pair);
    for (enum listen_mode when = SENT_BEFORE; when <= SENT_AFTER; when++) {
        for (uint32_t i = 0; i < ROUNDS; i++) {
            mode = LISTEN;
            fall_asleep(&pair.b);
            mode = when;
            enum perseus_status status = arm(&pair.b);
            mode = LISTEN;
            assert_true(status == PERSEUS_AGAIN || is_readable(&pair.b) || arrived());
            finish_round(&pair);
        }
    }
    pair_close(&pair);
}

/* The same with an owner that looks first and then says that it sleeps. */
static void a_look_before_listening_loses_wake_ups(void **state)
{
    (void)state;
    struct pair pair;
    open_both(&pair);
    fall_asleep(&pair.b);
    struct prs_event events[8];
    side_poll(&pair.b, events, 8);
    mode = LISTEN_LATE;
    assert_int_equal(arm(&pair.b), PERSEUS_OK);
    send_round(&pair);
    mode = LISTEN;
    assert_false(is_readable(&pair.b));
    assert_false(arrived());
    finish_round(&pair);
    pair_close(&pair);
}

/* ---- the bell alone ---- */

struct race {
    struct prs_lf_bell bell;
    struct prs_lf_rope rope;
    _Atomic uint32_t sent, seen;
};

static void *send_and_pull(void *user)
{
    struct race *race = user;
    for (uint32_t i = 1; i <= RACES; i++) {
        /* Relaxed: pull's and listen's fences are what is tested. */
        atomic_store_explicit(&race->sent, i, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        prs_lf_rope_pull(&race->rope);
        while (atomic_load_explicit(&race->seen, memory_order_relaxed) != i) {
            sched_yield();
        }
    }
    return NULL;
}

static void meet(struct race *race)
{
    struct prs_lf_bell_address address;
    *race = (struct race){0};
    assert_true(prs_lf_bell_open(&race->bell));
    assert_true(prs_lf_bell_address(&race->bell, &address));
    assert_true(prs_lf_rope_open(&race->rope, &race->bell, getpid(), &address));
}

static void part(struct race *race)
{
    prs_lf_rope_close(&race->rope);
    prs_lf_bell_close(&race->bell);
}

static bool rings_within(const struct race *race, int timeout_ms)
{
    struct pollfd watched = {.fd = race->bell.ear, .events = POLLIN};
    return poll(&watched, 1, timeout_ms) == 1;
}

static void no_wake_up_is_lost_in_a_race(void **state)
{
    (void)state;
    struct race race;
    meet(&race);
    pthread_t sender;
    assert_int_equal(pthread_create(&sender, NULL, send_and_pull, &race), 0);
    uint32_t lost = 0;
    for (uint32_t i = 1; i <= RACES; i++) {
        while (atomic_load_explicit(&race.sent, memory_order_relaxed) != i) {
            __real_prs_lf_bell_listen(&race.bell);
            if (atomic_load_explicit(&race.sent, memory_order_relaxed) != i) {
                lost += !rings_within(&race, RACE_MS);
            }
            prs_lf_bell_rise(&race.bell);
        }
        atomic_store_explicit(&race.seen, i, memory_order_relaxed);
    }
    pthread_join(sender, NULL);
    assert_int_equal(lost, 0);
    part(&race);
}

static void a_late_ring_costs_one_sleep(void **state)
{
    (void)state;
    struct race race;
    meet(&race);
    __real_prs_lf_bell_listen(&race.bell);
    prs_lf_rope_pull(&race.rope);
    prs_lf_rope_pull(&race.rope); /* somebody has rung already */
    assert_true(rings_within(&race, 0));
    char one[2];
    assert_int_equal(read(race.bell.ear, one, sizeof one), 1);
    prs_lf_bell_rise(&race.bell);
    assert_int_equal(write(race.bell.mouth, "", 1), 1); /* one that was still on its way */
    assert_true(rings_within(&race, 0));
    __real_prs_lf_bell_listen(&race.bell);
    assert_false(rings_within(&race, 0));
    part(&race);
}

static void only_the_bell_that_was_meant_is_opened(void **state)
{
    (void)state;
    struct race race;
    meet(&race);
    struct prs_lf_bell_address good, bad;
    struct prs_lf_rope rope;
    assert_true(prs_lf_bell_address(&race.bell, &good));
    bad = good;
    bad.page_inode++;
    assert_false(prs_lf_rope_open(&rope, &race.bell, getpid(), &bad));
    assert_int_equal(errno, ESTALE);
    bad = good;
    bad.pipe_inode++;
    assert_false(prs_lf_rope_open(&rope, &race.bell, getpid(), &bad));
    assert_int_equal(errno, ESTALE);
    bad = good;
    bad.page_fd = good.pipe_fd; /* another kind of file with the right number */
    bad.page_inode = good.pipe_inode;
    assert_false(prs_lf_rope_open(&rope, &race.bell, getpid(), &bad));
    bad = (struct prs_lf_bell_address){0}; /* who has none */
    assert_false(prs_lf_rope_open(&rope, &race.bell, getpid(), &bad));
    assert_false(prs_lf_rope_open(&rope, &race.bell, -1, &good));
    /* A page that can be taken away again, or is none yet. */
    for (int has_size = 0; has_size < 2; has_size++) {
        struct stat page;
        int open_page = memfd_create("open", MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(open_page, has_size != 0 ? 4096 : 0), 0);
        assert_int_equal(fcntl(open_page, F_ADD_SEALS, has_size != 0 ? F_SEAL_GROW : F_SEAL_SHRINK),
                         0);
        assert_int_equal(fstat(open_page, &page), 0);
        bad = good;
        bad.page_fd = open_page;
        bad.page_inode = page.st_ino;
        assert_false(prs_lf_rope_open(&rope, &race.bell, getpid(), &bad));
        assert_int_equal(errno, EPERM);
        close(open_page);
    }
    assert_null(rope.page);
    prs_lf_rope_pull(&rope);
    prs_lf_rope_close(&rope);
    part(&race);
}

/* A pipe without readers would end this process by SIGPIPE. */
static void ringing_for_the_dead_does_nothing(void **state)
{
    (void)state;
    int tells[2];
    assert_int_equal(pipe(tells), 0);
    pid_t child = fork();
    if (child == 0) {
        struct race own;
        meet(&own);
        __real_prs_lf_bell_listen(&own.bell);
        struct prs_lf_bell_address address;
        bool is_told = prs_lf_bell_address(&own.bell, &address) &&
                       write(tells[1], &address, sizeof address) == (ssize_t)sizeof address;
        pause();
        _exit(is_told ? 0 : 1);
    }
    struct race mine;
    meet(&mine);
    struct prs_lf_bell_address address;
    struct prs_lf_rope rope;
    assert_int_equal(read(tells[0], &address, sizeof address), sizeof address);
    assert_true(prs_lf_rope_open(&rope, &mine.bell, child, &address));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(rope.page->asleep, 1);
    prs_lf_rope_pull(&rope);
    assert_int_equal(rope.page->asleep, 0);
    prs_lf_rope_close(&rope);
    assert_false(prs_lf_rope_open(&rope, &mine.bell, child, &address));
    part(&mine);
    close(tells[0]);
    close(tells[1]);
}

int main(int argc, char **argv)
{
    int code;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_sleeps_is_woken_and_who_is_awake_is_not),
        cmocka_unit_test(what_comes_while_falling_asleep_is_seen_or_wakes),
        cmocka_unit_test(a_look_before_listening_loses_wake_ups),
        cmocka_unit_test(no_wake_up_is_lost_in_a_race),
        cmocka_unit_test(a_late_ring_costs_one_sleep),
        cmocka_unit_test(only_the_bell_that_was_meant_is_opened),
        cmocka_unit_test(ringing_for_the_dead_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
