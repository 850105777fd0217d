/* SPDX-License-Identifier: Apache-2.0 */
/* unload_test.c: a host that unloads the file while it still has a transport of it. Threads run
 * that code (the host's proxy, the watch of a staged heap), so it must stay; whether it does shows
 * in a process of its own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "traffic.h"

enum { N_PES = 2, ROUNDS = 3, ENDED_WELL = 0, FAILED = 1 };

/* Every PE gives back its handle, then all that is done runs code of a file that nobody holds. */
static void unloaded(struct host_pe *pe, void *traffic)
{
    CHECK(pe, dlclose(pe->library) == 0);
    pe->library = NULL;
    CHECK(pe, host_barrier(pe) == 0);
    traffic_storm(pe, traffic);
}

static void enter(struct host_pe *pe, void *argument)
{
    (void)pe;
    (void)argument;
    fake_cuda_enter();
}

static int run(const char *file, int major, bool has_device)
{
    struct traffic traffic = {.seed = 1, .rounds = ROUNDS, .keeps_puts = has_device};
    const struct host_spec spec = {
        .file = file,
        .version = major * 10000,
        .n_pes = N_PES,
        .prepare = has_device ? enter : NULL,
        .cuda = has_device ? fake_cuda_table(major) : NULL,
        .memory = has_device ? &fake_cuda_memory : NULL,
        .body = unloaded,
        .argument = &traffic,
    };
    setenv("PERSEUS_FABRIC", "loopback", 1);
    setenv("PERSEUS_ORDERING", "fifo", 1);
    return host_run(&spec) == 0 ? ENDED_WELL : FAILED;
}

static void check(const char *file, int major, bool has_device)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's would be the parent's business */
        _exit(run(file, major, has_device));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != ENDED_WELL) {
        print_error("%s ended with status %#x\n", file, (unsigned)status);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ENDED_WELL);
}

static void test_a_transport_works_on(void **state)
{
    (void)state;
    for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
        check(host_file(major), major, false);
    }
}

static void test_a_transport_of_device_memory_works_on(void **state)
{
    (void)state;
    for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
        check(host_file(major), major, true);
    }
}

static void test_the_profiler_works_on(void **state)
{
    (void)state;
    char directory[] = "/tmp/perseus-unload-XXXXXX", record[64];
    assert_non_null(mkdtemp(directory));
    setenv("PERSEUS_PROFILE_INNER", PLUGIN_DIRECTORY, 1);
    setenv("PERSEUS_PROFILE_DIR", directory, 1);
    for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
        char file[64];
        snprintf(file, sizeof file, "profile/nvshmem_transport_libfabric.so.%d", major);
        check(file, major, false);
    }
    for (int pe = 0; pe < N_PES; pe++) {
        snprintf(record, sizeof record, "%s/pe-%d.profile", directory, pe);
        assert_int_equal(unlink(record), 0);
    }
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_transport_works_on),
        cmocka_unit_test(test_a_transport_of_device_memory_works_on),
        cmocka_unit_test(test_the_profiler_works_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
