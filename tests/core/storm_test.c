/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three PEs, started in step, send 4000 put-with-signal each to both others over a slow link, in
 * real time and by the public calls (tests/contract/storm_test.c does it with every pool at its
 * minimum, in virtual time). PERSEUS_TEST_LATENCY is the one-way latency to run instead of 500us
 * and 5ms: 50ms takes a quarter of a minute each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define PES     3
#define SIGNALS 4000

static struct pes pes;

static void storm(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe);
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, 4096, &memory));
    uint64_t *words = memory, *landing = words + PES, *source = words + 2 * PES;
    CHECK_OK(perseus_barrier_all(pe));
    pes_meet(job); /* in step */
    *source = 77 + (uint64_t)me;
    for (uint64_t i = 1; i <= SIGNALS; i++) {
        for (int k = 1; k < PES; k++) {
            CHECK_OK(perseus_put_signal_nbi(pe, landing + me, source, sizeof *source, words + me, i,
                                            PERSEUS_SIGNAL_SET, (me + k) % PES));
        }
    }
    CHECK_OK(perseus_quiet(pe));
    for (int k = 1; k < PES; k++) {
        int sender = (me + k) % PES;
        CHECK_OK(perseus_signal_wait_until(pe, words + sender, PERSEUS_CMP_EQ, SIGNALS,
                                           pe->timeout_ms, NULL));
        CHECK(landing[sender] == 77 + (uint64_t)sender);
    }
    CHECK_OK(perseus_barrier_all(pe));
}

static void run_storm(const char *latency, const char *provider, const char *parked)
{
    char link[64];
    struct perseus_attr attr = pes_attr(1);
    attr.fabric = provider == NULL ? "loopback" : "libfabric";
    attr.provider = provider;
    snprintf(link, sizeof link, "latency=%s", latency);
    setenv("PERSEUS_LINK", link, 1);
    setenv("PERSEUS_PARKED", parked, 1);
    struct prs_clock clock = prs_clock_monotonic();
    uint64_t begin_ns = prs_clock_now_ns(&clock);
    pes_init(&pes, PES, &attr);
    pes_run(&pes, storm, NULL);
    for (int pe = 0; pe < PES; pe++) {
        if (pes.opened[pe] == PERSEUS_NOT_FOUND) {
            skip(); /* built without libfabric, or no such provider here */
        }
        CHECK_OK(pes.opened[pe]);
        CHECK_OK(pes.finalized[pe]);
    }
    pes_finish(&pes);
    unsetenv("PERSEUS_PARKED");
    unsetenv("PERSEUS_LINK");
    print_message("  %s, latency %s, %s parked: %llu ms\n",
                  provider != NULL ? provider : "loopback", latency, parked,
                  (unsigned long long)(prs_clock_now_ns(&clock) - begin_ns) / 1000000);
}

static void run_storms(const char *provider)
{
    const char *one = getenv("PERSEUS_TEST_LATENCY");
    const char *const latencies[] = {one != NULL ? one : "500us", one != NULL ? one : "5ms"};
    run_storm(latencies[0], provider, "4"); /* the least */
    run_storm(latencies[1], provider, "64");
}

static void test_loopback(void **state)
{
    (void)state;
    run_storms(NULL);
}

static void test_tcp(void **state)
{
    (void)state;
    run_storms("tcp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loopback), cmocka_unit_test(test_tcp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
