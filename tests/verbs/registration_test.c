/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is registered once for all regions in it, and GPU memory by dmabuf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fabric/verbs/internal.h"
#include "fake.h"

#define BYTES 65536

struct bench {
    struct prs_log log;
    struct prs_fabric *fabric;
    char said[1024];
};

static void listen(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    snprintf(((struct bench *)user)->said, sizeof((struct bench *)user)->said, "%s", text);
}

static void open_bench(struct bench *bench, bool takes_dmabuf)
{
    *bench = (struct bench){.log = {.fn = listen, .user = bench, .level = PERSEUS_LOG_DEBUG}};
    const struct prs_fabric_config config = {.log = &bench->log};
    const struct prs_verbs_library *library = fake_library();
    if (!takes_dmabuf) {
        fake_refuse_dmabuf();
    }
    assert_int_equal(prs_verbs_open_with(&config, library, &bench->fabric), PERSEUS_OK);
}

static void close_bench(struct bench *bench)
{
    assert_int_equal(fake_registered(), 0);
    bench->fabric->ops->close(bench->fabric);
}

static struct prs_region *region(struct bench *bench, const void *at, size_t bytes,
                                 enum prs_memory_kind kind)
{
    struct prs_region *made = NULL;
    assert_int_equal(
        prs_verbs_region_register(bench->fabric, (void *)(uintptr_t)at, bytes, kind, &made),
        PERSEUS_OK);
    return made;
}

static uint32_t key_of(const struct prs_region *region)
{
    return ((const struct prs_verbs_region *)region)->mr->lkey;
}

static void what_lies_within_shares(void **state)
{
    (void)state;
    static unsigned char memory[BYTES];
    struct bench bench;
    open_bench(&bench, true);
    struct prs_region *whole = region(&bench, memory, BYTES, PRS_MEMORY_HOST);
    struct prs_region *same = region(&bench, memory, BYTES, PRS_MEMORY_HOST);
    struct prs_region *last = region(&bench, memory + BYTES - 8, 8, PRS_MEMORY_HOST);
    assert_int_equal(fake_registrations_made(), 1);
    assert_int_equal(key_of(last), key_of(whole));
    prs_verbs_region_close(whole);
    prs_verbs_region_close(same);
    assert_int_equal(fake_registered(), 1); /* for the last one */
    prs_verbs_region_close(last);
    assert_int_equal(fake_registered(), 0);
    last = region(&bench, memory, BYTES, PRS_MEMORY_HOST);
    assert_int_equal(fake_registrations_made(), 2); /* who knows what is mapped there by now */
    prs_verbs_region_close(last);
    close_bench(&bench);
}

static void what_reaches_beyond_does_not(void **state)
{
    (void)state;
    static unsigned char memory[BYTES];
    struct bench bench;
    open_bench(&bench, true);
    struct prs_region *regions[] = {
        region(&bench, memory + 64, 64, PRS_MEMORY_HOST),
        region(&bench, memory + 64, 65, PRS_MEMORY_HOST),
        region(&bench, memory + 63, 65, PRS_MEMORY_HOST),
        region(&bench, memory + 129, 1, PRS_MEMORY_HOST),
        region(&bench, memory, BYTES, PRS_MEMORY_HOST),
    };
    const size_t n = sizeof regions / sizeof regions[0];
    assert_int_equal(fake_registrations_made(), n);
    for (size_t i = 0; i < n; i++) {
        prs_verbs_region_close(regions[(i * 2 + 1) % n]); /* in another order */
    }
    close_bench(&bench);
}

/* ---- GPU memory ---- */

static uintptr_t gpu_memory(struct bench *bench, struct prs_gpu **out)
{
    uintptr_t memory = 0;
    void *context = NULL;
    assert_int_equal(prs_gpu_open(&bench->log, out), PERSEUS_OK);
    assert_int_equal((*out)->call.context_retain(&context, 0), PRS_CUDA_SUCCESS);
    assert_int_equal((*out)->call.context_set(context), PRS_CUDA_SUCCESS);
    assert_int_equal((*out)->call.memory_alloc(&memory, BYTES), PRS_CUDA_SUCCESS);
    return memory;
}

static void gpu_memory_goes_by_whole_pages(void **state)
{
    (void)state;
    struct bench bench;
    struct prs_gpu *gpu = NULL;
    open_bench(&bench, true);
    assert_true(bench.fabric->caps.memory_kinds & PRS_MEMORY_CUDA);
    uintptr_t memory = gpu_memory(&bench, &gpu), at = memory + 4096 + 256, page = 4096;
    struct prs_region *part = region(&bench, (const void *)at, 5000, PRS_MEMORY_CUDA);
    struct fake_dmabuf seen = fake_dmabuf();
    assert_int_equal(seen.iova, at);
    assert_int_equal(seen.offset, at % page);
    assert_int_equal(seen.bytes, 5000);
    assert_int_equal(seen.dmabuf_bytes % page, 0);
    assert_true(seen.dmabuf_bytes < at % page + 5000 + page); /* and not a page more */
    struct prs_region *host = region(&bench, (const void *)at, 5000, PRS_MEMORY_HOST);
    assert_int_equal(fake_registrations_made(), 2); /* an address alone is not the same memory */
    prs_verbs_region_close(host);
    prs_verbs_region_close(part);
    gpu->call.memory_free(memory);
    gpu->call.context_release(0);
    prs_gpu_close(gpu);
    close_bench(&bench);
}

static void who_cannot_says_what_would_help(void **state)
{
    (void)state;
    struct bench bench;
    struct prs_gpu *gpu = NULL;
    struct prs_region *made = NULL;
    bool has_peermem = access("/sys/module/nvidia_peermem", F_OK) == 0;
    open_bench(&bench, false);
    assert_int_equal((bench.fabric->caps.memory_kinds & PRS_MEMORY_CUDA) != 0, has_peermem);
    uintptr_t memory = gpu_memory(&bench, &gpu);
    if (!has_peermem) {
        assert_int_equal(
            prs_verbs_region_register(bench.fabric, (void *)memory, BYTES, PRS_MEMORY_CUDA, &made),
            PERSEUS_NOT_SUPPORTED);
        assert_non_null(strstr(bench.said, "the device takes no dmabuf"));
        assert_non_null(strstr(bench.said, "nvidia_peermem is not loaded"));
    }
    close_bench(&bench);

    open_bench(&bench, true); /* the device would, the driver does not */
    setenv("PERSEUS_SCRIPTED_DMABUF", "0", 1);
    if (!has_peermem) {
        assert_int_equal(
            prs_verbs_region_register(bench.fabric, (void *)memory, BYTES, PRS_MEMORY_CUDA, &made),
            PERSEUS_NOT_SUPPORTED);
        assert_non_null(strstr(bench.said, "the CUDA driver gives no dmabuf"));
    }
    unsetenv("PERSEUS_SCRIPTED_DMABUF");
    gpu->call.memory_free(memory);
    gpu->call.context_release(0);
    prs_gpu_close(gpu);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_within_shares),
        cmocka_unit_test(what_reaches_beyond_does_not),
        cmocka_unit_test(gpu_memory_goes_by_whole_pages),
        cmocka_unit_test(who_cannot_says_what_would_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
