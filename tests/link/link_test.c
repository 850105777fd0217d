/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine stands on is opened in one place: steps may fail and be closed from anywhere, and
 * engines that share one adversary's seed do not misbehave in step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/messages.h"
#include "link/link.h"

#define POSTS 64

static struct messages messages;

static const struct prs_log *log_of_test(void)
{
    static struct prs_log log = {.fn = messages_take, .user = &messages, .pe = -1};
    return &log;
}

static int clear(void **state)
{
    (void)state;
    unsetenv("PERSEUS_LINK");
    unsetenv("PERSEUS_ADVERSARY");
    messages_init(&messages);
    return 0;
}

static struct prs_link_settings settings_of(enum perseus_ordering ordering)
{
    const struct perseus_attr attr = {.fabric = "loopback", .ordering = ordering};
    struct prs_link_settings settings;
    assert_int_equal(prs_link_settings_read(&attr, log_of_test(), &settings), PERSEUS_OK);
    return settings;
}

static void ignore(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    (void)context;
    (void)token;
    (void)status;
    (void)result;
}

/* How often the fabric had refused after each of POSTS puts of an engine to itself. */
static void play(uint64_t stream, uint64_t out_again[POSTS])
{
    static unsigned char memory[4096];
    static unsigned char directory[4 + PRS_ORDERER_ADDRESS_MAX];
    const struct prs_link_settings settings = settings_of(PERSEUS_ORDERING_FIFO);
    const struct prs_link_end end = {.n_peers = 1, .stream = stream, .complete = ignore};
    unsigned char blob[PRS_WINDOW_BLOB_MAX];
    size_t blob_bytes = sizeof blob, address_bytes = PRS_ORDERER_ADDRESS_MAX;
    struct prs_window *window = NULL;
    struct prs_window_remote *remote = NULL;
    struct prs_link link;
    assert_int_equal(prs_link_open(&link, &settings, PERSEUS_LOG_ERROR, log_of_test()), PERSEUS_OK);
    assert_int_equal(prs_link_resolve(&link, &settings), PERSEUS_OK);
    assert_int_equal(prs_link_start(&link, &settings, &end), PERSEUS_OK);
    assert_int_equal(
        prs_window_create(link.orderer, memory, sizeof memory, PRS_MEMORY_HOST, &window),
        PERSEUS_OK);
    assert_int_equal(prs_orderer_address(link.orderer, directory + 4, &address_bytes), PERSEUS_OK);
    memcpy(directory, &(uint32_t){(uint32_t)address_bytes}, 4);
    prs_orderer_set_directory(link.orderer, directory, sizeof directory);
    assert_int_equal(prs_window_export(window, blob, &blob_bytes), PERSEUS_OK);
    assert_int_equal(prs_window_import(link.orderer, 0, blob, blob_bytes, &remote), PERSEUS_OK);
    for (int i = 0; i < POSTS; i++) {
        const struct prs_request put = {.kind = PRS_REQUEST_PUT,
                                        .token = PRS_ORDER_NO_TOKEN,
                                        .local = prs_window_region(window),
                                        .remote = remote,
                                        .remote_offset = 2048,
                                        .bytes = 8};
        struct perseus_stats stats;
        bool did;
        while (prs_orderer_submit(link.orderer, &put) == PERSEUS_AGAIN) {
            assert_int_equal(prs_orderer_progress(link.orderer, 16, &did), PERSEUS_OK);
        }
        prs_orderer_stats(link.orderer, 0, &stats);
        out_again[i] = stats.again;
    }
    prs_window_remote_close(remote);
    prs_window_destroy(window);
    prs_link_stop(&link);
    prs_link_close(&link);
}

static void test_streams_of_one_seed_differ(void **state)
{
    (void)state;
    uint64_t first[POSTS], again[POSTS], second[POSTS];
    setenv("PERSEUS_ADVERSARY", "seed=7,again=0.5", 1);
    play(0, first);
    play(0, again);
    play(1, second);
    assert_memory_equal(first, again, sizeof first); /* a seed reproduces a run */
    assert_memory_not_equal(first, second, sizeof first);
}

static void test_closing_after_every_step(void **state)
{
    (void)state;
    const struct prs_link_end end = {.n_peers = 1, .complete = ignore};
    for (int steps = 0; steps <= 3; steps++) {
        const struct prs_link_settings settings = settings_of(PERSEUS_ORDERING_AUTO);
        struct prs_link link = {.fabric = NULL};
        if (steps >= 1) {
            assert_int_equal(prs_link_open(&link, &settings, PERSEUS_LOG_ERROR, log_of_test()),
                             PERSEUS_OK);
        }
        if (steps >= 2) {
            assert_int_equal(prs_link_resolve(&link, &settings), PERSEUS_OK);
            assert_true(link.why[0] != '\0');
        }
        if (steps >= 3) {
            assert_int_equal(prs_link_start(&link, &settings, &end), PERSEUS_OK);
        }
        prs_link_stop(&link);
        prs_link_close(&link);
        prs_link_stop(&link);
        prs_link_close(&link);
    }
}

static void test_what_cannot_be_opened(void **state)
{
    (void)state;
    struct prs_link_settings settings = settings_of(PERSEUS_ORDERING_AUTO);
    struct prs_link link;
    settings.fabric = "pigeons";
    assert_int_equal(prs_link_open(&link, &settings, PERSEUS_LOG_ERROR, log_of_test()),
                     PERSEUS_NOT_FOUND);
    assert_true(messages_have(&messages, "pigeons"));
    prs_link_stop(&link);
    prs_link_close(&link);
    setenv("PERSEUS_ADVERSARY", "unordered=15", 1); /* no order left to stand on */
    settings = settings_of(PERSEUS_ORDERING_FIFO);
    assert_int_equal(prs_link_open(&link, &settings, PERSEUS_LOG_ERROR, log_of_test()), PERSEUS_OK);
    assert_int_equal(prs_link_resolve(&link, &settings), PERSEUS_NOT_SUPPORTED);
    prs_link_stop(&link);
    prs_link_close(&link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_streams_of_one_seed_differ, clear),
        cmocka_unit_test_setup(test_closing_after_every_step, clear),
        cmocka_unit_test_setup(test_what_cannot_be_opened, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
