/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/side.h"

#include <stdlib.h>

#include "fabric/word.h"
#include "ring/ring.h"

#define ALIGN(bytes) (((bytes) + PRS_RING_ALIGN - 1) / PRS_RING_ALIGN * PRS_RING_ALIGN)

/* ---- life ---- */

/* GPU memory, and where things lie in it. */
static enum perseus_status allocate_own(struct prs_gpu_side *side)
{
    size_t uses_bytes = ALIGN(PRS_GPU_SIDE_ANSWERS * sizeof(uint32_t));
    size_t bytes = sizeof(struct prs_ring_producers) + uses_bytes + PRS_RING_ALIGN +
                   (size_t)side->config.n_pes * sizeof(void *);
    void *heap = NULL, *own = NULL;
    enum perseus_status status = prs_gpu_alloc(&side->gpu, side->config.heap_bytes, &heap);
    side->heap = heap;
    if (status == PERSEUS_OK) {
        status = prs_gpu_alloc(&side->gpu, bytes, &own);
        side->own = own;
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    unsigned char *uses = side->own + sizeof(struct prs_ring_producers);
    side->answer_uses = (uint32_t *)(void *)uses;
    side->fault_taken = (uint32_t *)(void *)(uses + uses_bytes);
    side->direct = (unsigned char **)(void *)(uses + uses_bytes + PRS_RING_ALIGN);
    return PERSEUS_OK;
}

/* Pinned memory that both sides reach. */
static enum perseus_status allocate_shared(struct prs_gpu_side *side)
{
    size_t answers_at = ALIGN(prs_ring_bytes(side->config.slots));
    size_t fault_at = answers_at + ALIGN(PRS_GPU_SIDE_ANSWERS * sizeof(struct prs_answer));
    size_t staged_at = fault_at + ALIGN(sizeof(struct perseus_device_fault));
    void *shared = NULL;
    enum perseus_status status =
        prs_gpu_host_alloc(&side->gpu, staged_at + sizeof *side->staged, &shared);
    if (status != PERSEUS_OK) {
        return status;
    }
    side->shared = shared;
    side->slots = (struct prs_answer *)(void *)(side->shared + answers_at);
    side->fault = (struct perseus_device_fault *)(void *)(side->shared + fault_at);
    side->staged = (uint64_t *)(void *)(side->shared + staged_at);
    status = prs_ring_place(side->config.slots, side->shared, NULL, &side->ring);
    side->ring.producers = (struct prs_ring_producers *)(void *)side->own;
    return status == PERSEUS_OK
               ? prs_answers_create(side->slots, PRS_GPU_SIDE_ANSWERS, &side->answers)
               : status;
}

static enum perseus_status allocate(struct prs_gpu_side *side)
{
    void *before = NULL;
    enum perseus_status status = prs_gpu_enter(&side->gpu, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    int error = side->cuda->call.stream_create(&side->stream, PRS_CUDA_STREAM_NON_BLOCKING);
    status = prs_gpu_check(side->cuda, error, "making a stream");
    status = status == PERSEUS_OK ? allocate_own(side) : status;
    status = status == PERSEUS_OK ? allocate_shared(side) : status;
    prs_gpu_leave(&side->gpu, before);
    return status;
}

enum perseus_status prs_gpu_side_open(const struct prs_gpu_side_config *config,
                                      struct prs_gpu_side **out)
{
    if (config->slots < PRS_GPU_SIDE_SLOTS_MIN || (config->slots & (config->slots - 1)) != 0) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "a GPU's ring has %u slots; a power of two from %d on is needed",
                        config->slots, PRS_GPU_SIDE_SLOTS_MIN);
    }
    struct prs_gpu_side *side = calloc(1, sizeof *side);
    if (side == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a GPU's side of a PE");
    }
    side->config = *config;
    pthread_mutex_init(&side->copying, NULL);
    enum perseus_status status = prs_gpu_open(config->log, &side->cuda);
    if (status == PERSEUS_OK) {
        status = prs_gpu_device_open(side->cuda, config->gpu, &side->gpu);
    }
    if (status == PERSEUS_OK) {
        status = allocate(side);
    }
    if (status != PERSEUS_OK) {
        prs_gpu_side_close(side);
        return status;
    }
    *out = side;
    return PERSEUS_OK;
}

void prs_gpu_side_close(struct prs_gpu_side *side)
{
    void *before = NULL;
    if (side == NULL) {
        return;
    }
    if (side->gpu.context != NULL && prs_gpu_enter(&side->gpu, &before) == PERSEUS_OK) {
        prs_gpu_groups_free(side);
        prs_gpu_free(&side->gpu, side->heap);
        prs_gpu_free(&side->gpu, side->own);
        prs_gpu_host_free(&side->gpu, side->shared);
        if (side->stream != NULL) {
            side->cuda->call.stream_destroy(side->stream);
        }
        prs_gpu_leave(&side->gpu, before);
    }
    prs_answers_destroy(side->answers);
    prs_gpu_device_close(&side->gpu);
    prs_gpu_close(side->cuda);
    pthread_mutex_destroy(&side->copying);
    free(side);
}

/* ---- reaching its memory ---- */

/* With `copying` held. */
static int copy(struct prs_gpu_side *side, void *target, const void *source, size_t bytes)
{
    const struct prs_gpu_calls *call = &side->cuda->call;
    int error = call->copy((uintptr_t)target, (uintptr_t)source, bytes, side->stream);
    return error == PRS_CUDA_SUCCESS ? call->stream_synchronize(side->stream) : error;
}

/* Takes the GPU and its stream for this thread. */
static enum perseus_status begin(struct prs_gpu_side *side, void **out_before)
{
    enum perseus_status status = prs_gpu_enter(&side->gpu, out_before);
    if (status == PERSEUS_OK) {
        pthread_mutex_lock(&side->copying);
    }
    return status;
}

static enum perseus_status end(struct prs_gpu_side *side, void *before, int error)
{
    pthread_mutex_unlock(&side->copying);
    prs_gpu_leave(&side->gpu, before);
    return prs_gpu_check(side->cuda, error, "copying to or from the GPU");
}

enum perseus_status prs_gpu_side_copy(struct prs_gpu_side *side, void *target, const void *source,
                                      size_t bytes)
{
    void *before = NULL;
    enum perseus_status status = begin(side, &before);
    return status == PERSEUS_OK ? end(side, before, copy(side, target, source, bytes)) : status;
}

enum perseus_status prs_gpu_side_zero(struct prs_gpu_side *side, void *target, size_t bytes)
{
    const struct prs_gpu_calls *call = &side->cuda->call;
    void *before = NULL;
    enum perseus_status status = begin(side, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    int error = call->fill((uintptr_t)target, 0, bytes, side->stream);
    return end(side, before,
               error == PRS_CUDA_SUCCESS ? call->stream_synchronize(side->stream) : error);
}

enum perseus_status prs_gpu_side_load(struct prs_gpu_side *side, const uint64_t *word,
                                      uint64_t *out)
{
    void *before = NULL;
    enum perseus_status status = begin(side, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    int error = copy(side, side->staged, word, sizeof *word);
    *out = *side->staged;
    return end(side, before, error);
}

uint64_t prs_gpu_side_apply(struct prs_gpu_side *side, void *word, enum perseus_atomic op,
                            uint64_t operand, uint64_t compare, uint32_t bytes)
{
    void *before = NULL;
    if (begin(side, &before) != PERSEUS_OK) {
        return 0; /* told by the log; the GPU is lost, and every later call says so */
    }
    *side->staged = 0;
    int error = copy(side, side->staged, word, bytes);
    uint64_t old = *side->staged;
    if (error == PRS_CUDA_SUCCESS) {
        *side->staged = prs_word_result(op, old, operand, compare);
        error = copy(side, word, side->staged, bytes);
    }
    (void)end(side, before, error);
    return old;
}

bool prs_gpu_side_is_device(struct prs_gpu_side *side, const void *pointer)
{
    unsigned type = 0;
    void *before = NULL;
    bool is_device = false;
    if (prs_gpu_enter(&side->gpu, &before) == PERSEUS_OK) {
        is_device = side->cuda->call.pointer_attribute(&type, PRS_CUDA_POINTER_MEMORY_TYPE,
                                                       (uintptr_t)pointer) == PRS_CUDA_SUCCESS &&
                    type == PRS_CUDA_MEMORY_DEVICE;
        prs_gpu_leave(&side->gpu, before);
    }
    return is_device;
}

/* ---- for the proxy, and for kernels ---- */

struct prs_ring prs_gpu_side_consumer(const struct prs_gpu_side *side)
{
    struct prs_ring consumer = side->ring;
    consumer.producers = NULL;
    return consumer;
}

void prs_gpu_side_describe(const struct prs_gpu_side *side, struct perseus_device_pe *out)
{
    const struct prs_gpu_side_config *config = &side->config;
    unsigned char *heap = side->heap + config->heap_offset;
    uint64_t heap_bytes = config->heap_bytes - config->heap_offset;
    *out = (struct perseus_device_pe){
        .ring = side->ring,
        .answers = side->slots,
        .answer_uses = side->answer_uses,
        .n_answers = PRS_GPU_SIDE_ANSWERS,
        .my_pe = config->my_pe,
        .n_pes = config->n_pes,
        .heap = heap,
        .heap_bytes = heap_bytes,
        .heap_offset = config->heap_offset,
        .n_buffers = 1,
        .buffers = {{.base = heap, .bytes = heap_bytes, .offset = config->heap_offset}},
        .timeout_ms = config->timeout_ms,
        .fault = side->fault,
        .fault_taken = side->fault_taken,
    };
}
