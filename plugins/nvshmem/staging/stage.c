/* SPDX-License-Identifier: Apache-2.0 */
#include "staging/stage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric/word.h"

#define SCRATCH_BYTES 64

/* ---- where things lie: words of all peers, scratch, then a block of rings for each peer ---- */

static uint64_t blocks_offset(const struct prs_staging *stage)
{
    uint64_t bytes = (uint64_t)stage->n_pes * sizeof(struct prs_staging_words);
    return (bytes + SCRATCH_BYTES + 4095) / 4096 * 4096;
}

static uint64_t block_bytes(const struct prs_staging *stage)
{
    return 2 * (stage->ring_bytes[PRS_STAGE_REQUEST] + stage->ring_bytes[PRS_STAGE_REPLY]);
}

static uint64_t out_offset(const struct prs_staging *stage, int pe, enum prs_staging_way way)
{
    return blocks_offset(stage) + (uint64_t)pe * block_bytes(stage) +
           (way == PRS_STAGE_REPLY ? stage->ring_bytes[PRS_STAGE_REQUEST] : 0);
}

uint64_t prs_staging_in_offset(const struct prs_staging *stage, int pe, enum prs_staging_way way)
{
    return out_offset(stage, pe, way) + block_bytes(stage) / 2;
}

uint64_t prs_staging_tail_offset(int pe, enum prs_staging_way way)
{
    return (uint64_t)pe * sizeof(struct prs_staging_words) +
           (way == PRS_STAGE_REPLY
                ? offsetof(struct prs_staging_words, way[PRS_STAGE_REPLY].tail)
                : offsetof(struct prs_staging_words, way[PRS_STAGE_REQUEST].tail));
}

static uint64_t done_offset(int pe, enum prs_staging_way way)
{
    return prs_staging_tail_offset(pe, way) +
           offsetof(struct prs_staging_words, way[PRS_STAGE_REQUEST].done);
}

const struct prs_staging_words *prs_staging_words_from(const struct prs_staging *stage, int pe)
{
    return (const struct prs_staging_words *)(const void *)stage->arena + pe;
}

/* ---- life ---- */

static enum perseus_status pump(void *context, bool *out_did);
static uint64_t moved(const void *context);
static void told(void *context, uint32_t index);

static enum perseus_status create_arena(struct prs_staging *stage)
{
    stage->arena_bytes =
        (size_t)(blocks_offset(stage) + (uint64_t)stage->n_pes * block_bytes(stage));
    void *arena = mmap(NULL, stage->arena_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) {
        return prs_fail(stage->log, PERSEUS_OUT_OF_MEMORY,
                        "no memory for %zu bytes of staging for %d PEs: lower PERSEUS_STAGE_BYTES",
                        stage->arena_bytes, stage->n_pes);
    }
    stage->arena = arena;
    stage->rmw.scratch = (uint64_t *)(void *)(stage->arena + (size_t)stage->n_pes *
                                                                 sizeof(struct prs_staging_words));
    stage->peers = calloc((size_t)stage->n_pes, sizeof *stage->peers);
    if (stage->peers == NULL) {
        return prs_fail(stage->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", stage->n_pes);
    }
    for (int pe = 0; pe < stage->n_pes; pe++) {
        for (int way = 0; way < PRS_STAGE_WAYS; way++) {
            enum prs_staging_way each = (enum prs_staging_way)way;
            stage->peers[pe].out[way].ring = stage->arena + out_offset(stage, pe, each);
            stage->peers[pe].in[way].ring = stage->arena + prs_staging_in_offset(stage, pe, each);
        }
    }
    return prs_window_create(stage->route->link.orderer, stage->arena, stage->arena_bytes,
                             PRS_MEMORY_HOST, &stage->window);
}

enum perseus_status prs_staging_create(const struct prs_staging_config *config,
                                       struct prs_staging **out)
{
    struct prs_staging *stage = calloc(1, sizeof *stage);
    if (stage == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for staging");
    }
    stage->route = config->route;
    stage->memory = config->memory;
    stage->cuda = config->cuda;
    stage->log = config->log;
    stage->self = (int)config->memory->owner;
    stage->n_pes = (int)config->route->n_pes;
    stage->op_bytes_max = config->op_bytes_max;
    stage->fences = config->fences;
    stage->ring_bytes[PRS_STAGE_REQUEST] = config->ring_bytes;
    stage->ring_bytes[PRS_STAGE_REPLY] = config->ring_bytes / 4;
    enum perseus_status status = create_arena(stage);
    if (status == PERSEUS_OK && stage->cuda != NULL) {
        status = prs_cuda_lane_init(&stage->out, stage->cuda);
    }
    if (status == PERSEUS_OK && stage->cuda != NULL) {
        status = prs_cuda_lane_init(&stage->in, stage->cuda);
    }
    if (status != PERSEUS_OK) {
        prs_staging_destroy(stage);
        return status;
    }
    stage->route->hooks =
        (struct prs_route_hooks){.context = stage, .pump = pump, .moved = moved, .told = told};
    *out = stage;
    return PERSEUS_OK;
}

void prs_staging_set_directory(struct prs_staging *stage, const unsigned char *blobs, size_t stride)
{
    stage->directory = blobs;
    stage->directory_stride = stride;
}

enum perseus_status prs_staging_pin(struct prs_staging *stage)
{
    if (stage->pinned) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_cuda_pin(stage->cuda, stage->arena, stage->arena_bytes);
    stage->pinned = status == PERSEUS_OK;
    return status;
}

void prs_staging_destroy(struct prs_staging *stage)
{
    if (stage == NULL) {
        return;
    }
    stage->route->hooks = (struct prs_route_hooks){.context = NULL};
    prs_cuda_lane_finish(&stage->out);
    prs_cuda_lane_finish(&stage->in);
    for (int pe = 0; stage->peers != NULL && pe < stage->n_pes; pe++) {
        prs_window_remote_close(stage->peers[pe].arena);
    }
    prs_window_destroy(stage->window);
    if (stage->pinned) {
        prs_cuda_unpin(stage->cuda, stage->arena);
    }
    if (stage->arena != NULL) {
        munmap(stage->arena, stage->arena_bytes);
    }
    free(stage->peers);
    free(stage);
}

/* ---- this PE's own memory ---- */

bool prs_staging_is_device(const struct prs_staging *stage, const void *pointer)
{
    const struct prs_chunk *chunk = prs_memory_find(stage->memory, pointer, 1);
    return chunk != NULL && chunk->device;
}

void prs_staging_store(void *target, const void *source, size_t bytes)
{
    if ((bytes == 2 || bytes == 4 || bytes == 8) && (uintptr_t)target % bytes == 0) {
        uint64_t value = 0;
        memcpy(&value, source, bytes);
        prs_word_apply_sized(target, (uint32_t)bytes, PERSEUS_ATOMIC_SET, value, 0);
    } else {
        memmove(target, source, bytes);
    }
}

enum perseus_status prs_staging_copy_here(struct prs_staging *stage, void *target,
                                          const void *source, size_t bytes)
{
    if (!prs_staging_is_device(stage, target) && !prs_staging_is_device(stage, source)) {
        prs_staging_store(target, source, bytes);
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_cuda_enter(stage->cuda);
    if (status == PERSEUS_OK) {
        status = prs_cuda_lane_copy(&stage->in, target, source, bytes);
    }
    return status == PERSEUS_OK ? prs_cuda_lane_wait(&stage->in) : status;
}

enum perseus_status prs_staging_amo_here(struct prs_staging *stage, const struct prs_amo *amo,
                                         void *word, uint64_t *out_old)
{
    struct prs_route *route = stage->route;
    struct prs_patience patience = {0};
    enum perseus_status status = PERSEUS_OK;
    if (!prs_staging_is_device(stage, word)) {
        *out_old = prs_word_apply_sized(word, amo->bytes, amo->op, amo->operand, amo->compare);
        stage->rmw.scratch[0] = *out_old;
        return PERSEUS_OK;
    }
    while (stage->rmw.busy && status == PERSEUS_OK) {
        status = prs_route_turn(route, &patience, "an atomic", (uint32_t)stage->self);
    }
    uint64_t *scratch = stage->rmw.scratch;
    if (status == PERSEUS_OK) {
        status = prs_staging_copy_here(stage, &scratch[0], word, amo->bytes);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    uint64_t old = prs_amo_low(amo, scratch[0]);
    scratch[1] = prs_word_result(amo->op, old, amo->operand, prs_amo_low(amo, amo->compare));
    status = prs_staging_copy_here(stage, word, &scratch[1], amo->bytes);
    if (status == PERSEUS_OK) {
        *out_old = old;
    }
    return status;
}

/* ---- progress ---- */

static uint32_t told_token(int pe, enum prs_staging_way way)
{
    return PRS_ROUTE_TOKENS + (uint32_t)pe * PRS_STAGE_WAYS + way;
}

static uint32_t knock_token(const struct prs_staging *stage)
{
    return told_token(stage->n_pes, 0);
}

static uint64_t moved(const void *context)
{
    const struct prs_staging *stage = context;
    return stage->moves - stage->knocks;
}

/* A message of staging's own has completed: one that tells `done`, whose `index` says, or a
 * knock. */
static void told(void *context, uint32_t index)
{
    struct prs_staging *stage = context;
    if (PRS_ROUTE_TOKENS + index == knock_token(stage)) {
        stage->knocking = false;
        stage->knocks++;
        return;
    }
    stage->peers[index / PRS_STAGE_WAYS].in[index % PRS_STAGE_WAYS].telling = false;
}

#define IDLE_PER_KNOCK 32768 /* some 20 ms */

void prs_staging_knock(struct prs_staging *stage, int pe, uint32_t idle)
{
    struct prs_staging_peer *peer = &stage->peers[pe];
    if (idle % IDLE_PER_KNOCK != IDLE_PER_KNOCK - 1 || peer->arena == NULL || stage->knocking) {
        return;
    }
    const struct prs_request knock = {
        .kind = PRS_REQUEST_SIGNAL,
        .op = PERSEUS_SIGNAL_SET,
        .peer = (uint32_t)pe,
        .token = knock_token(stage),
        .remote = peer->arena,
        .remote_offset = (uint64_t)stage->self * sizeof(struct prs_staging_words) +
                         offsetof(struct prs_staging_words, knock),
        .value = 1,
    };
    stage->knocking = true;
    enum perseus_status status = prs_orderer_submit(stage->route->link.orderer, &knock);
    stage->knocking = stage->knocking && status == PERSEUS_OK;
    peer->lost = peer->lost || status == PERSEUS_PEER_LOST;
}

/* One message at a time: two SETs of one growing word could change places. */
static enum perseus_status tell(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                bool *did)
{
    struct prs_staging_in *in = &stage->peers[pe].in[way];
    prs_marks_pass(&in->marks, stage->in.done, &in->done);
    if (in->telling || in->done == in->told) {
        return PERSEUS_OK;
    }
    const struct prs_request signal = {
        .kind = PRS_REQUEST_SIGNAL,
        .op = PERSEUS_SIGNAL_SET,
        .peer = (uint32_t)pe,
        .token = told_token(pe, way),
        .remote = stage->peers[pe].arena,
        .remote_offset = done_offset(stage->self, way),
        .value = in->done,
    };
    in->telling = true; /* before: it may complete at once */
    enum perseus_status status = prs_orderer_submit(stage->route->link.orderer, &signal);
    if (status == PERSEUS_OK) {
        in->told = in->done;
        stage->moves++;
        *did = true;
        return PERSEUS_OK;
    }
    in->telling = false;
    return status == PERSEUS_AGAIN ? PERSEUS_OK : status;
}

static enum perseus_status connect_peer(struct prs_staging *stage, int pe)
{
    if (stage->peers[pe].arena != NULL) {
        return PERSEUS_OK;
    }
    const unsigned char *blob = stage->directory + (size_t)pe * stage->directory_stride;
    uint32_t bytes;
    memcpy(&bytes, blob, sizeof bytes);
    return prs_window_import(stage->route->link.orderer, (uint32_t)pe, blob + sizeof bytes, bytes,
                             &stage->peers[pe].arena);
}

static bool has_work(const struct prs_staging *stage, int pe)
{
    const struct prs_staging_peer *peer = &stage->peers[pe];
    const struct prs_staging_words *words = prs_staging_words_from(stage, pe);
    for (int way = 0; way < PRS_STAGE_WAYS; way++) {
        /* Relaxed: whoever acts on it loads again with acquire. */
        if (peer->out[way].posted < peer->out[way].tail ||
            peer->in[way].told < peer->in[way].head ||
            peer->in[way].head <
                atomic_load_explicit(&words->way[way].tail, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static enum perseus_status pump_peer(struct prs_staging *stage, int pe, bool *did)
{
    enum perseus_status status = connect_peer(stage, pe);
    for (int way = PRS_STAGE_WAYS - 1; way >= 0 && status == PERSEUS_OK; way--) {
        enum prs_staging_way each = (enum prs_staging_way)way;
        status = prs_staging_take(stage, pe, each, did);
        if (status == PERSEUS_OK) {
            status = prs_staging_send(stage, pe, each, did);
        }
        if (status == PERSEUS_OK) {
            status = tell(stage, pe, each, did);
        }
    }
    if (status == PERSEUS_PEER_LOST) { /* reported by whoever found it */
        stage->peers[pe].lost = true;
        return PERSEUS_OK;
    }
    return status;
}

static enum perseus_status advance(struct prs_staging *stage)
{
    enum perseus_status status = prs_cuda_lane_advance(&stage->out);
    return status == PERSEUS_OK ? prs_cuda_lane_advance(&stage->in) : status;
}

/* Moves everything on, in both directions. */
static enum perseus_status pump(void *context, bool *out_did)
{
    struct prs_staging *stage = context;
    enum perseus_status status = PERSEUS_OK;
    bool any = false;
    *out_did = false;
    for (int pe = 0; pe < stage->n_pes && status == PERSEUS_OK; pe++) {
        if (pe == stage->self || stage->peers[pe].lost || !has_work(stage, pe)) {
            continue;
        }
        if (!any) {
            any = true;
            status = prs_cuda_enter(stage->cuda);
            status = status == PERSEUS_OK ? advance(stage) : status;
        }
        if (status == PERSEUS_OK) {
            status = pump_peer(stage, pe, out_did);
        }
    }
    /* Copies just issued get their event now, not a round later. */
    return any && status == PERSEUS_OK ? advance(stage) : status;
}
