/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU program: nvshmem_gpu RANK SIZE ID_FILE PART... with parts sweep, alltoall, checks,
 * megakernel, group.
 *
 * Options by environment: ITERATIONS (15), BYTES_MAX of one round of the sweep (128 MiB). Exit code
 * 0 if nothing failed.
 */
#include "job.h"

#include <algorithm>
#include <string.h>
#include <string>
#include <unistd.h>

float median(float *values, int n)
{
    std::sort(values, values + n);
    return values[n / 2];
}

int sum_over_pes(int value)
{
    int *in = (int *)nvshmem_malloc(2 * sizeof(int));
    CUDA_CHECK(cudaMemcpy(in, &value, sizeof value, cudaMemcpyDefault));
    nvshmem_barrier_all();
    nvshmem_int_sum_reduce(NVSHMEM_TEAM_WORLD, in + 1, in, 1);
    nvshmem_barrier_all();
    CUDA_CHECK(cudaMemcpy(&value, in + 1, sizeof value, cudaMemcpyDefault));
    nvshmem_free(in);
    return value;
}

/* Rank 0 writes the id under a temporary name and renames it: the others never read half of it. */
static nvshmemx_uniqueid_t exchange_id(int rank, const char *path)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    if (rank == 0) {
        if (nvshmemx_get_uniqueid(&id) != 0) {
            exit(1);
        }
        std::string part = std::string(path) + ".part";
        FILE *file = fopen(part.c_str(), "wb");
        fwrite(&id, sizeof id, 1, file);
        fclose(file);
        rename(part.c_str(), path);
        return id;
    }
    for (int i = 0; i < 3000; i++) {
        FILE *file = fopen(path, "rb");
        if (file != NULL) {
            size_t got = fread(&id, sizeof id, 1, file);
            fclose(file);
            if (got == 1) {
                return id;
            }
        }
        usleep(10000);
    }
    fprintf(stderr, "no id in %s\n", path);
    exit(1);
}

static size_t number_from(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s RANK SIZE ID_FILE PART...\n", argv[0]);
        return 2;
    }
    struct job job = {atoi(argv[1]), atoi(argv[2]), (int)number_from("ITERATIONS", 15),
                      number_from("BYTES_MAX", 128 << 20), 0};
    int gpus = 0;
    CUDA_CHECK(cudaGetDeviceCount(&gpus));
    CUDA_CHECK(cudaSetDevice(job.rank % gpus));
    nvshmemx_uniqueid_t id = exchange_id(job.rank, argv[3]);
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_set_attr_uniqueid_args(job.rank, job.size, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != 0) {
        fprintf(stderr, "PE %d: NVSHMEM could not start\n", job.rank);
        return 1;
    }
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "sweep") == 0) {
            run_sweep(&job);
        } else if (strcmp(argv[i], "alltoall") == 0) {
            run_alltoall(&job);
        } else if (strcmp(argv[i], "checks") == 0) {
            run_checks(&job);
        } else if (strcmp(argv[i], "megakernel") == 0) {
            run_megakernel(&job);
        } else if (strcmp(argv[i], "group") == 0) {
            run_group(&job);
        }
        fflush(stdout);
    }
    int failures = sum_over_pes(job.failures);
    nvshmem_finalize();
    return failures == 0 ? 0 : 1;
}
