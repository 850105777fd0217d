/* SPDX-License-Identifier: Apache-2.0 */
/* The list of back ends. */
#include "fabric/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void keep_message(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    snprintf(user, 1024, "%s", text);
}

static void test_every_row_is_found(void **state)
{
    (void)state;
    bool has_loopback = false;
    for (const struct prs_fabric_ops *const *row = prs_fabric_registry(); *row != NULL; row++) {
        const struct prs_fabric_ops *found = NULL;
        assert_int_equal(prs_fabric_find((*row)->name, NULL, &found), PERSEUS_OK);
        assert_ptr_equal(found, *row);
        has_loopback |= strcmp((*row)->name, "loopback") == 0;
    }
    assert_true(has_loopback);
}

static void test_unknown_lists_all(void **state)
{
    (void)state;
    char message[1024] = "";
    struct prs_log log = {.fn = keep_message, .user = message, .pe = -1};
    const struct prs_fabric_ops *found = NULL;
    assert_int_equal(prs_fabric_find("loopbac", &log, &found), PERSEUS_NOT_FOUND);
    assert_null(found);
    assert_non_null(strstr(message, "\"loopbac\""));
    for (const struct prs_fabric_ops *const *row = prs_fabric_registry(); *row != NULL; row++) {
        assert_non_null(strstr(message, (*row)->name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_found),
        cmocka_unit_test(test_unknown_lists_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
