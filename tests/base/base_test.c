/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, names, sizes, environment variables. */
#include "base/env.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void test_every_status_has_name_and_text(void **state)
{
    (void)state;
#define CHECK(name, value, text)                                                \
    assert_int_equal(PERSEUS_##name, value);                                    \
    assert_string_equal(perseus_status_name(PERSEUS_##name), "PERSEUS_" #name); \
    assert_string_equal(perseus_status_string(PERSEUS_##name), text);
    PERSEUS_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(perseus_status_string((enum perseus_status)999), "unknown status");
    assert_string_equal(perseus_status_name((enum perseus_status)999), "PERSEUS_UNKNOWN");
}

static void test_ordering_names_parse_back(void **state)
{
    (void)state;
    for (int i = 0; i < PERSEUS_ORDERING_COUNT; i++) {
        enum perseus_ordering out = PERSEUS_ORDERING_COUNT;
        const char *name = perseus_ordering_name((enum perseus_ordering)i);
        assert_int_equal(perseus_ordering_parse(name, &out), PERSEUS_OK);
        assert_int_equal(out, i);
    }
    enum perseus_ordering out;
    assert_int_equal(perseus_ordering_parse("nic_fence", &out), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(perseus_ordering_parse("", &out), PERSEUS_INVALID_ARGUMENT);
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0}, {"7", 7}, {"64M", 64u << 20}, {"3K", 3072}, {"2G", UINT64_C(2) << 30}};
    static const char *const bad[] = {
        "",    " 1", "-1", "+1", "1k", "1KB", "1.5M", "K", "99999999999999999999", "17179869184G",
        "0x10"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t value = 1;
        assert_int_equal(prs_parse_bytes(good[i].text, &value), PERSEUS_OK);
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t value = 42;
        assert_int_equal(prs_parse_bytes(bad[i], &value), PERSEUS_INVALID_ARGUMENT);
        assert_int_equal(value, 42);
    }
}

static void keep_text(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    snprintf(user, 256, "%s", text);
}

static void test_bad_variable_is_named(void **state)
{
    (void)state;
    char text[256] = "";
    struct prs_log log = {.fn = keep_text, .user = text, .level = PERSEUS_LOG_ERROR, .pe = 3};
    uint64_t value = 5;
    setenv("PERSEUS_RING_SLOTS", "many", 1);
    assert_int_equal(prs_env_u64(PRS_ENV_RING_SLOTS, 2, 64, &log, &value),
                     PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(value, 5);
    assert_non_null(strstr(text, "PE 3: PERSEUS_RING_SLOTS=\"many\""));
    setenv("PERSEUS_RING_SLOTS", "65", 1);
    assert_int_equal(prs_env_u64(PRS_ENV_RING_SLOTS, 2, 64, &log, &value),
                     PERSEUS_INVALID_ARGUMENT);
    setenv("PERSEUS_RING_SLOTS", "16", 1);
    assert_int_equal(prs_env_u64(PRS_ENV_RING_SLOTS, 2, 64, &log, &value), PERSEUS_OK);
    assert_int_equal(value, 16);
    unsetenv("PERSEUS_RING_SLOTS");
    bool flag;
    setenv("PERSEUS_NATIVE_ATOMICS", "yes", 1);
    assert_int_equal(prs_env_bool(PRS_ENV_NATIVE_ATOMICS, &log, &flag), PERSEUS_INVALID_ARGUMENT);
    unsetenv("PERSEUS_NATIVE_ATOMICS");
    assert_int_equal(prs_env_bool(PRS_ENV_NATIVE_ATOMICS, &log, &flag), PERSEUS_OK);
    assert_false(flag);
}

/* docs/environment.md is the table, no more and no less. */
static void test_the_page_lists_every_variable(void **state)
{
    (void)state;
    FILE *page = fopen(PERSEUS_SOURCE_DIR "/docs/environment.md", "r");
    assert_non_null(page);
    char line[512];
    size_t rows = 0;
    while (fgets(line, sizeof line, page) != NULL) {
        if (strncmp(line, "| `PERSEUS_", 11) != 0) {
            continue;
        }
        assert_true(rows < PRS_ENV_COUNT);
        const struct prs_env_row *row = prs_env_row((enum prs_env_id)rows++);
        char wanted[512];
        snprintf(wanted, sizeof wanted, "| `%s` | %s | %s |\n", row->name,
                 row->fallback[0] != '\0' ? row->fallback : "-", row->help);
        assert_string_equal(line, wanted);
    }
    fclose(page);
    assert_int_equal(rows, PRS_ENV_COUNT);
}

/* In a child: the limit lasts. Exit code 0: the file was not written, and the program's handler not
 * called. */
static void test_a_log_in_a_file_at_its_limit(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
        int file = memfd_create("log", 0);
        signal(SIGXFSZ, SIG_DFL);
        bool is_set = file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO &&
                      setrlimit(RLIMIT_FSIZE, &limit) == 0;
        prs_log_to_stderr(NULL, PERSEUS_LOG_ERROR, "does not fit");
        sigset_t pending;
        bool is_gone = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 0;
        _exit(is_set && is_gone && lseek(file, 0, SEEK_END) == 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_name_and_text),
        cmocka_unit_test(test_ordering_names_parse_back),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_bad_variable_is_named),
        cmocka_unit_test(test_the_page_lists_every_variable),
        cmocka_unit_test(test_a_log_in_a_file_at_its_limit),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
