/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round.cuh: what dispatch and combine share: who this thread is, where things lie, and how the
 * CTAs of a PE wait for each other. All of it is thread code that also runs on CPUs, where a CTA is
 * one thread.
 */
#ifndef PRS_CUDA_MOE_FAR_ROUND_CUH
#define PRS_CUDA_MOE_FAR_ROUND_CUH

#include "cuda/moe/far/wire.cuh"

/* This thread: number `rank` of the `size` threads of CTA `cta`. */
struct prs_moe_crew {
    uint32_t cta, ctas, rank, size;
};

PRS_DEVICE void prs_moe_crew_sync()
{
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
}

/* What kernels take by value. */
struct prs_moe_far {
    prs_moe_far_shape shape;
    prs_moe_far_layout layout;
    prs_moe_far_own own;
    prs_moe_wire wire;
    uint32_t protocol; /* enum prs_moe_far_protocol */
    uint32_t timeout_ms;
    /* Kernels return at once: a first launch into a stream may wait for kernels that run, so it
     * must not be one that others wait for. */
    uint32_t is_idle;
};

/* In shared memory of CTA 0, or of none. */
struct prs_moe_far_scratch {
    uint32_t count[PRS_MOE_FAR_EXPERTS_MAX];
    uint32_t sum[PRS_MOE_FAR_EXPERTS_MAX];
};

/* Offsets of signal words: rows of PE `source` for expert number `of_host` of this PE, and answers
 * of an expert. The words of one host's experts are neighbours. */
PRS_DEVICE uint64_t prs_moe_far_word_arrived(const prs_moe_far_layout &layout, uint32_t source,
                                             uint32_t of_host)
{
    return layout.arrived + ((uint64_t)source * layout.hosted_max + of_host) * sizeof(uint64_t);
}

PRS_DEVICE uint64_t prs_moe_far_word_answered(const prs_moe_far_layout &layout, uint32_t expert)
{
    return layout.answered + expert * sizeof(uint64_t);
}

/* Experts are split as on the CPU (moe/plan.h): `more` PEs have one more than `each`. Divisors are
 * never 0, whatever the shape, as a kernel has nobody to tell. */
struct prs_moe_far_split {
    uint32_t each, more;
};

PRS_DEVICE prs_moe_far_split prs_moe_far_split_of(const prs_moe_far_shape &shape)
{
    const uint32_t n_pes = shape.n_pes > 0 ? shape.n_pes : 1;
    return {shape.experts / n_pes, shape.experts % n_pes};
}

PRS_DEVICE uint32_t prs_moe_far_first_of(const prs_moe_far_shape &shape, uint32_t pe)
{
    const prs_moe_far_split split = prs_moe_far_split_of(shape);
    return pe * split.each + (pe < split.more ? pe : split.more);
}

PRS_DEVICE uint32_t prs_moe_far_hosted(const prs_moe_far_shape &shape, uint32_t pe)
{
    const prs_moe_far_split split = prs_moe_far_split_of(shape);
    return split.each + (pe < split.more);
}

PRS_DEVICE uint32_t prs_moe_far_host_of(const prs_moe_far_shape &shape, uint32_t expert)
{
    const prs_moe_far_split split = prs_moe_far_split_of(shape);
    const uint32_t in_bigger = split.more * (split.each + 1);
    if (expert < in_bigger || split.each == 0) {
        return expert / (split.each + 1);
    }
    return split.more + (expert - in_bigger) / split.each;
}

/* The half of the heap that a forward uses. */
struct prs_moe_far_half {
    const prs_moe_far &far;
    uint64_t number, begin;

    PRS_MOE_MEMBER prs_moe_far_half(const prs_moe_far &of, uint64_t forward)
        : far(of), number(forward), begin(of.layout.halves[forward % PRS_MOE_FAR_HALVES])
    {
    }
    PRS_MOE_MEMBER uint64_t row(uint64_t piece, uint64_t index) const
    {
        return begin + piece + index * far.shape.hidden * 2;
    }
    PRS_MOE_MEMBER uint64_t *words(uint64_t piece) const
    {
        return (uint64_t *)far.wire.at(begin + piece);
    }
    /* How many rows PE `source` has for the expert, and where they begin in its order. */
    PRS_MOE_MEMBER uint32_t count(uint32_t source, uint32_t expert) const
    {
        return (uint32_t)(words(far.layout.counts)[source * far.shape.experts + expert] >> 32);
    }
    PRS_MOE_MEMBER uint32_t place(uint32_t source, uint32_t expert) const
    {
        return (uint32_t)words(far.layout.counts)[source * far.shape.experts + expert];
    }
};

/* Rows for an expert of the PEs before `source`, whose own follow. */
PRS_DEVICE uint32_t prs_moe_far_rows_before(const prs_moe_far_half &half, uint32_t expert,
                                            uint32_t source)
{
    uint32_t rows = 0;
    for (uint32_t pe = 0; pe < source; pe++) {
        rows += half.count(pe, expert);
    }
    return rows;
}

/* All rows of expert number `of_host` of this PE. */
PRS_DEVICE uint32_t prs_moe_far_rows_of(const prs_moe_far_half &half, uint32_t of_host)
{
    const prs_moe_far_shape &shape = half.far.shape;
    return prs_moe_far_rows_before(half, prs_moe_far_first_of(shape, shape.me) + of_host,
                                   shape.n_pes);
}

/* The first failure of a PE, for the host and for all its threads. */
PRS_DEVICE void prs_moe_far_fail(const prs_moe_far &far, perseus_status status)
{
    if (status != PERSEUS_OK) {
        prs_store_release_gpu(far.own.failed, (uint32_t)status);
    }
}

PRS_DEVICE bool prs_moe_far_goes_on(const prs_moe_far &far)
{
    return prs_load_relaxed_gpu(far.own.failed) == PERSEUS_OK;
}

PRS_DEVICE void prs_moe_far_await(const prs_moe_far_half &half, uint64_t word, uint32_t peer)
{
    prs_moe_far_fail(half.far,
                     half.far.wire.await(word, half.number + 1, half.far.timeout_ms, (int)peer));
}

/* All threads of the PE's CTAs, the `nth` time since ever. Acquire and release at gpu scope on the
 * counter: what any of them wrote before is there. */
PRS_DEVICE void prs_moe_far_meet(const prs_moe_far &far, const prs_moe_crew &crew, uint64_t nth)
{
    prs_moe_crew_sync();
    if (crew.rank == 0) {
        const uint32_t target = (uint32_t)((nth + 1) * crew.ctas);
        const uint64_t deadline = prs_now_ns() + far.timeout_ms * PRS_NS_PER_MS;
        prs_add_acq_rel_gpu(far.own.barrier, 1);
        while ((int32_t)(prs_load_acquire_gpu(far.own.barrier) - target) < 0) {
            if (prs_now_ns() >= deadline) {
                prs_moe_far_fail(far, PERSEUS_TIMEOUT);
                break;
            }
            prs_relax();
        }
    }
    prs_moe_crew_sync();
}

/* Meetings of a forward: three of its dispatch, and one behind all puts of each half where signals
 * wait for those. */
PRS_DEVICE uint64_t prs_moe_far_meeting(const prs_moe_far &far, uint64_t number, uint32_t which)
{
    return number * (far.protocol == PRS_MOE_FAR_PUT_ONLY ? 5 : 3) + which;
}

/* Put-only, all CTAs, behind their puts: CTA 0 waits until all are there, and may signal then. */
PRS_DEVICE bool prs_moe_far_signals(const prs_moe_far_half &half, const prs_moe_crew &crew,
                                    uint32_t meeting)
{
    const prs_moe_far &far = half.far;
    if (far.protocol != PRS_MOE_FAR_PUT_ONLY) {
        return false;
    }
    prs_moe_far_meet(far, crew, prs_moe_far_meeting(far, half.number, meeting));
    if (crew.cta == 0 && crew.rank == 0) {
        prs_moe_far_fail(far, far.wire.quiet());
    }
    prs_moe_crew_sync();
    return crew.cta == 0;
}

/* The expert of a choice, or -1. */
PRS_DEVICE int64_t prs_moe_far_id(const perseus_moe_cuda_input &input, uint32_t choice)
{
    return input.id_bytes == 8 ? ((const int64_t *)input.ids)[choice]
                               : ((const int32_t *)input.ids)[choice];
}

struct alignas(16) prs_moe_eight {
    uint16_t values[8]; /* bf16 */
};

#endif
