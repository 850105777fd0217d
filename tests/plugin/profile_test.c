/* SPDX-License-Identifier: Apache-2.0 */
/* profile_test.c: the profiler around the real transport: nothing changes for the program, and
 * every call of its proxy thread is on record. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foreign.h"
#include "profile/record.h"
#include "traffic.h"

#define N_PES 3

struct record {
    struct prs_profile_head *head;
    const struct prs_profile_peer *peers;
    const struct prs_profile_event *events;
    size_t bytes;
};

static struct record open_record(const char *directory, int pe)
{
    char path[256];
    struct stat what;
    struct record record;
    snprintf(path, sizeof path, "%s/pe-%d.profile", directory, pe);
    int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_int_equal(fstat(file, &what), 0);
    record.bytes = (size_t)what.st_size;
    record.head = mmap(NULL, record.bytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    unlink(path);
    assert_int_equal(record.head->magic, PRS_PROFILE_MAGIC);
    assert_int_equal(record.bytes, prs_profile_bytes(record.head->n_pes, record.head->events_max));
    record.peers = (const struct prs_profile_peer *)(record.head + 1);
    record.events = (const struct prs_profile_event *)(record.peers + record.head->n_pes);
    return record;
}

/* Where each PE puts from, where its data lands in the others, and its signals: nobody else's
 * memory. */
#define OUTBOX (128 << 10)
#define INBOX  (64 << 10)

/* To every other PE: 5 puts of 1000 bytes, a fence, 2 signals; then quiet. */
static void known_kernel(struct host_pe *pe, void *argument)
{
    (void)argument;
    for (int target = 0; target < pe->n_pes; target++) {
        for (int i = 0; i < 5 && target != pe->rank; i++) {
            CHECK(pe, device_put(pe, target, INBOX + (size_t)pe->rank * 1024, pe->heap + OUTBOX,
                                 1000) == 0);
        }
    }
    CHECK(pe, device_fence(pe) == 0);
    for (int target = 0; target < pe->n_pes; target++) {
        for (size_t i = 0; i < 2 && target != pe->rank; i++) {
            CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_SIGNAL_SET, (size_t)pe->rank * 64 + 8 * i,
                                 8, 1, 0) == 0);
        }
    }
    CHECK(pe, device_quiet(pe) == 0);
}

static void known(struct host_pe *pe, void *argument)
{
    host_on_proxy(pe, known_kernel, argument);
    CHECK(pe, user_put(pe, (pe->rank + 1) % pe->n_pes, INBOX + 8192, pe->heap + OUTBOX, 64,
                       false) == 0);
}

static void check_known(const struct record *record, int pe, int major)
{
    const struct prs_profile_head *head = record->head;
    assert_int_equal(head->pe, pe);
    assert_int_equal(head->n_pes, N_PES);
    assert_int_equal(head->interface, major);
    assert_int_equal(head->offers_fence, 1);
    assert_true(head->finish_ns >= head->start_ns);
    for (int peer = 0; peer < N_PES; peer++) {
        const struct prs_profile_count *counts = record->peers[peer].counts;
        int others = peer != pe;
        assert_int_equal(counts[PRS_PROFILE_PUT].calls, 5 * others);
        assert_int_equal(counts[PRS_PROFILE_PUT].bytes, 5000 * others);
        assert_int_equal(counts[PRS_PROFILE_AMO].calls, 2 * others);
        assert_int_equal(counts[PRS_PROFILE_FENCE].calls, others);
        assert_true(counts[PRS_PROFILE_QUIET].calls >= 1);
        assert_int_equal(record->peers[peer].sizes[9].calls, 5 * others); /* 512 to 1023 */
    }
    assert_int_equal(head->fence_requests, 1);
    assert_int_equal(head->fence_open, 10);
    assert_int_equal(head->fence_open_max, 10);
    assert_int_equal(head->peers_between_quiets, 2);
    assert_int_equal(head->events_lost, 0);
    uint64_t previous = 0;
    for (uint64_t i = 0; i < head->events; i++) {
        assert_true(record->events[i].start_ns >= previous);
        assert_true(record->events[i].kind < PRS_PROFILE_KINDS);
        previous = record->events[i].start_ns;
    }
}

static void run_around(const char *inner, const char *directory, int major, host_body body,
                       void *argument)
{
    setenv("PERSEUS_FABRIC", "loopback", 1);
    setenv("PERSEUS_ORDERING", "deferred", 1);
    setenv("PERSEUS_PROFILE_INNER", inner, 1);
    setenv("PERSEUS_PROFILE_DIR", directory, 1);
    char file[64];
    snprintf(file, sizeof file, "profile/nvshmem_transport_libfabric.so.%d", major);
    const struct host_spec spec = {
        .file = file,
        .version = major * 10000,
        .n_pes = N_PES,
        .body = body,
        .argument = argument,
    };
    assert_int_equal(host_run(&spec), 0);
}

static void run_profiled(const char *directory, int major, host_body body, void *argument)
{
    run_around(PLUGIN_DIRECTORY, directory, major, body, argument);
}

static void test_every_call_is_on_record(void **state)
{
    for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
        run_profiled(*state, major, known, NULL);
        for (int pe = 0; pe < N_PES; pe++) {
            struct record record = open_record(*state, pe);
            check_known(&record, pe, major);
            munmap(record.head, record.bytes);
        }
    }
}

/* Its files are larger than a careful user's limit: there are none then, and the program
 * goes on. */
static void test_a_limit_of_file_sizes_costs_the_record_only(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
        signal(SIGXFSZ, SIG_DFL);
        if (setrlimit(RLIMIT_FSIZE, &limit) == 0) {
            run_profiled(*state, PRS_INTERFACE_LAST, known, NULL);
        }
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int pe = 0; pe < N_PES; pe++) {
        char path[256];
        snprintf(path, sizeof path, "%s/pe-%d.profile", (const char *)*state, pe);
        unlink(path);
    }
}

/* ---- a transport that is not ours ---- */

/* What one fence costs there, and a put_signal, which has one inside. */
static void foreign_kernel(struct host_pe *pe, void *argument)
{
    known_kernel(pe, argument);
    int target = (pe->rank + 1) % pe->n_pes;
    size_t inbox = INBOX + (size_t)pe->rank * 1024;
    for (int i = 1; i <= 3; i++) {
        CHECK(pe, device_put_signal(pe, target, inbox, pe->heap + OUTBOX, 100, 4096, (uint64_t)i,
                                    PRS_ABI_AMO_SIGNAL_SET) == 0);
    }
    CHECK(pe, device_quiet(pe) == 0);
}

static void foreign(struct host_pe *pe, void *argument)
{
    host_on_proxy(pe, foreign_kernel, argument);
    host_barrier(pe);
    CHECK(pe, host_word(pe, 4096) == 3);
    CHECK(pe, host_word(pe, (size_t)((pe->rank + 1) % pe->n_pes) * 64 + 8) == 1);
}

static void test_a_foreign_transport_is_timed(void **state)
{
    const uint64_t fence_ns = FOREIGN_FENCE_NS;
    for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
        run_around(PLUGIN_DIRECTORY "/foreign", *state, major, foreign, NULL);
        for (int pe = 0; pe < N_PES; pe++) {
            struct record record = open_record(*state, pe);
            const struct prs_profile_count *next = record.peers[(pe + 1) % N_PES].counts;
            assert_non_null(strstr(record.head->transport, "/foreign/"));
            assert_int_equal(record.head->fence_requests, 4); /* one, and one for each signal */
            if (major == 3) {                                 /* fences are calls of their own */
                assert_int_equal(next[PRS_PROFILE_PUT].calls, 5 + 3);
                assert_true(next[PRS_PROFILE_FENCE].ns >= 4 * fence_ns);
            } else {
                assert_int_equal(next[PRS_PROFILE_PUT_SIGNAL].calls, 3);
                assert_true(next[PRS_PROFILE_PUT_SIGNAL].ns >= 3 * fence_ns);
                assert_int_equal(record.peers[(pe + 1) % N_PES].sizes[6].calls, 3); /* 64 to 127 */
            }
            munmap(record.head, record.bytes);
        }
    }
}

static void test_the_program_does_not_notice(void **state)
{
    struct traffic traffic = {.seed = 5, .rounds = 4};
    for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
        run_profiled(*state, major, traffic_storm, &traffic);
        run_profiled(*state, major, traffic_atomics, &traffic);
        run_profiled(*state, major, traffic_shapes, &traffic);
    }
    for (int pe = 0; pe < N_PES; pe++) {
        struct record record = open_record(*state, pe);
        uint64_t put_signals = record.peers[(pe + 1) % N_PES].counts[PRS_PROFILE_PUT_SIGNAL].calls;
        assert_int_equal(put_signals, 2); /* of traffic_shapes, the last run */
        munmap(record.head, record.bytes);
    }
}

static void test_without_a_place_to_write_the_program_runs_on(void **state)
{
    (void)state;
    run_profiled("/nonexistent/place", 3, known, NULL);
}

static int make_directory(void **state)
{
    static char directory[] = "/tmp/perseus-profile-XXXXXX";
    *state = mkdtemp(directory);
    return *state == NULL;
}

static int remove_directory(void **state)
{
    return rmdir(*state);
}

int main(void)
{
    /* Loaded for good: it keeps what it allocated once in globals, which LeakSanitizer
     * would miss. */
    dlopen("libfabric.so.1", RTLD_NOW | RTLD_NODELETE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_on_record),
        cmocka_unit_test(test_a_limit_of_file_sizes_costs_the_record_only),
        cmocka_unit_test(test_a_foreign_transport_is_timed),
        cmocka_unit_test(test_the_program_does_not_notice),
        cmocka_unit_test(test_without_a_place_to_write_the_program_runs_on),
    };
    return cmocka_run_group_tests_name("NVSHMEM profiler", tests, make_directory, remove_directory);
}
