/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and ending: who is where, what must be equal everywhere, and nothing left behind. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

static struct pes pes;

static void do_nothing(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    (void)pe;
    (void)context;
}

static void test_alone(void **state)
{
    (void)state;
    struct messages messages;
    messages_init(&messages);
    const struct perseus_attr attr = {.log = messages_take, .log_user = &messages};
    struct perseus_pe *pe = NULL;
    const char *why = NULL;
    CHECK_OK(perseus_init_attr(&attr, &pe));
    CHECK(perseus_my_pe(pe) == 0 && perseus_n_pes(pe) == 1);
    CHECK(perseus_my_node(pe) == 0 && perseus_node_of(pe, 0) == 0 && perseus_is_local(pe, 0));
    CHECK(perseus_ordering_in_force(pe, &why) == PERSEUS_ORDERING_AUTO);
    CHECK(strcmp(why, "every peer is node-local") == 0);
    CHECK_OK(perseus_barrier_all(pe));
    CHECK_OK(perseus_fence(pe));
    CHECK_OK(perseus_quiet(pe));
    CHECK_OK(perseus_finalize(pe));
    CHECK_OK(perseus_init(&pe));
    CHECK(strcmp(perseus_last_error(pe), "") == 0);
    perseus_abort(pe);
    CHECK_OK(perseus_finalize(NULL));
    perseus_abort(NULL);
    CHECK(messages_errors(&messages) == 0);
}

static void check_one_node(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    CHECK(perseus_n_pes(pe) == job->size);
    for (int target = 0; target < job->size; target++) {
        CHECK(perseus_node_of(pe, target) == 0);
        CHECK(perseus_is_local(pe, target));
    }
    CHECK(perseus_ordering_in_force(pe, NULL) == PERSEUS_ORDERING_AUTO);
}

static void check_two_nodes(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe);
    const char *why = NULL;
    void *object = NULL;
    CHECK_OK(perseus_malloc(pe, 8, &object));
    CHECK(perseus_my_node(pe) == me / 2);
    for (int target = 0; target < job->size; target++) {
        CHECK(perseus_node_of(pe, target) == target / 2);
        CHECK(perseus_is_local(pe, target) == (target / 2 == me / 2));
        CHECK((perseus_ptr(pe, object, target) != NULL) == (target / 2 == me / 2));
    }
    CHECK(perseus_ptr(pe, object, me) == object);
    CHECK(perseus_node_of(pe, -1) == -1 && perseus_node_of(pe, job->size) == -1);
    CHECK(!perseus_is_local(pe, -1) && !perseus_is_local(pe, job->size));
    CHECK(perseus_ordering_in_force(pe, &why) != PERSEUS_ORDERING_AUTO);
    CHECK(why[0] != '\0');
}

static void test_nodes(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(0);
    pes_with(4, &attr, check_one_node, NULL);
    attr = pes_attr(2);
    pes_with(4, &attr, check_two_nodes, NULL);
}

/* A job over tcp, through the public calls alone. */
static void *join_by_id(void *context)
{
    struct perseus_attr *attr = context;
    struct perseus_pe *pe = NULL;
    void *memory = NULL;
    CHECK_OK(perseus_init_attr(attr, &pe));
    CHECK(perseus_my_pe(pe) == attr->rank && perseus_n_pes(pe) == attr->size);
    CHECK_OK(perseus_malloc(pe, sizeof(uint64_t), &memory));
    CHECK_OK(perseus_signal_op(pe, memory, 1, PERSEUS_SIGNAL_ADD, 0));
    CHECK_OK(perseus_barrier_all(pe));
    CHECK(attr->rank != 0 || perseus_signal_fetch(memory) == (uint64_t)attr->size);
    CHECK_OK(perseus_finalize(pe));
    return NULL;
}

static void test_unique_id(void **state)
{
    (void)state;
    enum { SIZE = 3 };
    struct perseus_unique_id id;
    struct perseus_attr attr[SIZE];
    pthread_t threads[SIZE];
    CHECK_OK(perseus_unique_id_create(NULL, &id));
    for (int rank = 0; rank < SIZE; rank++) {
        attr[rank] = pes_attr(1);
        attr[rank].bootstrap = PERSEUS_BOOTSTRAP_TCP;
        attr[rank].unique_id = &id;
        attr[rank].rank = rank;
        attr[rank].size = SIZE;
        CHECK(pthread_create(&threads[rank], NULL, join_by_id, &attr[rank]) == 0);
    }
    for (int rank = 0; rank < SIZE; rank++) {
        pthread_join(threads[rank], NULL);
    }
}

static int count_entries(const char *path)
{
    int n = 0;
    DIR *directory = opendir(path);
    CHECK(directory != NULL);
    while (readdir(directory) != NULL) {
        n++;
    }
    closedir(directory);
    return n;
}

static void work_a_little(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    uint64_t *word = NULL;
    void *memory = NULL;
    static unsigned char buffers[PES_MAX][64];
    unsigned char *buffer = buffers[perseus_my_pe(pe)];
    CHECK_OK(perseus_malloc(pe, 100, &memory));
    word = memory;
    CHECK_OK(perseus_buffer_register(pe, buffer, 64)); /* never unregistered: finalize does it */
    CHECK_OK(perseus_put_nbi(pe, word + 1, buffer, 64, 1 - perseus_my_pe(pe) % 2));
    CHECK_OK(perseus_atomic_nbi(pe, word, PERSEUS_ATOMIC_ADD, 1, 0));
    CHECK_OK(perseus_barrier_all(pe));
    CHECK(perseus_my_pe(pe) != 0 || perseus_signal_fetch(word) == (uint64_t)job->size);
}

static void test_again_and_again(void **state)
{
    (void)state;
    int fds = 0, threads = 0;
    for (int i = 0; i < 50; i++) {
        struct perseus_attr attr = pes_attr(i % 2);
        pes_with(2, &attr, work_a_little, NULL);
        if (i == 1) { /* what libraries keep for good is there now */
            fds = count_entries("/proc/self/fd");
            threads = count_entries("/proc/self/task");
        }
    }
    CHECK(count_entries("/proc/self/fd") == fds);
    CHECK(count_entries("/proc/self/task") == threads);
}

/* PE 1 asks for something else: every PE must refuse, with a message that holds `part`. */
static void refuse(const struct perseus_attr *all, const struct perseus_attr *one,
                   enum perseus_status expected, const char *part)
{
    pes_init(&pes, 3, all);
    pes.attr[1].fabric = one->fabric;
    pes.attr[1].provider = one->provider;
    pes.attr[1].ordering = one->ordering;
    pes.attr[1].heap_bytes = one->heap_bytes;
    pes.attr[1].pes_per_node = one->pes_per_node;
    pes_run(&pes, do_nothing, NULL);
    for (int pe = 0; pe < pes.size; pe++) {
        CHECK_STATUS(pes.opened[pe], expected);
        CHECK(messages_have(&pes.messages[pe], part));
    }
    pes_finish(&pes);
}

static void test_differences(void **state)
{
    (void)state;
    struct perseus_attr all = pes_attr(1), one = pes_attr(1);
    one.heap_bytes = 8 << 20;
    refuse(&all, &one, PERSEUS_INVALID_ARGUMENT, "PE 1 has a symmetric heap of 8388608 bytes");
    one = pes_attr(2);
    refuse(&all, &one, PERSEUS_INVALID_ARGUMENT, "PE 1 has pes_per_node 2");
    one = pes_attr(1);
    all.ordering = PERSEUS_ORDERING_DRAIN;
    one.ordering = PERSEUS_ORDERING_FIFO;
    refuse(&all, &one, PERSEUS_INVALID_ARGUMENT, "PE 1 uses ordering fifo");
    all = one = pes_attr(1);
    one.fabric = "carrier-pigeon";
    refuse(&all, &one, PERSEUS_NOT_FOUND, "PE 1");
}

static void test_no_such_fabric(void **state)
{
    (void)state;
    struct perseus_attr all = pes_attr(1);
    all.fabric = "carrier-pigeon";
    refuse(&all, &all, PERSEUS_NOT_FOUND, "carrier-pigeon");
    all = pes_attr(0); /* with no remote peer nobody asks for it */
    all.fabric = "carrier-pigeon";
    pes_with(2, &all, do_nothing, NULL);
}

static void check_mode(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    CHECK(perseus_ordering_in_force(pe, NULL) == *(enum perseus_ordering *)context);
}

static void test_every_mode(void **state)
{
    (void)state;
    for (int mode = PERSEUS_ORDERING_DRAIN; mode < PERSEUS_ORDERING_COUNT; mode++) {
        struct perseus_attr attr = pes_attr(1);
        attr.ordering = (enum perseus_ordering)mode;
        pes_with(2, &attr, check_mode, &attr.ordering);
    }
}

static void test_wrong_attribute(void **state)
{
    (void)state;
    struct perseus_pe *pe = NULL;
    struct messages messages;
    messages_init(&messages);
    const struct perseus_attr attr = {
        .ring_slots = 100, .log = messages_take, .log_user = &messages};
    CHECK_STATUS(perseus_init_attr(&attr, &pe), PERSEUS_INVALID_ARGUMENT);
    CHECK(pe == NULL && messages_errors(&messages) == 1);
}

static void note_secret(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    unsigned char(*secrets)[PRS_JOB_SECRET_BYTES] = context;
    memcpy(secrets[perseus_my_pe(pe)], pe->job.secret, PRS_JOB_SECRET_BYTES);
}

/* Every job has one, every PE of it has the same, and no other job has it. */
static void test_secret(void **state)
{
    (void)state;
    static const unsigned char zeros[PRS_JOB_SECRET_BYTES];
    unsigned char secrets[2][3][PRS_JOB_SECRET_BYTES] = {{{0}}};
    const struct perseus_attr attr = pes_attr(1);
    for (int job = 0; job < 2; job++) {
        pes_with(3, &attr, note_secret, secrets[job]);
        assert_memory_not_equal(secrets[job][0], zeros, sizeof zeros);
        assert_memory_equal(secrets[job][1], secrets[job][0], sizeof zeros);
        assert_memory_equal(secrets[job][2], secrets[job][0], sizeof zeros);
    }
    assert_memory_not_equal(secrets[0][0], secrets[1][0], sizeof zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),           cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_unique_id),       cmocka_unit_test(test_again_and_again),
        cmocka_unit_test(test_differences),     cmocka_unit_test(test_no_such_fabric),
        cmocka_unit_test(test_secret),          cmocka_unit_test(test_every_mode),
        cmocka_unit_test(test_wrong_attribute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
