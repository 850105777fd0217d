/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "kit/exit.h"
#include "moe/math/gemm.h"
#include "model/reference.h"
#include "model/weights.h"
#include "job.h"
#include "kit/tool_log.h"

/* Memory that forked PEs share instead of copying. NULL when there is none. */
static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

static bool make_weights(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup,
                         const struct prs_log *log, struct prs_progress *progress)
{
    uint32_t experts = setup->config.experts + setup->config.shared_experts;
    if (setup->weights != NULL) {
        return prs_weights_load(&setup->config, inputs->block, setup->weights, setup->weights_layer,
                                log) == PERSEUS_OK;
    }
    for (uint32_t i = 0; i < experts; i++) {
        prs_weights_random(&setup->config, inputs->block, i, setup->seed);
        prs_progress_step(progress, "making weights");
    }
    return true;
}

static struct prs_reference reference_of(const struct prs_moe_inputs *inputs,
                                         const struct prs_moe_setup *setup)
{
    return (struct prs_reference){.config = &setup->config,
                                  .n_pes = prs_moe_setup_pes(setup),
                                  .tokens_per_pe = inputs->tokens,
                                  .x = inputs->x,
                                  .ids = inputs->routing.ids,
                                  .weights = inputs->gate};
}

static void step_reference(void *progress, uint32_t done)
{
    (void)done;
    prs_progress_step(progress, "computing the reference");
}

/* In a child, as its threads and the matrix library's must not be here when PEs are forked. */
static bool make_reference(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup,
                           const struct prs_log *log, struct prs_progress *progress)
{
    const struct prs_reference reference = reference_of(inputs, setup);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        enum perseus_status status = prs_reference_run(&reference, inputs->block, step_reference,
                                                       progress, log, inputs->expected);
        prs_progress_finish(progress);
        _exit(status == PERSEUS_OK ? PRS_EXIT_OK : PRS_EXIT_FAILED);
    }
    int wait_status = 0;
    bool is_done = pid > 0 && waitpid(pid, &wait_status, 0) == pid && wait_status == 0;
    if (!is_done) {
        prs_log(log, PERSEUS_LOG_ERROR,
                "the reference could not be computed; --no-verify leaves it out");
    }
    for (uint32_t i = 0; i < setup->config.experts + setup->config.shared_experts; i++) {
        prs_progress_step(progress, "computing the reference");
    }
    return is_done;
}

bool prs_moe_inputs_route(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup)
{
    const struct perseus_moe_config *config = &setup->config;
    struct prs_log log = prs_tool_log();
    uint32_t n_pes = prs_moe_setup_pes(setup);
    *inputs = (struct prs_moe_inputs){.tokens = config->tokens_max};
    if (prs_routing_init(&inputs->routing, &setup->spec, config->tokens_max * n_pes,
                         config->experts, config->top_k, setup->seed, &log) != PERSEUS_OK) {
        return false;
    }
    inputs->counts = malloc((size_t)n_pes * config->experts * sizeof *inputs->counts);
    if (inputs->counts == NULL) {
        prs_log(&log, PERSEUS_LOG_ERROR, "out of memory for the counts of %u PEs", n_pes);
        return false;
    }
    const struct prs_reference reference = reference_of(inputs, setup);
    prs_reference_counts(&reference, inputs->counts, &inputs->dropped);
    return true;
}

static bool allocate(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup,
                     const struct prs_moe_inputs *like)
{
    size_t tokens = (size_t)inputs->tokens * prs_moe_setup_pes(setup);
    inputs->x_bytes = tokens * setup->config.hidden * sizeof(float);
    inputs->block_bytes = prs_weights_bytes(&setup->config);
    inputs->x = shared(inputs->x_bytes);
    inputs->is_borrowed = like != NULL;
    inputs->block = like != NULL ? like->block : shared(inputs->block_bytes);
    inputs->expected = setup->skips_verify ? NULL : shared(inputs->x_bytes);
    inputs->gate = malloc(tokens * setup->config.top_k * sizeof *inputs->gate);
    return inputs->x != NULL && inputs->block != NULL && inputs->gate != NULL &&
           (setup->skips_verify || inputs->expected != NULL);
}

bool prs_moe_inputs_fill(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup,
                         const struct prs_moe_inputs *like, struct prs_progress *progress)
{
    struct prs_log log = prs_tool_log();
    uint32_t tokens = inputs->tokens * prs_moe_setup_pes(setup);
    if (!allocate(inputs, setup, like)) {
        prs_log(&log, PERSEUS_LOG_ERROR, "out of memory for the inputs of %u tokens", tokens);
        return false;
    }
    prs_routing_gate_weights(setup->seed, tokens, setup->config.top_k, inputs->gate);
    struct prs_rng rng = prs_rng_seeded(setup->seed);
    for (size_t i = 0; i < inputs->x_bytes / sizeof *inputs->x; i++) {
        inputs->x[i] = (float)(2 * prs_rng_unit(&rng) - 1);
    }
    return (like != NULL || make_weights(inputs, setup, &log, progress)) &&
           (setup->skips_verify || make_reference(inputs, setup, &log, progress));
}

void prs_moe_inputs_finish(struct prs_moe_inputs *inputs)
{
    if (inputs->x != NULL) {
        munmap(inputs->x, inputs->x_bytes);
    }
    if (inputs->expected != NULL) {
        munmap(inputs->expected, inputs->x_bytes);
    }
    if (inputs->block != NULL && !inputs->is_borrowed) {
        munmap(inputs->block, inputs->block_bytes);
    }
    free(inputs->gate);
    free(inputs->counts);
    prs_routing_finish(&inputs->routing);
    *inputs = (struct prs_moe_inputs){0};
}
