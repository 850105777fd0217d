/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/math/gemm.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

/* Products with different row counts are compiled apart; this bounds what a thread keeps. */
#define KEPT_MAX 512

/* OpenMP's own functions, of the run-time library that oneDNN brings along. Declared here because
 * <omp.h> belongs to the compiler, and not every compiler has one. */
int omp_get_max_threads(void);
void omp_set_num_threads(int width);

struct key {
    uint32_t rows, outputs, inputs;
    uint32_t type, result_type;
};

struct kept {
    struct key key;
    dnnl_primitive_t product;
    dnnl_memory_t a, b, c;
};

struct prs_gemm {
    const struct prs_log *log;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    uint32_t n_kept;
    struct kept kept[KEPT_MAX];
};

static enum perseus_status translate(const struct prs_log *log, dnnl_status_t status,
                                     const char *what)
{
    switch (status) {
    case dnnl_success:
        return PERSEUS_OK;
    case dnnl_out_of_memory:
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "oneDNN: no memory for %s", what);
    case dnnl_unimplemented:
        return prs_fail(log, PERSEUS_NOT_SUPPORTED, "oneDNN has no %s for this CPU", what);
    default:
        return prs_fail(log, PERSEUS_INTERNAL, "oneDNN: %s failed with status %d", what,
                        (int)status);
    }
}

static void drop(struct kept *kept)
{
    dnnl_memory_destroy(kept->c);
    dnnl_memory_destroy(kept->b);
    dnnl_memory_destroy(kept->a);
    dnnl_primitive_destroy(kept->product);
}

enum perseus_status prs_gemm_create(const struct prs_log *log, struct prs_gemm **out)
{
    struct prs_gemm *gemm = calloc(1, sizeof *gemm);
    if (gemm == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "moe: no memory for a thread's products");
    }
    gemm->log = log;
    dnnl_status_t status = dnnl_engine_create(&gemm->engine, dnnl_cpu, 0);
    if (status == dnnl_success) {
        status = dnnl_stream_create(&gemm->stream, gemm->engine, dnnl_stream_default_flags);
    }
    if (status != dnnl_success) {
        prs_gemm_destroy(gemm);
        return translate(log, status, "engine");
    }
    *out = gemm;
    return PERSEUS_OK;
}

void prs_gemm_destroy(struct prs_gemm *gemm)
{
    if (gemm == NULL) {
        return;
    }
    for (uint32_t i = 0; i < gemm->n_kept; i++) {
        drop(&gemm->kept[i]);
    }
    dnnl_stream_destroy(gemm->stream);
    dnnl_engine_destroy(gemm->engine);
    free(gemm);
}

static dnnl_data_type_t type_of(uint32_t type)
{
    return type == PERSEUS_MOE_BF16 ? dnnl_bf16 : dnnl_f32;
}

static dnnl_status_t matrix_of(dnnl_memory_desc_t *out, uint32_t rows, uint32_t columns,
                               dnnl_data_type_t type, dnnl_format_tag_t order)
{
    const dnnl_dims_t extents = {rows, columns};
    return dnnl_memory_desc_init_by_tag(out, 2, extents, type, order);
}

/* Describes and compiles; the memory objects get their addresses at each run. */
static dnnl_status_t compile(dnnl_engine_t engine, const struct key *key, struct kept *out)
{
    dnnl_data_type_t type = type_of(key->type);
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t about;
    dnnl_primitive_desc_t chosen = NULL;
    struct kept made = {.key = *key};
    dnnl_status_t status = matrix_of(&a, key->rows, key->inputs, type, dnnl_ab);
    if (status == dnnl_success) { /* [inputs, outputs] as the transpose of how b lies */
        status = matrix_of(&b, key->inputs, key->outputs, type, dnnl_ba);
    }
    if (status == dnnl_success) {
        status = matrix_of(&c, key->rows, key->outputs, type_of(key->result_type), dnnl_ab);
    }
    if (status == dnnl_success) {
        status = dnnl_matmul_desc_init(&about, &a, &b, NULL, &c);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_desc_create(&chosen, &about, NULL, engine, NULL);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_create(&made.product, chosen);
    }
    const dnnl_memory_desc_t *described[] = {&a, &b, &c};
    dnnl_memory_t *memories[] = {&made.a, &made.b, &made.c};
    for (int i = 0; i < 3 && status == dnnl_success; i++) {
        status = dnnl_memory_create(memories[i], described[i], engine, DNNL_MEMORY_NONE);
    }
    dnnl_primitive_desc_destroy(chosen);
    if (status != dnnl_success) {
        drop(&made);
        return status;
    }
    *out = made;
    return dnnl_success;
}

static enum perseus_status find(struct prs_gemm *gemm, const struct key *key, struct kept **out)
{
    for (uint32_t i = 0; i < gemm->n_kept; i++) {
        if (memcmp(&gemm->kept[i].key, key, sizeof *key) == 0) {
            *out = &gemm->kept[i];
            return PERSEUS_OK;
        }
    }
    struct kept made;
    dnnl_status_t status = compile(gemm->engine, key, &made);
    if (status != dnnl_success) {
        return translate(gemm->log, status,
                         key->type == PERSEUS_MOE_BF16 ? "bf16 matrix product"
                                                       : "f32 matrix product");
    }
    if (gemm->n_kept == KEPT_MAX) {
        drop(&gemm->kept[--gemm->n_kept]);
    }
    gemm->kept[gemm->n_kept] = made;
    *out = &gemm->kept[gemm->n_kept++];
    return PERSEUS_OK;
}

enum perseus_status prs_gemm_run(struct prs_gemm *gemm, const struct prs_gemm_call *call)
{
    struct key key = {call->rows, call->outputs, call->inputs, call->type, call->result_type};
    struct kept *kept = NULL;
    enum perseus_status found = find(gemm, &key, &kept);
    if (found != PERSEUS_OK) {
        return found;
    }
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, kept->a},
        {DNNL_ARG_WEIGHTS, kept->b},
        {DNNL_ARG_DST, kept->c},
    };
    void *addresses[] = {(void *)call->a, (void *)call->b, call->c};
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < 3 && status == dnnl_success; i++) {
        status = dnnl_memory_set_data_handle(arguments[i].memory, addresses[i]);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_execute(kept->product, gemm->stream, 3, arguments);
    }
    if (status == dnnl_success) {
        status = dnnl_stream_wait(gemm->stream);
    }
    return translate(gemm->log, status, "matrix product");
}

bool prs_gemm_has_bf16(void)
{
    dnnl_engine_t engine = NULL;
    struct kept probe;
    const struct key key = {1, 16, 16, PERSEUS_MOE_BF16, PERSEUS_MOE_BF16};
    dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (status == dnnl_success) {
        status = compile(engine, &key, &probe);
    }
    if (status == dnnl_success) {
        drop(&probe);
    }
    dnnl_engine_destroy(engine);
    return status == dnnl_success;
}

int prs_gemm_thread_begin(void)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

void prs_gemm_thread_end(int width_before)
{
    omp_set_num_threads(width_before);
}
