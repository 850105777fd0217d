/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device code as it is, compiled for the CPU, on the scripted driver: CPU threads in place of
 * CTAs, and everything below them real: the GPU's ring, the proxy, the ordering, the copy engines'
 * fabric. A signal that is seen must have its payload, the moment it is seen.
 */
#include <perseus/device.cuh>
#include <perseus/device.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

extern "C" {
#include <setjmp.h>
#include <cmocka.h>
}

static const int pes_max = 4;
static const uint32_t timeout_ms = 20000;
static const size_t heap_bytes = 1 << 20;

struct job {
    int n;
    perseus_device *device[pes_max];
    perseus_device_pe pe[pes_max];
    char message[1024];
};

static void keep_message(void *user, perseus_log_level level, const char *text)
{
    if (level == PERSEUS_LOG_ERROR) {
        snprintf((char *)user, sizeof(job::message), "%s", text);
    }
}

static job *job_open(int n, const char *provider, perseus_ordering ordering, int per_node,
                     uint32_t slots)
{
    job *opened = new job();
    struct perseus_device_contact contacts[pes_max];
    opened->n = n;
    for (int i = 0; i < n; i++) {
        perseus_device_attr attr = {};
        attr.my_pe = i;
        attr.n_pes = n;
        attr.gpu = i % 2;
        attr.provider = provider;
        attr.ordering = ordering;
        attr.heap_bytes = heap_bytes;
        attr.ring_slots = slots;
        attr.pes_per_node = per_node;
        attr.timeout_ms = timeout_ms;
        attr.log = keep_message;
        attr.log_user = opened->message;
        assert_int_equal(perseus_device_open(&attr, &opened->device[i]), PERSEUS_OK);
        assert_int_equal(perseus_device_contact(opened->device[i], &contacts[i]), PERSEUS_OK);
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(perseus_device_start(opened->device[i], contacts), PERSEUS_OK);
        perseus_device_pe_get(opened->device[i], &opened->pe[i]);
    }
    return opened;
}

static void job_close(job *opened)
{
    for (int i = 0; i < opened->n; i++) {
        perseus_device_close(opened->device[i]);
    }
    delete opened;
}

/* In each heap: one signal word, and one payload, of each of `threads` threads of each PE. */
static const uint32_t threads = 3, words = 64, rounds = 12;

static uint64_t *signal_of(const perseus_device_pe &pe, int from, uint32_t thread)
{
    return (uint64_t *)pe.heap + from * threads + thread;
}

static uint64_t *payload_of(const perseus_device_pe &pe, int from, uint32_t thread)
{
    return (uint64_t *)(pe.heap + 4096) + (from * threads + thread) * words;
}

static uint64_t *source_of(const perseus_device_pe &pe, uint32_t thread)
{
    return (uint64_t *)(pe.heap + heap_bytes / 2) + thread * words;
}

/* A "CTA": sends its payload to every other PE, each round another one; then receives. */
static bool exchange(const perseus_device_pe &pe, uint32_t thread, enum perseus_signal_op op)
{
    uint64_t *source = source_of(pe, thread);
    for (uint64_t round = 1; round <= rounds; round++) {
        for (uint32_t i = 0; i < words; i++) {
            source[i] = round * 1000 + pe.my_pe;
        }
        for (int to = 0; to < pe.n_pes; to++) {
            if (to != pe.my_pe && perseus_put_signal_nbi(
                                      pe, payload_of(pe, pe.my_pe, thread), source,
                                      words * sizeof(uint64_t), signal_of(pe, pe.my_pe, thread),
                                      op == PERSEUS_SIGNAL_ADD ? 1 : round, op, to) != PERSEUS_OK) {
                return false;
            }
        }
        for (int from = 0; from < pe.n_pes; from++) {
            if (from == pe.my_pe) {
                continue;
            }
            if (perseus_signal_wait_until(pe, signal_of(pe, from, thread), PERSEUS_CMP_GE, round,
                                          timeout_ms, from) != PERSEUS_OK) {
                return false;
            }
            for (uint32_t i = 0; i < words; i++) {
                if (payload_of(pe, from, thread)[i] < round * 1000 + from) {
                    return false;
                }
            }
        }
        if (perseus_quiet(pe) != PERSEUS_OK) {
            return false;
        }
    }
    return true;
}

static void run_exchange(const char *provider, perseus_ordering ordering, int per_node,
                         enum perseus_signal_op op)
{
    job *opened = job_open(3, provider, ordering, per_node, 64);
    std::vector<std::thread> running;
    bool done[3 * threads] = {};
    for (int i = 0; i < 3; i++) {
        for (uint32_t t = 0; t < threads; t++) {
            running.emplace_back(
                [&, i, t] { done[i * threads + t] = exchange(opened->pe[i], t, op); });
        }
    }
    for (std::thread &thread : running) {
        thread.join();
    }
    for (bool one : done) {
        if (!one) {
            fail_msg("%s, %s, %d a node: %s", provider, perseus_ordering_name(ordering), per_node,
                     opened->message);
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(perseus_device_check(opened->device[i]), PERSEUS_OK);
    }
    job_close(opened);
}

static void a_signal_brings_its_payload_in_every_mode(void **)
{
    static const perseus_ordering modes[] = {PERSEUS_ORDERING_DRAIN, PERSEUS_ORDERING_DRAIN_PEER,
                                             PERSEUS_ORDERING_DEFERRED, PERSEUS_ORDERING_NIC_FENCE,
                                             PERSEUS_ORDERING_COUNTED};
    for (perseus_ordering mode : modes) {
        run_exchange("batch", mode, 0, PERSEUS_SIGNAL_SET);
        run_exchange("stream", mode, 0, PERSEUS_SIGNAL_SET);
    }
    run_exchange("stream", PERSEUS_ORDERING_FIFO, 0, PERSEUS_SIGNAL_SET);
}

static void adds_go_through_the_target_s_apply(void **)
{
    run_exchange("batch", PERSEUS_ORDERING_AUTO, 0, PERSEUS_SIGNAL_ADD);
    run_exchange("stream", PERSEUS_ORDERING_COUNTED, 0, PERSEUS_SIGNAL_ADD);
}

static void pes_of_one_node_store_directly(void **)
{
    run_exchange("batch", PERSEUS_ORDERING_AUTO, 3, PERSEUS_SIGNAL_SET);
    run_exchange("batch", PERSEUS_ORDERING_AUTO, 2, PERSEUS_SIGNAL_ADD);
    job *opened = job_open(2, "batch", PERSEUS_ORDERING_AUTO, 2, 64);
    assert_true(exchange(opened->pe[0], 0, PERSEUS_SIGNAL_SET) ||
                opened->pe[0].direct[1] == opened->pe[1].heap);
    job_close(opened);
}

/* ---- groups ---- */

static void group_member(const perseus_device_pe &pe, perseus_device_group *group, uint32_t members,
                         uint32_t member, uint32_t number, bool *ok)
{
    *ok = true;
    for (uint64_t round = 1; round <= rounds && *ok; round++) {
        /* by round: what is under way must stay */
        uint64_t *source = source_of(pe, 0) + (round % 4 * members + member) * words;
        for (uint32_t i = 0; i < words; i++) {
            source[i] = round;
        }
        perseus_status status;
        do {
            status =
                perseus_signal_group_put(pe, group, number, payload_of(pe, 0, 0) + member * words,
                                         source, words * sizeof(uint64_t), round);
        } while (status == PERSEUS_AGAIN);
        *ok = status == PERSEUS_OK;
        uint64_t *answer = (uint64_t *)(pe.heap + 2048) + member;
        *ok = *ok && perseus_signal_wait_until(pe, answer, PERSEUS_CMP_GE, round, timeout_ms, 1) ==
                         PERSEUS_OK;
    }
}

static void run_group(uint32_t members, bool vector)
{
    job *opened = job_open(2, "batch", PERSEUS_ORDERING_AUTO, 0, 64);
    const perseus_device_pe &sender = opened->pe[0], &target = opened->pe[1];
    std::vector<int> targets(members, 1);
    std::vector<uint64_t> signals(members);
    std::vector<uint32_t> numbers(members);
    for (uint32_t i = 0; i < members; i++) {
        signals[i] = (members - 1 - i) * sizeof(uint64_t); /* sorted the other way */
    }
    perseus_device_group_attr attr = {members, targets.data(), signals.data(), PERSEUS_SIGNAL_SET,
                                      vector};
    perseus_device_group *group = nullptr;
    assert_int_equal(perseus_device_group_create(opened->device[0], &attr, numbers.data(), &group),
                     PERSEUS_OK);
    std::vector<std::thread> running;
    std::unique_ptr<bool[]> ok(new bool[members]());
    for (uint32_t i = 0; i < members; i++) {
        running.emplace_back(group_member, std::cref(sender), group, members, i, numbers[i],
                             &ok[i]);
    }
    bool right = true;
    for (uint64_t round = 1; round <= rounds && right; round++) {
        for (uint32_t i = 0; i < members && right; i++) {
            right = perseus_signal_wait_until(target, (uint64_t *)(target.heap + signals[i]),
                                              PERSEUS_CMP_GE, round, timeout_ms, 0) == PERSEUS_OK;
            for (uint32_t w = 0; w < words && right; w++) {
                right = payload_of(target, 0, 0)[i * words + w] >= round;
            }
            right = right && perseus_signal_op_nbi(target, (uint64_t *)(target.heap + 2048) + i,
                                                   round, PERSEUS_SIGNAL_SET, 0) == PERSEUS_OK;
        }
    }
    for (std::thread &thread : running) {
        thread.join();
    }
    struct perseus_stats stats;
    perseus_device_stats(opened->device[0], PERSEUS_ALL_PES, &stats);
    assert_int_equal(stats.signals, members * rounds);
    assert_int_equal(stats.signal_messages, vector ? rounds : members * rounds);
    for (uint32_t i = 0; i < members; i++) {
        assert_true(ok[i]);
    }
    assert_true(right);
    job_close(opened);
}

static void the_last_arriver_of_a_group_signals(void **)
{
    run_group(6, false);
    run_group(6, true);
    run_group(40, false); /* more than half the ring: in two pieces */
    run_group(40, true);
}

/* ---- errors ---- */

static void a_wait_past_its_deadline_reports_and_ends(void **)
{
    job *opened = job_open(2, "batch", PERSEUS_ORDERING_AUTO, 0, 64);
    const perseus_device_pe &pe = opened->pe[0];
    uint64_t *word = (uint64_t *)(pe.heap + 88);
    *word = 5;
    assert_int_equal(perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, 7, 5, 1), PERSEUS_TIMEOUT);
    assert_int_equal(perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, 9, 5, 1), PERSEUS_TIMEOUT);
    assert_int_equal(perseus_device_check(opened->device[0]), PERSEUS_TIMEOUT);
    assert_non_null(strstr(opened->message, "heap offset 88, from PE 1: it is 5, awaited 7"));
    assert_int_equal(perseus_device_check(opened->device[0]),
                     PERSEUS_OK); /* once, and armed again */
    assert_int_equal(perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, 9, 5, 1), PERSEUS_TIMEOUT);
    assert_int_equal(perseus_device_check(opened->device[0]), PERSEUS_TIMEOUT);
    assert_non_null(strstr(opened->message, "awaited 9"));
    job_close(opened);
}

static void what_is_malformed_ends_its_peer_only(void **)
{
    job *opened = job_open(3, "batch", PERSEUS_ORDERING_AUTO, 0, 64);
    const perseus_device_pe &pe = opened->pe[0], &other = opened->pe[1];
    uint64_t outside = 0, *word = (uint64_t *)(other.heap + 8);
    assert_int_equal(perseus_put_nbi(pe, pe.heap, &outside, 8, 1), PERSEUS_OUT_OF_RANGE);
    assert_int_equal(perseus_put_nbi(pe, pe.heap + heap_bytes - 4, pe.heap, 8, 1),
                     PERSEUS_OUT_OF_RANGE);
    assert_int_equal(perseus_put_nbi(pe, pe.heap, pe.heap, 8, 3), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(perseus_quiet(pe), PERSEUS_OK);
    prs_desc_slot bad = {};
    bad.desc.kind = 77;
    bad.desc.peer = 2;
    bad.desc.ticket = PRS_DESC_NO_TICKET;
    assert_int_equal(prs_device_push(pe, bad, false), PERSEUS_OK);
    assert_int_equal(perseus_quiet(pe), PERSEUS_INVALID_ARGUMENT);
    assert_non_null(strstr(opened->message, "PE 2"));
    *(uint64_t *)(pe.heap + 64) = 42;
    assert_int_equal(perseus_put_signal_nbi(pe, pe.heap + 16, pe.heap + 64, 8,
                                            (uint64_t *)(pe.heap + 8), 1, PERSEUS_SIGNAL_SET, 1),
                     PERSEUS_OK);
    assert_int_equal(perseus_signal_wait_until(other, word, PERSEUS_CMP_EQ, 1, timeout_ms, 0),
                     PERSEUS_OK);
    assert_int_equal(*(uint64_t *)(other.heap + 16), 42);
    job_close(opened);
}

/* Nobody takes descriptors: a full ring ends the wait for room, and every one after it. */
static void a_ring_that_stays_full_ends_the_wait(void **)
{
    static const uint32_t slots = 64;
    alignas(PRS_RING_ALIGN) static unsigned char memory[128 + slots * sizeof(prs_desc_slot)];
    prs_ring_producers producers = {};
    perseus_device_fault fault = {};
    uint32_t taken = 0;
    perseus_device_pe pe = {};
    pe.ring.producers = &producers;
    pe.ring.head = (prs_ring_head *)memory;
    pe.ring.slots = (prs_desc_slot *)(memory + 128);
    pe.ring.n_slots = slots;
    pe.ring.turn_shift = 6;
    pe.timeout_ms = 20;
    pe.fault = &fault;
    pe.fault_taken = &taken;
    for (uint32_t i = 0; i < slots; i++) {
        assert_int_equal(perseus_fence(pe), PERSEUS_OK);
    }
    assert_int_equal(perseus_fence(pe), PERSEUS_TIMEOUT);
    assert_int_equal(fault.kind, PERSEUS_DEVICE_FAULT_RING);
    assert_int_equal(fault.slot, slots + 1);
    const uint64_t before = prs_now_ns();
    pe.timeout_ms = 100000;
    assert_int_equal(perseus_fence(pe), PERSEUS_TIMEOUT); /* at once: a position is missing */
    assert_true(prs_now_ns() - before < 50000000000ull);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_brings_its_payload_in_every_mode),
        cmocka_unit_test(adds_go_through_the_target_s_apply),
        cmocka_unit_test(pes_of_one_node_store_directly),
        cmocka_unit_test(the_last_arriver_of_a_group_signals),
        cmocka_unit_test(a_wait_past_its_deadline_reports_and_ends),
        cmocka_unit_test(what_is_malformed_ends_its_peer_only),
        cmocka_unit_test(a_ring_that_stays_full_ends_the_wait),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
