/* SPDX-License-Identifier: Apache-2.0 */
#include "gpus.h"

#include <stdio.h>

#include "cuda/driver.h"

#define NAME_BYTES 96

static int attribute_of(const struct prs_gpu *cuda, enum prs_gpu_value attribute, int gpu)
{
    int value = 0;
    return cuda->call.device_attribute(&value, attribute, gpu) == PRS_CUDA_SUCCESS ? value : 0;
}

/* The GPUs that this one's copy engines and stores reach directly. */
static json_t *reached_from(const struct prs_gpu *cuda, int gpu)
{
    json_t *peers = json_array();
    for (int other = 0; other < cuda->devices; other++) {
        int can = 0;
        if (other != gpu &&
            cuda->call.device_can_access_peer(&can, gpu, other) == PRS_CUDA_SUCCESS && can != 0) {
            json_array_append_new(peers, json_integer(other));
        }
    }
    return peers;
}

static json_t *describe(const struct prs_gpu *cuda, int gpu)
{
    char name[NAME_BYTES] = "";
    (void)cuda->call.device_name(name, sizeof name, gpu);
    return json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:o}", "gpu", gpu, "name", name, "major",
                     attribute_of(cuda, PRS_CUDA_DEVICE_CAPABILITY_MAJOR, gpu), "minor",
                     attribute_of(cuda, PRS_CUDA_DEVICE_CAPABILITY_MINOR, gpu), "multiprocessors",
                     attribute_of(cuda, PRS_CUDA_DEVICE_PROCESSORS, gpu), "copy_engines",
                     attribute_of(cuda, PRS_CUDA_DEVICE_COPY_ENGINES, gpu), "reaches",
                     reached_from(cuda, gpu));
}

json_t *prs_gpus_list(void)
{
    struct prs_gpu *cuda = NULL;
    json_t *gpus = json_array();
    if (prs_gpu_open(NULL, &cuda) != PERSEUS_OK) {
        return gpus; /* why is among the fabrics that are not usable */
    }
    for (int gpu = 0; gpu < cuda->devices; gpu++) {
        json_array_append_new(gpus, describe(cuda, gpu));
    }
    prs_gpu_close(cuda);
    return gpus;
}

static int number_of(const json_t *gpu, const char *key)
{
    return (int)json_integer_value(json_object_get(gpu, key));
}

void prs_gpus_print(const json_t *gpus)
{
    size_t index, nth;
    json_t *gpu, *other;
    json_array_foreach((json_t *)gpus, index, gpu)
    {
        printf("%sGPU %d: %s, compute capability %d.%d, %d multiprocessors, %d copy engines",
               index == 0 ? "\n" : "", number_of(gpu, "gpu"),
               json_string_value(json_object_get(gpu, "name")), number_of(gpu, "major"),
               number_of(gpu, "minor"), number_of(gpu, "multiprocessors"),
               number_of(gpu, "copy_engines"));
        json_array_foreach(json_object_get(gpu, "reaches"), nth, other)
        {
            printf("%s %d", nth == 0 ? ", reaches GPU" : ",", (int)json_integer_value(other));
        }
        printf("\n");
    }
}
