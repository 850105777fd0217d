/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatch and combine by put-with-signal, the device code as it is, compiled for the CPU, on the
 * scripted driver: a CPU thread for each CTA; below them the real ring, proxy, ordering and fabric,
 * and copies that come late and in any order. Expert e multiplies by e + 1; all values are small
 * whole numbers or quarters, so that outputs are compared bit by bit.
 */
#include "cuda/moe/far/blocks.cuh"
#include "cuda/moe/far/combine.cuh"
#include "cuda/moe/far/dispatch.cuh"

#include <perseus/device.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "moe/math/bf16.h"

extern "C" {
#include <setjmp.h>
#include <cmocka.h>
}

/* Mutants, which hang, wait less. */
#ifndef FAR_TIMEOUT_MS
#define FAR_TIMEOUT_MS 20000
#endif

static const uint32_t timeout_ms = FAR_TIMEOUT_MS, ctas = 2, forwards = 5;
static char message[1024];

static void keep_message(void *, perseus_log_level level, const char *text)
{
    if (level == PERSEUS_LOG_ERROR) {
        snprintf(message, sizeof message, "%s", text);
    }
}

/* One PE: its device PE, and the arrays that kernels have in GPU memory. */
struct far_pe {
    perseus_device *device;
    prs_moe_far far;
    std::vector<uint64_t> own;
    std::vector<perseus_device_group *> there, back;
    std::vector<uint32_t> there_numbers, back_numbers;
    std::vector<uint32_t> counts;
    uint32_t tokens;
    std::vector<uint16_t> x, y;
    std::vector<int64_t> ids;
    std::vector<int32_t> narrow_ids;
    std::vector<float> weights;

    perseus_moe_cuda_input input(bool is_wide) const
    {
        const void *chosen = is_wide ? (const void *)ids.data() : (const void *)narrow_ids.data();
        return {tokens, is_wide ? 8u : 4u, x.data(), chosen, weights.data(), (void *)y.data()};
    }
};

static perseus_device_group *make_group(far_pe &pe, uint32_t target,
                                        const std::vector<uint64_t> &signals, uint32_t *numbers)
{
    const std::vector<int> targets(signals.size(), (int)target);
    const perseus_device_group_attr attr = {(uint32_t)signals.size(), targets.data(),
                                            signals.data(), PERSEUS_SIGNAL_SET, true};
    perseus_device_group *group = nullptr;
    assert_int_equal(perseus_device_group_create(pe.device, &attr, numbers, &group), PERSEUS_OK);
    return group;
}

/* One for each peer there, and one back. */
static void make_groups(far_pe &pe)
{
    const prs_moe_far_shape &shape = pe.far.shape;
    pe.there.resize(shape.n_pes);
    pe.back.resize(shape.n_pes);
    pe.there_numbers.resize(shape.experts);
    pe.back_numbers.resize(shape.n_pes * pe.far.layout.hosted_max);
    for (uint32_t peer = 0; peer < shape.n_pes; peer++) {
        if (peer == shape.me) {
            continue;
        }
        std::vector<uint64_t> there, back;
        const uint32_t first = prs_moe_far_first_of(shape, peer);
        const uint32_t mine = prs_moe_far_first_of(shape, shape.me);
        for (uint32_t i = 0; i < prs_moe_far_hosted(shape, peer); i++) {
            there.push_back(prs_moe_far_word_arrived(pe.far.layout, shape.me, i));
        }
        for (uint32_t i = 0; i < prs_moe_far_hosted(shape, shape.me); i++) {
            back.push_back(prs_moe_far_word_answered(pe.far.layout, mine + i));
        }
        pe.there[peer] = make_group(pe, peer, there, &pe.there_numbers[first]);
        pe.back[peer] =
            make_group(pe, peer, back, &pe.back_numbers[peer * pe.far.layout.hosted_max]);
    }
}

struct far_job {
    std::vector<far_pe> pes;

    far_job(const prs_moe_far_shape &shape, uint32_t protocol, const char *provider,
            perseus_ordering ordering)
        : pes(shape.n_pes)
    {
        std::vector<struct perseus_device_contact> contacts(shape.n_pes);
        for (uint32_t i = 0; i < shape.n_pes; i++) {
            far_pe &pe = pes[i];
            pe.far = {};
            pe.far.shape = shape;
            pe.far.shape.me = i;
            pe.far.protocol = protocol;
            pe.far.timeout_ms = timeout_ms;
            prs_moe_far_lay(&pe.far.shape, &pe.far.layout);
            pe.own.resize(prs_moe_far_own_bytes(&pe.far.shape) / sizeof(uint64_t) + 1);
            prs_moe_far_own_lay(&pe.far.shape, pe.own.data(), &pe.far.own);
            pe.counts.resize(pe.far.layout.hosted_max);
            perseus_device_attr attr = {};
            attr.my_pe = (int)i;
            attr.n_pes = (int)shape.n_pes;
            attr.gpu = (int)i % 2;
            attr.provider = provider;
            attr.ordering = ordering;
            attr.heap_bytes = pe.far.layout.heap_bytes;
            attr.ring_slots = 64;
            attr.timeout_ms = timeout_ms;
            attr.log = keep_message;
            assert_int_equal(perseus_device_open(&attr, &pe.device), PERSEUS_OK);
            assert_int_equal(perseus_device_contact(pe.device, &contacts[i]), PERSEUS_OK);
        }
        for (far_pe &pe : pes) {
            assert_int_equal(perseus_device_start(pe.device, contacts.data()), PERSEUS_OK);
            perseus_device_pe_get(pe.device, &pe.far.wire.pe);
            make_groups(pe);
            pe.far.wire.there = pe.there.data();
            pe.far.wire.back = pe.back.data();
            pe.far.wire.there_numbers = pe.there_numbers.data();
            pe.far.wire.back_numbers = pe.back_numbers.data();
        }
    }
    ~far_job()
    {
        for (far_pe &pe : pes) {
            perseus_device_close(pe.device);
        }
    }
};

/* Outputs begin as no numbers; choices that are not used have no weight. */
static void make_tokens(far_pe &pe, uint32_t tokens, bool one_expert, std::mt19937 &random)
{
    const prs_moe_far_shape &shape = pe.far.shape;
    pe.tokens = tokens;
    pe.x.resize(tokens * shape.hidden + 8);
    pe.y.assign(tokens * shape.hidden + 8, 0x7fff);
    pe.ids.resize(tokens * shape.top_k);
    pe.weights.resize(tokens * shape.top_k);
    for (uint16_t &value : pe.x) {
        value = prs_bf16_from_f32((float)(random() % 15) - 7);
    }
    for (uint32_t i = 0; i < tokens * shape.top_k; i++) {
        const uint32_t first = random() % shape.experts;
        pe.ids[i] = i % shape.top_k == 0 ? first : (pe.ids[i - 1] + 1) % shape.experts;
        pe.weights[i] = (float)(random() % 4 + 1) / 4;
    }
    for (uint32_t i = 0; i < tokens * shape.top_k; i++) {
        const bool is_used = one_expert ? i % shape.top_k == 0 : random() % 4 != 0;
        pe.ids[i] = !is_used ? -1 : one_expert ? (int64_t)shape.experts - 1 : pe.ids[i];
        pe.weights[i] = is_used ? pe.weights[i] : NAN;
    }
    pe.narrow_ids.assign(pe.ids.begin(), pe.ids.end());
}

/* One CTA a thread. */
template <class Kernel> static void run_ctas(Kernel kernel)
{
    std::vector<std::thread> running;
    for (uint32_t cta = 0; cta < ctas; cta++) {
        running.emplace_back([&, cta] { kernel(prs_moe_crew{cta, ctas, 0, 1}); });
    }
    for (std::thread &thread : running) {
        thread.join();
    }
}

/* What experts make of their rows. */
static void run_experts(far_pe &pe, uint64_t number)
{
    const prs_moe_far &far = pe.far;
    const prs_moe_far_half half(far, number);
    const uint32_t first = prs_moe_far_first_of(far.shape, far.shape.me);
    for (uint32_t i = 0; i < prs_moe_far_hosted(far.shape, far.shape.me); i++) {
        const uint64_t row = far.own.first_row[first + i];
        const uint16_t *from = (const uint16_t *)far.wire.at(half.row(far.layout.rows, row));
        uint16_t *to = (uint16_t *)far.wire.at(half.row(far.layout.results, row));
        assert_int_equal(row % PERSEUS_MOE_CUDA_BLOCK, 0);
        for (uint64_t k = 0; k < (uint64_t)pe.counts[i] * far.shape.hidden; k++) {
            to[k] = prs_bf16_from_f32(prs_bf16_to_f32(from[k]) * (float)(first + i + 1));
        }
    }
}

static void forward(far_pe &pe, uint64_t number)
{
    const perseus_moe_cuda_input input = pe.input(number % 2 == 1);
    run_ctas([&](const prs_moe_crew &crew) {
        prs_moe_far_scratch scratch;
        prs_moe_far_dispatch(pe.far, input, number, pe.counts.data(), scratch, crew);
    });
    if (*pe.far.own.failed == PERSEUS_OK) {
        run_experts(pe, number);
    }
    run_ctas([&](const prs_moe_crew &crew) {
        prs_moe_far_combine(pe.far, input, number, pe.far.layout.results, crew);
    });
}

/* What an expert makes of some rows, when they are here; then whoever sent them hears. */
static bool run_block(far_pe &pe, const prs_moe_far_half &half, const prs_moe_far_rows &rows)
{
    const prs_moe_far &far = pe.far;
    const uint32_t expert = prs_moe_far_first_of(far.shape, far.shape.me) + rows.of_host;
    uint32_t source = 0;
    if (!prs_moe_far_are_here(half, rows, &source)) {
        return false;
    }
    for (uint32_t row = rows.first; row < rows.end; row++) {
        const uint16_t *from = (const uint16_t *)far.wire.at(
            half.row(far.layout.rows, far.own.first_row[expert] + row));
        uint16_t *to = (uint16_t *)far.wire.at(
            prs_moe_far_result(half, far.layout.results, rows.of_host, row));
        for (uint32_t c = 0; c < far.shape.hidden; c++) {
            to[c] = prs_bf16_from_f32(prs_bf16_to_f32(from[c]) * (float)(expert + 1));
        }
    }
    for (uint32_t i = 0; i < far.shape.n_pes; i++) {
        prs_moe_far_computed(half, far.layout.results, rows, i);
    }
    return true;
}

/* This CTA's share of all blocks, each when it can; of few rows, so that they end within sources
 * and hold several. */
static void run_blocks(far_pe &pe, const prs_moe_far_half &half, const prs_moe_crew &crew)
{
    const prs_moe_far &far = pe.far;
    const uint32_t block = 1 + half.number % 7;
    std::vector<prs_moe_far_rows> waiting;
    for (uint32_t i = 0; i < prs_moe_far_hosted(far.shape, far.shape.me); i++) {
        const uint32_t rows = pe.counts[i] = prs_moe_far_rows_of(half, i);
        for (uint32_t first = 0; first < rows; first += block) {
            if ((i + first / block) % crew.ctas == crew.cta) {
                waiting.push_back({i, first, first + block < rows ? first + block : rows});
            }
        }
    }
    const uint64_t deadline = prs_now_ns() + timeout_ms * PRS_NS_PER_MS;
    while (!waiting.empty() && prs_moe_far_goes_on(far)) {
        if (prs_now_ns() >= deadline) {
            prs_moe_far_fail(far, PERSEUS_TIMEOUT);
        }
        for (size_t i = waiting.size(); i-- > 0;) {
            if (run_block(pe, half, waiting[i])) {
                waiting.erase(waiting.begin() + (std::ptrdiff_t)i);
            }
        }
    }
}

/* As the megakernel does: no CTA waits for all rows. */
static void whole_forward(far_pe &pe, uint64_t number)
{
    const perseus_moe_cuda_input input = pe.input(number % 2 == 1);
    const prs_moe_far &far = pe.far;
    run_ctas([&](const prs_moe_crew &crew) {
        const prs_moe_far_half half(far, number);
        prs_moe_far_scratch scratch;
        prs_moe_far_begin_blocks(far, crew);
        prs_moe_far_route(half, input, scratch, crew);
        if (!prs_moe_far_goes_on(far)) {
            return;
        }
        prs_moe_far_send_all(half, input, crew);
        if (crew.cta == 0) {
            prs_moe_far_answer_nobody(half, far.layout.results, crew);
        }
        run_blocks(pe, half, crew);
        for (uint32_t token = crew.cta; token < input.tokens; token += crew.ctas) {
            for (uint32_t k = 0; k < far.shape.top_k; k++) {
                const int64_t expert = prs_moe_far_id(input, token * far.shape.top_k + k);
                if (expert >= 0) {
                    prs_moe_far_await(half, prs_moe_far_word_answered(far.layout, (uint32_t)expert),
                                      prs_moe_far_host_of(far.shape, (uint32_t)expert));
                }
            }
            prs_moe_far_add_up(half, input, token, crew);
        }
    });
}

/* Rows that each expert of this PE should have had. */
static uint32_t wrong_counts(const far_job &job, const far_pe &pe)
{
    const prs_moe_far_shape &shape = pe.far.shape;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < prs_moe_far_hosted(shape, shape.me); i++) {
        uint32_t rows = 0;
        for (const far_pe &source : job.pes) {
            for (int64_t id : source.ids) {
                rows += id == prs_moe_far_first_of(shape, shape.me) + i;
            }
        }
        wrong += rows != pe.counts[i];
    }
    return wrong;
}

static uint32_t wrong_outputs(const far_pe &pe)
{
    const prs_moe_far_shape &shape = pe.far.shape;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < pe.tokens * shape.hidden; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < shape.top_k; k++) {
            const uint32_t choice = i / shape.hidden * shape.top_k + k;
            if (pe.ids[choice] >= 0) {
                sum += pe.weights[choice] * prs_bf16_to_f32(pe.x[i]) * (float)(pe.ids[choice] + 1);
            }
        }
        wrong += pe.y[i] != prs_bf16_from_f32(sum);
    }
    return wrong;
}

enum { WHOLE = 1, ONE_EXPERT = 2 };

/* How many outputs and counts were wrong. */
static uint32_t run(const prs_moe_far_shape &shape, uint32_t protocol, const char *provider,
                    perseus_ordering ordering, int how = 0)
{
    far_job job(shape, protocol, provider, ordering);
    std::mt19937 random(shape.experts + protocol);
    uint32_t wrong = 0;
    for (uint64_t number = 0; number < forwards; number++) {
        std::vector<std::thread> running;
        for (far_pe &pe : job.pes) {
            make_tokens(pe, number == 0 ? shape.tokens_max : random() % (shape.tokens_max + 1),
                        (how & ONE_EXPERT) != 0, random);
        }
        for (far_pe &pe : job.pes) {
            running.emplace_back([&pe, number, how] {
                (how & WHOLE) != 0 ? whole_forward(pe, number) : forward(pe, number);
            });
        }
        for (std::thread &thread : running) {
            thread.join();
        }
        for (far_pe &pe : job.pes) {
            if (*pe.far.own.failed != PERSEUS_OK) {
                fail_msg("PE %u, forward %u: %s: %s", pe.far.shape.me, (unsigned)number,
                         perseus_status_name((perseus_status)*pe.far.own.failed), message);
            }
            wrong += wrong_counts(job, pe) + wrong_outputs(pe);
        }
    }
    return wrong;
}

static const prs_moe_far_shape small = {64, 7, 3, 20, 3, 0};

static void rows_come_back_in_every_mode(void **)
{
    static const perseus_ordering modes[] = {PERSEUS_ORDERING_DRAIN, PERSEUS_ORDERING_DRAIN_PEER,
                                             PERSEUS_ORDERING_DEFERRED, PERSEUS_ORDERING_NIC_FENCE,
                                             PERSEUS_ORDERING_COUNTED};
    for (uint32_t protocol : {PRS_MOE_FAR_COUPLED, PRS_MOE_FAR_DECOUPLED, PRS_MOE_FAR_PUT_ONLY}) {
        for (perseus_ordering mode : modes) {
            assert_int_equal(run(small, protocol, "batch", mode), 0);
        }
        assert_int_equal(run(small, protocol, "stream", PERSEUS_ORDERING_FIFO), 0);
    }
}

static void blocks_need_not_wait_for_all_rows(void **)
{
    static const perseus_ordering modes[] = {PERSEUS_ORDERING_DRAIN, PERSEUS_ORDERING_DEFERRED,
                                             PERSEUS_ORDERING_NIC_FENCE, PERSEUS_ORDERING_COUNTED};
    for (uint32_t protocol : {PRS_MOE_FAR_COUPLED, PRS_MOE_FAR_DECOUPLED}) {
        for (perseus_ordering mode : modes) {
            assert_int_equal(run(small, protocol, "batch", mode, WHOLE), 0);
        }
        assert_int_equal(run(small, protocol, "stream", PERSEUS_ORDERING_FIFO, WHOLE), 0);
    }
}

static void one_pe_sends_nothing(void **)
{
    const prs_moe_far_shape alone = {64, 5, 2, 33, 1, 0};
    for (int how : {0, (int)WHOLE}) {
        assert_int_equal(run(alone, PRS_MOE_FAR_DECOUPLED, "batch", PERSEUS_ORDERING_AUTO, how), 0);
    }
}

static void one_expert_takes_all(void **)
{
    const prs_moe_far_shape crowded = {8, 4, 2, 200, 4, 0}; /* more than a block */
    for (int how : {(int)ONE_EXPERT, ONE_EXPERT | WHOLE}) {
        for (uint32_t protocol : {PRS_MOE_FAR_COUPLED, PRS_MOE_FAR_DECOUPLED}) {
            assert_int_equal(run(crowded, protocol, "batch", PERSEUS_ORDERING_AUTO, how), 0);
        }
    }
}

static void an_id_that_is_no_expert_ends_it(void **)
{
    far_job job({64, 5, 2, 8, 1, 0}, PRS_MOE_FAR_COUPLED, "batch", PERSEUS_ORDERING_AUTO);
    std::mt19937 random(1);
    make_tokens(job.pes[0], 8, false, random);
    job.pes[0].ids[3] = job.pes[0].narrow_ids[3] = 5;
    forward(job.pes[0], 0);
    assert_int_equal(*job.pes[0].far.own.failed, PERSEUS_INVALID_ARGUMENT);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_in_every_mode),
        cmocka_unit_test(blocks_need_not_wait_for_all_rows),
        cmocka_unit_test(one_pe_sends_nothing),
        cmocka_unit_test(one_expert_takes_all),
        cmocka_unit_test(an_id_that_is_no_expert_ends_it),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
