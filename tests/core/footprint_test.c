/* SPDX-License-Identifier: Apache-2.0 */
/* What a PE costs beyond its heap: at most 16 MiB of memory, however large the heap that nobody
 * touched. Not for sanitized builds, whose shadow memory counts too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define COST_MAX ((size_t)16 << 20)

static struct pes pes;

static size_t resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file != NULL && fscanf(file, "%lu %lu", &size, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Every channel has been used when the memory is counted. */
static void use(struct pes *job, struct perseus_pe *pe, void *context)
{
    size_t *resident = context;
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, (size_t)512 << 20, &memory));
    for (int target = 0; target < job->size; target++) {
        for (int i = 0; i < 1000; i++) {
            CHECK_OK(perseus_put_signal_nbi(pe, memory, (char *)memory + 64, 64,
                                            (uint64_t *)memory + 16, 1, PERSEUS_SIGNAL_ADD,
                                            target));
        }
    }
    CHECK_OK(perseus_barrier_all(pe));
    pes_meet(job);
    if (perseus_my_pe(pe) == 0) {
        *resident = resident_bytes();
    }
    pes_meet(job);
}

static void measure(const char *fabric, const char *provider)
{
    struct perseus_attr attr = pes_attr(1);
    size_t before, after = 0;
    attr.fabric = fabric;
    attr.provider = provider;
    attr.heap_bytes = (size_t)1 << 30;
    attr.ordering = PERSEUS_ORDERING_COUNTED; /* mailboxes, too */
    pes_init(&pes, 4, &attr);
    before = resident_bytes();
    pes_run(&pes, use, &after);
    if (pes.opened[0] == PERSEUS_NOT_FOUND) {
        print_message("%s: not here\n", provider);
        return;
    }
    CHECK(pes.opened[0] == PERSEUS_OK && pes.finalized[0] == PERSEUS_OK);
    size_t cost = (after - before) / 4;
    print_message("%s %s: %zu KiB a PE\n", fabric, provider, cost >> 10);
    CHECK(after > before && cost <= COST_MAX);
    pes_finish(&pes);
}

static void test_footprint(void **state)
{
    (void)state;
    measure("loopback", "");
    measure("libfabric", "tcp");
    measure("libfabric", "sockets");
}

int main(void)
{
    /* As PEs of `perseus run` have it; libfabric reads it once, on loading. */
    setenv("FI_OFI_RXM_BUFFER_SIZE", "1024", 0);
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_footprint)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
