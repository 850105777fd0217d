/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_layer.c: a Mixture-of-Experts layer from a program of one's own. Start it with
 *
 *     perseus run -n 4 --pes-per-node 2 -- moe_layer
 *
 * Every PE has a few tokens; each goes to two experts, wherever these live, and comes back added
 * up. Expert e multiplies by e + 1 (up and down are scaled identities, gelu is nearly linear for
 * large values), so that the result is easy to check.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <perseus/moe.h>

enum { HIDDEN = 8, EXPERTS = 6, TOP_K = 2, TOKENS = 5, FORWARDS = 10 };

/* up[EXPERTS][HIDDEN][HIDDEN], down likewise: matrices are one row per output. */
struct weights {
    float up[EXPERTS][HIDDEN][HIDDEN], down[EXPERTS][HIDDEN][HIDDEN];
};

static void fill(struct weights *weights)
{
    *weights = (struct weights){0};
    for (int e = 0; e < EXPERTS; e++) {
        for (int i = 0; i < HIDDEN; i++) {
            weights->up[e][i][i] = 1;
            weights->down[e][i][i] = (float)(e + 1);
        }
    }
}

static enum perseus_status run(struct perseus_pe *pe, struct perseus_moe *moe,
                               const struct weights *weights, int *out_wrong)
{
    uint32_t first, count;
    perseus_moe_expert_range(moe, perseus_my_pe(pe), &first, &count);
    for (uint32_t e = first; e < first + count; e++) {
        const struct perseus_moe_expert expert = {.up = weights->up[e], .down = weights->down[e]};
        enum perseus_status status = perseus_moe_set_expert(moe, e, &expert);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    float x[TOKENS][HIDDEN], y[TOKENS][HIDDEN], gates[TOKENS][TOP_K];
    int32_t ids[TOKENS][TOP_K];
    for (int forward = 0; forward < FORWARDS; forward++) {
        for (int t = 0; t < TOKENS; t++) {
            ids[t][0] = (t + forward) % EXPERTS;
            ids[t][1] = (t + forward + 1 + perseus_my_pe(pe)) % EXPERTS;
            if (ids[t][1] == ids[t][0]) {
                ids[t][1] = -1; /* this choice is not used */
            }
            gates[t][0] = 0.75f;
            gates[t][1] = 0.25f;
            for (int i = 0; i < HIDDEN; i++) {
                x[t][i] = (float)(10 + t + i);
            }
        }
        enum perseus_status status = perseus_moe_forward(moe, TOKENS, x[0], ids[0], gates[0], y[0]);
        if (status != PERSEUS_OK) {
            return status;
        }
        for (int t = 0; t < TOKENS; t++) {
            float factor = 0.75f * (float)(ids[t][0] + 1) + 0.25f * (float)(ids[t][1] + 1);
            for (int i = 0; i < HIDDEN; i++) {
                *out_wrong += fabsf(y[t][i] - factor * x[t][i]) > 1e-3f * factor * x[t][i];
            }
        }
    }
    return PERSEUS_OK;
}

static void log_line(void *user, enum perseus_log_level level, const char *text)
{
    (void)user, (void)level;
    fprintf(stderr, "%s\n", text);
}

int main(void)
{
    const struct perseus_moe_config config = {.hidden = HIDDEN,
                                              .intermediate = HIDDEN,
                                              .experts = EXPERTS,
                                              .top_k = TOP_K,
                                              .tokens_max = TOKENS,
                                              .form = PERSEUS_MOE_TWO_MATRIX,
                                              .processors = 1};
    const struct perseus_attr attr = {.log = log_line, .log_level = PERSEUS_LOG_WARN};
    struct perseus_pe *pe = NULL;
    struct perseus_moe *moe = NULL;
    static struct weights weights;
    int wrong = 0;
    fill(&weights);
    enum perseus_status status = perseus_init_attr(&attr, &pe);
    if (status != PERSEUS_OK) {
        return 1;
    }
    status = perseus_moe_create(pe, &config, &moe);
    if (status == PERSEUS_OK) {
        status = run(pe, moe, &weights, &wrong);
    }
    if (status != PERSEUS_OK) { /* the log has said why */
        perseus_moe_abort(moe);
        perseus_abort(pe);
        return 1;
    }
    printf("PE %d of %d: %d wrong values\n", perseus_my_pe(pe), perseus_n_pes(pe), wrong);
    status = perseus_moe_destroy(moe);
    if (status == PERSEUS_OK) {
        status = perseus_finalize(pe);
    }
    return status == PERSEUS_OK && wrong == 0 ? 0 : 1;
}
