/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device.cuh: put-with-signal from a GPU's kernels.
 *
 * The calls of perseus.h, by one thread, or, with _warp or _block, by all threads of a warp or a
 * block together, with the same arguments: then what any of them wrote to the source before the
 * call is sent. A thread's own calls cover what it wrote itself. Threads of a warp that make a call
 * together share the claim and the stores.
 *
 * `dst` and `signal` are addresses in this PE's heap and name the same object at `target`; `src`
 * lies in the heap or in a registered buffer. Puts are nonblocking: the source must stay untouched
 * until a quiet. A PE whose heap this GPU reaches (pe.direct) is written by stores of the callers,
 * every other one through the ring, the proxy and the fabric.
 *
 * Errors: OUT_OF_RANGE for memory that is neither; INVALID_ARGUMENT for a target that there is not;
 * TIMEOUT where a wait passed its deadline, and what it waited for is in *pe.fault
 * (perseus_device_check on the host tells it). What the proxy refuses, every later quiet returns.
 * Nothing waits longer than pe.timeout_ms, or the deadline it was given.
 */
#ifndef PERSEUS_DEVICE_CUH
#define PERSEUS_DEVICE_CUH

#include <perseus/device/ring.cuh>
#include <perseus/perseus.h>

#define PRS_ANSWER_TAKEN 0x80000000u

/* ---- making descriptors ---- */

PRS_DEVICE perseus_status prs_device_symmetric(const perseus_device_pe &pe, const void *address,
                                               uint64_t bytes, uint64_t *out)
{
    const uint64_t offset = (uint64_t)((const unsigned char *)address - pe.heap);
    *out = pe.heap_offset + offset;
    return offset <= pe.heap_bytes && bytes <= pe.heap_bytes - offset ? PERSEUS_OK
                                                                      : PERSEUS_OUT_OF_RANGE;
}

PRS_DEVICE perseus_status prs_device_local(const perseus_device_pe &pe, const void *address,
                                           uint64_t bytes, prs_desc *desc)
{
    for (uint32_t i = 0; i < pe.n_buffers; i++) {
        const perseus_device_buffer &buffer = pe.buffers[i];
        const uint64_t offset = (uint64_t)((const unsigned char *)address - buffer.base);
        if (offset < buffer.bytes && bytes <= buffer.bytes - offset) {
            desc->local_window = (uint16_t)buffer.window;
            desc->local = buffer.offset + offset;
            return PERSEUS_OK;
        }
    }
    return PERSEUS_OUT_OF_RANGE;
}

PRS_DEVICE perseus_status prs_device_fill_put(const perseus_device_pe &pe, void *dst,
                                              const void *src, uint64_t bytes, int target,
                                              prs_desc *desc)
{
    if (target < 0 || target >= pe.n_pes) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    uint64_t remote = 0;
    perseus_status status = prs_device_symmetric(pe, dst, bytes, &remote);
    desc->kind = PRS_DESC_PUT;
    desc->peer = (uint32_t)target;
    desc->ticket = PRS_DESC_NO_TICKET;
    desc->remote = remote;
    desc->bytes = bytes;
    return status == PERSEUS_OK ? prs_device_local(pe, src, bytes, desc) : status;
}

PRS_DEVICE perseus_status prs_device_fill_signal(const perseus_device_pe &pe, uint64_t *signal,
                                                 uint64_t value, enum perseus_signal_op op,
                                                 int target, prs_desc *desc)
{
    if (target < 0 || target >= pe.n_pes || ((uint64_t)signal & 7) != 0) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    uint64_t offset = 0;
    perseus_status status = prs_device_symmetric(pe, signal, sizeof *signal, &offset);
    desc->peer = (uint32_t)target;
    desc->ticket = PRS_DESC_NO_TICKET;
    desc->sub = (uint8_t)op;
    desc->value = value;
    if (desc->kind == PRS_DESC_PUT) {
        desc->kind = PRS_DESC_PUT_SIGNAL;
        desc->signal = offset;
    } else {
        desc->kind = PRS_DESC_SIGNAL;
        desc->remote = offset;
    }
    return status;
}

PRS_DEVICE prs_desc_slot prs_device_order_desc(uint8_t kind, uint32_t ticket)
{
    prs_desc_slot filled = {};
    filled.desc.kind = kind;
    filled.desc.peer = PRS_DESC_ALL_PEERS;
    filled.desc.ticket = ticket;
    return filled;
}

/* ---- peers that loads and stores reach ---- */

PRS_DEVICE unsigned char *prs_device_direct(const perseus_device_pe &pe, int target)
{
    return pe.direct != nullptr && target >= 0 && target < pe.n_pes ? pe.direct[target] : nullptr;
}

/* By `n` threads, of which this is number `rank`; sixteen bytes at a time where that
 * is possible. */
PRS_DEVICE void prs_device_copy(unsigned char *to, const unsigned char *from, uint64_t bytes,
                                uint32_t rank, uint32_t n)
{
    struct alignas(16) wide {
        uint64_t words[2];
    };
    uint64_t done = 0;
    if ((((uint64_t)to | (uint64_t)from) & 15) == 0) {
        done = bytes & ~(uint64_t)15;
        for (uint64_t at = rank; at < done / 16; at += n) {
            ((wide *)to)[at] = ((const wide *)from)[at];
        }
    }
    for (uint64_t at = done + rank; at < bytes; at += n) {
        to[at] = from[at];
    }
}

/* Release: with the acquire of perseus_signal_wait_until, there or in a kernel: the payload that
 * this thread wrote, or was synchronized with, is readable. */
PRS_DEVICE void prs_device_signal_direct(const perseus_device_pe &pe, unsigned char *heap,
                                         const uint64_t *signal, uint64_t value,
                                         enum perseus_signal_op op)
{
    uint64_t *word = (uint64_t *)(heap + ((const unsigned char *)signal - pe.heap));
    if (op == PERSEUS_SIGNAL_SET) {
        prs_store_release_sys(word, value);
    } else {
        prs_add_release_sys(word, value);
    }
}

/* ---- thread scope ---- */

PRS_DEVICE perseus_status perseus_put_nbi(const perseus_device_pe &pe, void *dst, const void *src,
                                          uint64_t bytes, int target)
{
    const auto make = [&](prs_desc *desc) {
        return prs_device_fill_put(pe, dst, src, bytes, target, desc);
    };
    unsigned char *heap = prs_device_direct(pe, target);
    if (heap == nullptr && bytes > 0) {
        return prs_device_send(pe, true, make);
    }
    prs_desc unused = {};
    const perseus_status status = make(&unused);
    if (status == PERSEUS_OK && bytes > 0) {
        prs_device_copy(heap + ((unsigned char *)dst - pe.heap), (const unsigned char *)src, bytes,
                        0, 1);
    }
    return status;
}

PRS_DEVICE perseus_status perseus_signal_op_nbi(const perseus_device_pe &pe, uint64_t *signal,
                                                uint64_t value, enum perseus_signal_op op,
                                                int target)
{
    const auto make = [&](prs_desc *desc) {
        return prs_device_fill_signal(pe, signal, value, op, target, desc);
    };
    unsigned char *heap = prs_device_direct(pe, target);
    if (heap == nullptr) {
        return prs_device_send(pe, false, make);
    }
    prs_desc unused = {};
    const perseus_status status = make(&unused);
    if (status == PERSEUS_OK) {
        prs_device_signal_direct(pe, heap, signal, value, op);
    }
    return status;
}

PRS_DEVICE perseus_status perseus_put_signal_nbi(const perseus_device_pe &pe, void *dst,
                                                 const void *src, uint64_t bytes, uint64_t *signal,
                                                 uint64_t value, enum perseus_signal_op op,
                                                 int target)
{
    if (bytes == 0) {
        return perseus_signal_op_nbi(pe, signal, value, op, target);
    }
    const auto make = [&](prs_desc *desc) {
        const perseus_status status = prs_device_fill_put(pe, dst, src, bytes, target, desc);
        return status == PERSEUS_OK ? prs_device_fill_signal(pe, signal, value, op, target, desc)
                                    : status;
    };
    unsigned char *heap = prs_device_direct(pe, target);
    if (heap == nullptr) {
        return prs_device_send(pe, true, make);
    }
    prs_desc unused = {};
    const perseus_status status = make(&unused);
    if (status == PERSEUS_OK) {
        prs_device_copy(heap + ((unsigned char *)dst - pe.heap), (const unsigned char *)src, bytes,
                        0, 1);
        prs_device_signal_direct(pe, heap, signal, value, op);
    }
    return status;
}

/* Orders this thread's puts and signals, and those it was synchronized with, to every PE. */
PRS_DEVICE perseus_status perseus_fence(const perseus_device_pe &pe)
{
    prs_fence_sys(); /* for peers that stores reach */
    return prs_device_push(pe, prs_device_order_desc(PRS_DESC_FENCE, PRS_DESC_NO_TICKET), false);
}

/* An answer slot of our own. Acquire: with the release of whoever had it last. */
PRS_DEVICE perseus_status prs_device_take_answer(const perseus_device_pe &pe, uint32_t *out_slot,
                                                 uint32_t *out_use)
{
    const uint64_t deadline = prs_now_ns() + pe.timeout_ms * PRS_NS_PER_MS;
    do {
        for (uint32_t i = 0; i < pe.n_answers; i++) {
            uint32_t old = prs_or_acquire_gpu(&pe.answer_uses[i], PRS_ANSWER_TAKEN);
            if ((old & PRS_ANSWER_TAKEN) == 0) {
                *out_slot = i;
                *out_use = (old + 1) & ~PRS_ANSWER_TAKEN;
                return PERSEUS_OK;
            }
        }
        prs_pause(PRS_ROOM_PAUSE_NS_MAX);
    } while (prs_now_ns() < deadline);
    prs_device_report(pe, PERSEUS_DEVICE_FAULT_ANSWER, -1, pe.n_answers, 0, 0);
    return PERSEUS_TIMEOUT;
}

/* All that this thread submitted, or was synchronized with, is complete: delivered, its sources
 * free. Returns the first error of any PE, and from then on always. */
PRS_DEVICE perseus_status perseus_quiet(const perseus_device_pe &pe)
{
    uint32_t slot = 0, use = 0;
    perseus_status status = prs_device_take_answer(pe, &slot, &use);
    if (status != PERSEUS_OK) {
        return status;
    }
    const uint32_t ticket = prs_answer_ticket(slot, use);
    const uint64_t deadline = prs_now_ns() + pe.timeout_ms * PRS_NS_PER_MS;
    prs_fence_sys();
    status = prs_device_push(pe, prs_device_order_desc(PRS_DESC_QUIET, ticket), false);
    if (status != PERSEUS_OK) {
        return status; /* the slot stays taken: the ring is broken */
    }
    const prs_answer *answer = &pe.answers[slot];
    uint32_t found = prs_load_acquire_sys(&answer->ticket); /* with prs_answer_give */
    uint32_t pause = PRS_ROOM_PAUSE_NS; /* looks across PCIe delay the copies that are waited for */
    while (found != ticket) {
        if (prs_now_ns() >= deadline) {
            /* The slot stays taken, for the answer may come yet. */
            prs_device_report(pe, PERSEUS_DEVICE_FAULT_ANSWER, -1, slot, found, ticket);
            return PERSEUS_TIMEOUT;
        }
        prs_pause(pause);
        pause = pause < PRS_ROOM_PAUSE_NS_MAX ? 2 * pause : pause;
        found = prs_load_acquire_sys(&answer->ticket);
    }
    status = (perseus_status)answer->status;
    prs_store_release_gpu(&pe.answer_uses[slot], use);
    return status;
}

/* ---- waiting ---- */

PRS_DEVICE bool prs_device_compare(uint64_t seen, perseus_cmp cmp, uint64_t value)
{
    switch (cmp) {
    case PERSEUS_CMP_EQ:
        return seen == value;
    case PERSEUS_CMP_NE:
        return seen != value;
    case PERSEUS_CMP_GT:
        return seen > value;
    case PERSEUS_CMP_GE:
        return seen >= value;
    case PERSEUS_CMP_LT:
        return seen < value;
    case PERSEUS_CMP_LE:
        return seen <= value;
    }
    return false;
}

/* Waits for a word of this PE's heap; the payload of the signal is readable on return. `peer`, for
 * the report alone, is who is to send it, -1 for anybody. TIMEOUT after timeout_ms: then *pe.fault
 * names the word, the peer, what is there and what was awaited, and the kernel goes on, to its end.
 *
 * Acquire at system scope, with the release that stands behind the word: a peer GPU's store, or the
 * copy engine's write, which the fabric put behind the payload. Not a volatile load: that orders
 * nothing behind it. */
PRS_DEVICE perseus_status perseus_signal_wait_until(const perseus_device_pe &pe,
                                                    const uint64_t *signal, perseus_cmp cmp,
                                                    uint64_t value, uint32_t timeout_ms, int peer)
{
    const uint64_t deadline = prs_now_ns() + timeout_ms * PRS_NS_PER_MS;
    uint64_t seen = prs_load_acquire_sys(signal);
    while (!prs_device_compare(seen, cmp, value)) {
        if (prs_now_ns() >= deadline) {
            prs_device_report(pe, PERSEUS_DEVICE_FAULT_SIGNAL, peer,
                              (uint64_t)((const unsigned char *)signal - pe.heap), seen, value);
            return PERSEUS_TIMEOUT;
        }
        prs_relax();
        seen = prs_load_acquire_sys(signal);
    }
    return PERSEUS_OK;
}

/* ---- signal groups ---- */

/* The descriptor `part` of a round: the fence, a signal, a vector, or values of one. */
PRS_DEVICE void prs_device_group_fill(const perseus_device_group *group, uint32_t part,
                                      const uint64_t *values, prs_desc_slot *filled)
{
    const perseus_device_part where = group->parts[part];
    if (where.member == PERSEUS_DEVICE_PART_FENCE) {
        *filled = prs_device_order_desc(PRS_DESC_FENCE, PRS_DESC_NO_TICKET);
        return;
    }
    if (where.first > 0) {
        prs_desc_take_values(filled, values + where.member + where.first - 1, where.n);
        return;
    }
    const perseus_device_member member = group->members[where.member];
    filled->desc.kind = where.n == 1 ? PRS_DESC_SIGNAL : PRS_DESC_SIGNAL_VECTOR;
    filled->desc.sub = (uint8_t)group->op;
    filled->desc.peer = member.target;
    filled->desc.ticket = PRS_DESC_NO_TICKET;
    filled->desc.remote = member.signal;
    filled->desc.bytes = where.n * sizeof(uint64_t);
    filled->desc.value = values[where.member];
}

/* Every member's signal, behind one fence, in as few pieces as the ring takes. */
PRS_DEVICE perseus_status prs_device_group_lead(const perseus_device_pe &pe,
                                                perseus_device_group *group, uint32_t parity,
                                                uint32_t lane, uint32_t lanes)
{
    const uint64_t *values = group->values + (uint64_t)parity * group->n;
    perseus_status status = PERSEUS_OK;
    for (uint32_t from = 0; from < group->n_parts && status == PERSEUS_OK;) {
        const uint32_t end = group->parts[from].piece_end;
        status = prs_device_push_many(pe, end - from, lane, lanes,
                                      [group, from, values](uint32_t i, prs_desc_slot &filled) {
                                          prs_device_group_fill(group, from + i, values, &filled);
                                      });
        from = end;
    }
    return status;
}

/* The member's value, and whether it was the round's last. Acquire and release at gpu scope on the
 * round's counter: the leader has every member's value, and its fence claims its place in the ring
 * behind every member's puts. */
PRS_DEVICE bool prs_device_group_count(perseus_device_group *group, uint32_t member, uint64_t value,
                                       uint32_t round)
{
    const uint32_t parity = round & 1;
    group->values[(uint64_t)parity * group->n + member] = value;
    group->rounds[member] = round + 1;
    if (prs_add_acq_rel_gpu(&group->arrived[parity], 1) + 1 != group->n) {
        return false;
    }
    group->arrived[parity] = 0; /* handed on by the release of signaled */
    return true;
}

/* The leader of the round before is done. */
PRS_DEVICE perseus_status prs_device_group_await(const perseus_device_pe &pe,
                                                 const perseus_device_group *group, uint32_t member,
                                                 uint32_t round)
{
    const uint64_t deadline = prs_now_ns() + pe.timeout_ms * PRS_NS_PER_MS;
    while (prs_load_relaxed_gpu(&group->signaled) != round) {
        if (prs_now_ns() >= deadline) {
            prs_device_report(pe, PERSEUS_DEVICE_FAULT_GROUP, -1, member,
                              prs_load_relaxed_gpu(&group->signaled), round);
            return PERSEUS_TIMEOUT;
        }
        prs_pause(PRS_ROOM_PAUSE_NS);
    }
    prs_fence_gpu(); /* acquire, with the release of signaled: its descriptors come before ours */
    return PERSEUS_OK;
}

/* A member's arrival, behind its puts, by a thread or by a warp. The last one of the round leads;
 * all others return at once. */
PRS_DEVICE perseus_status prs_device_group_arrive(const perseus_device_pe &pe,
                                                  perseus_device_group *group, uint32_t member,
                                                  uint64_t value, uint32_t lane, uint32_t lanes)
{
    uint64_t is_last = 0, status = PERSEUS_OK, round = 0;
    if (lane == 0) {
        round = group->rounds[member];
        is_last = prs_device_group_count(group, member, value, (uint32_t)round);
        status = is_last ? prs_device_group_await(pe, group, member, (uint32_t)round) : PERSEUS_OK;
    }
    if (prs_device_share(is_last, lanes) == 0) {
        return PERSEUS_OK;
    }
    status = prs_device_share(status, lanes);
    round = prs_device_share(round, lanes);
    if (status != PERSEUS_OK) {
        return (perseus_status)status;
    }
    if (lane != 0) {
        prs_fence_gpu(); /* acquire, as the first lane's: the members' values */
    }
    status = prs_device_group_lead(pe, group, (uint32_t)round & 1, lane, lanes);
    prs_device_share(status, lanes); /* all lanes have read the values and stored what they made */
    if (lane == 0) {
        prs_store_release_gpu(&group->signaled, (uint32_t)round + 1);
    }
    return (perseus_status)status;
}

PRS_DEVICE bool prs_device_group_is_ahead(const perseus_device_group *group, uint32_t member)
{
    /* Acquire: with the release of signaled, which freed this parity. */
    return group->rounds[member] - prs_load_acquire_gpu(&group->signaled) >= 2;
}

/* One put of `member`, then its arrival with the signal value of this round; bytes may be 0. One
 * member by one thread at a time. */
PRS_DEVICE perseus_status perseus_signal_group_put(const perseus_device_pe &pe,
                                                   perseus_device_group *group, uint32_t member,
                                                   void *dst, const void *src, uint64_t bytes,
                                                   uint64_t value)
{
    if (prs_device_group_is_ahead(group, member)) {
        return PERSEUS_AGAIN;
    }
    perseus_status status =
        perseus_put_nbi(pe, dst, src, bytes, (int)group->members[member].target);
    return status == PERSEUS_OK ? prs_device_group_arrive(pe, group, member, value, 0, 1) : status;
}

#ifdef __CUDACC__
#include <perseus/device/scopes.cuh>
#endif

#endif
