/* SPDX-License-Identifier: Apache-2.0 */
/* Who hears of a lost operation: every thread whose quiet covers it, as often as it asks; and who
 * does not: whoever asks for another PE. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"
#include "core/submit.h"

#define PES     3
#define THREADS 2

static struct pes pes;

/* What is lost before the fabric has it: the ring takes any descriptor. Those without a PE of their
 * own are covered by quiets of all PEs only. */
struct loss {
    const char *name;
    struct prs_desc desc;
    bool has_peer; /* PE 1 */
};

static const struct loss losses[] = {
    {"a put from memory that is not registered",
     {.kind = PRS_DESC_PUT, .peer = 1, .ticket = PRS_DESC_NO_TICKET, .local_window = UINT16_MAX},
     true},
    {"an unknown kind", {.kind = 77, .peer = 1, .ticket = PRS_DESC_NO_TICKET}, true},
    {"a signal that is none",
     {.kind = PRS_DESC_SIGNAL, .sub = 77, .peer = 1, .ticket = PRS_DESC_NO_TICKET},
     true},
    {"a word outside the heap",
     {.kind = PRS_DESC_SIGNAL,
      .sub = PERSEUS_SIGNAL_SET,
      .peer = 1,
      .ticket = PRS_DESC_NO_TICKET,
      .remote = UINT64_C(1) << 40},
     true},
    {"a vector without values",
     {.kind = PRS_DESC_SIGNAL_VECTOR,
      .sub = PERSEUS_SIGNAL_SET,
      .peer = 1,
      .ticket = PRS_DESC_NO_TICKET},
     true},
    {"a ticket that does not exist", {.kind = PRS_DESC_PUT, .peer = 1, .ticket = 1 << 20}, true},
    {"a PE that does not exist",
     {.kind = PRS_DESC_PUT, .peer = PES, .ticket = PRS_DESC_NO_TICKET},
     false},
    {"a fence of a PE that does not exist",
     {.kind = PRS_DESC_FENCE, .peer = PES, .ticket = PRS_DESC_NO_TICKET},
     false},
    {"values without a vector", {.kind = PRS_DESC_VALUES, .sub = 1}, false},
};
#define LOSSES (sizeof losses / sizeof losses[0])

struct member {
    struct perseus_pe *pe;
    const struct loss *loss;
    pthread_barrier_t *gate;
    unsigned char *memory;
    uint32_t index;
};

static void *lose_and_ask(void *context)
{
    const struct member *member = context;
    struct perseus_pe *pe = member->pe;
    if (member->loss != NULL) {
        CHECK_OK(prs_submit(pe, &member->loss->desc, 1));
    } else {
        CHECK_OK(perseus_put_nbi(pe, member->memory, member->memory, 64, 1));
    }
    pthread_barrier_wait(member->gate); /* both have lost something before anybody asks */
    for (uint32_t turn = 0; turn < THREADS; turn++) {
        if (turn == member->index) {
            CHECK(perseus_quiet(pe) != PERSEUS_OK);
            CHECK(perseus_quiet(pe) != PERSEUS_OK);
        }
        pthread_barrier_wait(member->gate);
    }
    bool is_peers = member->loss == NULL || member->loss->has_peer;
    CHECK((perseus_quiet_pe(pe, 1) != PERSEUS_OK) == is_peers);
    /* Having been told, it goes on with those that are well. */
    CHECK_OK(perseus_put_nbi(pe, member->memory, member->memory, 64, 2));
    CHECK_OK(perseus_quiet_pe(pe, 2));
    CHECK_OK(perseus_quiet_pe(pe, 0)); /* itself */
    return NULL;
}

static void lose(struct pes *job, struct perseus_pe *pe, void *context)
{
    int me = perseus_my_pe(pe);
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, 4096, &memory));
    if (me == 0) {
        pthread_barrier_t gate;
        struct member members[THREADS];
        pthread_t threads[THREADS];
        pthread_barrier_init(&gate, NULL, THREADS);
        for (uint32_t i = 0; i < THREADS; i++) {
            members[i] = (struct member){pe, context, &gate, memory, i};
            pthread_create(&threads[i], NULL, lose_and_ask, &members[i]);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        pthread_barrier_destroy(&gate);
    }
    pes_meet(job);
    perseus_abort(pe);
    job->aborted[me] = true;
}

static void test_what_never_became_an_operation(void **state)
{
    (void)state;
    for (size_t i = 0; i < LOSSES; i++) {
        struct perseus_attr attr = pes_attr(1);
        struct loss loss = losses[i];
        print_message("  %s\n", loss.name);
        pes_init(&pes, PES, &attr);
        pes_run(&pes, lose, &loss);
        pes_finish(&pes);
    }
}

/* The first puts of the two threads: one of them fails, and takes the other's PE with it. */
static void test_what_the_fabric_failed(void **state)
{
    (void)state;
    setenv("PERSEUS_ADVERSARY", "fail_nth=1", 1);
    for (int ordering = PERSEUS_ORDERING_DRAIN; ordering <= PERSEUS_ORDERING_COUNTED; ordering++) {
        struct perseus_attr attr = pes_attr(1);
        attr.ordering = (enum perseus_ordering)ordering;
        pes_init(&pes, PES, &attr);
        pes_run(&pes, lose, NULL);
        pes_finish(&pes);
    }
    unsetenv("PERSEUS_ADVERSARY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_never_became_an_operation),
        cmocka_unit_test(test_what_the_fabric_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
