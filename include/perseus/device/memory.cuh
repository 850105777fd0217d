/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device/memory.cuh: the memory operations that the device code is made of, each named by
 * its order and scope. On the GPU they are PTX; elsewhere (tests) the compiler's atomics, so that
 * the same code runs with CPU threads in place of CTAs.
 *
 * Scopes: "gpu" is between threads of one GPU; "sys" includes the CPU, the copy engines and other
 * GPUs.
 */
#ifndef PERSEUS_DEVICE_MEMORY_CUH
#define PERSEUS_DEVICE_MEMORY_CUH

#include <sched.h>
#include <time.h>

#include <perseus/device/layout.h>

#ifdef __CUDACC__
#define PRS_DEVICE __device__ static inline
#else
#define PRS_DEVICE static inline
#endif

#define PRS_NS_PER_MS 1000000ull

#ifdef __CUDA_ARCH__

PRS_DEVICE uint64_t prs_load_acquire_sys(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

PRS_DEVICE uint32_t prs_load_acquire_sys(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

PRS_DEVICE uint64_t prs_load_acquire_gpu(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

PRS_DEVICE uint32_t prs_load_acquire_gpu(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

PRS_DEVICE void prs_store_release_gpu(uint64_t *at, uint64_t value)
{
    asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}

PRS_DEVICE void prs_store_release_sys(uint64_t *at, uint64_t value)
{
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}

PRS_DEVICE void prs_store_release_sys(uint32_t *at, uint32_t value)
{
    asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

PRS_DEVICE void prs_fence_sys()
{
    asm volatile("fence.acq_rel.sys;" : : : "memory");
}

PRS_DEVICE void prs_fence_gpu()
{
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

PRS_DEVICE uint64_t prs_add_relaxed_gpu(uint64_t *at, uint64_t value)
{
    return atomicAdd((unsigned long long *)at, (unsigned long long)value);
}

PRS_DEVICE uint32_t prs_add_acq_rel_gpu(uint32_t *at, uint32_t value)
{
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(value)
                 : "memory");
    return old;
}

PRS_DEVICE uint64_t prs_add_release_sys(uint64_t *at, uint64_t value)
{
    uint64_t old;
    asm volatile("atom.release.sys.add.u64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(at), "l"(value)
                 : "memory");
    return old;
}

PRS_DEVICE uint32_t prs_or_acquire_gpu(uint32_t *at, uint32_t value)
{
    uint32_t old;
    asm volatile("atom.acquire.gpu.or.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(value)
                 : "memory");
    return old;
}

PRS_DEVICE void prs_store_release_gpu(uint32_t *at, uint32_t value)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

PRS_DEVICE uint32_t prs_load_relaxed_gpu(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

PRS_DEVICE uint64_t prs_load_relaxed_gpu(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

/* Sixteen bytes in one piece. */
PRS_DEVICE void prs_store_quarter(prs_desc_quarter *at, const prs_desc_quarter &quarter)
{
    const uint64_t low = quarter.turn | (uint64_t)quarter.a << 16 | (uint64_t)quarter.b << 32;
    asm volatile("{\n\t.reg .b128 whole;\n\tmov.b128 whole, {%1, %2};\n\t"
                 "st.relaxed.sys.global.b128 [%0], whole;\n\t}"
                 :
                 : "l"(__cvta_generic_to_global(at)), "l"(low), "l"(quarter.c)
                 : "memory");
}

PRS_DEVICE uint64_t prs_now_ns()
{
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

PRS_DEVICE void prs_pause(uint32_t ns)
{
    __nanosleep(ns);
}

/* Between two looks at a word. */
PRS_DEVICE void prs_relax()
{
}

#else

template <class T> PRS_DEVICE T prs_load_acquire_sys(const T *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

template <class T> PRS_DEVICE T prs_load_acquire_gpu(const T *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

template <class T> PRS_DEVICE void prs_store_release_gpu(T *at, T value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

template <class T> PRS_DEVICE void prs_store_release_sys(T *at, T value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

PRS_DEVICE void prs_fence_sys()
{
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
}

PRS_DEVICE void prs_fence_gpu()
{
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
}

PRS_DEVICE uint64_t prs_add_relaxed_gpu(uint64_t *at, uint64_t value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

PRS_DEVICE uint32_t prs_add_acq_rel_gpu(uint32_t *at, uint32_t value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL);
}

PRS_DEVICE uint64_t prs_add_release_sys(uint64_t *at, uint64_t value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_RELEASE);
}

PRS_DEVICE uint32_t prs_or_acquire_gpu(uint32_t *at, uint32_t value)
{
    return __atomic_fetch_or(at, value, __ATOMIC_ACQUIRE);
}

template <class T> PRS_DEVICE T prs_load_relaxed_gpu(const T *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* A CPU's 16 bytes are two words; the one with the turn comes last. */
PRS_DEVICE void prs_store_quarter(prs_desc_quarter *at, const prs_desc_quarter &quarter)
{
    at->a = quarter.a;
    at->b = quarter.b;
    at->c = quarter.c;
    __atomic_store_n(&at->turn, quarter.turn, __ATOMIC_RELEASE);
}

PRS_DEVICE uint64_t prs_now_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

PRS_DEVICE void prs_pause(uint32_t ns)
{
    struct timespec pause = {0, (long)ns};
    nanosleep(&pause, nullptr);
}

PRS_DEVICE void prs_relax()
{
    sched_yield();
}

#endif

#endif
