/* SPDX-License-Identifier: Apache-2.0 */
/* put_signal [all|check|check-short|ring|proxy|copies|put-signal] [GPUS]: see docs/gpu.md;
 * scripts/gpu/put-signal builds and runs it. */
#include "gpu.cuh"

int failures;

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    int gpus = 0;
    CHECK_CUDA(cudaGetDeviceCount(&gpus));
    gpus = argc > 2 && atoi(argv[2]) < gpus ? atoi(argv[2]) : gpus;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (strncmp(what, "check", 5) == 0 || strcmp(what, "all") == 0) {
        check_device(gpus < 2 ? gpus : 2, strcmp(what, "check-short") == 0);
    }
    if (strcmp(what, "ring") == 0 || strcmp(what, "all") == 0) {
        bench_ring();
    }
    if (strcmp(what, "proxy") == 0 || strcmp(what, "all") == 0) {
        bench_proxy();
    }
    if (strcmp(what, "copies") == 0 || strcmp(what, "all") == 0) {
        bench_copies(gpus < 2 ? gpus : 2);
    }
    if (strcmp(what, "put-signal") == 0 || strcmp(what, "all") == 0) {
        for (int used = 1; used <= (gpus < 2 ? gpus : 2); used++) {
            bench_put_signal(used);
        }
    }
    printf("\n%d failures\n", failures);
    return failures != 0;
}
