/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that dies: whatever was in flight comes back, later posts say PEER_LOST, one message is
 * logged, other peers live on, and nothing hangs or stays behind. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libfabric/child.h"
#include "libfabric/program.h"

#define BYTES   (1 << 20)
#define POSTS   3000
#define LOST_MS 15000

enum moment { IDLE, BEFORE_CONTACT, IN_FULL_FLIGHT, STOPPED_AND_FILLED };

struct scene {
    struct child child;
    struct side side;
    unsigned char *target, *source;
    uint8_t open[POSTS]; /* posted and not yet completed */
    uint32_t in_flight;
};

static void scene_open(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    scene->target = side_shared_memory(BYTES);
    scene->source = calloc(1, BYTES);
    assert_non_null(scene->source);
    child_start(&scene->child, program_provider(), false, scene->target, BYTES, NULL, NULL);
    side_open(&scene->side, program_provider(), false, scene->source, BYTES);
    child_meet(&scene->child, &scene->side);
}

static void scene_close(struct scene *scene)
{
    if (scene->child.pid != 0) {
        child_reap(&scene->child);
    }
    side_close(&scene->side);
    free(scene->source);
    side_shared_free(scene->target, BYTES);
}

static void contact(struct side *side)
{
    uint32_t done = 0;
    struct prs_op put = side_put(side, 0, 0, 64);
    assert_int_equal(side_post(side, NULL, &put, &done), PERSEUS_OK);
    side_wait(side, NULL, &done, 1);
}

static void reap(struct scene *scene)
{
    struct prs_event events[16];
    uint32_t n = side_poll(&scene->side, events, 16);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(events[i].kind, PRS_EVENT_COMPLETION);
        assert_true(events[i].cookie < POSTS && scene->open[events[i].cookie] == 1);
        scene->open[events[i].cookie] = 0;
        scene->in_flight--;
    }
}

/* Posts what is taken at once, reading completions only when the answer is AGAIN. */
static void fill(struct scene *scene, uint32_t posts)
{
    for (uint32_t i = 0; i < posts; i++) {
        struct prs_op op = side_put(&scene->side, 0, 0, i % 7 == 0 ? 20000 : 500);
        op.kind = i % 11 == 10 ? PRS_OP_GET : op.kind;
        op.cookie = i;
        enum perseus_status status = scene->side.fabric->ops->post(scene->side.endpoint, &op);
        if (status == PERSEUS_AGAIN) {
            reap(scene);
            continue;
        }
        assert_int_equal(status, PERSEUS_OK);
        scene->open[i] = 1;
        scene->in_flight++;
    }
}

/* Posts until PEER_LOST and reads until nothing is in flight; both must come to pass. */
static void expect_loss(struct scene *scene)
{
    uint64_t deadline = side_now_ms() + LOST_MS;
    enum perseus_status status = PERSEUS_OK;
    while (status != PERSEUS_PEER_LOST || scene->in_flight > 0) {
        if (status != PERSEUS_PEER_LOST && scene->open[POSTS - 1] == 0) {
            struct prs_op op = side_put(&scene->side, 0, 0, 64);
            op.flags = PRS_OP_UNTRACKED; /* it will fail, and that is told even so */
            op.cookie = POSTS - 1;
            status = scene->side.fabric->ops->post(scene->side.endpoint, &op);
            assert_true(status == PERSEUS_OK || status == PERSEUS_AGAIN ||
                        status == PERSEUS_PEER_LOST);
            scene->open[POSTS - 1] = status == PERSEUS_OK;
            scene->in_flight += status == PERSEUS_OK;
        }
        reap(scene);
        if (side_now_ms() > deadline) {
            side_fail("%u operations still in flight, posting says %s", scene->in_flight,
                      perseus_status_name(status));
        }
    }
}

static void expect_one_message(const struct scene *scene)
{
    assert_int_equal(scene->side.log_text.errors, 1);
    assert_non_null(strstr(scene->side.log_text.last, "peer 0"));
}

static void dies_at(enum moment moment)
{
    struct scene scene;
    scene_open(&scene);
    if (moment != BEFORE_CONTACT) {
        contact(&scene.side);
    }
    if (moment == STOPPED_AND_FILLED) {
        kill(scene.child.pid, SIGSTOP);
    }
    if (moment == IN_FULL_FLIGHT || moment == STOPPED_AND_FILLED) {
        fill(&scene, POSTS - 1);
    }
    /* A zombie is as dead: a launcher that is slow to wait must not hide it. */
    child_kill(&scene.child, true);
    expect_loss(&scene);
    expect_one_message(&scene);
    scene_close(&scene);
}

static void while_idle(void **state)
{
    (void)state;
    dies_at(IDLE);
}

static void before_the_first_contact(void **state)
{
    (void)state;
    dies_at(BEFORE_CONTACT);
}

static void in_full_flight(void **state)
{
    (void)state;
    dies_at(IN_FULL_FLIGHT);
}

static void after_it_stopped_listening(void **state)
{
    (void)state;
    dies_at(STOPPED_AND_FILLED);
}

static void before_connect(void **state)
{
    (void)state;
    struct child child;
    struct side side;
    unsigned char *target = side_shared_memory(BYTES), *source = calloc(1, BYTES);
    struct side_card card;
    assert_non_null(source);
    child_start(&child, program_provider(), false, target, BYTES, NULL, NULL);
    side_open(&side, program_provider(), false, source, BYTES);
    child_swap_cards(&child, &side, &card);
    child_kill(&child, false);
    uint32_t peer;
    assert_int_equal(
        side.fabric->ops->connect(side.endpoint, card.address, card.address_bytes, &peer),
        PERSEUS_PEER_LOST);
    assert_int_equal(side.log_text.errors, 1);
    side_close(&side);
    free(source);
    side_shared_free(target, BYTES);
}

/* A second child, connected to the same endpoint. */
static void second_open(struct child *other, struct scene *scene, struct side *second)
{
    struct side_card card;
    scene_open(scene);
    contact(&scene->side);
    *second = scene->side;
    child_swap_cards(other, &scene->side, &card);
    side_meet(second, &card);
    assert_int_equal(second->peer, 1);
}

static void second_works(struct scene *scene, struct side *second, const unsigned char *target)
{
    memset(scene->source, 0x77, BYTES);
    for (uint64_t i = 0; i < 200; i++) {
        uint32_t done = 0;
        struct prs_op put = side_put(second, 0, i * 64, 64);
        assert_int_equal(side_post(second, NULL, &put, &done), PERSEUS_OK);
        side_wait(second, NULL, &done, 1);
        assert_memory_equal(target + i * 64, scene->source, 64);
    }
}

/* shm cannot complete anything behind an operation to a dead peer (peer.c); that is told at once
 * instead of hanging. */
static bool one_death_ends_all(void)
{
    return strcmp(program_provider(), "shm") == 0;
}

static void with_another(bool in_flight)
{
    struct scene scene;
    struct child other;
    struct side second;
    unsigned char *target = side_shared_memory(BYTES);
    child_start(&other, program_provider(), false, target, BYTES, NULL, NULL);
    second_open(&other, &scene, &second);
    second_works(&scene, &second, target);
    if (in_flight) {
        kill(scene.child.pid, SIGSTOP);
        fill(&scene, 500);
    }
    child_kill(&scene.child, false);
    if (in_flight) {
        expect_loss(&scene);
    }
    if (in_flight && one_death_ends_all()) {
        struct prs_op put = side_put(&second, 0, 0, 64);
        assert_int_equal(second.fabric->ops->post(second.endpoint, &put), PERSEUS_PEER_LOST);
    } else {
        second_works(&scene, &second, target);
    }
    scene.side.fabric->ops->remote_close(second.remote);
    child_finish(&other);
    scene_close(&scene);
    side_shared_free(target, BYTES);
}

static void others_live_on(void **state)
{
    (void)state;
    with_another(false);
}

static void others_live_on_in_full_flight(void **state)
{
    (void)state;
    with_another(true);
}

static void leaving_in_peace_is_no_error(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    contact(&scene.side);
    child_finish(&scene.child);
    struct prs_event event;
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(side_poll(&scene.side, &event, 1), 0);
    }
    assert_int_equal(scene.side.log_text.errors, 0);
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_idle),
        cmocka_unit_test(before_the_first_contact),
        cmocka_unit_test(in_full_flight),
        cmocka_unit_test(after_it_stopped_listening),
        cmocka_unit_test(before_connect),
        cmocka_unit_test(others_live_on),
        cmocka_unit_test(others_live_on_in_full_flight),
        cmocka_unit_test(leaving_in_peace_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
