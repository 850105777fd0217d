/* SPDX-License-Identifier: Apache-2.0 */
/* What PERSEUS_BIND may say. The loopback interface is on every host. */
#include "base/local_address.h"

#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void keep_text(void *user, enum perseus_log_level level, const char *text)
{
    assert_int_equal(level, PERSEUS_LOG_ERROR);
    snprintf(user, 1024, "%s", text);
}

static void test_what_stands_for_an_address(void **state)
{
    (void)state;
    static const struct {
        const char *text, *address;
    } good[] = {
        {"127.0.0.1", "127.0.0.1"},
        {"203.0.113.7", "203.0.113.7"}, /* not here: binding it says so */
        {"fe80::1%eth0", "fe80::1%eth0"},
        {"lo", "127.0.0.1"},
        {"127.0.0.0/8", "127.0.0.1"},
        {"127.0.0.1/32", "127.0.0.1"},
        {"126.0.0.0/7", "127.0.0.1"}, /* within a byte */
        {"0.0.0.0/1", "127.0.0.1"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char address[PRS_LOCAL_ADDRESS_BYTES] = "";
        assert_int_equal(prs_local_address(good[i].text, NULL, address), PERSEUS_OK);
        assert_string_equal(address, good[i].address);
    }
}

static void test_what_stands_for_none(void **state)
{
    (void)state;
    static const char too_long[] =
        "fe80:0000:0000:0000:0000:0000:0000:0001%an-interface-of-a-name-beyond-all-reason";
    static const char *const bad[] = {"",
                                      "nosuch7",
                                      "lo ",
                                      "localhost",
                                      "127.0.0.1/",
                                      "127.0.0.0/33",
                                      "127.0.0.0/8x",
                                      "127.0.0.0/-8",
                                      "127.0.0/8",
                                      "lo/8",
                                      "127.128.0.0/9",
                                      "127.0.0.2/32",
                                      "203.0.113.0/24",
                                      "2001:db8::/32",
                                      too_long};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[1024] = "", address[PRS_LOCAL_ADDRESS_BYTES] = "untouched";
        const struct prs_log log = {
            .fn = keep_text, .user = text, .level = PERSEUS_LOG_ERROR, .pe = -1};
        assert_int_equal(prs_local_address(bad[i], &log, address), PERSEUS_INVALID_ARGUMENT);
        assert_string_equal(address, "untouched");
        assert_non_null(strstr(text, bad[i]));
        assert_true(strchr(bad[i], '%') != NULL || strstr(text, "lo 127.0.0.1") != NULL);
    }
}

static void test_zones(void **state)
{
    (void)state;
    struct sockaddr_storage address;
    const uint32_t lo = if_nametoindex("lo");
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
    assert_int_equal(prs_address_parse("fe80::1%lo", &address), sizeof *v6);
    assert_int_equal(v6->sin6_scope_id, lo);
    assert_int_equal(prs_local_zone("fe80::1%lo"), lo);
    assert_int_equal(prs_local_zone("lo"), lo);
    assert_int_equal(prs_local_zone("127.0.0.0/8"), lo);
    assert_int_equal(prs_local_zone("127.0.0.1"), 0);
    assert_int_equal(prs_local_zone("nosuch7"), 0);

    prs_address_enter_zone((struct sockaddr *)&address, 7); /* of another host: here it is ours */
    assert_int_equal(v6->sin6_scope_id, 7);
    prs_address_enter_zone((struct sockaddr *)&address, 0);
    assert_int_equal(v6->sin6_scope_id, 7);
    assert_int_equal(prs_address_parse("2001:db8::1", &address), sizeof *v6);
    prs_address_enter_zone((struct sockaddr *)&address, 7); /* means the same everywhere */
    assert_int_equal(v6->sin6_scope_id, 0);
    assert_int_equal(prs_address_parse("127.1", &address), 0);
    assert_int_equal(prs_address_parse("localhost", &address), 0);
    assert_int_equal(prs_address_parse("", &address), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_stands_for_an_address),
        cmocka_unit_test(test_what_stands_for_none),
        cmocka_unit_test(test_zones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
