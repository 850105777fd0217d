/* SPDX-License-Identifier: Apache-2.0 */
/* Which bootstrap is chosen, and what a wrong environment says. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/unique_id.h"
#include "job.h"

static const char *const variables[] = {
    "PERSEUS_RANK",         "PERSEUS_SIZE",        "PERSEUS_BOOTSTRAP_FD", "PERSEUS_UNIQUE_ID",
    "PERSEUS_TIMEOUT_MS",   "PMIX_RANK",           "SLURM_STEP_NUM_TASKS", "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_LOCAL_SIZE",      "ALPS_APP_PE",
    "JSM_NAMESPACE_SIZE",   "FLUX_JOB_SIZE",       "WORLD_SIZE",           "PALS_RANKID"};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        unsetenv(variables[i]);
    }
    return 0;
}

/* Opens, checks status and a piece of the messages; what was opened, or NULL. */
static struct prs_bootstrap *open_with(const struct perseus_attr *attr, enum perseus_status status,
                                       const char *words)
{
    struct job_log log;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    enum perseus_status result = prs_bootstrap_open(attr, &sink, &bootstrap);
    if (result != status || !job_log_has(&log, words)) {
        fail_msg("%s instead of %s, messages: %s", perseus_status_name(result),
                 perseus_status_name(status), log.text);
    }
    if (status != PERSEUS_OK) {
        assert_null(bootstrap);
        assert_int_equal(log.n_errors, 1); /* told once */
    }
    return bootstrap;
}

static void expect_name(struct prs_bootstrap *bootstrap, const char *name)
{
    assert_string_equal(bootstrap->ops->name, name);
    assert_int_equal(job_gather(bootstrap, 0, 8), PERSEUS_OK);
    bootstrap->ops->close(bootstrap);
}

static void nothing_set_is_one_pe_alone(void **state)
{
    (void)state;
    const struct perseus_attr attr = {0};
    expect_name(open_with(&attr, PERSEUS_OK, ""), "single");
    /* Rank and size alone mean nothing. */
    setenv("PERSEUS_RANK", "1", 1);
    setenv("PERSEUS_SIZE", "2", 1);
    expect_name(open_with(&attr, PERSEUS_OK, ""), "single");
}

static void *serve(void *hub)
{
    while (prs_hub_serve(hub, JOB_PATIENT_MS) == PERSEUS_AGAIN) {
    }
    return NULL;
}

static void the_launchers_socket_comes_first(void **state)
{
    (void)state;
    const struct perseus_attr attr = {0};
    struct prs_hub *hub;
    pthread_t thread;
    char text[16];
    assert_int_equal(prs_hub_create(1, NULL, &hub), PERSEUS_OK);
    snprintf(text, sizeof text, "%d", prs_hub_take_fd(hub, 0));
    assert_int_equal(pthread_create(&thread, NULL, serve, hub), 0);
    setenv("PERSEUS_BOOTSTRAP_FD", text, 1);
    setenv("PERSEUS_RANK", "0", 1);
    setenv("PERSEUS_SIZE", "1", 1);
    setenv("PERSEUS_UNIQUE_ID", "not looked at", 1);
    setenv("PMIX_RANK", "0", 1);
    expect_name(open_with(&attr, PERSEUS_OK, ""), "local");
    pthread_join(thread, NULL);
    prs_hub_destroy(hub);
    /* It served one life; the descriptor is closed now. */
    open_with(&attr, PERSEUS_INVALID_ARGUMENT, "is not the socket of perseus run");
    /* As if whoever started the program had closed it, or it had opened something else there. */
    open_with(&attr, PERSEUS_INVALID_ARGUMENT, "has closed it");
    const int others[] = {open("/dev/null", O_RDONLY), socket(AF_INET, SOCK_STREAM, 0)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(text, sizeof text, "%d", others[i]);
        setenv("PERSEUS_BOOTSTRAP_FD", text, 1);
        open_with(&attr, PERSEUS_INVALID_ARGUMENT, "something else in its place");
        close(others[i]);
    }
}

static void a_unique_id_comes_by_attribute_or_environment(void **state)
{
    (void)state;
    struct perseus_unique_id id;
    char text[PRS_UNIQUE_ID_TEXT_BYTES];
    struct perseus_attr attr = {.unique_id = &id, .rank = 0, .size = 1};
    setenv("PERSEUS_BOOTSTRAP_FD", "0", 1); /* the attribute is nearer */
    assert_int_equal(perseus_unique_id_create(NULL, &id), PERSEUS_OK);
    expect_name(open_with(&attr, PERSEUS_OK, ""), "tcp");
    unsetenv("PERSEUS_BOOTSTRAP_FD");

    assert_int_equal(perseus_unique_id_create(NULL, &id), PERSEUS_OK);
    prs_unique_id_format(&id, text);
    setenv("PERSEUS_UNIQUE_ID", text, 1);
    setenv("PERSEUS_RANK", "0", 1);
    setenv("PERSEUS_SIZE", "1", 1);
    attr = (struct perseus_attr){0};
    expect_name(open_with(&attr, PERSEUS_OK, ""), "tcp");
}

static void wrong_environments_are_clear_errors(void **state)
{
    (void)state;
    static const struct {
        const char *fd, *id, *rank, *size, *timeout;
        enum perseus_bootstrap bootstrap;
        const char *words;
    } rows[] = {
        {"x", NULL, "0", "1", NULL, PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_BOOTSTRAP_FD=\"x\""},
        {"9999", NULL, "0", "1", NULL, PERSEUS_BOOTSTRAP_AUTO, "descriptor 9999 is not"},
        {"2", NULL, "2", "2", NULL, PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_RANK=\"2\""},
        {"2", NULL, "-1", "2", NULL, PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_RANK=\"-1\""},
        {"2", NULL, "0", "0", NULL, PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_SIZE=\"0\""},
        {"2", NULL, "0", "", NULL, PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_SIZE"},
        {"2", NULL, "0", "2000000", NULL, PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_SIZE"},
        {NULL, "abc", "0", "1", NULL, PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_UNIQUE_ID must be"},
        {NULL, NULL, "0", "1", NULL, PERSEUS_BOOTSTRAP_LOCAL, "not started by perseus run"},
        {NULL, NULL, "0", "1", NULL, PERSEUS_BOOTSTRAP_TCP, "PERSEUS_UNIQUE_ID must be"},
        {NULL, NULL, NULL, NULL, "0", PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_TIMEOUT_MS=\"0\""},
        {NULL, NULL, NULL, NULL, "soon", PERSEUS_BOOTSTRAP_AUTO, "PERSEUS_TIMEOUT_MS=\"soon\""},
        {NULL, NULL, NULL, NULL, NULL, (enum perseus_bootstrap)7, "bootstrap 7 is none of"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *values[] = {rows[i].rank, rows[i].size, rows[i].fd, rows[i].id,
                                rows[i].timeout};
        const struct perseus_attr attr = {.bootstrap = rows[i].bootstrap};
        clear_environment(NULL);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            if (values[k] != NULL) {
                setenv(variables[k], values[k], 1);
            }
        }
        open_with(&attr, PERSEUS_INVALID_ARGUMENT, rows[i].words);
    }
}

/* This program is linked with the stand-in for PMIx. N PEs that each run alone would be worse. */
static void a_pmix_job_without_pmix_is_an_error(void **state)
{
    (void)state;
    struct perseus_attr attr = {0};
    setenv("PMIX_RANK", "0", 1);
    open_with(&attr, PERSEUS_NOT_SUPPORTED, "install libpmix-dev");
    unsetenv("PMIX_RANK");
    attr.bootstrap = PERSEUS_BOOTSTRAP_PMIX;
    open_with(&attr, PERSEUS_NOT_SUPPORTED, "install libpmix-dev");
}

static void expect_silence(const struct perseus_attr *attr)
{
    struct job_log log;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(prs_bootstrap_open(attr, &sink, &bootstrap), PERSEUS_OK);
    assert_int_equal(job_log_warnings(&log), 0);
    expect_name(bootstrap, "single");
}

static void an_unknown_launcher_is_worth_a_word(void **state)
{
    (void)state;
    const struct perseus_attr attr = {0};
    static const struct {
        const char *variable, *many, *one, *remedy;
    } launchers[] = {{"SLURM_STEP_NUM_TASKS", "4", "1", "srun --mpi=pmix"},
                     {"PMI_SIZE", "2", "1", "speaks PMIx"},
                     {"OMPI_COMM_WORLD_SIZE", "3", "1", "mpirun"},
                     {"MV2_COMM_WORLD_SIZE", "16", "1", "speaks PMIx"},
                     {"JSM_NAMESPACE_SIZE", "6", "1", "unique id"},
                     {"FLUX_JOB_SIZE", "2", "1", "flux run -o pmi=pmix"},
                     {"PALS_RANKID", "3", "", "unique id"},
                     {"ALPS_APP_PE", "1", "", "unique id"},
                     {"WORLD_SIZE", "8", "1", "unique id"}};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s=%s", launchers[i].variable, launchers[i].many);
        setenv(launchers[i].variable, launchers[i].many, 1);
        expect_name(open_with(&attr, PERSEUS_OK, words), "single");
        expect_name(open_with(&attr, PERSEUS_OK, launchers[i].remedy), "single");
        setenv(launchers[i].variable, launchers[i].one, 1);
        expect_silence(&attr);
        unsetenv(launchers[i].variable);
    }
    /* The first that is found is enough. */
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("PMI_SIZE", "4", 1);
    struct job_log log;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(prs_bootstrap_open(&attr, &sink, &bootstrap), PERSEUS_OK);
    assert_int_equal(job_log_warnings(&log), 1);
    expect_name(bootstrap, "single");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_set_is_one_pe_alone, clear_environment),
        cmocka_unit_test_setup(the_launchers_socket_comes_first, clear_environment),
        cmocka_unit_test_setup(a_unique_id_comes_by_attribute_or_environment, clear_environment),
        cmocka_unit_test_setup(wrong_environments_are_clear_errors, clear_environment),
        cmocka_unit_test_setup(a_pmix_job_without_pmix_is_an_error, clear_environment),
        cmocka_unit_test_setup(an_unknown_launcher_is_worth_a_word, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
