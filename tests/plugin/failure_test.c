/* SPDX-License-Identifier: Apache-2.0 */
/* failure_test.c: whatever is wrong is one clear line and a non-zero return, never a crash or a
 * hang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ears.h"
#include "fake_cuda.h"
#include "host/handle.h"
#include "traffic.h"

#define IBRC_4 "nvshmem_transport_ibrc.so.4"

/* ---- a failing init ---- */

typedef int (*init_fn)(void **out, const struct prs_abi_cuda_table *cuda, int version);

/* One init that must fail with one line that holds all of `words`. */
static void refuse(const char *file, int version, const char *const *words)
{
    char text[4096];
    struct ears ears;
    void *library = host_open(file);
    assert_non_null(library);
    init_fn init;
    void *symbol = dlsym(library, "nvshmemt_init");
    memcpy(&init, &symbol, sizeof init);
    void *transport = &ears;
    ears_open(&ears);
    int failed = init(&transport, NULL, version);
    int lines = ears_close(&ears, text, sizeof text);
    assert_int_not_equal(failed, 0);
    assert_ptr_equal(transport, &ears);
    dlclose(library);
    if (lines != 1) {
        print_error("%d lines:\n%s", lines, text);
    }
    assert_int_equal(lines, 1);
    for (; *words != NULL; words++) {
        if (strstr(text, *words) == NULL) {
            print_error("no \"%s\" in: %s", *words, text);
        }
        assert_non_null(strstr(text, *words));
    }
}
#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void test_init_refuses(void **state)
{
    (void)state;
    ears_clean_environment();
    refuse(FILE_3, 80000, WORDS("8.0", "3.0 to 7.0", "NVSHMEM 3.3 to 3.8"));
    refuse(FILE_4, 20000, WORDS("2.0", "3.0 to 7.0"));
    setenv("PERSEUS_PROVIDER", "nonsense", 1);
    refuse(FILE_3, 30000, WORDS("libfabric has no provider 'nonsense' here; there are: "));
    unsetenv("PERSEUS_PROVIDER");
    setenv("NVSHMEM_LIBFABRIC_PROVIDER", "cxxi", 1);
    refuse(FILE_4, 40000, WORDS("libfabric has no provider 'cxxi' here; there are: "));
    unsetenv("NVSHMEM_LIBFABRIC_PROVIDER");
    refuse(IBRC_4, 40000, WORDS("libfabric has no provider 'verbs' here; there are: "));
    setenv("PERSEUS_ORDERING", "quick", 1);
    refuse(FILE_3, 30000, WORDS("PERSEUS_ORDERING", "quick"));
    setenv("PERSEUS_ORDERING", "nic-fence", 1);
    setenv("PERSEUS_PROVIDER", "tcp", 1);
    refuse(FILE_3, 30000, WORDS("nic-fence"));
    setenv("PERSEUS_FABRIC", "pigeon", 1);
    refuse(FILE_3, 30000, WORDS("pigeon"));
}

/* ---- failing starts and calls of whole jobs ---- */

static void test_one_pe_alone(void **state)
{
    (void)state;
    ears_clean_environment();
    char text[4096];
    setenv("PERSEUS_PROVIDER", "tcp", 1);
    struct traffic traffic = {.seed = 3, .rounds = 3};
    struct host_spec spec = {.file = FILE_4, .version = 40000, .n_pes = 1, .body = ears_nothing};
    assert_int_equal(ears_run(&spec, text, sizeof text), 0);
    spec.body = traffic_storm;
    spec.argument = &traffic;
    assert_int_equal(ears_run(&spec, text, sizeof text), 0);
}

/* The first block that PEs exchange: 8 bytes of magic, the interface, the version of Perseus. */
#define IDENTITY_BYTES 64

static void another_transport(struct host_pe *pe, void *block, size_t bytes)
{
    if (pe->rank == 1 && bytes == IDENTITY_BYTES) {
        ((unsigned char *)block)[0]++;
    }
}

static void another_interface(struct host_pe *pe, void *block, size_t bytes)
{
    if (pe->rank == 1 && bytes == IDENTITY_BYTES) {
        ((unsigned char *)block)[8]++;
    }
}

static void another_version(struct host_pe *pe, void *block, size_t bytes)
{
    if (pe->rank == 1 && bytes == IDENTITY_BYTES) {
        ((unsigned char *)block)[12] = '9';
    }
}

/* A PE that died before: the bootstrap, which is NVSHMEM's, says so or its launcher ends the
 * job. */
static void test_a_failing_bootstrap_is_one_line(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    char text[4096];
    const struct host_spec spec = {.file = FILE_4,
                                   .version = 40000,
                                   .n_pes = 2,
                                   .bootstrap_fails = true,
                                   .starts_badly = true,
                                   .body = ears_nothing};
    assert_int_equal(ears_run(&spec, text, sizeof text), 2); /* a line for each PE */
    assert_int_equal(ears_count(text, "bootstrap could not gather addresses (error 7)"), 2);
}

static void test_mixed_versions_fail_everywhere(void **state)
{
    static const struct {
        void (*tamper)(struct host_pe *pe, void *block, size_t bytes);
        const char *said;
    } cases[] = {
        {another_transport, "PE 1 does not run the Perseus transport"},
        {another_interface, "under NVSHMEM interface 5.0, PE 0 runs Perseus "},
        {another_version, "PE 1 runs Perseus 9"},
    };
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    char text[8192];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct host_spec spec = {.file = FILE_4,
                                       .version = 40000,
                                       .n_pes = 3,
                                       .tamper = cases[i].tamper,
                                       .starts_badly = true,
                                       .body = ears_nothing};
        assert_int_equal(ears_run(&spec, text, sizeof text), 3); /* a line for each PE */
        assert_int_equal(ears_count(text, cases[i].said), 3);
    }
}

static void another_ordering(struct host_pe *pe, void *argument)
{
    (void)argument;
    setenv("PERSEUS_ORDERING", pe->rank == 2 ? "drain" : "deferred", 1);
}

static void test_mixed_orderings_fail_everywhere(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_PROVIDER", "tcp", 1);
    char text[8192];
    const struct host_spec spec = {.file = FILE_3,
                                   .version = 30000,
                                   .n_pes = 3,
                                   .processes = true,
                                   .prepare = another_ordering,
                                   .starts_badly = true,
                                   .body = ears_nothing};
    assert_int_equal(ears_run(&spec, text, sizeof text), 3);
    assert_non_null(strstr(text, "PE 2 uses tcp"));
}

/* Whether a child of this process may make a network namespace. */
static bool may_unshare(void)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
    }
    int how = 1;
    return child > 0 && waitpid(child, &how, 0) == child && how == 0;
}

/* PE 2 gets a loopback interface of its own, as on another host. */
static void another_host(struct host_pe *pe, void *argument)
{
    (void)argument;
    if (pe->rank == 2) {
        const struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        CHECK(pe, unshare(CLONE_NEWNET) == 0);
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        CHECK(pe, fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &up) == 0);
        close(fd);
    }
}

static void test_loopback_addresses_of_another_host_fail_everywhere(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_PROVIDER", "tcp", 1);
    char text[8192];
    if (!may_unshare()) {
        skip();
    }
    const struct host_spec spec = {.file = FILE_4,
                                   .version = 40000,
                                   .n_pes = 3,
                                   .processes = true,
                                   .prepare = another_host,
                                   .starts_badly = true,
                                   .body = ears_nothing};
    assert_int_equal(ears_run(&spec, text, sizeof text), 3);
    assert_non_null(strstr(text, "PE 0 and PE 2 are on different hosts"));
}

/* ---- memory that may not be locked ---- */

static void enter(struct host_pe *pe, void *argument)
{
    (void)pe;
    (void)argument;
    fake_cuda_enter();
    fake_cuda_refuse_pinning(true);
}

static void test_locked_memory_limit_is_named(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    char text[4096];
    struct ears ears;
    const struct host_spec spec = {.file = FILE_3,
                                   .version = 30000,
                                   .n_pes = 2,
                                   .prepare = enter,
                                   .cuda = fake_cuda_table(4),
                                   .memory = &fake_cuda_memory,
                                   .body = ears_nothing};
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    low = before;
    low.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    ears_open(&ears);
    int failures = host_run(&spec);
    assert_int_equal(ears_close(&ears, text, sizeof text), 2); /* a line for each PE */
    setrlimit(RLIMIT_MEMLOCK, &before);
    fake_cuda_refuse_pinning(false);
    assert_int_equal(failures, 2);
    assert_int_equal(ears_count(text, "bytes for staging (error 1): raise the locked-memory limit "
                                      "(ulimit -l, now 65536 bytes), or lower PERSEUS_STAGE_BYTES"),
                     2);
}

/* ---- a GPU under it that does not do its part ---- */

static void enter_only(struct host_pe *pe, void *argument)
{
    (void)pe;
    (void)argument;
    fake_cuda_enter();
}

static void put_and_quiet(struct host_pe *pe, void *argument)
{
    (void)argument;
    int target = (pe->rank + 1) % pe->n_pes;
    CHECK(pe, device_put(pe, target, 65536, pe->heap + 131072, 4096) == 0);
    CHECK(pe, device_quiet(pe) == 0);
}

static void *release_later(void *argument)
{
    (void)argument;
    usleep(2500000);
    fake_cuda_hold(false);
    return NULL;
}

/* The program's threads hold the driver while the proxies want to copy: after a while it is said,
 * and once they let go everything goes on. */
static void held_body(struct host_pe *pe, void *argument)
{
    pthread_t thread = 0;
    host_barrier(pe);
    fake_cuda_hold(true);
    if (pe->rank == 0) {
        pthread_create(&thread, NULL, release_later, NULL);
    }
    host_on_proxy(pe, put_and_quiet, argument);
    host_barrier(pe);
    if (pe->rank == 0) {
        pthread_join(thread, NULL);
    }
}

static void test_a_held_driver_is_named(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    setenv("PERSEUS_ORDERING", "drain", 1);
    setenv("PERSEUS_TIMEOUT_MS", "3000", 1);
    char text[8192];
    struct ears ears;
    const struct host_spec spec = {.file = FILE_4,
                                   .version = 40000,
                                   .n_pes = 2,
                                   .prepare = enter_only,
                                   .cuda = fake_cuda_table(4),
                                   .memory = &fake_cuda_memory,
                                   .body = held_body};
    ears_open(&ears);
    int failures = host_run(&spec);
    ears_close(&ears, text, sizeof text);
    assert_int_equal(failures, 0);
    assert_in_range(ears_count(text, "another thread is in a synchronous call"), 1, 2);
    assert_int_equal(ears_count(text, "nothing has moved"), 0);
    ears_clean_environment();
}

/* A kernel fails in the middle of traffic: one line says whose fault it is, the proxy's calls end
 * quietly, and nothing crashes on the way out. */
static void broken_body(struct host_pe *pe, void *argument)
{
    host_on_proxy(pe, put_and_quiet, argument);
    host_barrier(pe);
    fake_cuda_break(700);
    host_barrier(pe);
    host_on_proxy(pe, put_and_quiet, argument);
    host_barrier(pe);
}

static void test_a_kernel_that_failed_is_called_that(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    char text[8192];
    struct ears ears;
    const struct host_spec spec = {.file = FILE_3,
                                   .version = 30000,
                                   .n_pes = 2,
                                   .prepare = enter_only,
                                   .cuda = fake_cuda_table(3),
                                   .memory = &fake_cuda_memory,
                                   .body = broken_body};
    ears_open(&ears);
    int failures = host_run(&spec);
    ears_close(&ears, text, sizeof text);
    fake_cuda_break(0);
    if (ears_count(text, "a kernel of this process failed with error 700") != 2) {
        print_error("%s", text);
    }
    assert_int_equal(ears_count(text, "a kernel of this process failed with error 700"), 2);
    assert_int_equal(ears_count(text, "a copy failed"), 0);
    assert_int_equal(failures, 0);
    ears_clean_environment();
}

/* A system heap beside a GPU without native atomics on it: one line of PE 0. */
static void test_a_heap_without_native_atomics_is_named_once(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    char text[4096];
    for (int native = 0; native < 2; native++) {
        fake_cuda_give_atomics(native != 0);
        const struct host_spec spec = {.file = FILE_4,
                                       .version = 40000,
                                       .n_pes = 3,
                                       .prepare = enter_only,
                                       .cuda = fake_cuda_table(4),
                                       .body = ears_nothing};
        assert_int_equal(ears_run(&spec, text, sizeof text), native == 0);
        assert_int_equal(ears_count(text, "has no native atomics"), native == 0);
    }
    ears_clean_environment();
}

/* ---- bad calls ---- */

static void bad_kernel(struct host_pe *pe, void *argument)
{
    (void)argument;
    static uint64_t stranger[64];
    int other = 1 - pe->rank;
    unsigned char *own_heap = pe->heaps[other], foreign[PRS_ABI_HANDLE_BYTES] = {1, 2, 3};
    struct prs_abi_rma_memory there = {.pointer = own_heap, .handle = foreign},
                              here = {.pointer = pe->heap};
    struct prs_abi_rma_bytes eight = {.elements = 8, .element_bytes = 1};
    struct prs_abi_rma_verb put = {.desc = PRS_ABI_PUT, .is_nbi = 1}, odd = {.desc = 77};
    CHECK(pe, host_rma(pe, true, other, put, &there, &here, eight) != 0);
    there.handle = pe->blobs + (size_t)other * PRS_ABI_HANDLE_BYTES;
    CHECK(pe, host_rma(pe, true, 99, put, &there, &here, eight) != 0);
    CHECK(pe, host_rma(pe, true, other, odd, &there, &here, eight) != 0);
    there.pointer = own_heap + HOST_CHUNK_BYTES - 4;
    CHECK(pe, host_rma(pe, true, other, put, &there, &here, eight) != 0);
    there.pointer = own_heap - 1;
    CHECK(pe, host_rma(pe, true, other, put, &there, &here, eight) != 0);
    CHECK(pe, device_put(pe, other, 0, stranger, sizeof stranger) != 0);
    CHECK(pe, device_amo(pe, other, 11, 64, 8, 1, 0) != 0);
    CHECK(pe, device_amo(pe, other, PRS_ABI_AMO_ADD, 65, 8, 1, 0) != 0);
    CHECK(pe, device_amo(pe, other, PRS_ABI_AMO_ADD, 64, 3, 1, 0) != 0);
    /* And nothing of it did any harm. */
    CHECK(pe, device_amo(pe, other, PRS_ABI_AMO_ADD, 128, 8, 1, 0) == 0);
    CHECK(pe, device_wait(pe, 128, 1));
}

static void bad_calls(struct host_pe *pe, void *argument)
{
    unsigned char blob[PRS_ABI_HANDLE_BYTES] = {0};
    host_on_proxy(pe, bad_kernel, argument);
    CHECK(pe, host_release_memory(pe, blob) != 0);
    CHECK(pe, host_register_memory(pe, pe->heap, 4096, true, blob) != 0);
    CHECK(pe, host_register_memory(pe, pe->heap, 0, true, blob) != 0);
    static unsigned char pages[2][8192];
    CHECK(pe, host_register_memory(pe, pages[pe->rank], 8192, true, blob) == 0);
    CHECK(pe, host_release_memory(pe, blob) == 0);
    CHECK(pe, host_release_memory(pe, blob) != 0);
}

static void test_bad_calls_are_refused_one_line_each(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    char text[16384];
    const struct host_spec spec = {.file = FILE_4, .version = 40000, .n_pes = 2, .body = bad_calls};
    assert_int_equal(ears_run(&spec, text, sizeof text), 2 * (9 + 4));
}

/* ---- a dead peer ---- */

static void outlive_kernel(struct host_pe *pe, void *argument)
{
    (void)argument;
    int failed = 0;
    for (int i = 0; i < 2000 && failed == 0; i++) {
        failed = device_put(pe, 2, 4096, pe->heap, 4096);
        if (failed == 0) {
            failed = device_quiet(pe);
        }
        usleep(1000);
    }
    CHECK(pe, failed != 0);
    /* The others still work. */
    int other = 1 - pe->rank;
    CHECK(pe,
          device_put_signal(pe, other, 8192, pe->heap, 4096, 64, 1, PRS_ABI_AMO_SIGNAL_SET) == 0);
    CHECK(pe, device_wait(pe, 64, 1));
    CHECK(pe, host_quiet(pe, true, other) == 0); /* it has what was sent */
    for (int i = 0; i < 200; i++) {              /* and knows that this PE has what it sent */
        CHECK(pe, host_progress(pe) == 0);
        usleep(1000);
    }
}

static void outlive(struct host_pe *pe, void *argument)
{
    const useconds_t *lives_us = argument;
    if (pe->rank == 2) {
        usleep(*lives_us);
        _exit(0);
    }
    usleep(*lives_us == 0 ? 50000 : 0); /* then nobody has connected to it yet */
    host_on_proxy(pe, outlive_kernel, argument);
    _exit(pe->failures); /* the host would end the job here, too */
}

static void test_dead_peer_is_one_line_and_no_hang(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_PROVIDER", "tcp", 1);
    setenv("PERSEUS_TIMEOUT_MS", "5000", 1);
    char text[8192];
    for (useconds_t lives_us = 0; lives_us <= 50000; lives_us += 50000) {
        const struct host_spec spec = {.file = FILE_3,
                                       .version = 30000,
                                       .n_pes = 3,
                                       .processes = true,
                                       .body = outlive,
                                       .argument = &lives_us};
        int lines = ears_run(&spec, text, sizeof text);
        if (lines != 2 || ears_count(text, "peer PE 2 is lost") != 2) {
            print_error("lived %u us: %s", lives_us, text);
        }
        assert_int_equal(lines, 2);
        assert_int_equal(ears_count(text, "peer PE 2 is lost"), 2); /* by each survivor, once */
    }
    unsetenv("PERSEUS_TIMEOUT_MS");
}

/* A peer that lives but does nothing: only the deadline ends the wait. */
static void wait_for_sleeper(struct host_pe *pe, void *argument)
{
    (void)argument;
    CHECK(pe, device_amo(pe, 1, PRS_ABI_AMO_ADD, 64, 8, 1, 0) == 0);
    CHECK(pe, device_quiet(pe) != 0);
}

static void sleep_on(struct host_pe *pe, void *argument)
{
    (void)argument;
    (void)pe;
    sleep(3);
}

static void one_sleeps(struct host_pe *pe, void *argument)
{
    host_on_proxy(pe, pe->rank == 1 ? sleep_on : wait_for_sleeper, argument);
    _exit(pe->failures);
}

static void test_silent_peer_ends_with_the_deadline(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_PROVIDER", "tcp", 1);
    setenv("PERSEUS_TIMEOUT_MS", "500", 1);
    char text[8192];
    const struct host_spec spec = {
        .file = FILE_4, .version = 40000, .n_pes = 2, .processes = true, .body = one_sleeps};
    assert_int_equal(ears_run(&spec, text, sizeof text), 1);
    assert_non_null(strstr(text, "PE 1"));
    assert_non_null(strstr(text, "500 ms"));
    unsetenv("PERSEUS_TIMEOUT_MS");
}

int main(void)
{
    /* Loaded for good: it keeps what it allocated once in globals, which LeakSanitizer would
     * miss. */
    dlopen("libfabric.so.1", RTLD_NOW | RTLD_NODELETE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_refuses),
        cmocka_unit_test(test_one_pe_alone),
        cmocka_unit_test(test_a_failing_bootstrap_is_one_line),
        cmocka_unit_test(test_mixed_versions_fail_everywhere),
        cmocka_unit_test(test_mixed_orderings_fail_everywhere),
        cmocka_unit_test(test_loopback_addresses_of_another_host_fail_everywhere),
        cmocka_unit_test(test_a_held_driver_is_named),
        cmocka_unit_test(test_a_kernel_that_failed_is_called_that),
        cmocka_unit_test(test_a_heap_without_native_atomics_is_named_once),
        cmocka_unit_test(test_locked_memory_limit_is_named),
        cmocka_unit_test(test_bad_calls_are_refused_one_line_each),
        cmocka_unit_test(test_dead_peer_is_one_line_and_no_hang),
        cmocka_unit_test(test_silent_peer_ends_with_the_deadline),
    };
    return cmocka_run_group_tests_name("NVSHMEM transport failures", tests, NULL, NULL);
}
