/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device/ring.cuh: how descriptors get from a GPU's threads to the proxy.
 *
 * Claim. One atomic add on the tail, in this GPU's memory, claims positions for all threads of a
 * warp that are here together. Relaxed is enough: positions are all that it hands out. What must
 * stay in order (a fence behind its puts) is in order in the tail's own history, because the claim
 * of the later one happens after the claim of the earlier.
 *
 * Room. A claim may run ahead of the consumer by any number of threads, so its owner waits until
 * the slot is free: known_head, in this GPU's memory, is a copy of the head across PCIe, and one
 * thread at a time renews it. That thread's acquire of the head pairs with the release in
 * prs_ring_release: the consumer reads the slots below it no more. It hands that on by the release
 * of known_head, with the acquire of those that wait.
 *
 * Publish. Between the payload and its descriptor stands a fence at system scope, by each thread
 * whose payload it is or that was synchronized with those (a warp, a block): the proxy, which
 * acquires the turns, and whatever engine it then sets to work, are outside of this GPU. A fence at
 * gpu scope is enough on today's hardware for engines that read through this GPU's L2, but no model
 * says so. Each quarter of the descriptor is stored whole with its turn, relaxed: fence and store
 * make the release that pairs with the acquire in prs_ring_peek, and the quarters need no order
 * among themselves.
 */
#ifndef PERSEUS_DEVICE_RING_CUH
#define PERSEUS_DEVICE_RING_CUH

#include <perseus/device/memory.cuh>
#include <perseus/device/pe.h>

#define PRS_ROOM_PAUSE_NS     100u
#define PRS_ROOM_PAUSE_NS_MAX 4000u

/* ---- reporting what ends a wait ---- */

PRS_DEVICE void prs_device_report(const perseus_device_pe &pe, uint32_t kind, int32_t peer,
                                  uint64_t slot, uint64_t found, uint64_t expected)
{
    if (prs_or_acquire_gpu(pe.fault_taken, 1) != 0) {
        return; /* the first one tells */
    }
    perseus_device_fault *fault = pe.fault;
    fault->peer = peer;
    fault->slot = slot;
    fault->found = found;
    fault->expected = expected;
#ifdef __CUDA_ARCH__
    fault->block = blockIdx.x;
    fault->thread = threadIdx.x;
#endif
    prs_store_release_sys(&fault->kind, kind); /* with the acquire of the host's look */
}

/* ---- room ---- */

PRS_DEVICE void prs_device_renew_head(const prs_ring &ring)
{
    prs_ring_producers *producers = ring.producers;
    if (prs_or_acquire_gpu(&producers->is_looking, 1) != 0) {
        return; /* somebody else's look is as good */
    }
    /* One looker at a time, and heads only grow: never older than what is there. */
    uint64_t head = prs_load_acquire_sys(&ring.head->head);
    prs_store_release_gpu(&producers->known_head, head);
    prs_store_release_gpu(&producers->is_looking, (uint32_t)0);
}

/* Whether the slots of [.., end) are free; waits for it until the deadline. */
PRS_DEVICE bool prs_device_room(const perseus_device_pe &pe, uint64_t end)
{
    const prs_ring &ring = pe.ring;
    uint64_t known = prs_load_acquire_gpu(&ring.producers->known_head);
    if (prs_ring_fits(&ring, end, known)) {
        return true;
    }
    const uint64_t deadline = prs_now_ns() + pe.timeout_ms * PRS_NS_PER_MS;
    uint32_t pause = PRS_ROOM_PAUSE_NS;
    while (!prs_ring_fits(&ring, end, known)) {
        /* Those far behind leave the looking, and the bandwidth, to those in front. */
        if (end - known <= 2 * (uint64_t)ring.n_slots) {
            prs_device_renew_head(ring);
        }
        known = prs_load_acquire_gpu(&ring.producers->known_head);
        if (prs_ring_fits(&ring, end, known)) {
            break;
        }
        if (prs_load_relaxed_gpu(&ring.producers->is_broken) != 0 || prs_now_ns() >= deadline) {
            prs_store_release_gpu(&ring.producers->is_broken, (uint32_t)1);
            prs_device_report(pe, PERSEUS_DEVICE_FAULT_RING, -1, end, known, end - ring.n_slots);
            return false;
        }
        prs_pause(pause);
        pause = pause < PRS_ROOM_PAUSE_NS_MAX ? 2 * pause : pause;
    }
    return true;
}

/* ---- claiming ---- */

struct prs_device_claim {
    uint64_t first, known_head;
};

/* The claim, and a look at known_head that is under way together with it and with the fence that
 * follows: that fence makes it an acquire. */
PRS_DEVICE prs_device_claim prs_device_claim_slots(const prs_ring &ring, uint32_t n)
{
    prs_device_claim claim;
    claim.known_head = prs_load_relaxed_gpu(&ring.producers->known_head);
    claim.first = prs_add_relaxed_gpu(&ring.producers->tail, n);
    return claim;
}

/* The fence between payload and descriptor, or, where there is none, what the claim's
 * look needs. */
PRS_DEVICE void prs_device_fence_claim(bool has_payload)
{
    if (has_payload) {
        prs_fence_sys();
    } else {
        prs_fence_gpu();
    }
}

PRS_DEVICE bool prs_device_claim_room(const perseus_device_pe &pe, const prs_device_claim &claim,
                                      uint32_t n)
{
    return prs_ring_fits(&pe.ring, claim.first + n, claim.known_head) ||
           prs_device_room(pe, claim.first + n);
}

/* ---- publishing ---- */

PRS_DEVICE prs_desc_quarter prs_device_turned(const prs_desc_slot &filled, uint32_t quarter,
                                              uint16_t turn)
{
    prs_desc_quarter turned = filled.quarters[quarter];
    turned.turn = turn;
    return turned;
}

/* All four quarters by the calling thread. */
PRS_DEVICE void prs_device_store(const prs_ring &ring, uint64_t position,
                                 const prs_desc_slot &filled)
{
    prs_desc_slot *slot = prs_ring_slot(&ring, position);
    const uint16_t turn = prs_ring_turn(&ring, position);
#pragma unroll
    for (uint32_t i = 0; i < PRS_DESC_QUARTERS; i++) {
        prs_store_quarter(&slot->quarters[i], prs_device_turned(filled, i, turn));
    }
}

#ifdef __CUDACC__

PRS_DEVICE uint32_t prs_device_lane()
{
    uint32_t lane;
    asm("mov.u32 %0, %laneid;" : "=r"(lane));
    return lane;
}

PRS_DEVICE uint64_t prs_shuffle(uint32_t mask, uint64_t value, uint32_t lane)
{
    return __shfl_sync(mask, (unsigned long long)value, (int)lane);
}

/* A descriptor of each lane of `mask`, which are the lanes below `n`, n at least 4, at consecutive
 * positions from `first` on: four lanes store one together, so that a store instruction of the warp
 * is whole lines. */
PRS_DEVICE void prs_device_store_together(const prs_ring &ring, uint32_t mask, uint32_t n,
                                          uint64_t first, const prs_desc_slot &filled)
{
    const uint32_t lane = prs_device_lane(), mine = lane % PRS_DESC_QUARTERS;
    const uint32_t at_once = n / PRS_DESC_QUARTERS;
    for (uint32_t base = 0; base < n; base += at_once) {
        const uint32_t from = base + lane / PRS_DESC_QUARTERS;
        const uint32_t source = from < n ? from : 0;
        uint64_t low = 0, high = 0;
#pragma unroll
        for (uint32_t i = 0; i < PRS_DESC_QUARTERS; i++) {
            const prs_desc_quarter &quarter = filled.quarters[i];
            uint64_t word = (uint64_t)quarter.a << 16 | (uint64_t)quarter.b << 32;
            uint64_t low_i = prs_shuffle(mask, word, source);
            uint64_t high_i = prs_shuffle(mask, quarter.c, source);
            low = mine == i ? low_i : low;
            high = mine == i ? high_i : high;
        }
        if (from < n && lane / PRS_DESC_QUARTERS < at_once) {
            const uint64_t position = first + from;
            prs_desc_quarter quarter;
            quarter.turn = prs_ring_turn(&ring, position);
            quarter.a = (uint16_t)(low >> 16);
            quarter.b = (uint32_t)(low >> 32);
            quarter.c = high;
            prs_store_quarter(&prs_ring_slot(&ring, position)->quarters[mine], quarter);
        }
    }
}

#endif

/* ---- sending ---- */

/* What takes the place of a request that is malformed, as the claim is made before the request is
 * looked at: a fence to the own PE, which orders nothing that anybody could see. */
PRS_DEVICE prs_desc_slot prs_device_nothing(const perseus_device_pe &pe)
{
    prs_desc_slot filled = {};
    filled.desc.kind = PRS_DESC_FENCE;
    filled.desc.peer = (uint32_t)pe.my_pe;
    filled.desc.ticket = PRS_DESC_NO_TICKET;
    return filled;
}

/* One descriptor of each calling thread; those of a warp that call together go together. The claim
 * is a round trip to the L2, and make(&desc), which fills in the request or says what is wrong with
 * it, runs meanwhile. `has_payload`: there is some in front of them. */
template <class Make>
PRS_DEVICE perseus_status prs_device_send(const perseus_device_pe &pe, bool has_payload, Make make)
{
    prs_desc_slot filled = {};
    prs_device_claim claim = {};
#ifdef __CUDA_ARCH__
    const uint32_t mask = __activemask(), n = __popc(mask), lane = prs_device_lane();
    const uint32_t leader = __ffs(mask) - 1;
    if (lane == leader) {
        claim = prs_device_claim_slots(pe.ring, n);
    }
    const perseus_status made = make(&filled.desc);
    if (made != PERSEUS_OK) {
        filled = prs_device_nothing(pe);
    }
    __syncwarp(mask);
    prs_device_fence_claim(has_payload); /* each thread's own payload */
    int has_room = lane == leader && prs_device_claim_room(pe, claim, n);
    const uint64_t first = prs_shuffle(mask, claim.first, leader);
    if (__shfl_sync(mask, has_room, leader) == 0) {
        return PERSEUS_TIMEOUT;
    }
    if (n >= PRS_DESC_QUARTERS && (mask & (mask + 1)) == 0) {
        prs_device_store_together(pe.ring, mask, n, first, filled);
    } else {
        prs_device_store(pe.ring, first + __popc(mask & ((1u << lane) - 1)), filled);
    }
#else
    claim = prs_device_claim_slots(pe.ring, 1);
    const perseus_status made = make(&filled.desc);
    if (made != PERSEUS_OK) {
        filled = prs_device_nothing(pe);
    }
    prs_device_fence_claim(has_payload);
    if (!prs_device_claim_room(pe, claim, 1)) {
        return PERSEUS_TIMEOUT;
    }
    prs_device_store(pe.ring, claim.first, filled);
#endif
    return made;
}

/* The same, of one that is filled in already. */
PRS_DEVICE perseus_status prs_device_push(const perseus_device_pe &pe, const prs_desc_slot &filled,
                                          bool has_payload)
{
    return prs_device_send(pe, has_payload, [&filled](prs_desc *desc) {
        *desc = filled.desc;
        return PERSEUS_OK;
    });
}

/* What the first of `lanes` threads has, to all: the whole warp, or that thread alone. */
PRS_DEVICE uint64_t prs_device_share(uint64_t value, uint32_t lanes)
{
#ifdef __CUDA_ARCH__
    return lanes == 1 ? value : prs_shuffle(0xffffffffu, value, 0);
#else
    (void)lanes;
    return value;
#endif
}

/* `n` descriptors at consecutive positions, n at most the ring's slots, by `lanes` threads, a warp
 * or one, of which this is number `lane`. fill(i, slot) makes the i-th. No payload is in front of
 * them that an earlier descriptor does not cover. */
template <class Fill>
PRS_DEVICE perseus_status prs_device_push_many(const perseus_device_pe &pe, uint32_t n,
                                               uint32_t lane, uint32_t lanes, Fill fill)
{
    uint64_t first = 0, has_room = 0;
    if (lane == 0) {
        first = prs_add_relaxed_gpu(&pe.ring.producers->tail, n);
        has_room = prs_device_room(pe, first + n);
    }
    first = prs_device_share(first, lanes);
    if (prs_device_share(has_room, lanes) == 0) {
        return PERSEUS_TIMEOUT;
    }
    for (uint32_t i = lane; i < n; i += lanes) {
        prs_desc_slot filled = {};
        fill(i, filled);
        prs_fence_gpu(); /* acquire, of all lanes: with what the first one's look at the head had */
        prs_device_store(pe.ring, first + i, filled);
    }
    return PERSEUS_OK;
}

#ifdef __CUDACC__

/* One descriptor of the whole warp, all of whose lanes are here with the same arguments. */
template <class Make>
PRS_DEVICE perseus_status prs_device_send_warp(const perseus_device_pe &pe, bool has_payload,
                                               Make make)
{
    const uint32_t lane = prs_device_lane();
    prs_desc_slot filled = {};
    prs_device_claim claim = {};
    if (lane == 0) {
        claim = prs_device_claim_slots(pe.ring, 1);
    }
    const perseus_status made = make(&filled.desc);
    if (made != PERSEUS_OK) {
        filled = prs_device_nothing(pe);
    }
    __syncwarp(); /* what the other lanes wrote is before the fences below */
    if (lane < PRS_DESC_QUARTERS) {
        prs_device_fence_claim(has_payload);
    }
    int has_room = lane == 0 && prs_device_claim_room(pe, claim, 1);
    const uint64_t position = prs_shuffle(0xffffffffu, claim.first, 0);
    has_room = __shfl_sync(0xffffffffu, has_room, 0);
    if (has_room && lane < PRS_DESC_QUARTERS) {
        prs_desc_quarter quarter = filled.quarters[0];
#pragma unroll
        for (uint32_t i = 1; i < PRS_DESC_QUARTERS; i++) { /* no array indexed at run time */
            quarter = lane == i ? filled.quarters[i] : quarter;
        }
        quarter.turn = prs_ring_turn(&pe.ring, position);
        prs_store_quarter(&prs_ring_slot(&pe.ring, position)->quarters[lane], quarter);
    }
    return has_room ? made : PERSEUS_TIMEOUT;
}

#endif

#endif
