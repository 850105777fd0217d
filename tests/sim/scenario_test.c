/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/platform.h"

static char message[1024];

static void keep(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    if (message[0] == '\0') { /* the first says most */
        snprintf(message, sizeof message, "%s", text);
    }
}

static enum perseus_status load_text(const char *text, struct sim_platform *out)
{
    char path[] = "/tmp/sim-scenario-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    message[0] = '\0';
    const struct prs_log log = {.fn = keep, .level = PERSEUS_LOG_ERROR, .pe = -1};
    enum perseus_status status = sim_platform_load(path, &log, out);
    unlink(path);
    return status;
}

static void test_presets(void **state)
{
    (void)state;
    const char *const expected[] = {"slingshot11-a100", "cx7-h100-ibrc-1qp", "cx7-h100-ibrc-4qp",
                                    "cx7-h100-ibgda",   "efa-srd",           "tcp-loopback"};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct sim_platform platform;
        assert_int_equal(sim_platform_load(expected[i], NULL, &platform), PERSEUS_OK);
        assert_string_equal(platform.name, expected[i]);
        assert_true(platform.fabric.line_gbit_s > 0 && platform.gpu.tflop_s > 0);
    }
}

static void test_based_on(void **state)
{
    (void)state;
    struct sim_platform platform, base;
    assert_int_equal(load_text("based_on = \"slingshot11-a100\";\n"
                               "fabric = { queues = 4; fence = false; hop_ns = 12.5; };\n"
                               "cluster = { vanilla = \"drain-peer\"; };\n",
                               &platform),
                     PERSEUS_OK);
    assert_int_equal(sim_platform_load("slingshot11-a100", NULL, &base), PERSEUS_OK);
    assert_true(platform.fabric.queues == 4 && !platform.fabric.fence);
    assert_true(platform.fabric.hop_ns == 12.5);
    assert_int_equal(platform.vanilla, PERSEUS_ORDERING_DRAIN_PEER);
    assert_true(platform.fabric.line_gbit_s == base.fabric.line_gbit_s);
}

static void check_refused(const char *text, const char *words)
{
    struct sim_platform platform;
    enum perseus_status status = load_text(text, &platform);
    assert_true(status == PERSEUS_INVALID_ARGUMENT || status == PERSEUS_NOT_FOUND);
    if (strstr(message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", message, words);
    }
}

static void test_refused(void **state)
{
    (void)state;
    check_refused("fabric = { quues = 4; };", "no field fabric.quues");
    check_refused("fabric = { queues = 4.5; }; gpu = { ctas = -1; };", "gpu.ctas");
    check_refused("fabric = { hop_ns = -3.0; };", "fabric.hop_ns is -3");
    check_refused("fabric = { hop_ns = \"x\"; };", ":1: hop_ns: must be a number");
    check_refused("\nfabrik = { };", ":2: fabrik");
    check_refused("cluster = { vanilla = \"dry\"; };", "an ordering mode");
    check_refused("fabric = {", ":1: ");
    check_refused("based_on = \"nothing\";", "nothing is no preset");
}

static void test_fields(void **state)
{
    (void)state;
    struct sim_platform platform;
    struct sim_field field;
    assert_int_equal(sim_platform_load("efa-srd", NULL, &platform), PERSEUS_OK);
    uint32_t count = 0;
    for (; sim_platform_field(count, &field); count++) {
        double value;
        assert_int_equal(sim_platform_get(&platform, field.name, &value), PERSEUS_OK);
        assert_true(value >= field.min && value <= field.max);
        assert_int_equal(sim_platform_set(&platform, field.name, field.max, NULL), PERSEUS_OK);
        assert_int_equal(sim_platform_get(&platform, field.name, &value), PERSEUS_OK);
        assert_true(value == field.max);
        assert_true(field.help[0] != '\0');
    }
    assert_true(count > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets), cmocka_unit_test(test_based_on),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_fields)};
    return cmocka_run_group_tests_name("scenario files", tests, NULL, NULL);
}
