/* SPDX-License-Identifier: Apache-2.0 */
/* Unique ids: what they carry, what is refused, who may listen. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/unique_id.h"
#include "job.h"

static void an_id_names_a_listening_socket_and_a_secret(void **state)
{
    (void)state;
    struct perseus_unique_id ids[2];
    struct prs_unique_id decoded[2];
    for (int i = 0; i < 2; i++) {
        struct prs_stream_address bound;
        assert_int_equal(perseus_unique_id_create(NULL, &ids[i]), PERSEUS_OK);
        assert_int_equal(prs_unique_id_decode(&ids[i], NULL, &decoded[i]), PERSEUS_OK);
        assert_true(prs_stream_listens_at(decoded[i].listen_fd, &bound));
        assert_true(prs_stream_address_equal(&bound, &decoded[i].address));
        assert_int_equal(decoded[i].address.in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    }
    assert_memory_not_equal(decoded[0].secret, decoded[1].secret, PRS_PROOF_SECRET_BYTES);
    assert_false(prs_stream_address_equal(&decoded[0].address, &decoded[1].address));
    close(decoded[0].listen_fd);
    close(decoded[1].listen_fd);
}

static void it_binds_where_it_is_told(void **state)
{
    (void)state;
    struct perseus_unique_id id;
    struct prs_unique_id decoded;
    char name[PRS_STREAM_NAME_BYTES];
    assert_int_equal(perseus_unique_id_create("127.0.0.2", &id), PERSEUS_OK);
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_OK);
    prs_stream_address_format(&decoded.address, name);
    assert_memory_equal(name, "127.0.0.2:", 10);
    close(decoded.listen_fd);

    setenv("PERSEUS_BIND", "127.0.0.3", 1);
    assert_int_equal(perseus_unique_id_create(NULL, &id), PERSEUS_OK);
    unsetenv("PERSEUS_BIND");
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_OK);
    prs_stream_address_format(&decoded.address, name);
    assert_memory_equal(name, "127.0.0.3:", 10);
    close(decoded.listen_fd);
}

static void addresses_that_nobody_could_connect_to_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",          "localhost", "0.0.0.0", "::", "127.0.0.1 x",
                                      "1.2.3.4.5", "300.0.0.1"};
    struct perseus_unique_id id;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(perseus_unique_id_create(bad[i], &id), PERSEUS_INVALID_ARGUMENT);
    }
    /* 192.0.2.0/24 is for documentation: no interface has it. */
    assert_int_equal(perseus_unique_id_create("192.0.2.1", &id), PERSEUS_IO);
}

static void ids_survive_their_text_form(void **state)
{
    (void)state;
    struct perseus_unique_id id, back;
    char text[PRS_UNIQUE_ID_TEXT_BYTES];
    for (int i = 0; i < PERSEUS_UNIQUE_ID_BYTES; i++) {
        id.bytes[i] = (unsigned char)(i * 37);
    }
    prs_unique_id_format(&id, text);
    assert_int_equal(strlen(text), PRS_UNIQUE_ID_TEXT_BYTES - 1);
    assert_int_equal(prs_unique_id_parse(text, NULL, &back), PERSEUS_OK);
    assert_memory_equal(&id, &back, sizeof id);
    text[3] = 'G';
    assert_int_equal(prs_unique_id_parse(text, NULL, &back), PERSEUS_INVALID_ARGUMENT);
    text[3] = 'A';
    assert_int_equal(prs_unique_id_parse(text, NULL, &back), PERSEUS_OK);
    text[PRS_UNIQUE_ID_TEXT_BYTES - 2] = '\0';
    assert_int_equal(prs_unique_id_parse(text, NULL, &back), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_unique_id_parse("", NULL, &back), PERSEUS_INVALID_ARGUMENT);
}

static void secrets_stay_out_of_messages(void **state)
{
    (void)state;
    struct job_log log;
    struct perseus_unique_id back;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(prs_unique_id_parse("5345435245545345435245", &sink, &back),
                     PERSEUS_INVALID_ARGUMENT);
    assert_true(job_log_has(&log, "PERSEUS_UNIQUE_ID"));
    assert_false(job_log_has(&log, "53454352"));
}

static void damaged_ids_are_refused(void **state)
{
    (void)state;
    struct perseus_unique_id good, id;
    struct prs_unique_id decoded = {.address.in = {.sin_family = AF_INET, .sin_port = htons(5)}};
    struct prs_bootstrap *bootstrap = NULL;
    prs_unique_id_encode(&decoded, &good);
    assert_int_equal(prs_unique_id_decode(&good, NULL, &decoded), PERSEUS_OK);
    static const struct {
        int at;
        enum perseus_status status;
    } damages[] = {{0, PERSEUS_PROTOCOL},
                   {4, PERSEUS_VERSION},
                   {5, PERSEUS_PROTOCOL},
                   {64, PERSEUS_PROTOCOL},
                   {127, PERSEUS_PROTOCOL}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        id = good;
        id.bytes[damages[i].at] ^= 0x40;
        assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), damages[i].status);
        assert_int_equal(prs_bootstrap_open_tcp(&id, 0, 2, 1000, NULL, &bootstrap),
                         damages[i].status);
    }
    id = good;
    id.bytes[6] = 0; /* the port */
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_PROTOCOL);
    assert_null(bootstrap);
}

static void ipv6_works_where_there_is_any(void **state)
{
    (void)state;
    struct perseus_unique_id id;
    struct prs_unique_id decoded;
    char name[PRS_STREAM_NAME_BYTES];
    struct prs_bootstrap *bootstrap;
    if (perseus_unique_id_create("::1", &id) == PERSEUS_IO) {
        return; /* a kernel without IPv6 */
    }
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_OK);
    prs_stream_address_format(&decoded.address, name);
    assert_memory_equal(name, "[::1]:", 6);
    assert_int_equal(prs_bootstrap_open_tcp(&id, 0, 1, JOB_PATIENT_MS, NULL, &bootstrap),
                     PERSEUS_OK);
    assert_int_equal(job_gather(bootstrap, 0, 8), PERSEUS_OK);
    bootstrap->ops->close(bootstrap);
}

/* ---- who may listen ---- */

/* As in another process than the one that made the id, after that one has ended. */
static void rank_0_binds_again_if_the_maker_is_gone(void **state)
{
    (void)state;
    struct perseus_unique_id id;
    struct prs_unique_id decoded;
    struct prs_bootstrap *bootstrap;
    assert_int_equal(perseus_unique_id_create(NULL, &id), PERSEUS_OK);
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_OK);
    close(decoded.listen_fd);
    assert_int_equal(prs_bootstrap_open_tcp(&id, 0, 1, JOB_PATIENT_MS, NULL, &bootstrap),
                     PERSEUS_OK);
    assert_int_equal(job_gather(bootstrap, 0, 8), PERSEUS_OK);
    bootstrap->ops->close(bootstrap);
}

static void another_descriptor_of_that_number_is_left_alone(void **state)
{
    (void)state;
    struct perseus_unique_id id, other;
    struct prs_unique_id decoded, other_decoded;
    struct prs_bootstrap *bootstrap;
    struct prs_stream_address bound;
    assert_int_equal(perseus_unique_id_create(NULL, &id), PERSEUS_OK);
    assert_int_equal(perseus_unique_id_create(NULL, &other), PERSEUS_OK);
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_OK);
    assert_int_equal(prs_unique_id_decode(&other, NULL, &other_decoded), PERSEUS_OK);
    /* The number now means the listening socket of another job. */
    assert_int_equal(dup2(other_decoded.listen_fd, decoded.listen_fd), decoded.listen_fd);
    assert_int_equal(prs_bootstrap_open_tcp(&id, 0, 1, JOB_PATIENT_MS, NULL, &bootstrap),
                     PERSEUS_OK);
    bootstrap->ops->close(bootstrap);
    assert_true(prs_stream_listens_at(decoded.listen_fd, &bound));
    close(decoded.listen_fd);
    close(other_decoded.listen_fd);
}

static void a_port_that_is_taken_is_a_clear_error(void **state)
{
    (void)state;
    struct job_log log;
    struct perseus_unique_id id;
    struct prs_unique_id decoded;
    struct prs_bootstrap *bootstrap = NULL;
    job_log_init(&log);
    struct prs_log sink = job_log_sink(&log);
    assert_int_equal(perseus_unique_id_create(NULL, &id), PERSEUS_OK);
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_OK);
    int elsewhere = dup(decoded.listen_fd); /* as if the maker still ran, in another process */
    close(decoded.listen_fd);
    assert_int_equal(prs_bootstrap_open_tcp(&id, 0, 2, JOB_PATIENT_MS, &sink, &bootstrap),
                     PERSEUS_IO);
    assert_null(bootstrap);
    assert_true(job_log_has(&log, "PE 0 cannot listen at 127.0.0.1:"));
    assert_true(job_log_has(&log, "in use"));
    close(elsewhere);
}

static void ranks_outside_the_job_are_refused(void **state)
{
    (void)state;
    struct perseus_unique_id id;
    struct prs_unique_id decoded;
    struct prs_bootstrap *bootstrap = NULL;
    static const int places[][2] = {{-1, 2}, {2, 2}, {0, 0}, {0, -1}, {0, (1 << 20) + 1}};
    assert_int_equal(perseus_unique_id_create(NULL, &id), PERSEUS_OK);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_int_equal(
            prs_bootstrap_open_tcp(&id, places[i][0], places[i][1], 1000, NULL, &bootstrap),
            PERSEUS_INVALID_ARGUMENT);
    }
    assert_null(bootstrap);
    assert_int_equal(prs_unique_id_decode(&id, NULL, &decoded), PERSEUS_OK);
    close(decoded.listen_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_names_a_listening_socket_and_a_secret),
        cmocka_unit_test(it_binds_where_it_is_told),
        cmocka_unit_test(addresses_that_nobody_could_connect_to_are_refused),
        cmocka_unit_test(ids_survive_their_text_form),
        cmocka_unit_test(secrets_stay_out_of_messages),
        cmocka_unit_test(damaged_ids_are_refused),
        cmocka_unit_test(ipv6_works_where_there_is_any),
        cmocka_unit_test(rank_0_binds_again_if_the_maker_is_gone),
        cmocka_unit_test(another_descriptor_of_that_number_is_left_alone),
        cmocka_unit_test(a_port_that_is_taken_is_a_clear_error),
        cmocka_unit_test(ranks_outside_the_job_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
