/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pair of PEs costs in the engine, at its sender and at its target, printed. The fabric's
 * own state is not in it: an allocation is counted between two sizes of job, a page of the control
 * window where it was touched.
 */
#include "order/bench.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#define PES        1024u
#define SENDER_MAX 1536u
#define TARGET_MAX 1024u

struct job {
    struct fake_fabric *fake;
    struct prs_orderer *orderer;
    struct prs_window *window;
    unsigned char *directory;
    uint64_t memory[64];
};

static struct prs_orderer_config config_of(struct job *job, uint32_t n_peers)
{
    return (struct prs_orderer_config){.endpoint = &job->fake->endpoint,
                                       .ordering = PERSEUS_ORDERING_COUNTED,
                                       .n_peers = n_peers,
                                       .immediate_signal = true,
                                       .clock = fake_clock(job->fake)};
}

static void open_job(struct job *job, uint32_t n_peers)
{
    job->fake = fake_fabric_create();
    struct prs_orderer_config config = config_of(job, n_peers);
    assert_int_equal(prs_orderer_create(&config, &job->orderer), PERSEUS_OK);
    size_t stride = 4 + PRS_ORDERER_ADDRESS_MAX, bytes = PRS_ORDERER_ADDRESS_MAX;
    job->directory = calloc(n_peers, stride);
    assert_int_equal(prs_orderer_address(job->orderer, job->directory + 4, &bytes), PERSEUS_OK);
    for (uint32_t i = 0; i < n_peers; i++) {
        memcpy(job->directory + i * stride, &(uint32_t){(uint32_t)bytes}, 4);
        memcpy(job->directory + i * stride + 4, job->directory + 4, bytes);
    }
    prs_orderer_set_directory(job->orderer, job->directory, stride);
    assert_int_equal(prs_window_create(job->orderer, job->memory, sizeof job->memory,
                                       PRS_MEMORY_HOST, &job->window),
                     PERSEUS_OK);
}

static void close_job(struct job *job)
{
    prs_window_destroy(job->window);
    prs_orderer_destroy(job->orderer);
    fake_fabric_destroy(job->fake);
    free(job->directory);
}

static void step(struct job *job)
{
    bool did = true;
    while (did) {
        fake_complete_all(job->fake);
        job->fake->posts_count = 0;
        assert_int_equal(prs_orderer_progress(job->orderer, 64, &did), PERSEUS_OK);
    }
}

static void answer(struct job *job, uint32_t peer, uint64_t acked)
{
    struct prs_immediate what = {.kind = PRS_IMMEDIATE_ANSWER, .sender = peer, .number = acked};
    fake_arrive(job->fake,
                prs_immediate_encode(&job->orderer->immediate, job->orderer->secret, 0, &what));
}

/* A burst of signals to every PE, answered: busy, and idle again. */
static void test_sender(void **state)
{
    (void)state;
    static struct job job;
    open_job(&job, PES);
    unsigned char blob[PRS_WINDOW_BLOB_MAX];
    size_t bytes = sizeof blob;
    assert_int_equal(prs_window_export(job.window, blob, &bytes), PERSEUS_OK);
    size_t before = 0, after;
    uint32_t burst = 0;
    for (uint32_t pe = 1; pe < PES; pe++) {
        if (pe == 2) {
            before = mallinfo2().uordblks; /* the pools have been used once */
        }
        struct prs_window_remote *remote;
        assert_int_equal(prs_window_import(job.orderer, pe, blob, bytes, &remote), PERSEUS_OK);
        struct prs_request signal = {.kind = PRS_REQUEST_SIGNAL,
                                     .peer = pe,
                                     .token = PRS_ORDER_NO_TOKEN,
                                     .remote = remote,
                                     .value = 7};
        for (burst = 0; prs_orderer_submit(job.orderer, &signal) == PERSEUS_OK; burst++) {
        }
        step(&job);
        for (uint64_t acked = 0; acked < burst;) {
            acked = job.orderer->peers[pe]->mail_out.next;
            answer(&job, pe, acked);
            step(&job);
        }
        prs_window_remote_close(remote);
    }
    assert_true(prs_orderer_is_idle(job.orderer));
    after = mallinfo2().uordblks;
    double sender = (double)(after - before) / (PES - 2) + 2 * sizeof(void *);
    print_message("a pair costs %.0f bytes at the sender, after bursts of %u signals, idle again\n",
                  sender, burst);
    assert_true(sender <= SENDER_MAX);
    close_job(&job);
}

static size_t touched(const struct job *job)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
    size_t pages = (job->orderer->layout.bytes + page - 1) / page;
    unsigned char *resident = malloc(pages);
    assert_int_equal(mincore(job->orderer->control, job->orderer->layout.bytes, resident), 0);
    for (size_t i = 0; i < pages; i++) {
        count += resident[i] & 1;
    }
    free(resident);
    return count * page;
}

/* Every PE has sent records here, one after the other, more than its near ring holds at once. */
static void test_target(void **state)
{
    (void)state;
    static struct job job;
    open_job(&job, PES);
    struct prs_orderer *orderer = job.orderer;
    size_t before = 0, pages = touched(&job);
    for (uint32_t pe = 1; pe < PES; pe++) {
        if (pe == 2) {
            before = mallinfo2().uordblks;
        }
        for (uint32_t number = 0; number < 40; number++) {
            struct prs_record record = {
                .number = number, .kind = PRS_RECORD_SET, .count = 8, .values = {number}};
            uint32_t bytes = prs_record_bytes(&record);
            uint32_t at = number * bytes % PRS_MAIL_NEAR_SIZE;
            memcpy(orderer->control + prs_mail_place(&orderer->layout, PRS_MAIL_NEAR, pe, at),
                   &record, bytes);
            struct prs_immediate what = {
                .kind = PRS_IMMEDIATE_RECORD, .sender = pe, .number = number};
            fake_arrive(job.fake,
                        prs_immediate_encode(&orderer->immediate, orderer->secret, 0, &what));
            step(&job);
        }
        assert_int_equal(orderer->mail_in[pe]->applied, 40);
    }
    double heap = (double)(mallinfo2().uordblks - before) / (PES - 2);
    double peer = sizeof(struct prs_order_peer) + sizeof(struct prs_remote); /* for the answers */
    double target = heap - peer + (double)(touched(&job) - pages) / (PES - 1);
    print_message("a pair costs %.0f bytes at the target, idle again; a burst of %u records leaves "
                  "%u bytes more of a far ring, where the job has less than 256 PEs\n",
                  target, PRS_RECORDS_OPEN_MAX,
                  prs_control_layout(64, 1, 1).ring_size[PRS_MAIL_FAR]);
    assert_true(target <= TARGET_MAX);
    /* Nothing but what was measured grows with the number of PEs. */
    uint64_t small = prs_control_layout(PES, 1, 1).bytes,
             large = prs_control_layout(2 * PES, 1, 1).bytes;
    assert_true((large - small) / PES <= TARGET_MAX);
    close_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sender),
        cmocka_unit_test(test_target),
    };
    return cmocka_run_group_tests_name("footprint of the engine", tests, NULL, NULL);
}
