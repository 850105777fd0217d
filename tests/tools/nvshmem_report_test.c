/* SPDX-License-Identifier: Apache-2.0 */
/* nvshmem_report_test.c: the profiler's forecast against what was measured on two GPUs: the
 * megakernel lane under drain, NVSHMEM 3.8.0, whose forwards took 3.5 times as long as under auto
 * (docs/nvshmem.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "nvshmem/report.h"

#define MEASURED 3.5

/* Calls and bytes of put_signal by size, and the mean us of one, as two PEs recorded them. */
struct recorded {
    int log2;
    uint64_t calls, bytes;
    double us[2];
};
static const struct recorded sizes[] = {
    {13, 15300, 156057600, {131.6, 141.6}},  {14, 23100, 473088000, {134.1, 145.1}},
    {15, 30600, 1248460800, {141.9, 161.8}}, {16, 46200, 3784704000, {161.7, 170.3}},
    {17, 15300, 2496921600, {198.0, 197.9}}, {18, 23100, 7569408000, {240.4, 239.6}},
};

static struct prs_nvshmem_summary summarize(int pe)
{
    static struct prs_profile_peer peers[2];
    struct prs_profile_head head = {.pe = pe,
                                    .n_pes = 2,
                                    .finish_ns = UINT64_C(29163703000),
                                    .fence_requests = 153600,
                                    .peers_between_quiets = 12};
    const struct prs_nvshmem_record record = {.head = &head, .peers = peers};
    memset(peers, 0, sizeof peers);
    struct prs_profile_peer *row = &peers[!pe];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct recorded *size = &sizes[i];
        uint64_t ns = (uint64_t)(size->us[pe] * 1000 * (double)size->calls);
        row->sizes[size->log2] = (struct prs_profile_count){size->calls, size->bytes, ns};
        row->counts[PRS_PROFILE_PUT_SIGNAL].calls += size->calls;
        row->counts[PRS_PROFILE_PUT_SIGNAL].bytes += size->bytes;
        row->counts[PRS_PROFILE_PUT_SIGNAL].ns += ns;
    }
    row->counts[PRS_PROFILE_AMO] = (struct prs_profile_count){61, 488, 40000};
    if (pe == 0) { /* a few puts that waited: they must not decide what all others could cost */
        row->counts[PRS_PROFILE_PUT] = (struct prs_profile_count){3, 384, 85000};
    }
    return prs_nvshmem_summarize(&record);
}

static void test_a_kernel_without_quiets_is_forecast_from_its_bytes(void **state)
{
    (void)state;
    for (int pe = 0; pe < 2; pe++) {
        const struct prs_nvshmem_summary summary = summarize(pe);
        assert_true(summary.without_waiting > MEASURED / 1.3 &&
                    summary.without_waiting < MEASURED * 1.3);
        assert_true(summary.decoupled <= summary.without_waiting);
    }
}

/* Nothing moved, or one size alone: no slope, and no forecast below one. */
static void test_little_data_is_no_forecast(void **state)
{
    (void)state;
    struct prs_profile_peer peer = {0};
    struct prs_profile_head head = {.n_pes = 1, .finish_ns = 1000000};
    const struct prs_nvshmem_record record = {.head = &head, .peers = &peer};
    assert_true(prs_nvshmem_summarize(&record).without_waiting >= 1);
    peer.counts[PRS_PROFILE_PUT] = (struct prs_profile_count){10, 10000, 500000};
    peer.sizes[9] = peer.counts[PRS_PROFILE_PUT];
    assert_true(prs_nvshmem_summarize(&record).without_waiting ==
                1); /* no fences: nothing to gain */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kernel_without_quiets_is_forecast_from_its_bytes),
        cmocka_unit_test(test_little_data_is_no_forecast),
    };
    return cmocka_run_group_tests_name("NVSHMEM report", tests, NULL, NULL);
}
