/* SPDX-License-Identifier: Apache-2.0 */
/* job.h: what the parts of the GPU program share. One process per GPU; an ordinary NVSHMEM program,
 * built against whatever NVSHMEM is there, that knows nothing of the transport below it. */
#ifndef JOB_H
#define JOB_H

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA_CHECK(call)                                                                   \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

struct job {
    int rank, size;
    int iterations;
    size_t bytes_max; /* of one round of a sweep */
    int failures;     /* of this PE */
};

/* Each prints a line of JSON per result (PE 0) and adds to job->failures. */
void run_sweep(struct job *job);
void run_alltoall(struct job *job);
void run_checks(struct job *job);
void run_megakernel(struct job *job);
void run_group(struct job *job);

/* Median of n values; sorts them. */
float median(float *values, int n);
/* Sum of `value` over all PEs, on every PE. */
int sum_over_pes(int value);

#endif
