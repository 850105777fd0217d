/* SPDX-License-Identifier: Apache-2.0 */
/* put_signal [all|check|check-short|ring|proxy|copies|put-signal] [GPUS]: see docs/gpu.md;
 * scripts/gpu/put-signal builds and runs it. */
#include "bench.h"
#include "gpu.cuh"

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    const bool is_all = strcmp(what, "all") == 0;
    int gpus = 0, failures = 0;
    CHECK_CUDA(cudaGetDeviceCount(&gpus));
    gpus = argc > 2 && atoi(argv[2]) < gpus ? atoi(argv[2]) : gpus;
    gpus = gpus < 2 ? gpus : 2;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (strncmp(what, "check", 5) == 0 || is_all) {
        failures += check_device(gpus, strcmp(what, "check-short") == 0);
    }
    if (strcmp(what, "ring") == 0 || is_all) {
        failures += !bench_ring(nullptr, nullptr);
    }
    if (strcmp(what, "proxy") == 0 || is_all) {
        bench_proxy();
    }
    if (strcmp(what, "copies") == 0 || is_all) {
        bench_copies(gpus);
    }
    for (int used = 1; used <= gpus && (strcmp(what, "put-signal") == 0 || is_all); used++) {
        static const uint32_t bytes[] = {4096, 16384, 65536};
        failures += !bench_put_signal(used, bytes, 3, nullptr, nullptr);
    }
    printf("\n%d failures\n", failures);
    return failures != 0;
}
