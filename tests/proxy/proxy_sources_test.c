/* SPDX-License-Identifier: Apache-2.0 */
/* Several sources at one proxy: the threads of the PE, and GPUs whose memory nobody can trust. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "proxy/rig.h"

#define NO_TICKET PRS_DESC_NO_TICKET
#define SLOTS     8
#define ANSWERS   4
#define SEEDS     400
#define GARBAGE   200

/* What a GPU has: a ring whose tail only it knows, and its answers. */
struct gpu {
    _Alignas(PRS_RING_ALIGN) unsigned char memory[128 + SLOTS * sizeof(union prs_desc_slot)];
    struct prs_answer slots[ANSWERS];
    struct prs_ring ring;
    struct prs_answers *answers;
    uint64_t tail;
    uint32_t number;
};

static struct gpu *gpu_attach(struct rig *rig)
{
    struct gpu *gpu = aligned_alloc(PRS_RING_ALIGN, sizeof *gpu);
    assert_non_null(gpu);
    gpu->tail = 0;
    assert_int_equal(prs_ring_place(SLOTS, gpu->memory, NULL, &gpu->ring), PERSEUS_OK);
    assert_int_equal(prs_answers_create(gpu->slots, ANSWERS, &gpu->answers), PERSEUS_OK);
    assert_int_equal(prs_sources_add(rig->sources, &gpu->ring, gpu->answers, &gpu->number),
                     PERSEUS_OK);
    return gpu;
}

static void gpu_free(struct gpu *gpu)
{
    prs_answers_destroy(gpu->answers);
    free(gpu);
}

/* As the device code does it: the quarters in any order. False when the ring is full. */
static bool gpu_push(struct gpu *gpu, const union prs_desc_slot *desc)
{
    if (!prs_ring_fits(&gpu->ring, gpu->tail + 1, gpu->ring.head->head)) {
        return false;
    }
    union prs_desc_slot filled = *desc;
    for (int i = 0; i < PRS_DESC_QUARTERS; i++) {
        filled.quarters[i].turn = prs_ring_turn(&gpu->ring, gpu->tail);
    }
    *prs_ring_slot(&gpu->ring, gpu->tail++) = filled;
    return true;
}

static void gpu_must_push(struct gpu *gpu, struct prs_desc desc)
{
    assert_true(gpu_push(gpu, &(const union prs_desc_slot){.desc = desc}));
}

static struct prs_desc put_to(uint32_t peer, uint32_t ticket)
{
    return (struct prs_desc){.kind = PRS_DESC_PUT, .peer = peer, .ticket = ticket, .bytes = 8};
}

static struct prs_desc quiet(uint32_t ticket)
{
    return (struct prs_desc){.kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS, .ticket = ticket};
}

static void sources_do_not_hold_each_other_up(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 0);
    struct gpu *first = gpu_attach(rig), *second = gpu_attach(rig);
    rig->orderer->answer[5] = PERSEUS_AGAIN;
    gpu_must_push(first, put_to(5, NO_TICKET));
    gpu_must_push(first, put_to(1, NO_TICKET));
    gpu_must_push(second, put_to(2, NO_TICKET));
    rig_push(rig, put_to(3, NO_TICKET));
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 2);
    assert_int_equal(rig->orderer->calls[0].peer, 3);
    assert_int_equal(rig->orderer->calls[1].peer, 2);
    rig->orderer->answer[5] = PERSEUS_OK;
    assert_true(rig_step(rig));
    assert_int_equal(rig->orderer->n_calls, 4);
    assert_int_equal(rig->orderer->calls[2].peer, 5);
    rig_destroy(rig);
    gpu_free(first);
    gpu_free(second);
}

static void each_source_hears_of_its_own_tickets(void **state)
{
    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        struct rig *rig = rig_create(8, 0);
        struct gpu *first = gpu_attach(rig), *second = gpu_attach(rig);
        rig->orderer->completes_at_once = at_once;
        uint32_t thread = rig_ticket(rig);
        uint32_t ticket = prs_answer_ticket(thread % ANSWERS, 7); /* the same slot everywhere */
        gpu_must_push(first, put_to(FAKE_PEERS, ticket));         /* malformed */
        gpu_must_push(second, quiet(ticket));
        rig_push(rig, quiet(thread));
        rig_step(rig);
        assert_int_equal(rig_status(rig, thread), PERSEUS_OK);
        assert_int_equal(first->slots[thread % ANSWERS].ticket, ticket);
        assert_int_equal(first->slots[thread % ANSWERS].status, PERSEUS_INVALID_ARGUMENT);
        assert_int_equal(second->slots[thread % ANSWERS].ticket, ticket);
        assert_int_equal(second->slots[thread % ANSWERS].status, PERSEUS_OK);
        rig_destroy(rig);
        gpu_free(first);
        gpu_free(second);
    }
}

static void a_gpu_cannot_wake_so_the_proxy_does_not_sleep(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 0);
    atomic_store(&rig->orderer->idle, true);
    rig_step(rig);
    assert_true(prs_proxy_may_sleep(rig->proxy));
    assert_true(prs_proxy_is_idle(rig->proxy));
    struct gpu *gpu = gpu_attach(rig);
    rig_step(rig);
    assert_false(prs_proxy_may_sleep(rig->proxy));
    assert_false(prs_proxy_is_idle(rig->proxy));
    assert_int_equal(prs_sources_remove(rig->sources, gpu->number), PERSEUS_AGAIN);
    rig_step(rig);
    assert_int_equal(prs_sources_remove(rig->sources, gpu->number), PERSEUS_OK);
    assert_true(prs_proxy_may_sleep(rig->proxy));
    rig_destroy(rig);
    gpu_free(gpu);
}

static void a_source_leaves_when_its_answers_are_given(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 0);
    struct gpu *gpu = gpu_attach(rig);
    uint32_t ticket = prs_answer_ticket(1, 1), late = prs_answer_ticket(2, 1), none = 0;
    rig->orderer->progress_answer = PERSEUS_OK;
    gpu_must_push(gpu, quiet(ticket));
    bool did = false;
    rig->orderer->progress_answer = PERSEUS_IO; /* takes it, but completes nothing */
    assert_int_equal(prs_proxy_step(rig->proxy, &did), PERSEUS_IO);
    assert_int_equal(rig->orderer->n_calls, 1);
    assert_int_equal(prs_sources_remove(rig->sources, gpu->number), PERSEUS_AGAIN);
    gpu_must_push(gpu, quiet(late)); /* too late: nobody takes it */
    assert_int_equal(prs_proxy_step(rig->proxy, &did), PERSEUS_IO);
    assert_int_equal(prs_sources_remove(rig->sources, gpu->number), PERSEUS_AGAIN);
    rig->orderer->progress_answer = PERSEUS_OK;
    rig_step(rig); /* answers */
    assert_int_equal(gpu->slots[1].ticket, ticket);
    rig_step(rig); /* lets go */
    assert_int_equal(prs_sources_remove(rig->sources, gpu->number), PERSEUS_OK);
    assert_int_equal(rig->orderer->n_calls, 1);
    assert_int_equal(gpu->slots[2].ticket, NO_TICKET);
    /* its place is free again, and there are only so many */
    for (uint32_t i = 1; i < PRS_SOURCES_MAX; i++) {
        assert_int_equal(prs_sources_add(rig->sources, &gpu->ring, gpu->answers, &none),
                         PERSEUS_OK);
    }
    assert_int_equal(prs_sources_add(rig->sources, &gpu->ring, gpu->answers, &none), PERSEUS_LIMIT);
    rig_destroy(rig);
    gpu_free(gpu);
}

/* Any 64 bytes from a kernel gone wrong end as an error of that source; the threads lose
 * nothing. */
static void garbage_from_a_kernel_ends_its_request_only(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct prs_rng rng = prs_rng_seeded(seed);
        struct rig *rig = rig_create(8, 1 + prs_rng_below(&rng, 9));
        struct gpu *gpu = gpu_attach(rig);
        for (int i = 0; i < GARBAGE; i++) {
            union prs_desc_slot garbage;
            for (int k = 0; k < PRS_DESC_QUARTERS; k++) {
                garbage.quarters[k] = (struct prs_desc_quarter){
                    .a = (uint16_t)prs_rng_next(&rng),
                    .b = (uint32_t)prs_rng_next(&rng) >> prs_rng_below(&rng, 32),
                    .c = prs_rng_next(&rng) >> prs_rng_below(&rng, 64)};
            }
            garbage.desc.kind = prs_rng_below(&rng, 2) == 0
                                    ? (uint8_t)prs_rng_below(&rng, PRS_DESC_VALUES + 2)
                                    : garbage.desc.kind;
            gpu_push(gpu, &garbage);
            uint32_t ticket = rig_ticket(rig);
            rig_push(rig, put_to(1, ticket));
            rig_step(rig);
            assert_int_equal(rig_status(rig, ticket), PERSEUS_OK);
        }
        /* a vector may still wait for values; give it something else, then the ring must drain */
        for (int i = 0; i < 3 * SLOTS; i++) {
            gpu_push(gpu, &(const union prs_desc_slot){.desc = put_to(1, NO_TICKET)});
            rig_step(rig);
        }
        for (int i = 0; i < SLOTS; i++) {
            rig_step(rig);
        }
        assert_true(prs_ring_is_empty(&gpu->ring));
        rig_destroy(rig);
        gpu_free(gpu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_do_not_hold_each_other_up),
        cmocka_unit_test(each_source_hears_of_its_own_tickets),
        cmocka_unit_test(a_gpu_cannot_wake_so_the_proxy_does_not_sleep),
        cmocka_unit_test(a_source_leaves_when_its_answers_are_given),
        cmocka_unit_test(garbage_from_a_kernel_ends_its_request_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
