/* SPDX-License-Identifier: Apache-2.0 */
#include "device/gpu_side.h"

#include "ring/ring.h"

#define ALIGN(bytes) (((bytes) + PRS_RING_ALIGN - 1) / PRS_RING_ALIGN * PRS_RING_ALIGN)

static enum perseus_status allocate(struct prs_gpu_side *side, size_t heap_bytes, uint32_t slots,
                                    uint32_t n_pes)
{
    void *heap = NULL, *own = NULL, *shared = NULL;
    size_t uses_bytes = ALIGN(PRS_GPU_SIDE_ANSWERS * sizeof(uint32_t));
    size_t answers_at = ALIGN(prs_ring_bytes(slots));
    size_t fault_at = answers_at + ALIGN(PRS_GPU_SIDE_ANSWERS * sizeof(struct prs_answer));
    enum perseus_status status = prs_gpu_alloc(&side->gpu, heap_bytes, &heap);
    side->heap = heap;
    if (status == PERSEUS_OK) {
        size_t bytes = sizeof(struct prs_ring_producers) + uses_bytes + PRS_RING_ALIGN +
                       n_pes * sizeof(void *);
        status = prs_gpu_alloc(&side->gpu, bytes, &own);
        side->own = own;
    }
    if (status == PERSEUS_OK) {
        size_t bytes = fault_at + sizeof(struct perseus_device_fault);
        status = prs_gpu_host_alloc(&side->gpu, bytes, &shared);
        side->shared = shared;
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    unsigned char *uses = side->own + sizeof(struct prs_ring_producers);
    side->answer_uses = (uint32_t *)(void *)uses;
    side->fault_taken = (uint32_t *)(void *)(uses + uses_bytes);
    side->direct = (unsigned char **)(void *)(uses + uses_bytes + PRS_RING_ALIGN);
    side->answers = (struct prs_answer *)(void *)(side->shared + answers_at);
    side->fault = (struct perseus_device_fault *)(void *)(side->shared + fault_at);
    status = prs_ring_place(slots, side->shared, NULL, &side->ring);
    side->ring.producers = (struct prs_ring_producers *)(void *)side->own;
    return status;
}

enum perseus_status prs_gpu_side_open(struct prs_gpu_side *side, size_t heap_bytes, uint32_t slots,
                                      uint32_t n_pes)
{
    void *before = NULL;
    enum perseus_status status = prs_gpu_enter(&side->gpu, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = allocate(side, heap_bytes, slots, n_pes);
    prs_gpu_leave(&side->gpu, before);
    return status;
}

void prs_gpu_side_close(struct prs_gpu_side *side)
{
    void *before = NULL;
    if (side->gpu.context == NULL || prs_gpu_enter(&side->gpu, &before) != PERSEUS_OK) {
        return;
    }
    prs_gpu_free(&side->gpu, side->heap);
    prs_gpu_free(&side->gpu, side->own);
    prs_gpu_host_free(&side->gpu, side->shared);
    prs_gpu_leave(&side->gpu, before);
}

enum perseus_status prs_gpu_side_copy(const struct prs_gpu_side *side, void *target,
                                      const void *source, size_t bytes)
{
    const struct prs_gpu_calls *call = &side->gpu.cuda->call;
    void *before = NULL, *stream = NULL;
    enum perseus_status status = prs_gpu_enter(&side->gpu, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    /* A stream of its own: the default one would wait for kernels that may wait for us. */
    int error = call->stream_create(&stream, PRS_CUDA_STREAM_NON_BLOCKING);
    if (error == PRS_CUDA_SUCCESS) {
        error = call->copy((uintptr_t)target, (uintptr_t)source, bytes, stream);
        error = error != PRS_CUDA_SUCCESS ? error : call->stream_synchronize(stream);
        call->stream_destroy(stream);
    }
    prs_gpu_leave(&side->gpu, before);
    return prs_gpu_check(side->gpu.cuda, error, "copying to or from the GPU");
}
