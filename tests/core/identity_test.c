/* SPDX-License-Identifier: Apache-2.0 */
/* What must be equal on every PE: the message names the PE that differs, and what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/job/identity.h"
#include "core/messages.h"

#define PES 3

static void check(void (*change)(struct prs_identity *), enum perseus_status expected,
                  const char *part)
{
    struct messages messages;
    messages_init(&messages);
    const struct prs_log log = {.fn = messages_take, .user = &messages, .pe = 0};
    struct prs_heap heap = {.fd = 5, .device = 1, .inode = 2};
    const struct prs_settings settings = {.heap_bytes = 4096, .pes_per_node = 1};
    struct prs_identity all[PES];
    for (int pe = 0; pe < PES; pe++) {
        assert_int_equal(prs_identity_fill(&settings, &heap, &log, &all[pe]), PERSEUS_OK);
        assert_int_equal(all[pe].pid, getpid());
        assert_true(all[pe].host[0] != '\0');
    }
    change(&all[2]);
    assert_int_equal(prs_identity_check(all, PES, &log), expected);
    assert_int_equal(messages_errors(&messages), expected != PERSEUS_OK);
    assert_true(messages_have(&messages, part));
}

static void change_nothing(struct prs_identity *identity)
{
    (void)identity;
}

static void change_what_may_differ(struct prs_identity *identity)
{
    identity->pid++;
    identity->inode++;
    strcpy(identity->host, "elsewhere");
}

static void change_version(struct prs_identity *identity)
{
    identity->version += 1u << 8;
}

static void change_heap(struct prs_identity *identity)
{
    identity->heap_bytes = 8192;
}

static void change_node(struct prs_identity *identity)
{
    identity->pes_per_node = 2;
}

static void test_check(void **state)
{
    (void)state;
    check(change_nothing, PERSEUS_OK, "");
    check(change_what_may_differ, PERSEUS_OK, "");
    check(change_version, PERSEUS_VERSION, "PE 2 runs Perseus");
    check(change_heap, PERSEUS_INVALID_ARGUMENT, "PE 2 has a symmetric heap of 8192 bytes");
    check(change_node, PERSEUS_INVALID_ARGUMENT, "PE 2 has pes_per_node 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
