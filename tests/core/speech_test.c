/* SPDX-License-Identifier: Apache-2.0 */
/* What can be learned of a failure where no callback is given: the text of calls that have no PE,
 * and the library's own log, which is written where the user asks for it and nowhere else. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <perseus/perseus.h>

static int clear(void **state)
{
    (void)state;
    unsetenv("PERSEUS_LOG");
    unsetenv("PERSEUS_HEAP_BYTES");
    return 0;
}

static void fail_to_init(const char *fabric, const char *words)
{
    const struct perseus_attr attr = {.fabric = fabric, .bootstrap = PERSEUS_BOOTSTRAP_LOCAL};
    struct perseus_pe *pe = NULL;
    assert_int_not_equal(perseus_init_attr(&attr, &pe), PERSEUS_OK);
    if (strstr(perseus_last_error(NULL), words) == NULL) {
        fail_msg("'%s' has no '%s'", perseus_last_error(NULL), words);
    }
}

static void *see_nothing(void *context)
{
    *(size_t *)context = strlen(perseus_last_error(NULL));
    return NULL;
}

static void the_text_of_a_failed_start(void **state)
{
    (void)state;
    struct perseus_unique_id id;
    size_t elsewhere = 1;
    pthread_t thread;
    fail_to_init(NULL, "perseus run"); /* of the bootstrap */
    setenv("PERSEUS_HEAP_BYTES", "much", 1);
    fail_to_init(NULL, "PERSEUS_HEAP_BYTES=\"much\""); /* of the settings */
    assert_int_equal(pthread_create(&thread, NULL, see_nothing, &elsewhere), 0);
    pthread_join(thread, NULL);
    assert_int_equal(elsewhere, 0); /* another thread's */
    assert_int_equal(perseus_unique_id_create("nowhere", &id), PERSEUS_INVALID_ARGUMENT);
    assert_non_null(strstr(perseus_last_error(NULL), "'nowhere'"));
    assert_int_equal(perseus_unique_id_create("0.0.0.0", &id), PERSEUS_INVALID_ARGUMENT);
    assert_non_null(strstr(perseus_last_error(NULL), "0.0.0.0"));
    assert_int_equal(perseus_unique_id_create("203.0.113.7", &id), PERSEUS_IO);
    assert_non_null(strstr(perseus_last_error(NULL), "203.0.113.7"));
}

/* What a failed start writes to stderr. */
static void capture(const struct perseus_attr *attr, char out[4096])
{
    int pipe_ends[2], saved = dup(STDERR_FILENO);
    struct perseus_pe *pe = NULL;
    assert_int_equal(pipe(pipe_ends), 0);
    fflush(stderr);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[1]);
    enum perseus_status status = perseus_init_attr(attr, &pe);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t n = read(pipe_ends[0], out, 4095); /* the other end is closed: no wait */
    close(pipe_ends[0]);
    out[n > 0 ? n : 0] = '\0';
    if (status == PERSEUS_OK) {
        perseus_abort(pe);
    }
}

static void take_nothing(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    (void)text;
    ++*(int *)user;
}

static void the_log_is_written_where_it_is_asked_for(void **state)
{
    (void)state;
    const struct perseus_attr bad = {.bootstrap = PERSEUS_BOOTSTRAP_LOCAL};
    const struct perseus_attr good = {.heap_bytes = 1 << 20};
    char text[4096];
    capture(&bad, text);
    assert_string_equal(text, ""); /* nobody asked */
    setenv("PERSEUS_LOG", "error", 1);
    capture(&bad, text);
    assert_non_null(strstr(text, "perseus: error: "));
    assert_non_null(strstr(text, "perseus run -n N"));
    assert_true(text[strlen(text) - 1] == '\n');
    /* A launcher that is not understood is a warning. */
    setenv("FLUX_JOB_SIZE", "4", 1);
    capture(&good, text);
    assert_string_equal(text, "");
    setenv("PERSEUS_LOG", "warn", 1);
    capture(&good, text);
    assert_non_null(strstr(text, "perseus: warn: "));
    unsetenv("FLUX_JOB_SIZE");
    /* A callback is the program's own way: nothing besides it. */
    int taken = 0;
    const struct perseus_attr heard = {
        .bootstrap = PERSEUS_BOOTSTRAP_LOCAL, .log = take_nothing, .log_user = &taken};
    capture(&heard, text);
    assert_string_equal(text, "");
    assert_int_equal(taken, 1);
    setenv("PERSEUS_LOG", "loud", 1);
    capture(&good, text);
    assert_non_null(strstr(text, "PERSEUS_LOG"));
    assert_non_null(strstr(perseus_last_error(NULL), "PERSEUS_LOG=\"loud\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_text_of_a_failed_start, clear),
        cmocka_unit_test_setup(the_log_is_written_where_it_is_asked_for, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
