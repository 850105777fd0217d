/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of devices, GIDs, and signed messages: what needs no device. */
#include "fabric/verbs/device.h"
#include "fabric/verbs/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static bool allows(const char *list, const char *name, uint32_t port)
{
    struct prs_verbs_hcas hcas;
    assert_int_equal(prs_verbs_hcas_parse(list, NULL, &hcas), PERSEUS_OK);
    return prs_verbs_hcas_allow(&hcas, name, port);
}

static void test_lists(void **state)
{
    (void)state;
    assert_true(allows("", "mlx5_0", 1));
    assert_true(allows("mlx5_1", "mlx5_10", 1)); /* beginnings of names */
    assert_false(allows("=mlx5_1", "mlx5_10", 1));
    assert_true(allows("=mlx5_1", "mlx5_1", 2));
    assert_true(allows("mlx5_0:1,mlx5_3", "mlx5_3", 2));
    assert_true(allows("mlx5_0:1,mlx5_3", "mlx5_0", 1));
    assert_false(allows("mlx5_0:1,mlx5_3", "mlx5_0", 2));
    assert_false(allows("^mlx5_1", "mlx5_10", 1));
    assert_true(allows("^=mlx5_1", "mlx5_10", 1));
    assert_true(allows("^mlx5_1:2", "mlx5_1", 1));
    assert_false(allows("^mlx5_1:2", "mlx5_1", 2));
}

static void test_bad_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {",",
                                      "mlx5_0,",
                                      "=",
                                      "^",
                                      "^=",
                                      "=^mlx5_0:x",
                                      "mlx5_0:",
                                      ":1",
                                      "mlx5_0:0",
                                      "mlx5_0:256",
                                      "mlx5_0:99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct prs_verbs_hcas hcas;
        assert_int_equal(prs_verbs_hcas_parse(bad[i], NULL, &hcas), PERSEUS_INVALID_ARGUMENT);
    }
    char many[2 * (PRS_VERBS_HCAS_MAX + 1)]; /* a,a,...,a: one more than fits */
    for (size_t i = 0; i < sizeof many; i++) {
        many[i] = i % 2 == 0 ? 'a' : ',';
    }
    many[sizeof many - 1] = '\0';
    struct prs_verbs_hcas hcas;
    assert_int_equal(prs_verbs_hcas_parse(many, NULL, &hcas), PERSEUS_INVALID_ARGUMENT);
}

static int rank(uint32_t type, unsigned char first, bool is_ipv4)
{
    struct ibv_gid_entry entry = {.gid_type = type};
    if (is_ipv4) {
        entry.gid.raw[10] = entry.gid.raw[11] = 0xff;
        entry.gid.raw[12] = 10;
    } else {
        entry.gid.raw[0] = first;
        entry.gid.raw[1] = first == 0xfe ? 0x80 : 0;
    }
    return prs_verbs_gid_rank(&entry);
}

static void test_gids(void **state)
{
    (void)state;
    int v2_ipv4 = rank(IBV_GID_TYPE_ROCE_V2, 0, true),
        v2_ipv6 = rank(IBV_GID_TYPE_ROCE_V2, 0x20, false);
    int v2_local = rank(IBV_GID_TYPE_ROCE_V2, 0xfe, false),
        v1_ipv4 = rank(IBV_GID_TYPE_ROCE_V1, 0, true);
    assert_true(v2_ipv4 > v2_ipv6 && v2_ipv6 > v2_local && v2_local > v1_ipv4 && v1_ipv4 > 0);
    assert_int_equal(rank(IBV_GID_TYPE_ROCE_V2, 0, false), 0); /* an empty place in the table */
    assert_true(rank(IBV_GID_TYPE_IB, 0xfe, false) > 0);
}

static void test_signatures(void **state)
{
    (void)state;
    const unsigned char key[PRS_VERBS_KEY_BYTES] = {1, 2, 3},
                        other[PRS_VERBS_KEY_BYTES] = {1, 2, 4};
    struct prs_verbs_message message = {.magic = PRS_VERBS_MAGIC,
                                        .kind = PRS_VERBS_REQUEST,
                                        .lanes = 4,
                                        .from = 7,
                                        .to = 8,
                                        .peer = 3,
                                        .qp = {11, 12, 13, 14}};
    prs_verbs_message_sign(&message, key);
    assert_true(prs_verbs_message_is_genuine(&message, key));
    assert_false(prs_verbs_message_is_genuine(&message, other));
    for (size_t i = 0; i < sizeof message; i++) { /* no byte may be changed on the way */
        struct prs_verbs_message changed = message;
        ((unsigned char *)&changed)[i] ^= 1;
        assert_false(prs_verbs_message_is_genuine(&changed, key));
    }
    message.lanes = PRS_VERBS_LANES_MAX + 1;
    prs_verbs_message_sign(&message, key);
    assert_false(prs_verbs_message_is_genuine(&message, key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_gids),
        cmocka_unit_test(test_signatures),
    };
    return cmocka_run_group_tests_name("verbs settings", tests, NULL, NULL);
}
