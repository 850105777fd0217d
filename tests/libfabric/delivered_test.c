/* SPDX-License-Identifier: Apache-2.0 */
/* "Completed" is the truth: while the target's process is stopped, an operation completes only if
 * its effect can be seen in the target's memory already (which both processes map). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "libfabric/child.h"
#include "libfabric/program.h"

#define BYTES      (2 << 20)
#define STOPPED_MS 120

struct scene {
    struct child child;
    struct side side;
    unsigned char *target, *source;
    uint32_t done;
};

static void scene_open(struct scene *scene)
{
    scene->target = side_shared_memory(BYTES);
    scene->source = malloc(BYTES);
    assert_non_null(scene->source);
    memset(scene->source, 0x5a, BYTES);
    child_start(&scene->child, program_provider(), true, scene->target, BYTES, NULL, NULL);
    side_open(&scene->side, program_provider(), true, scene->source, BYTES);
    child_meet(&scene->child, &scene->side);
    scene->done = 0;
    struct prs_op put = side_put(&scene->side, 0, 0, 8);
    assert_int_equal(side_post(&scene->side, NULL, &put, &scene->done), PERSEUS_OK);
    side_wait(&scene->side, NULL, &scene->done, 1);
}

static void scene_close(struct scene *scene)
{
    child_finish(&scene->child);
    side_close(&scene->side);
    free(scene->source);
    side_shared_free(scene->target, BYTES);
}

static void stop(const struct child *child)
{
    siginfo_t info;
    kill(child->pid, SIGSTOP);
    waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOWAIT);
}

static bool effect_is_there(const struct scene *scene, const struct prs_op *op)
{
    const unsigned char *at = scene->target + op->remote_offset;
    if (op->kind != PRS_OP_PUT) {
        return memcmp(at, &op->value, 8) == 0;
    }
    return memcmp(at, scene->source, op->bytes) == 0;
}

static void completes_only_when_there(struct scene *scene, const struct prs_op *op)
{
    memset(scene->target, 0, BYTES);
    uint32_t before = scene->done;
    stop(&scene->child);
    enum perseus_status status;
    uint64_t until = side_now_ms() + STOPPED_MS;
    do {
        status = scene->side.fabric->ops->post(scene->side.endpoint, op);
    } while (status == PERSEUS_AGAIN && side_now_ms() < until);
    while (side_now_ms() < until) {
        side_turn(&scene->side, NULL, &scene->done);
        if (scene->done != before && !effect_is_there(scene, op)) {
            side_fail("kind %d, %llu bytes, flags %d: completed, and is not there", op->kind,
                      (unsigned long long)op->bytes, op->flags);
        }
    }
    kill(scene->child.pid, SIGCONT);
    if (status == PERSEUS_AGAIN) {
        status = side_post(&scene->side, NULL, op, &scene->done);
    }
    assert_int_equal(status, PERSEUS_OK);
    side_wait(&scene->side, NULL, &scene->done, before + 1);
    assert_true(effect_is_there(scene, op));
}

static void puts_signals_and_atomics(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    const struct prs_caps *caps = &scene.side.fabric->caps;
    if (caps->completion != PRS_COMPLETION_DELIVERED) {
        scene_close(&scene);
        return;
    }
    static const size_t sizes[] = {8, 64, 200, 1000, 4096, 65536, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct prs_op put = side_put(&scene.side, 0, 64, sizes[i]);
        completes_only_when_there(&scene, &put);
    }
    struct prs_op put = side_put(&scene.side, 0, 64, 100);
    put.flags = PRS_OP_INLINE;
    put.inline_source = scene.source;
    completes_only_when_there(&scene, &put);
    struct prs_op set = side_set(&scene.side, 128, 0x123456789abcdef0);
    completes_only_when_there(&scene, &set);
    if (caps->atomics >> PERSEUS_ATOMIC_SET & 1) {
        struct prs_op atomic = set;
        atomic.kind = PRS_OP_ATOMIC;
        atomic.atomic = PERSEUS_ATOMIC_SET;
        completes_only_when_there(&scene, &atomic);
    }
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_signals_and_atomics),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
