/* The yardstick for expert time: the same products, tile by tile, in a plain loop over as many rows. */
#include <stdlib.h>
#include <time.h>

#include "moe/layer.h"
#include "moe_job.h"
#include "tool_log.h"

struct prs_moe_loop {
    const struct prs_moe_setup *setup;
    const struct prs_moe_inputs *inputs;
    const struct perseus_moe *moe; /* whose experts it multiplies with */
    struct prs_log log;
    struct prs_gemm *gemm;
    unsigned char
        *rows; /* results overwrite them, as in the layer; a step runs into the next tile */
    float *outer;
    void *inner;
    size_t row_bytes;
};

static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

enum perseus_status prs_moe_loop_create(const struct prs_moe_setup *setup,
                                        const struct prs_moe_inputs *inputs,
                                        const struct perseus_moe *moe, struct prs_moe_loop **out)
{
    const struct perseus_moe_config *config = &setup->config;
    size_t rows = 0;
    struct prs_moe_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    *loop =
        (struct prs_moe_loop){.setup = setup, .inputs = inputs, .moe = moe, .log = prs_tool_log()};
    for (uint32_t pe = 0; pe < prs_moe_setup_pes(setup); pe++) {
        for (uint32_t e = moe->first; e < moe->first + moe->hosted; e++) {
            rows += inputs->counts[(size_t)pe * config->experts + e];
        }
    }
    bool is_bf16 = config->weight_dtype == PERSEUS_MOE_BF16 && !moe->expand;
    loop->row_bytes = config->hidden * (is_bf16 ? 2 : 4);
    rows = rows > inputs->tokens ? rows : inputs->tokens; /* shared experts have those */
    loop->rows = calloc(rows + PRS_EXPERT_STEP, loop->row_bytes);
    size_t items = (size_t)prs_expert_steps(config->tile_tokens) * config->intermediate;
    loop->outer = calloc(2 * items, sizeof(float));
    loop->inner = calloc(items, sizeof(float));
    enum perseus_status status = loop->rows != NULL && loop->outer != NULL && loop->inner != NULL
                                     ? prs_gemm_create(&loop->log, &loop->gemm)
                                     : PERSEUS_OUT_OF_MEMORY;
    if (status != PERSEUS_OK) {
        prs_moe_loop_destroy(loop);
        return status;
    }
    *out = loop;
    return PERSEUS_OK;
}

void prs_moe_loop_destroy(struct prs_moe_loop *loop)
{
    if (loop != NULL) {
        prs_gemm_destroy(loop->gemm);
        free(loop->rows);
        free(loop->outer);
        free(loop->inner);
        free(loop);
    }
}

/* One tile's products, as the layer makes them, and nothing else. */
static enum perseus_status multiply(const struct prs_moe_loop *loop,
                                    const struct prs_expert *expert, uint32_t rows, void *in)
{
    const struct perseus_moe_config *config = &loop->setup->config;
    bool is_swiglu = config->form == PERSEUS_MOE_SWIGLU;
    struct prs_gemm_call call = {
        .rows = prs_expert_steps(rows),
        .outputs = (expert->is_joined ? 2 : 1) * config->intermediate,
        .inputs = config->hidden,
        .type = expert->type,
        .a = in,
        .b = is_swiglu ? expert->gate : expert->up,
        .c = loop->outer,
    };
    enum perseus_status status = prs_gemm_run(loop->gemm, &call);
    if (status == PERSEUS_OK && is_swiglu && !expert->is_joined) {
        call.b = expert->up;
        status = prs_gemm_run(loop->gemm, &call);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    call.outputs = config->hidden;
    call.inputs = config->intermediate;
    call.a = loop->inner;
    call.b = expert->down;
    call.c = in;
    call.result_type = expert->type;
    return prs_gemm_run(loop->gemm, &call);
}

/* `rows` rows from `in` on through one expert, tile by tile. */
static enum perseus_status run_expert(const struct prs_moe_loop *loop,
                                      const struct prs_expert *expert, uint32_t rows,
                                      unsigned char *in)
{
    uint32_t tile = loop->setup->config.tile_tokens;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t some; rows > 0 && status == PERSEUS_OK; rows -= some) {
        some = rows < tile ? rows : tile;
        status = multiply(loop, expert, some, in);
        in += some * loop->row_bytes;
    }
    return status;
}

enum perseus_status prs_moe_loop_run(struct prs_moe_loop *loop, uint64_t *out_ns)
{
    const struct perseus_moe_config *config = &loop->setup->config;
    int width = prs_gemm_thread_begin();
    uint64_t begin_ns = thread_ns();
    unsigned char *in = loop->rows;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t pe = 0; pe < prs_moe_setup_pes(loop->setup); pe++) {
        for (uint32_t i = 0; i < loop->moe->hosted && status == PERSEUS_OK; i++) {
            uint32_t rows =
                loop->inputs->counts[(size_t)pe * config->experts + loop->moe->first + i];
            status = run_expert(loop, &loop->moe->experts[i], rows, in);
            in += rows * loop->row_bytes;
        }
    }
    for (uint32_t i = 0; i < config->shared_experts && status == PERSEUS_OK; i++) {
        status = run_expert(loop, &loop->moe->experts[loop->moe->hosted + i], loop->inputs->tokens,
                            loop->rows);
    }
    *out_ns = thread_ns() - begin_ns;
    prs_gemm_thread_end(width);
    return status;
}
