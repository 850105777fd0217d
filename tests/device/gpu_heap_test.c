/* SPDX-License-Identifier: Apache-2.0 */
/* PEs of perseus_init whose heap is a GPU's memory, on the scripted driver: kernels, whose code is
 * compiled for the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/driver.h"
#include "gpu_heaps.h"
#include "kernels.h"

#define PES     3
#define WAIT_MS 60000
#define ROUNDS  10

/* ---- kernels ---- */

static void run_kernel(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)pes;
    (void)context;
    struct perseus_device_pe handle;
    struct kernel_memory memory = {
        .signals = allocate(pe, PES * sizeof(uint64_t)),
        .payloads = allocate(pe, PES * KERNEL_WORDS * sizeof(uint64_t)),
        .source = allocate(pe, KERNEL_WORDS * sizeof(uint64_t)),
    };
    CHECK_OK(perseus_gpu_pe_get(pe, &handle));
    CHECK(handle.my_pe == perseus_my_pe(pe) && handle.n_pes == PES);
    CHECK(kernel_exchange(&handle, &memory, ROUNDS));
    CHECK_OK(perseus_gpu_check(pe));
    CHECK_OK(perseus_barrier_all(pe));
}

static void a_signal_brings_its_payload_in_every_mode(void **state)
{
    (void)state;
    static const enum perseus_ordering modes[] = {
        PERSEUS_ORDERING_DRAIN,     PERSEUS_ORDERING_DRAIN_PEER, PERSEUS_ORDERING_DEFERRED,
        PERSEUS_ORDERING_NIC_FENCE, PERSEUS_ORDERING_COUNTED,    PERSEUS_ORDERING_FIFO};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct perseus_attr attr = gpu_attr(NULL);
        attr.ordering = modes[i];
        attr.provider = modes[i] == PERSEUS_ORDERING_FIFO ? "stream" : "batch";
        pes_with(PES, &attr, run_kernel, NULL);
        for (size_t j = 1; j < FABRICS && modes[i] != PERSEUS_ORDERING_NIC_FENCE; j++) {
            attr = gpu_attr(fabrics[j]);
            attr.ordering = modes[i];
            pes_with(PES, &attr, run_kernel, NULL);
        }
    }
}

/* GPU memory of the program's own as a source, of a kernel and of the host's thread. */
static void use_buffer(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)pes;
    struct prs_gpu *cuda = context;
    struct perseus_device_pe handle;
    uintptr_t buffer = 0;
    uint64_t host[KERNEL_WORDS] = {0};
    CHECK(cuda->call.context_set(NULL) == 0);
    void *gpu = NULL;
    CHECK(cuda->call.context_retain(&gpu, 0) == 0 && cuda->call.context_set(gpu) == 0);
    CHECK(cuda->call.memory_alloc(&buffer, KERNEL_WORDS * sizeof(uint64_t)) == 0);
    CHECK_OK(perseus_buffer_register(pe, host, sizeof host));
    CHECK_OK(perseus_buffer_register(pe, (void *)buffer, KERNEL_WORDS * sizeof(uint64_t)));
    struct kernel_memory memory = {
        .signals = allocate(pe, PES * sizeof(uint64_t)),
        .payloads = allocate(pe, PES * KERNEL_WORDS * sizeof(uint64_t)),
        .source = (uint64_t *)buffer,
    };
    CHECK_OK(perseus_gpu_pe_get(pe, &handle));
    CHECK(handle.n_buffers == 2); /* kernels do not reach the host's */
    CHECK(kernel_exchange(&handle, &memory, ROUNDS));
    CHECK_OK(perseus_barrier_all(pe));
    int self = perseus_my_pe(pe);
    CHECK_OK(perseus_put(pe, memory.payloads, memory.source, sizeof host, self));
    CHECK_OK(perseus_get(pe, host, memory.payloads, sizeof host, self));
    CHECK(host[KERNEL_WORDS - 1] == ROUNDS * 1000 + (uint64_t)self);
    CHECK_OK(perseus_buffer_unregister(pe, (void *)buffer));
    CHECK_OK(perseus_buffer_unregister(pe, host));
    CHECK(cuda->call.memory_free(buffer) == 0);
    CHECK_OK(perseus_barrier_all(pe));
}

static void registered_gpu_memory_is_a_source(void **state)
{
    (void)state;
    struct prs_gpu *cuda = NULL;
    assert_int_equal(prs_gpu_open(NULL, &cuda), PERSEUS_OK);
    for (size_t i = 0; i < FABRICS; i++) {
        struct perseus_attr attr = gpu_attr(fabrics[i]);
        pes_with(PES, &attr, use_buffer, cuda);
    }
    prs_gpu_close(cuda);
}

static void lead_group(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)pes;
    (void)context;
    enum { MEMBERS = 6 };
    struct perseus_device_pe handle;
    uint64_t *signals = allocate(pe, MEMBERS * sizeof *signals);
    uint64_t *payloads = allocate(pe, MEMBERS * KERNEL_WORDS * sizeof *payloads);
    uint64_t *sources = allocate(pe, MEMBERS * KERNEL_WORDS * sizeof *sources);
    int targets[MEMBERS], right = (perseus_my_pe(pe) + 1) % PES;
    uint64_t offsets[MEMBERS];
    uint32_t numbers[MEMBERS];
    CHECK_OK(perseus_gpu_pe_get(pe, &handle));
    for (uint64_t i = 0; i < MEMBERS; i++) {
        targets[i] = right;
        offsets[i] = (uint64_t)((unsigned char *)(signals + i) - handle.heap);
    }
    const struct perseus_device_group_attr attr = {MEMBERS, targets, offsets, PERSEUS_SIGNAL_SET,
                                                   true};
    struct perseus_device_group *group = NULL;
    CHECK_OK(perseus_gpu_group_create(pe, &attr, numbers, &group));
    for (uint64_t i = 0; i < MEMBERS; i++) {
        CHECK_OK(kernel_group_put(&handle, group, numbers[i], payloads + i * KERNEL_WORDS,
                                  sources + i * KERNEL_WORDS, i + 1));
    }
    for (uint64_t i = 0; i < MEMBERS; i++) {
        CHECK_OK(perseus_signal_wait_until(pe, signals + i, PERSEUS_CMP_EQ, i + 1, WAIT_MS, NULL));
        CHECK(payloads[i * KERNEL_WORDS + KERNEL_WORDS - 1] == i + 1);
    }
    CHECK_OK(perseus_barrier_all(pe)); /* the right one has seen its signals, too */
    struct perseus_stats stats;
    CHECK_OK(perseus_stats(pe, right, &stats));
    CHECK(stats.signals > MEMBERS && stats.signal_messages < MEMBERS);
}

static void a_group_signals_words_of_the_heap(void **state)
{
    (void)state;
    for (size_t i = 0; i < FABRICS; i++) {
        struct perseus_attr attr = gpu_attr(fabrics[i]);
        pes_with(PES, &attr, lead_group, NULL);
    }
}

/* ---- errors ---- */

static void wait_in_vain(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct perseus_device_pe handle;
    uint64_t *word = allocate(pe, sizeof *word);
    CHECK_OK(perseus_gpu_pe_get(pe, &handle));
    CHECK_STATUS(kernel_wait_in_vain(&handle, word), PERSEUS_TIMEOUT);
    CHECK_STATUS(perseus_gpu_check(pe), PERSEUS_TIMEOUT);
    CHECK(messages_have(&pes->messages[perseus_my_pe(pe)], "it is 0, awaited 7"));
    CHECK_OK(perseus_gpu_check(pe)); /* once */
}

static void no_kernels(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct perseus_device_pe handle;
    CHECK_STATUS(perseus_gpu_pe_get(pe, &handle), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(&pes->messages[perseus_my_pe(pe)], "heap_memory"));
}

static void nothing(struct pes *pes, struct perseus_pe *pe, void *context)
{
    (void)pes;
    (void)pe;
    (void)context;
}

/* Every PE refuses to start, and PE `who` says `text`. */
static void refused(const struct perseus_attr *first, const struct perseus_attr *second, int who,
                    enum perseus_status status, const char *text)
{
    struct pes pes;
    pes_init(&pes, 2, first);
    pes.attr[1] = *second;
    pes.attr[1].log = messages_take;
    pes.attr[1].log_user = &pes.messages[1];
    pes_run(&pes, nothing, NULL);
    assert_int_equal(pes.opened[who], status);
    assert_int_not_equal(pes.opened[1 - who], PERSEUS_OK);
    if (!messages_have(&pes.messages[who], text)) {
        fail_msg("no \"%s\" in: %s", text, pes.messages[who].text);
    }
    pes_finish(&pes);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    struct perseus_attr host = pes_attr(0), gpu = gpu_attr(NULL), other = gpu_attr(NULL);
    pes_with(PES, &gpu, wait_in_vain, NULL);
    pes_with(2, &host, no_kernels, NULL);
    refused(&gpu, &host, 0, PERSEUS_INVALID_ARGUMENT, "give every PE the same heap_memory");
    other.gpu = 9;
    refused(&other, &other, 0, PERSEUS_NOT_FOUND, "there is no GPU 9");
    other = gpu_attr("loopback");
    setenv("PERSEUS_STAGE_BYTES", "100000", 1);
    refused(&other, &other, 0, PERSEUS_INVALID_ARGUMENT, "PERSEUS_STAGE_BYTES");
    unsetenv("PERSEUS_STAGE_BYTES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_brings_its_payload_in_every_mode),
        cmocka_unit_test(registered_gpu_memory_is_a_source),
        cmocka_unit_test(a_group_signals_words_of_the_heap),
        cmocka_unit_test(what_cannot_be_is_said),
    };
    return cmocka_run_group_tests_name("heaps of GPU memory", tests, NULL, NULL);
}
