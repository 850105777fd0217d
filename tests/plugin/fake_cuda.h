/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.h: enough of the CUDA driver to test staging on a machine without a GPU. It is a
 * library with the driver's SONAME, which is how transports find it without a table.
 *
 * Device memory is not readable or writable at its own address: touching it from the CPU is a
 * crash, as it should be; tests look through a second mapping, as GPU threads would. Streams are
 * threads that execute copies in order and late. Copies between device memory and host memory that
 * is not page-locked, and calls from threads without a current context, are counted as faults.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "base/export.h"
#include "host.h"

/* What a host of interface `major` hands to init. */
PRS_PUBLIC const struct prs_abi_cuda_table *fake_cuda_table(int major);
PRS_PUBLIC extern const struct host_memory fake_cuda_memory;

/* A PE's user thread calls it first: NVSHMEM makes a context current before it loads a
 * transport. */
PRS_PUBLIC void fake_cuda_enter(void);
/* Makes every later page-locking fail, or not. */
PRS_PUBLIC void fake_cuda_refuse_pinning(bool refuse);

/* Copies do not return from the driver, as while another thread is in a synchronous call. */
PRS_PUBLIC void fake_cuda_hold(bool now);
/* Every later copy and event has this error, as after a kernel that failed; 0: none. */
PRS_PUBLIC void fake_cuda_break(int error);
/* Whether the GPU has native atomics on system memory. */
PRS_PUBLIC void fake_cuda_give_atomics(bool now);

#endif
