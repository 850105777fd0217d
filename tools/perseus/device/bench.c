/* SPDX-License-Identifier: Apache-2.0 */
/* perseus bench put-signal and ring with --device cuda: kernels put and signal, the copy engines
 * carry, kernels wait and check. The measuring is bench/gpu's. */
#include <stdio.h>
#include <string.h>

#include "bench/gpu/bench.h"
#include "device/commands.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/options.h"

#define BYTES_MAX (64u << 10) /* of a transfer: what the heaps have room for */

struct request {
    uint32_t gpus;
    struct prs_list bytes;
    struct prs_output json;
    json_t *rows;
};

/* ---- options ---- */

static const char *parse_device(const char *text, void *target)
{
    (void)target;
    return strcmp(text, "cuda") == 0 ? NULL : "cuda";
}

static const char *parse_fabric(const char *text, void *target)
{
    (void)target;
    return strcmp(text, "cudadma") == 0 ? NULL : "cudadma, which alone is for kernels here";
}

static const char *parse_gpus(const char *text, void *target)
{
    uint32_t gpus = 0;
    if (prs_parse_count(text, &gpus) != NULL || gpus > 2) {
        return "1 (all PEs on one GPU) or 2 (PE 0 on one, its peers on another)";
    }
    *(uint32_t *)target = gpus;
    return NULL;
}

static const char *parse_bytes(const char *text, void *target)
{
    struct prs_list list = {.n = 0};
    const char *expected = prs_parse_sizes(text, &list);
    for (uint32_t i = 0; i < list.n && expected == NULL; i++) {
        if (list.values[i] > BYTES_MAX || list.values[i] % 1024 != 0) {
            expected = "whole KiB, at most 64K";
        }
    }
    if (expected == NULL) {
        *(struct prs_list *)target = list;
    }
    return expected;
}

/* ---- rows ---- */

static void take_put_signal(void *context, const struct bench_put_signal_row *row)
{
    struct request *self = context;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:b}", "protocol", row->protocol, "ordering",
        perseus_ordering_name(row->ordering), "provider", row->provider, "bytes", (int)row->bytes,
        "gpus", row->gpus, "fences", (json_int_t)row->fences, "drains", (json_int_t)row->drains,
        "messages", (json_int_t)row->messages, "failed", (int)row->failed);
    json_object_set_new(object, "us", prs_json_number(row->us));
    json_object_set_new(object, "efficiency", prs_json_number(row->share));
    json_object_set_new(object, "fence_us", prs_json_number(row->fence_us));
    json_object_set_new(object, "seen_us", prs_json_number(row->seen_us));
    json_object_set_new(object, "submit_us", prs_json_number(row->submit_us));
    json_array_append_new(self->rows, object);
}

static void take_ring(void *context, const struct bench_ring_row *row)
{
    struct request *self = context;
    json_t *object = json_pack("{s:s, s:i, s:I, s:I}", "scope", row->scope, "ctas", (int)row->ctas,
                               "cycles", (json_int_t)row->cycles, "errors", (json_int_t)row->wrong);
    json_object_set_new(object, "descriptors_per_s", prs_json_number(row->rate));
    json_array_append_new(self->rows, object);
}

/* ---- both commands ---- */

static bool begin(struct request *self)
{
    const char *why = NULL;
    int gpus = bench_gpus(&why);
    if (gpus < (int)self->gpus) {
        fprintf(stderr,
                "perseus: --device cuda needs %u GPU%s of compute capability 8.0 or newer, and "
                "CUDA finds %d here (%s); nvidia-smi shows what is there\n",
                self->gpus, self->gpus == 1 ? "" : "s", gpus, why);
        return false;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* rows come one by one */
    self->rows = json_array();
    return prs_output_check(&self->json, 1);
}

static int end(struct request *self, const char *command, bool is_right)
{
    if (self->json.path == NULL) {
        json_decref(self->rows);
        return is_right ? PRS_EXIT_OK : PRS_EXIT_FAILED;
    }
    json_t *document = prs_json_begin(command, 0);
    json_object_set_new(document, "device", json_string("cuda"));
    json_object_set_new(document, "rows", self->rows);
    return prs_json_write(document, &self->json) && is_right ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}

int prs_tool_bench_put_signal_cuda(int argc, char **argv)
{
    struct request self = {
        .gpus = 1, .bytes = {.values = {4096, 16384, 65536}, .n = 3}, .json = {.option = "--json"}};
    const struct prs_option options[] = {
        {"device", "cuda", "kernels as producers, on NVIDIA GPUs", parse_device, NULL},
        {"fabric", "cudadma", "the copy engines, the one fabric there (cudadma)", parse_fabric,
         NULL},
        {"gpus", "N", "1: all PEs on one GPU; 2: PE 0 on one, the others on another (1)",
         parse_gpus, &self.gpus},
        {"bytes", "LIST", "of one transfer, whole KiB (4K,16K,64K)", parse_bytes, &self.bytes},
        {"json", "FILE", "write every row there", prs_parse_text, &self.json.path},
    };
    const struct prs_command command = {
        .name = "perseus bench put-signal --device cuda",
        .summary =
            "96 transfers from PE 0 to 7 PEs: persistent kernels put and signal, persistent\n"
            "kernels on the other side wait and check each payload the moment they see its\n"
            "signal. Every protocol under every ordering mode that is real on copy engines.",
        .options = options,
        .n_options = sizeof options / sizeof options[0],
    };
    int exit_code = PRS_EXIT_OK;
    uint32_t bytes[PRS_LIST_MAX];
    if (!prs_command_parse(&command, argc, argv, NULL, &exit_code)) {
        return exit_code;
    }
    for (uint32_t i = 0; i < self.bytes.n; i++) {
        bytes[i] = (uint32_t)self.bytes.values[i];
    }
    return begin(&self) ? end(&self, "bench put-signal",
                              bench_put_signal((int)self.gpus, bytes, (int)self.bytes.n,
                                               take_put_signal, &self))
                        : PRS_EXIT_FAILED;
}

int prs_tool_bench_ring_cuda(int argc, char **argv)
{
    struct request self = {.gpus = 1, .json = {.option = "--json"}};
    const struct prs_option options[] = {
        {"device", "cuda", "kernels as producers, on an NVIDIA GPU", parse_device, NULL},
        {"json", "FILE", "write every row there", prs_parse_text, &self.json.path},
    };
    const struct prs_command command = {
        .name = "perseus bench ring --device cuda",
        .summary =
            "Measures a GPU's ring alone: kernels write put-with-signal descriptors behind a\n"
            "system fence each, a CPU thread takes out and checks every one. Rates, and the\n"
            "cycles that a call costs its caller, for each scope and number of CTAs.",
        .options = options,
        .n_options = sizeof options / sizeof options[0],
    };
    int exit_code = PRS_EXIT_OK;
    if (!prs_command_parse(&command, argc, argv, NULL, &exit_code)) {
        return exit_code;
    }
    return begin(&self) ? end(&self, "bench ring", bench_ring(take_ring, &self)) : PRS_EXIT_FAILED;
}
