/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong around a layer: peers that leave or do not come, operations that fail, words that
 * make no sense, wrong calls. Everything ends with a clear status, and nothing hangs. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/check.h"
#include "moe/layer.h"
#include "moe/layer_case.h"

enum { TOKENS = 24, HIDDEN = 48, TOP_K = 4 };

static struct pes pes;

/* Inputs that any PE may use. */
struct arrays {
    float x[TOKENS * HIDDEN], y[2][TOKENS * HIDDEN], weights[TOKENS * TOP_K];
    int32_t ids[TOKENS * TOP_K];
};

static struct arrays *make_arrays(void)
{
    struct arrays *arrays = calloc(1, sizeof *arrays);
    CHECK(arrays != NULL);
    for (int i = 0; i < TOKENS * TOP_K; i++) {
        arrays->ids[i] = i % 16;
        arrays->weights[i] = 0.25f;
    }
    for (int i = 0; i < TOKENS * HIDDEN; i++) {
        arrays->x[i] = (float)i;
    }
    return arrays;
}

static struct perseus_moe_config config_of(int protocol, uint32_t processors)
{
    struct perseus_moe_config config = layer_case_config((enum perseus_moe_protocol)protocol);
    config.communication_only = true;
    config.processors = processors;
    return config;
}

static enum perseus_status start(struct perseus_moe *moe, struct arrays *arrays, int half)
{
    return perseus_moe_start(moe, TOKENS, arrays->x, arrays->ids, arrays->weights, arrays->y[half]);
}

static enum perseus_status forward(struct perseus_moe *moe, struct arrays *arrays)
{
    enum perseus_status status = start(moe, arrays, 0);
    return status == PERSEUS_OK ? perseus_moe_wait(moe) : status;
}

/* Runs `body` on n PEs, each its own node, and closes. */
static void run_until(int n, uint32_t timeout_ms, pes_body body, void *context)
{
    struct perseus_attr attr = pes_attr(1);
    attr.timeout_ms = timeout_ms;
    pes_init(&pes, n, &attr);
    pes_run(&pes, body, context);
    pes_finish(&pes);
}

static void run(int n, pes_body body, void *context)
{
    run_until(n, 60000, body, context);
}

/* ---- peers ---- */

static void end(struct pes *job, struct perseus_pe *pe, struct perseus_moe *moe)
{
    job->aborted[perseus_my_pe(pe)] = true;
    perseus_moe_abort(moe);
    perseus_abort(pe);
}

static void one_leaves(struct pes *job, struct perseus_pe *pe, void *context)
{
    const struct perseus_moe_config *config = context;
    struct arrays *arrays = make_arrays();
    struct perseus_moe *moe = NULL;
    int me = perseus_my_pe(pe);
    CHECK_OK(perseus_moe_create(pe, config, &moe));
    CHECK_OK(forward(moe, arrays));
    pes_meet(job); /* an abort may drop answers that were on their way */
    if (me == 1) {
        end(job, pe, moe);
        pes_meet(job);
        free(arrays);
        return;
    }
    enum perseus_status status = PERSEUS_OK;
    for (int i = 0; i < 1000 && status == PERSEUS_OK; i++) { /* one or more may still work */
        status = forward(moe, arrays);
    }
    /* From the job, or first from the fabric, whose transfer ended in the middle. */
    CHECK(status == PERSEUS_PEER_LOST || status == PERSEUS_IO);
    CHECK_STATUS(forward(moe, arrays), status); /* it has ended for good */
    CHECK(messages_have(&job->messages[me], "PE 1"));
    pes_meet(job); /* whoever leaves next is named too */
    end(job, pe, moe);
    free(arrays);
}

static void test_a_peer_leaves(void **state)
{
    (void)state;
    for (int protocol = 0; protocol < PERSEUS_MOE_PROTOCOL_COUNT; protocol++) {
        for (uint32_t processors = 0; processors < 3; processors += 2) {
            struct perseus_moe_config config = config_of(protocol, processors);
            run(3, one_leaves, &config);
        }
    }
}

static void one_does_not_come(struct pes *job, struct perseus_pe *pe, void *context)
{
    const struct perseus_moe_config *config = context;
    struct arrays *arrays = make_arrays();
    struct perseus_moe *moe = NULL;
    int me = perseus_my_pe(pe);
    CHECK_OK(perseus_moe_create(pe, config, &moe));
    if (me != 1) {
        CHECK_STATUS(forward(moe, arrays), PERSEUS_TIMEOUT);
        CHECK(messages_have(&job->messages[me], "forward 0"));
        CHECK(messages_have(&job->messages[me], "no rows yet from PE 1"));
        CHECK(messages_have(&job->messages[me], "no answer yet from PE 1"));
    }
    pes_meet(job);
    end(job, pe, moe);
    free(arrays);
}

static void test_a_peer_does_not_come(void **state)
{
    (void)state;
    for (uint32_t processors = 0; processors < 3; processors += 2) {
        struct perseus_moe_config config = config_of(PERSEUS_MOE_DECOUPLED, processors);
        config.timeout_ms = 300;
        run(3, one_does_not_come, &config);
    }
}

/* ---- the fabric ---- */

static void something_fails(struct pes *job, struct perseus_pe *pe, void *context)
{
    const struct perseus_moe_config *config = context;
    struct arrays *arrays = make_arrays();
    struct perseus_moe *moe = NULL;
    int me = perseus_my_pe(pe);
    enum perseus_status status = perseus_moe_create(pe, config, &moe);
    for (int i = 0; i < 1000 && status == PERSEUS_OK; i++) {
        status = forward(moe, arrays);
    }
    CHECK(status != PERSEUS_OK);
    CHECK(messages_errors(&job->messages[me]) > 0);
    end(job, pe, moe);
    free(arrays);
}

static void test_an_operation_fails(void **state)
{
    (void)state;
    setenv("PERSEUS_ADVERSARY", "fail_nth=60", 1);
    for (int protocol = 0; protocol < PERSEUS_MOE_PROTOCOL_COUNT; protocol++) {
        struct perseus_moe_config config = config_of(protocol, 1);
        config.timeout_ms = 2000; /* a PE may only notice that nothing comes any more */
        run_until(3, 2000, something_fails, &config); /* barriers that one PE never reaches */
    }
    unsetenv("PERSEUS_ADVERSARY");
}

/* PE 0 gets rows from PE 1, whose answer fails, and then, late, word from PE 2 that it has none:
 * what ends the answers is a pair without rows. */
struct late {
    struct perseus_moe_config config;
    struct perseus_moe *_Atomic first; /* PE 0's layer */
};

static void wait_for_first(const struct late *late)
{
    struct perseus_moe *first = NULL;
    for (int ms = 0; ms < 400 && first == NULL; ms++) {
        usleep(1000);
        first = atomic_load(&late->first);
    }
    uint32_t hosted = first != NULL ? first->hosted : 0;
    for (int ms = 0; ms < 100 && first != NULL; ms++) {
        if (atomic_load(&first->rounds[0].pairs_left) <= hosted) {
            return;
        }
        usleep(1000);
    }
}

static void one_is_late(struct pes *job, struct perseus_pe *pe, void *context)
{
    struct late *late = context;
    struct arrays *arrays = make_arrays();
    struct perseus_moe *moe = NULL;
    int me = perseus_my_pe(pe);
    CHECK_OK(perseus_moe_create(pe, &late->config, &moe));
    for (int i = 0; i < TOKENS * TOP_K; i++) { /* PE 1 chooses experts of PE 0, others nobody */
        arrays->ids[i] = me == 1 && i % TOP_K < 2 ? i % TOP_K : -1;
    }
    if (me == 0) {
        atomic_store(&late->first, moe);
    }
    if (me == 2) {
        wait_for_first(late);
    }
    enum perseus_status status = forward(moe, arrays);
    CHECK(status == PERSEUS_OK || messages_errors(&job->messages[me]) > 0);
    pes_meet(job); /* PE 2 looks into PE 0's layer */
    end(job, pe, moe);
    free(arrays);
}

static void test_an_answer_fails_before_an_empty_one(void **state)
{
    (void)state;
    for (int protocol = 0; protocol < PERSEUS_MOE_PROTOCOL_COUNT; protocol++) {
        for (int nth = 1; nth <= 8; nth++) {
            char adversary[32];
            struct late late = {.config = config_of(protocol, 0)};
            snprintf(adversary, sizeof adversary, "fail_nth=%d", nth);
            setenv("PERSEUS_ADVERSARY", adversary, 1);
            late.config.timeout_ms = 300;
            run_until(3, 300, one_is_late, &late);
        }
    }
    unsetenv("PERSEUS_ADVERSARY");
}

static void a_word_lies(struct pes *job, struct perseus_pe *pe, void *context)
{
    const struct perseus_moe_config *config = context;
    struct arrays *arrays = make_arrays();
    struct perseus_moe *moe = NULL;
    int me = perseus_my_pe(pe);
    CHECK_OK(perseus_moe_create(pe, config, &moe));
    if (me == 0) { /* pretends to be forward 0 of PE 1, with far too many rows */
        const struct prs_moe_word word = {.tag = prs_moe_word_tag(0), .rows = 60000, .place = 9};
        *prs_moe_dispatch_signal(moe, 0, 1, 0, 0) = prs_moe_word_pack(word);
        CHECK_STATUS(forward(moe, arrays), PERSEUS_PROTOCOL);
        CHECK(messages_have(&job->messages[me], "PE 1 announced 60000 rows"));
    }
    pes_meet(job);
    end(job, pe, moe);
    free(arrays);
}

static void test_a_word_that_lies(void **state)
{
    (void)state;
    struct perseus_moe_config config = config_of(PERSEUS_MOE_COUPLED, 1);
    run(2, a_word_lies, &config);
}

/* The words that were taken come back, as with providers that store a word twice. */
static void words_echo(struct pes *job, struct perseus_pe *pe, void *context)
{
    const struct perseus_moe_config *config = context;
    struct arrays *arrays = make_arrays();
    struct perseus_moe *moe = NULL;
    int me = perseus_my_pe(pe);
    CHECK_OK(perseus_moe_create(pe, config, &moe));
    for (uint64_t n = 0; n < 6; n++) {
        CHECK_OK(forward(moe, arrays));
        pes_meet(job); /* nothing is under way */
        const struct prs_moe_word word = {.tag = prs_moe_word_tag(n), .whole = true, .rows = 1};
        uint32_t half = (uint32_t)(n % PRS_MOE_HALVES);
        *prs_moe_dispatch_signal(moe, half, 1 - (uint32_t)me, 0, 0) = prs_moe_word_pack(word);
        *prs_moe_answer_signal(moe, half, 0, me == 0 ? 8 : 0) = prs_moe_word_pack(word);
        pes_meet(job);
    }
    CHECK(messages_errors(&job->messages[me]) == 0);
    end(job, pe, moe);
    free(arrays);
}

static void test_words_that_are_stored_twice(void **state)
{
    (void)state;
    for (int protocol = 0; protocol < PERSEUS_MOE_PROTOCOL_COUNT; protocol++) {
        struct perseus_moe_config config = config_of(protocol, 1);
        run(2, words_echo, &config);
    }
}

/* ---- wrong calls ---- */

static void misuse(struct pes *job, struct perseus_pe *pe, void *context)
{
    struct perseus_moe_config config = *(const struct perseus_moe_config *)context;
    struct arrays *arrays = make_arrays();
    struct messages *messages = &job->messages[perseus_my_pe(pe)];
    struct perseus_moe *moe = NULL;
    const struct perseus_moe_expert none = {0}, some = {arrays->x, arrays->x, arrays->x};
    uint32_t foreign = perseus_my_pe(pe) == 0 ? 8 : 0;

    config.communication_only = false;
    CHECK_OK(perseus_moe_create(pe, &config, &moe));
    CHECK_STATUS(forward(moe, arrays), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, "has no weights"));
    CHECK_STATUS(perseus_moe_set_expert(moe, foreign, &some), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, "is not hosted here"));
    CHECK_STATUS(perseus_moe_set_expert(moe, 16, &some), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_moe_set_expert(moe, 8 - foreign, &none), PERSEUS_INVALID_ARGUMENT);
    CHECK_OK(perseus_moe_destroy(moe));

    config.communication_only = true;
    CHECK_OK(perseus_moe_create(pe, &config, &moe));
    CHECK_STATUS(perseus_moe_wait(moe), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(
        perseus_moe_forward(moe, TOKENS + 1, arrays->x, arrays->ids, arrays->weights, arrays->y[0]),
        PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_moe_forward(moe, 1, arrays->x, NULL, arrays->weights, arrays->y[0]),
                 PERSEUS_INVALID_ARGUMENT);
    arrays->ids[5] = 16;
    CHECK_STATUS(forward(moe, arrays), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, "token 1, choice 1 is expert 16"));
    arrays->ids[5] = 5;
    CHECK_OK(start(moe, arrays, 0)); /* what was refused has done no harm */
    CHECK_STATUS(
        perseus_moe_forward(moe, TOKENS, arrays->x, arrays->ids, arrays->weights, arrays->y[1]),
        PERSEUS_INVALID_ARGUMENT);
    CHECK_OK(start(moe, arrays, 1));
    messages_clear(messages);
    CHECK_STATUS(start(moe, arrays, 0), PERSEUS_AGAIN);
    CHECK(messages_errors(messages) == 0); /* back-pressure is never logged */
    CHECK_OK(perseus_moe_wait(moe));
    CHECK_OK(perseus_moe_wait(moe));
    CHECK(memcmp(arrays->y[0], arrays->x, sizeof arrays->x) == 0); /* 4 * 0.25 * x */
    CHECK(memcmp(arrays->y[1], arrays->x, sizeof arrays->x) == 0);
    CHECK_OK(perseus_moe_destroy(moe));
    CHECK_OK(perseus_moe_destroy(NULL));
    free(arrays);
}

static void test_misuse(void **state)
{
    (void)state;
    for (uint32_t processors = 0; processors < 2; processors++) {
        struct perseus_moe_config config = config_of(PERSEUS_MOE_DECOUPLED, processors);
        run(2, misuse, &config);
    }
}

static void different_configs(struct pes *job, struct perseus_pe *pe, void *context)
{
    struct perseus_moe_config config = *(const struct perseus_moe_config *)context;
    struct perseus_moe *moe = NULL;
    int me = perseus_my_pe(pe);
    if (me == 1) {
        config.top_k = 3;
    }
    CHECK_STATUS(perseus_moe_create(pe, &config, &moe), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(&job->messages[me], "another config"));
    config.top_k = me == 1 ? 99 : 4; /* wrong on one PE alone: all are told, none hangs */
    CHECK_STATUS(perseus_moe_create(pe, &config, &moe), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(&job->messages[me], me == 1 ? "top_k is 99" : "PE 1 could not"));
    config.top_k = 4;
    config.tokens_max = 60000; /* more than the heap has */
    CHECK_STATUS(perseus_moe_create(pe, &config, &moe), PERSEUS_OUT_OF_MEMORY);
    CHECK(messages_have(&job->messages[me], "symmetric heap has no room"));
    CHECK(moe == NULL);
    config.tokens_max = TOKENS;
    CHECK_OK(perseus_moe_create(pe, &config, &moe)); /* nothing was left behind */
    CHECK_OK(perseus_moe_destroy(moe));
}

static void test_configs_that_do_not_fit(void **state)
{
    (void)state;
    struct perseus_moe_config config = config_of(PERSEUS_MOE_DECOUPLED, 1);
    run(3, different_configs, &config);
}

/* ---- memory ---- */

/* Not where a sanitizer has put its own in place. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool malloc_is_counted = false;
#else
static const bool malloc_is_counted = true;
#endif

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* One PE, so that nobody else allocates meanwhile. */
static void measure(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    const struct perseus_moe_config *config = context;
    struct perseus_moe_memory memory;
    struct perseus_moe *moe = NULL;
    CHECK_OK(perseus_moe_plan(config, 1, NULL, NULL, &memory));
    size_t before = allocated();
    CHECK_OK(perseus_moe_create(pe, config, &moe));
    size_t taken = allocated() - before;
    CHECK(moe->plan.symmetric_bytes == memory.symmetric_bytes);
    CHECK(memory.arrival_bytes + memory.outgoing_bytes + memory.signal_bytes ==
          memory.symmetric_bytes);
    if (malloc_is_counted &&
        !(taken > memory.local_bytes * 0.9 && taken < memory.local_bytes * 1.1)) {
        fprintf(stderr, "planned %llu bytes of tables, took %zu\n",
                (unsigned long long)memory.local_bytes, taken);
        _Exit(1);
    }
    CHECK_OK(perseus_moe_destroy(moe));
}

static void test_the_plan_tells_what_is_taken(void **state)
{
    (void)state;
    struct perseus_moe_config config = config_of(PERSEUS_MOE_COUPLED, 1);
    config.communication_only = false;
    config.tokens_max = 8192;
    struct perseus_attr attr = pes_attr(1);
    attr.heap_bytes = 256 << 20;
    pes_init(&pes, 1, &attr);
    pes_run_well(&pes, measure, &config);
    pes_finish(&pes);
    config.experts = 4096;
    config.tokens_max = 64;
    config.processors = 3;
    pes_init(&pes, 1, &attr);
    pes_run_well(&pes, measure, &config);
    pes_finish(&pes);
}

int main(void)
{
    mallopt(M_ARENA_MAX, 1); /* mallinfo2 sees the first arena only */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_peer_leaves),
        cmocka_unit_test(test_a_peer_does_not_come),
        cmocka_unit_test(test_an_operation_fails),
        cmocka_unit_test(test_an_answer_fails_before_an_empty_one),
        cmocka_unit_test(test_a_word_that_lies),
        cmocka_unit_test(test_words_that_are_stored_twice),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_configs_that_do_not_fit),
        cmocka_unit_test(test_the_plan_tells_what_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
