/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel refuses, some of it by a signal that ends the process, becomes a status with a
 * message that names the limit. Every case is a process of its own: limits last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/memory/heap.h"
#include "core/messages.h"
#include "core/pe.h"

#define HEAP_BYTES ((size_t)4 << 20)

/* Exit code 0: perseus_init gave `expected` and said `words`. */
static int init_under(int resource, rlim_t limit, enum perseus_status expected, const char *words)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct messages messages;
        messages_init(&messages);
        const struct perseus_attr attr = {
            .heap_bytes = HEAP_BYTES, .log = messages_take, .log_user = &messages};
        const struct rlimit new_limit = {.rlim_cur = limit, .rlim_max = limit};
        struct perseus_pe *pe = NULL;
        CHECK(setrlimit(resource, &new_limit) == 0);
        enum perseus_status status = perseus_init_attr(&attr, &pe);
        if (status != expected || !messages_have(&messages, words)) {
            fprintf(stderr, "%s: %s\n", perseus_status_name(status), messages.text);
            _exit(1);
        }
        CHECK(messages_errors(&messages) == 1);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

static void test_file_size_limit(void **state)
{
    (void)state;
    static const rlim_t limits[] = {0, 4096, HEAP_BYTES - 4096, HEAP_BYTES};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_int_equal(init_under(RLIMIT_FSIZE, limits[i], PERSEUS_LIMIT, "ulimit -f"), 0);
    }
}

static void test_descriptor_limit(void **state)
{
    (void)state;
    assert_int_equal(init_under(RLIMIT_NOFILE, 3, PERSEUS_OUT_OF_MEMORY, "Too many open files"), 0);
}

static void test_address_space_limit(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* shadow memory is address space */
#else
    assert_int_equal(
        init_under(RLIMIT_AS, HEAP_BYTES / 2, PERSEUS_OUT_OF_MEMORY, "smaller one (heap_bytes"), 0);
#endif
}

/* Where the kernel promises no memory that nobody has touched, a page that it cannot give is a
 * SIGBUS at first use. Such a page is played by one beyond the end of its object. */
static void test_pages_that_cannot_be_had(void **state)
{
    (void)state;
    struct prs_heap *heap = NULL;
    uint64_t offset = 0;
    int nothing = memfd_create("nothing", MFD_CLOEXEC);
    assert_int_equal(prs_heap_create(HEAP_BYTES, NULL, &heap), PERSEUS_OK);
    heap->takes_pages = true;
    size_t half = HEAP_BYTES / 2;
    assert_true(mmap(heap->base + PRS_HEAP_RESERVED + half, half, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, nothing, 0) != MAP_FAILED);
    assert_int_equal(prs_heap_take(heap, half + 4096, &offset), PERSEUS_OUT_OF_MEMORY);
    assert_int_equal(prs_heap_take(heap, HEAP_BYTES, &offset), PERSEUS_OUT_OF_MEMORY);
    /* What was refused was given back, and is not taken for touched. */
    assert_int_equal(prs_heap_take(heap, half, &offset), PERSEUS_OK);
    assert_int_equal(offset, PRS_HEAP_RESERVED);
    memset(heap->base + offset, 1, half);
    assert_int_equal(prs_heap_take(heap, 64, &offset), PERSEUS_OUT_OF_MEMORY);
    prs_heap_destroy(heap);
    close(nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_descriptor_limit),
        cmocka_unit_test(test_address_space_limit),
        cmocka_unit_test(test_pages_that_cannot_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
