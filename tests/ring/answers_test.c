/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: what a producer that shares no atomics with the proxy sees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ring/answers.h"

#define SLOTS 4

static struct prs_answers *answers_of(struct prs_answer *slots)
{
    struct prs_answers *answers = NULL;
    assert_int_equal(prs_answers_create(slots, SLOTS, &answers), PERSEUS_OK);
    return answers;
}

static void create_refuses_what_no_ticket_can_name(void **state)
{
    (void)state;
    static struct prs_answer slots[PRS_ANSWERS_MAX];
    struct prs_answers *answers = NULL;
    assert_int_equal(prs_answers_create(slots, 0, &answers), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_answers_create(slots, PRS_ANSWERS_MAX + 1, &answers),
                     PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_answers_create(slots, PRS_ANSWERS_MAX, &answers), PERSEUS_OK);
    for (uint32_t i = 0; i < PRS_ANSWERS_MAX; i++) {
        assert_int_equal(slots[i].ticket, PRS_DESC_NO_TICKET);
    }
    prs_answers_destroy(answers);
    prs_answers_destroy(NULL);
}

/* A slot is used again and again: no use takes another's answer for its own, past the wrap. */
static void every_use_of_a_slot_has_its_own_ticket(void **state)
{
    (void)state;
    struct prs_answer slots[SLOTS];
    struct prs_answers *answers = answers_of(slots);
    for (uint32_t use = PRS_ANSWER_USE_MASK - 2; use != PRS_ANSWER_USE_MASK + 3; use++) {
        uint32_t ticket = prs_answer_ticket(2, use);
        assert_true(ticket < PRS_DESC_TICKET_END);
        assert_int_equal(prs_answer_slot(ticket), 2);
        assert_true(prs_answers_valid(answers, ticket));
        assert_int_not_equal(slots[2].ticket, ticket);
        prs_answer_give(answers, ticket, PERSEUS_IO, use);
        assert_int_equal(slots[2].ticket, ticket);
        assert_int_equal(slots[2].status, PERSEUS_IO);
        assert_int_equal(slots[2].result, use);
    }
    assert_false(prs_answers_valid(answers, prs_answer_ticket(SLOTS, 0)));
    assert_false(prs_answers_valid(answers, PRS_DESC_TICKET_END));
    assert_false(prs_answers_valid(answers, PRS_DESC_NO_TICKET));
    prs_answers_destroy(answers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_refuses_what_no_ticket_can_name),
        cmocka_unit_test(every_use_of_a_slot_has_its_own_ticket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
