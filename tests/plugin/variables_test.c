/* SPDX-License-Identifier: Apache-2.0 */
/* variables_test.c: NVSHMEM's variables for its transports: each works, or one line says that it
 * does not apply. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>

#include "ears.h"

/* Every variable of NVSHMEM that its users know for transports, and what becomes of it here. */
enum fate {
    WORKS,     /* here, or in the host library */
    TOLD,      /* not applicable: one line says so */
    TOLD_GROUP /* the line names the group, NVSHMEM_IBGDA_* */
};
static const struct {
    const char *name, *value;
    enum fate fate;
} variables[] = {
    {"NVSHMEM_REMOTE_TRANSPORT", "libfabric", WORKS},
    {"NVSHMEM_DEBUG", "WARN", WORKS},
    {"NVSHMEM_DEBUG_SUBSYS", "TRANSPORT", TOLD},
    {"NVSHMEM_LIBFABRIC_PROVIDER", "tcp", WORKS},
    {"NVSHMEM_DISABLE_GDRCOPY", "1", TOLD},
    {"NVSHMEM_IB_DISABLE_DMABUF", "1", TOLD},
    {"NVSHMEM_DISABLE_DATA_DIRECT", "1", TOLD},
    {"NVSHMEM_DISABLE_IB_NATIVE_ATOMICS", "1", TOLD},
    {"NVSHMEM_HCA_LIST", "mlx5_0:1", TOLD},
    {"NVSHMEM_HCA_PE_MAPPING", "mlx5_0:1:1", TOLD},
    {"NVSHMEM_HCA_PREFIX", "mlx5", TOLD},
    {"NVSHMEM_ENABLE_NIC_PE_MAPPING", "1", WORKS},
    {"NVSHMEM_IB_GID_INDEX", "3", TOLD},
    {"NVSHMEM_IB_TRAFFIC_CLASS", "1", TOLD},
    {"NVSHMEM_IB_SL", "1", TOLD},
    {"NVSHMEM_IB_ADDR_FAMILY", "AF_INET", TOLD},
    {"NVSHMEM_IB_ADDR_RANGE", "::/0", TOLD},
    {"NVSHMEM_IB_ROCE_VERSION_NUM", "2", TOLD},
    {"NVSHMEM_IB_ENABLE_RELAXED_ORDERING", "0", TOLD},
    {"NVSHMEM_IB_NUM_RC_PER_DEVICE", "4", TOLD},
    {"NVSHMEM_QP_DEPTH", "128", TOLD},
    {"NVSHMEM_SRQ_DEPTH", "128", TOLD},
    {"NVSHMEM_IB_ENABLE_IBGDA", "1", TOLD},
    {"NVSHMEM_IBGDA_NUM_RC_PER_PE", "2", TOLD_GROUP},
    {"NVSHMEM_DISABLE_P2P", "1", WORKS},
    {"NVSHMEM_DISABLE_MNNVL", "1", WORKS},
    {"NVSHMEM_BYPASS_ACCESSIBILITY_CHECK", "1", WORKS},
    {"NVSHMEM_DISABLE_LOCAL_ONLY_PROXY", "1", WORKS},
    {"NVSHMEM_PROXY_REQUEST_BATCH_MAX", "8", WORKS},
    {"NVSHMEM_BYPASS_FLUSH", "1", WORKS},
    {"NVSHMEM_ASSERT_ATOMICS_SYNC", "1", WORKS},
    {"NVSHMEM_SYMMETRIC_SIZE", "64M", WORKS},
    {"NVSHMEM_HEAP_KIND", "SYSMEM", WORKS},
    {"NVSHMEM_CUMEM_GRANULARITY", "512M", WORKS},
    {"NVSHMEM_DISABLE_CUDA_VMM", "1", WORKS},
    {"NVSHMEM_CUMEM_HANDLE_TYPE", "FILE_DESCRIPTOR", WORKS},
    {"NVSHMEM_MAX_MEMORY_PER_GPU", "1G", WORKS},
    {"NVSHMEM_ENABLE_RAIL_OPT", "1", WORKS},
    {"FI_LOG_LEVEL", "warn", WORKS},
    {"MLX5_SCATTER_TO_CQE", "0", WORKS},
};
#define N_VARIABLES (sizeof variables / sizeof variables[0])

/* As a whole word. */
static bool is_told(const char *text, size_t i)
{
    char words[2][64];
    const char *name = variables[i].fate == TOLD_GROUP ? "NVSHMEM_IBGDA_*" : variables[i].name;
    snprintf(words[0], sizeof words[0], " %s ", name);
    snprintf(words[1], sizeof words[1], " %s\n", name);
    return strstr(text, words[0]) != NULL || strstr(text, words[1]) != NULL;
}

static void test_every_variable_works_or_is_told(void **state)
{
    (void)state;
    ears_clean_environment();
    setenv("PERSEUS_FABRIC", "loopback", 1);
    char text[4096];
    const struct host_spec spec = {
        .file = FILE_4, .version = 40000, .n_pes = 2, .body = ears_nothing};
    for (size_t i = 0; i < N_VARIABLES; i++) {
        setenv(variables[i].name, variables[i].value, 1);
        int lines = ears_run(&spec, text, sizeof text);
        unsetenv(variables[i].name);
        if (lines != (variables[i].fate != WORKS)) {
            print_error("%s: %d lines: %s\n", variables[i].name, lines, text);
        }
        assert_int_equal(lines, variables[i].fate != WORKS);
        assert_int_equal(is_told(text, i), variables[i].fate != WORKS);
    }
    for (size_t i = 0; i < N_VARIABLES; i++) {
        setenv(variables[i].name, variables[i].value, 1);
    }
    int lines = ears_run(&spec, text, sizeof text);
    if (lines != 1) {
        print_error("%s", text);
    }
    assert_int_equal(lines, 1); /* for all of them */
    for (size_t i = 0; i < N_VARIABLES; i++) {
        unsetenv(variables[i].name);
        assert_int_equal(is_told(text, i), variables[i].fate != WORKS);
    }
}

static void test_provider_and_debug_are_heeded(void **state)
{
    (void)state;
    ears_clean_environment();
    char text[4096];
    setenv("NVSHMEM_LIBFABRIC_PROVIDER", "sockets", 1);
    setenv("NVSHMEM_DEBUG", "INFO", 1);
    const struct host_spec spec = {
        .file = FILE_4, .version = 40000, .n_pes = 1, .body = ears_nothing};
    assert_true(ears_run(&spec, text, sizeof text) > 0);
    assert_non_null(strstr(text, "libfabric over sockets, ordering "));
    setenv("PERSEUS_PROVIDER", "tcp", 1); /* goes before it */
    assert_true(ears_run(&spec, text, sizeof text) > 0);
    assert_non_null(strstr(text, "libfabric over tcp"));
    setenv("NVSHMEM_DEBUG", "WARN", 1);
    assert_int_equal(ears_run(&spec, text, sizeof text), 0);
    ears_clean_environment();
}

int main(void)
{
    /* Loaded for good: it keeps what it allocated once in globals, which LeakSanitizer would
     * miss. */
    dlopen("libfabric.so.1", RTLD_NOW | RTLD_NODELETE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variable_works_or_is_told),
        cmocka_unit_test(test_provider_and_debug_are_heeded),
    };
    return cmocka_run_group_tests_name("NVSHMEM variables", tests, NULL, NULL);
}
