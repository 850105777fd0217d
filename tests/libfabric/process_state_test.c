/* SPDX-License-Identifier: Apache-2.0 */
/* A library in somebody's process: opening and closing fabrics, several at once, leaves the
 * program's signal handlers and its environment alone, while other threads read both. A program
 * that is linked with Perseus starts with the handlers that the kernel gave it. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/libfabric/libfabric.h"
#include "fabric/libfabric/discover.h"

#define INSTANCES 3
#define READERS   2
#define ROUNDS    5

/* What the libraries of the providers are known to take, and a few more. */
static const int signals[] = {SIGHUP,  SIGINT,  SIGILL,  SIGABRT, SIGFPE,  SIGBUS, SIGUSR1,
                              SIGSEGV, SIGTERM, SIGCHLD, SIGUSR2, SIGXFSZ, SIGPROF};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct sigaction at_start[_NSIG];
static atomic_bool stop;

/* Before any code of the program, behind that of its libraries. */
__attribute__((constructor)) static void look_at_the_start(void)
{
    for (int number = 1; number < _NSIG; number++) {
        sigaction(number, NULL, &at_start[number]);
    }
}

static void a_program_starts_as_the_kernel_made_it(void **state)
{
    (void)state;
    for (int i = 0; i < SIGNALS; i++) {
        Dl_info where = {0}; /* a sanitizer may have handlers of its own */
        if (at_start[signals[i]].sa_handler == SIG_DFL ||
            at_start[signals[i]].sa_handler == SIG_IGN ||
            dladdr((void *)(uintptr_t)at_start[signals[i]].sa_handler, &where) == 0) {
            continue;
        }
        if (strstr(where.dli_fname, "fabric.so") != NULL ||
            strstr(where.dli_fname, "infinipath") != NULL ||
            strstr(where.dli_fname, "psm") != NULL) {
            fail_msg("%s took signal %d", where.dli_fname, signals[i]);
        }
    }
}

static void handler(int number)
{
    (void)number;
}

static void check_handlers(void)
{
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction now;
        assert_int_equal(sigaction(signals[i], NULL, &now), 0);
        if (now.sa_handler != handler || !(now.sa_flags & SA_RESTART)) {
            fail_msg("the handler of signal %d is another", signals[i]);
        }
    }
}

static void *read_environment(void *context)
{
    const char *name = context;
    while (!atomic_load(&stop)) {
        const char *value = getenv(name);
        assert_true(value == NULL || strlen(value) < 4096);
    }
    return NULL;
}

static void *open_and_close(void *context)
{
    const struct prs_fabric_config config = {
        .provider = context, .memory_kinds = PRS_MEMORY_HOST, .clock = prs_clock_monotonic()};
    for (int round = 0; round < ROUNDS; round++) {
        struct prs_fabric *fabric = NULL;
        struct prs_endpoint *endpoint = NULL;
        assert_int_equal(prs_libfabric_ops.open(&config, &fabric), PERSEUS_OK);
        assert_int_equal(prs_libfabric_ops.endpoint_open(fabric, &endpoint), PERSEUS_OK);
        prs_libfabric_ops.endpoint_close(endpoint);
        prs_libfabric_ops.close(fabric);
    }
    return NULL;
}

/* Those that cannot be opened, too. */
static void try_to_open(void *user, const char *name)
{
    const struct prs_fabric_config *config = user;
    struct prs_fabric_config one = *config;
    struct prs_fabric *fabric = NULL;
    struct prs_endpoint *endpoint = NULL;
    one.provider = name;
    if (prs_libfabric_ops.open(&one, &fabric) == PERSEUS_OK) {
        (void)prs_libfabric_ops.endpoint_open(fabric, &endpoint);
    }
    prs_libfabric_ops.endpoint_close(endpoint);
    prs_libfabric_ops.close(fabric);
}

static char *environment_copy(void)
{
    size_t bytes = 1;
    for (char **at = environ; *at != NULL; at++) {
        bytes += strlen(*at) + 1;
    }
    char *copy = calloc(1, bytes), *to = copy;
    assert_non_null(copy);
    for (char **at = environ; *at != NULL; at++) {
        to = stpcpy(to, *at) + 1;
    }
    return copy;
}

static void fabrics_leave_the_process_alone(void **state)
{
    (void)state;
    const struct sigaction ours = {.sa_handler = handler, .sa_flags = SA_RESTART};
    for (int i = 0; i < SIGNALS; i++) {
        assert_int_equal(sigaction(signals[i], &ours, NULL), 0);
    }
    char **environment = environ;
    char *before = environment_copy();
    static char names[READERS][32] = {"NOT_THERE", "FI_OFI_RXM_BUFFER_SIZE"};
    static char providers[INSTANCES][32] = {"tcp", "tcp", "shm"};
    pthread_t readers[READERS], instances[INSTANCES];
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, read_environment, names[i]), 0);
    }
    for (int i = 0; i < INSTANCES; i++) {
        assert_int_equal(pthread_create(&instances[i], NULL, open_and_close, providers[i]), 0);
    }
    for (int i = 0; i < INSTANCES; i++) {
        pthread_join(instances[i], NULL);
    }
    struct prs_fabric_config config = {.memory_kinds = PRS_MEMORY_HOST,
                                       .clock = prs_clock_monotonic()};
    prs_libfabric_names(try_to_open, &config);
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
    }
    check_handlers();
    assert_ptr_equal(environ, environment);
    char *after = environment_copy();
    for (const char *a = before, *b = after; *a != '\0'; a += strlen(a) + 1, b += strlen(b) + 1) {
        assert_string_equal(a, b);
    }
    free(after);
    free(before);
}

/* Exit code 0: the limit became a status, and the program's handler was not called. */
static int open_shm_under(rlim_t bytes)
{
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
        const struct prs_fabric_config config = {
            .provider = "shm", .memory_kinds = PRS_MEMORY_HOST, .clock = prs_clock_monotonic()};
        struct prs_fabric *fabric = NULL;
        struct prs_endpoint *endpoint = NULL;
        signal(SIGXFSZ, SIG_DFL);
        bool is_limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
        enum perseus_status status = prs_libfabric_ops.open(&config, &fabric);
        status = status == PERSEUS_OK ? prs_libfabric_ops.endpoint_open(fabric, &endpoint) : status;
        sigset_t now;
        bool is_blocked =
            pthread_sigmask(SIG_SETMASK, NULL, &now) != 0 || sigismember(&now, SIGXFSZ) != 0;
        prs_libfabric_ops.close(fabric);
        _exit(is_limited && status == PERSEUS_LIMIT && !is_blocked ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void a_file_beyond_the_limit_is_a_status(void **state)
{
    (void)state;
    assert_int_equal(open_shm_under(0), 0);
    assert_int_equal(open_shm_under(4096), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_starts_as_the_kernel_made_it),
        cmocka_unit_test(fabrics_leave_the_process_alone),
        cmocka_unit_test(a_file_beyond_the_limit_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
