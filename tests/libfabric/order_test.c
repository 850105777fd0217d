/* SPDX-License-Identifier: Apache-2.0 */
/* The order that was granted is kept between two processes: the target looks at the payload the
 * moment it sees the signal, while the source floods it with puts of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "libfabric/child.h"
#include "libfabric/program.h"

#define SLOTS      64
#define SLOT_BYTES 16384
#define WORDS      ((uint64_t)SLOTS * SLOT_BYTES) /* a signal word per slot, each in a line */
#define WORD(slot) (WORDS + (uint64_t)(slot)*64)
#define BYTES      (WORDS + SLOTS * 64)
#define MESSAGES   2500
#define RUN_MS_MAX 6000

enum signal_kind { BY_SET, BY_PUT, BY_ATOMIC };

/* Lies behind the region in the shared memory; the child writes, the parent reads. */
struct verdict {
    _Atomic uint64_t checked;      /* messages, in sequence */
    _Atomic uint64_t payload_late; /* signal seen before its payload */
    _Atomic uint64_t signal_late;  /* a later signal seen before this one */
};

/* Message number n: `first` bytes from the slot's begin, then `second` more: two puts. */
static void message_sizes(uint64_t n, size_t *first, size_t *second)
{
    struct prs_rng rng = prs_rng_seeded(n);
    *first = 8 + prs_rng_below(&rng, n % 3 == 0 ? 60 : SLOT_BYTES / 2 - 8);
    *second = 1 + prs_rng_below(&rng, n % 5 == 0 ? 5000 : 100);
}

static unsigned char message_byte(uint64_t n)
{
    return (unsigned char)(1 + n / SLOTS % 250);
}

static uint64_t word_at(const struct side *side, uint64_t n)
{
    /* Acquire: pairs with however the provider wrote the word; its payload is read after it. */
    return __atomic_load_n((const uint64_t *)(side->memory + WORD(n % SLOTS)), __ATOMIC_ACQUIRE);
}

static bool payload_is_there(const struct side *side, uint64_t n)
{
    size_t first, second;
    message_sizes(n, &first, &second);
    const unsigned char *payload = side->memory + n % SLOTS * SLOT_BYTES;
    for (size_t i = 0; i < first + second; i++) {
        if (payload[i] != message_byte(n)) {
            return false;
        }
    }
    return true;
}

static bool check_step(struct side *side, void *user, const struct prs_event *events, uint32_t n)
{
    (void)events;
    (void)n;
    struct verdict *verdict = user;
    uint64_t next = atomic_load_explicit(&verdict->checked, memory_order_relaxed);
    /* From the newest to the oldest: what is seen of a later one must be true of earlier ones. */
    bool later_seen = false;
    for (uint64_t ahead = SLOTS; ahead-- > 0;) {
        bool is_seen = word_at(side, next + ahead) == next + ahead + 1;
        if (later_seen && !is_seen) {
            atomic_fetch_add(&verdict->signal_late, 1);
        }
        later_seen = later_seen || is_seen;
    }
    while (word_at(side, next) == next + 1) {
        if (!payload_is_there(side, next)) {
            atomic_fetch_add(&verdict->payload_late, 1);
        }
        next++;
        /* Release: pairs with the parent's acquire; the slot may be overwritten from here on. */
        atomic_store_explicit(&verdict->checked, next, memory_order_release);
    }
    return true;
}

static struct prs_op signal_op(const struct side *side, enum signal_kind kind, uint64_t n,
                               uint64_t *source)
{
    struct prs_op op = side_set(side, WORD(n % SLOTS), n + 1);
    if (kind == BY_PUT) {
        *source = n + 1;
        op = side_put(side, 0, WORD(n % SLOTS), 8);
        op.flags = PRS_OP_INLINE;
        op.inline_source = source;
    } else if (kind == BY_ATOMIC) {
        op.kind = PRS_OP_ATOMIC;
        op.atomic = PERSEUS_ATOMIC_SET;
    }
    return op;
}

/* Sends message n. Its source slot is free: the child has checked the message before it there. */
static uint32_t send_message(struct side *side, enum signal_kind kind, uint64_t n, uint32_t *done)
{
    size_t first, second;
    uint64_t begin = n % SLOTS * SLOT_BYTES, source;
    message_sizes(n, &first, &second);
    memset(side->memory + begin, message_byte(n), first + second);
    const struct prs_op ops[] = {side_put(side, begin, begin, first),
                                 side_put(side, begin + first, begin + first, second),
                                 signal_op(side, kind, n, &source)};
    for (size_t i = 0; i < 3; i++) {
        if (side_post(side, NULL, &ops[i], done) != PERSEUS_OK) {
            side_fail("message %llu: %s", (unsigned long long)n, side->log_text.last);
        }
    }
    return 3;
}

static void wait_until_checked(struct side *side, const struct verdict *verdict, uint64_t wanted,
                               uint32_t *done)
{
    uint64_t deadline = side_now_ms() + 20000;
    while (atomic_load_explicit(&verdict->checked, memory_order_acquire) < wanted) {
        side_turn(side, NULL, done);
        if (side_now_ms() > deadline) {
            side_fail("the target has seen %llu messages, and not the next",
                      (unsigned long long)verdict->checked);
        }
    }
}

/* Returns how many messages were sent. */
static uint64_t flood(struct side *side, enum signal_kind kind, const struct verdict *verdict)
{
    uint32_t done = 0, posted = 0;
    uint64_t stop = side_now_ms() + RUN_MS_MAX;
    uint64_t n = 0;
    for (; n < MESSAGES && side_now_ms() < stop; n++) {
        wait_until_checked(side, verdict, n < SLOTS / 2 ? 0 : n + 1 - SLOTS / 2, &done);
        posted += send_message(side, kind, n, &done);
    }
    side_wait(side, NULL, &done, posted);
    wait_until_checked(side, verdict, n, &done);
    return n;
}

static void run(enum signal_kind kind, bool want_atomics, uint32_t order)
{
    size_t shared_bytes = BYTES + sizeof(struct verdict);
    unsigned char *shared = side_shared_memory(shared_bytes);
    unsigned char *mine = calloc(1, BYTES);
    struct verdict *verdict = (struct verdict *)(shared + BYTES);
    struct child child;
    struct side side;
    assert_non_null(mine);
    child_start(&child, program_provider(), want_atomics, shared, BYTES, check_step, verdict);
    side_open(&side, program_provider(), want_atomics, mine, BYTES);
    child_meet(&child, &side);
    if ((side.fabric->caps.order & order) == order) {
        uint64_t sent = flood(&side, kind, verdict);
        assert_true(sent > 50); /* or it has tested little */
        assert_int_equal(verdict->payload_late, 0);
        assert_int_equal(verdict->signal_late, 0);
    }
    child_finish(&child);
    side_close(&side);
    free(mine);
    side_shared_free(shared, shared_bytes);
}

static void signals_stay_behind_puts(void **state)
{
    (void)state;
    run(BY_SET, false, PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_SET | PRS_ORDER_SET_SET);
}

static void puts_stay_behind_puts(void **state)
{
    (void)state;
    run(BY_PUT, false, PRS_ORDER_PUT_PUT);
}

static void atomics_stay_behind_puts(void **state)
{
    (void)state;
    run(BY_ATOMIC, true, PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_ATOMIC);
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_stay_behind_puts),
        cmocka_unit_test(puts_stay_behind_puts),
        cmocka_unit_test(atomics_stay_behind_puts),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
