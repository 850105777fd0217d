/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/world.h"

#include "fabric/faulty/faulty.h"
#include "fabric/loopback/loopback.h"
#include "fabric/registry.h"
#include "fabric/staged/staged.h"
#ifdef PERSEUS_HAVE_LIBFABRIC
#include "fabric/libfabric/libfabric.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA_WORDS  PROGRAM_WORDS_MAX
#define HEAP_WORDS  (AREA_WORDS * WORLD_PES)
#define TURNS_MAX   200000 /* on the loopback; real providers have REAL_NS_MAX */
#define REAL_NS_MAX 60000000000u
#define TOKENS_MAX  (PROGRAM_STEPS_MAX + 1)
#define QUIET_TOKEN PROGRAM_STEPS_MAX
#define DEADLINE_NS 100000 /* of the world's clock: a thousand turns */

static const struct prs_order_pools smallest = {
    .operations = 2, .tokens = 1, .quiets = 1, .stages = 1, .replies = 1};

#define STAGE_BYTES 65536 /* or the minimum, where everything has it */

#define LOSSES 60 /* the lost operation is one of the first so many */

struct world_pe {
    struct world *world;
    struct prs_fabric *fabric;
    struct prs_orderer *orderer;
    struct prs_window *heap, *source;
    struct prs_window_remote *remotes[WORLD_PES];
    uint64_t memory[HEAP_WORDS]; /* area s is what PE s writes here */
    uint64_t staged[WORLD_PES][AREA_WORDS];
    struct program program;
    uint32_t next_step;
    bool quiet_asked, done[TOKENS_MAX];
    uint64_t fetched[TOKENS_MAX];
    enum perseus_status status[TOKENS_MAX];
    const char *bad_quiet; /* a quiet of one PE completed too early: what was missing, and whose */
    uint32_t bad_target, bad_step;
};

struct world {
    uint64_t now_ns;
    struct prs_rng rng;
    unsigned char directory[WORLD_PES][4 + PRS_ORDERER_ADDRESS_MAX];
    struct world_pe pes[WORLD_PES];
    uint64_t seen[AREA_WORDS];
    const struct world_case *what;
    char *why;
    size_t why_bytes;
};

static uint64_t world_now(void *context)
{
    return ((struct world *)context)->now_ns;
}

/* A quiet of one PE that says OK has lost nothing, and all before it is there now. */
static void check_quiet_of_one(struct world_pe *pe, uint32_t index)
{
    uint32_t target = pe->program.steps[index].target, step = 0;
    const uint64_t *area = pe->world->pes[target].memory + pe->program.self * AREA_WORDS;
    const char *bad = program_check_quiet(&pe->program, index, target, area, &step);
    if (bad != NULL && pe->bad_quiet == NULL) {
        pe->bad_quiet = bad;
        pe->bad_target = target;
        pe->bad_step = step;
    }
}

static void on_complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct world_pe *pe = context;
    if (token < pe->program.count && pe->program.steps[token].kind == STEP_QUIET &&
        status == PERSEUS_OK) {
        check_quiet_of_one(pe, token);
    }
    pe->done[token] = true;
    pe->status[token] = status;
    pe->fetched[token] = result;
}

static const char *broken(struct world *world, const char *what, uint32_t sender, uint32_t target,
                          uint32_t step)
{
    snprintf(world->why, world->why_bytes, "%s (sender %u, target %u, step %u)", what, sender,
             target, step);
    return world->why;
}

/* ---- building ---- */

static enum perseus_status stage(const struct world_case *what, struct prs_clock clock,
                                 uint32_t index, struct prs_fabric **fabric)
{
    const struct prs_staged_config config = {
        .ring_bytes = what->small_pools ? PRS_STAGED_RING_BYTES_MIN : STAGE_BYTES, .clock = clock};
    enum perseus_status status = prs_staged_wrap(*fabric, &config, fabric);
    if (status == PERSEUS_OK) {
        prs_staged_place(*fabric, index, WORLD_PES);
    }
    return status;
}

static enum perseus_status open_fabric(const struct world_case *what, struct prs_clock clock,
                                       const struct prs_faulty_config *adversary, uint32_t index,
                                       struct prs_fabric **out)
{
    struct prs_fabric_config config = {.memory_kinds = PRS_MEMORY_HOST,
                                       .want_atomics = true,
                                       .unordered_mask = what->unordered_mask,
                                       .ungranted_mask = what->ungranted_mask,
                                       .clock = clock};
    const struct prs_fabric_ops *ops = &prs_loopback_ops;
    if (what->fabric != NULL) {
        config.provider = what->provider;
        enum perseus_status found = prs_fabric_find(what->fabric, NULL, &ops);
        if (found != PERSEUS_OK) {
            return found;
        }
    } else if (what->provider != NULL) {
#ifdef PERSEUS_HAVE_LIBFABRIC
        ops = &prs_libfabric_ops;
        config.provider = what->provider;
        config.clock = prs_clock_monotonic();
#else
        return PERSEUS_NOT_FOUND;
#endif
    }
    struct prs_fabric *inside;
    enum perseus_status status = ops->open(&config, &inside);
    if (status == PERSEUS_OK && what->staged) {
        status = stage(what, config.clock, index, &inside);
    }
    return status == PERSEUS_OK ? prs_faulty_wrap(inside, adversary, NULL, clock, out) : status;
}

static enum perseus_status build_pe(struct world *world, uint32_t index, uint64_t seed)
{
    struct world_pe *pe = &world->pes[index];
    struct prs_clock clock = {.now_ns = world_now, .context = world};
    struct prs_faulty_config adversary = {
        .seed = seed * WORLD_PES + index,
        .latency_ns = world->what->latency_ns != 0 ? world->what->latency_ns : 300,
        .jitter_ns = 400,
        .reorder = true,
        .again_probability = 0.2};
    if (world->what->loses && index == seed % WORLD_PES) {
        uint64_t nth = 1 + seed / WORLD_PES / 2 % LOSSES;
        *(seed / WORLD_PES % 2 == 0 ? &adversary.fail_nth : &adversary.refuse_nth) = nth;
    }
    enum prs_memory_kind kind = world->what->staged ? PRS_MEMORY_CUDA : PRS_MEMORY_HOST;
    pe->world = world;
    enum perseus_status status = open_fabric(world->what, clock, &adversary, index, &pe->fabric);
    struct prs_endpoint *endpoint = NULL;
    if (status == PERSEUS_OK) {
        status = pe->fabric->ops->endpoint_open(pe->fabric, &endpoint);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_orderer_config config = {
        .endpoint = endpoint,
        .ordering = world->what->ordering,
        .self = index,
        .n_peers = WORLD_PES,
        .lanes = world->what->lanes,
        .piece_bytes = world->what->piece_bytes,
        .parked_max = world->what->small_pools ? 2 : 8,
        .pools = world->what->small_pools ? smallest : (struct prs_order_pools){0},
        .timeout_ns = world->what->loses ? DEADLINE_NS : 0,
        .immediate_signal = !world->what->no_immediate_signal,
        .native_atomics = world->what->native_atomics,
        .complete = on_complete,
        .context = pe,
        .clock = clock};
    status = world->what->mode != NULL
                 ? prs_orderer_create_with_mode(&config, world->what->mode, &pe->orderer)
                 : prs_orderer_create(&config, &pe->orderer);
    if (status != PERSEUS_OK) {
        pe->fabric->ops->endpoint_close(endpoint);
        return status;
    }
    size_t bytes = PRS_ORDERER_ADDRESS_MAX;
    status = prs_orderer_address(pe->orderer, world->directory[index] + 4, &bytes);
    memcpy(world->directory[index], &(uint32_t){(uint32_t)bytes}, 4);
    prs_orderer_set_directory(pe->orderer, world->directory[0], sizeof world->directory[0]);
    if (status == PERSEUS_OK) {
        status = prs_window_create(pe->orderer, pe->memory, sizeof pe->memory, kind, &pe->heap);
    }
    if (status == PERSEUS_OK) {
        status = prs_window_create(pe->orderer, pe->staged, sizeof pe->staged, kind, &pe->source);
    }
    return status;
}

static enum perseus_status connect_all(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_PES; i++) {
        for (uint32_t j = 0; j < WORLD_PES; j++) {
            unsigned char blob[PRS_WINDOW_BLOB_MAX];
            size_t bytes = sizeof blob;
            enum perseus_status status = prs_window_export(world->pes[j].heap, blob, &bytes);
            if (status == PERSEUS_OK && i != j) {
                status = prs_window_import(world->pes[i].orderer, j, blob, bytes,
                                           &world->pes[i].remotes[j]);
            }
            if (status != PERSEUS_OK) {
                return status;
            }
        }
    }
    return PERSEUS_OK;
}

static void destroy_world(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_PES; i++) {
        struct world_pe *pe = &world->pes[i];
        for (uint32_t j = 0; j < WORLD_PES; j++) {
            prs_window_remote_close(pe->remotes[j]);
        }
        prs_window_destroy(pe->heap);
        prs_window_destroy(pe->source);
        prs_orderer_destroy(pe->orderer);
        if (pe->fabric != NULL) {
            pe->fabric->ops->close(pe->fabric);
        }
    }
    free(world);
}

/* ---- running ---- */

/* Most are waited for by the quiet alone: puts may complete before they are delivered then, and
 * signals join their neighbours. */
static bool has_token(const struct step *step, uint32_t index)
{
    return step->kind == STEP_FETCH || step->kind == STEP_QUIET || index % 4 == 0;
}

static struct prs_request request_of(struct world_pe *pe, uint32_t index)
{
    static const enum prs_request_kind kinds[] = {
        [STEP_PUT] = PRS_REQUEST_PUT,       [STEP_PUT_SIGNAL] = PRS_REQUEST_PUT_SIGNAL,
        [STEP_SIGNAL] = PRS_REQUEST_SIGNAL, [STEP_VECTOR] = PRS_REQUEST_SIGNAL_VECTOR,
        [STEP_ADD] = PRS_REQUEST_SIGNAL,    [STEP_FETCH] = PRS_REQUEST_ATOMIC_FETCH,
        [STEP_COUNTER] = PRS_REQUEST_SIGNAL};
    const struct step *step = &pe->program.steps[index];
    uint64_t area = (uint64_t)pe->program.self * AREA_WORDS;
    bool has_data = step->kind == STEP_PUT || step->kind == STEP_PUT_SIGNAL;
    struct prs_request request = {
        .kind = (uint8_t)kinds[step->kind],
        .op = step->kind == STEP_ADD ? PERSEUS_SIGNAL_ADD : PERSEUS_SIGNAL_SET,
        .peer = step->target,
        .token = has_token(step, index) ? index : PRS_ORDER_NO_TOKEN,
        .local = prs_window_region(pe->source),
        .local_offset = ((uint64_t)step->target * AREA_WORDS + step->data) * 8,
        .remote = pe->remotes[step->target],
        .remote_offset = (area + (has_data ? step->data : step->signal)) * 8,
        .bytes = (uint64_t)(has_data ? step->data_words : step->signal_words) * 8,
        .signal_remote = pe->remotes[step->target],
        .signal_offset = (area + step->signal) * 8,
        .value = step->value};
    if (step->kind == STEP_FETCH) {
        request.op = PERSEUS_ATOMIC_ADD;
    }
    return request;
}

static enum perseus_status submit_next(struct world_pe *pe)
{
    const struct step *step = &pe->program.steps[pe->next_step];
    if (step->kind == STEP_FENCE) {
        return prs_orderer_fence(pe->orderer, step->target);
    }
    if (step->kind == STEP_FENCE_ALL) {
        return prs_orderer_fence(pe->orderer, PRS_ORDER_ALL_PEERS);
    }
    if (step->kind == STEP_QUIET) {
        return prs_orderer_quiet(pe->orderer, step->target, pe->next_step);
    }
    struct prs_request request = request_of(pe, pe->next_step);
    for (uint32_t i = 0; i < step->data_words; i++) {
        pe->staged[step->target][step->data + i] = program_word(&pe->program, pe->next_step, i);
    }
    uint64_t values[16];
    for (uint32_t i = 0; i < step->signal_words; i++) {
        values[i] = step->value + i;
    }
    request.values = values;
    enum perseus_status status = prs_orderer_submit(pe->orderer, &request);
    if (status == PERSEUS_OK && !has_token(step, pe->next_step)) {
        pe->done[pe->next_step] = true;
    }
    return status;
}

/* A step toward a peer that has failed is refused, and over. */
static enum perseus_status take_step(struct world *world, struct world_pe *pe)
{
    enum perseus_status status = submit_next(pe);
    if (world->what->loses && status != PERSEUS_OK && status != PERSEUS_AGAIN) {
        pe->done[pe->next_step] = true;
        pe->status[pe->next_step] = status;
        status = PERSEUS_OK;
    }
    pe->next_step += status == PERSEUS_OK;
    return status;
}

static const char *advance_program(struct world *world, struct world_pe *pe)
{
    enum perseus_status status = PERSEUS_OK;
    uint32_t burst = 1 + prs_rng_below(&world->rng, 8);
    while (status == PERSEUS_OK && pe->next_step < pe->program.count && burst-- > 0) {
        status = take_step(world, pe);
    }
    if (status == PERSEUS_OK && pe->next_step == pe->program.count && !pe->quiet_asked) {
        status = prs_orderer_quiet(pe->orderer, PRS_ORDER_ALL_PEERS, QUIET_TOKEN);
        pe->quiet_asked = status == PERSEUS_OK;
    }
    if (status == PERSEUS_OK || status == PERSEUS_AGAIN) {
        status = prs_orderer_flush(pe->orderer);
    }
    return status == PERSEUS_OK
               ? NULL
               : broken(world, perseus_status_string(status), pe->program.self, 0, pe->next_step);
}

/* What `sender` has done at `target`. A device writes there while we read, so what it is held to is
 * read again, behind this. */
static const char *check_one(struct world *world, uint32_t sender, uint32_t target)
{
    const uint64_t *area = world->pes[target].memory + sender * AREA_WORDS;
    const uint64_t *seen = area;
    if (world->what->fabric != NULL) {
        for (uint32_t i = 0; i < AREA_WORDS; i++) {
            /* Acquire pairs with the device's order of writes. */
            world->seen[i] = __atomic_load_n(&area[i], __ATOMIC_ACQUIRE);
        }
        seen = world->seen;
    }
    uint32_t step;
    const char *bad = program_check(&world->pes[sender].program, target, seen, area, &step);
    return bad != NULL ? broken(world, bad, sender, target, step) : NULL;
}

static const char *check_around(struct world *world, uint32_t index)
{
    const char *bad = NULL;
    for (uint32_t other = 0; other < WORLD_PES && bad == NULL; other++) {
        if (other != index) {
            bad = check_one(world, index, other);
            bad = bad == NULL ? check_one(world, other, index) : bad;
        }
    }
    return bad;
}

static const char *check_quiet(struct world *world, struct world_pe *pe)
{
    bool whole = pe->status[QUIET_TOKEN] == PERSEUS_OK;
    if (!whole && !world->what->loses) {
        return broken(world, "quiet failed", pe->program.self, 0, 0);
    }
    for (uint32_t target = 0; target < WORLD_PES; target++) {
        uint32_t step;
        if (target == pe->program.self || !whole) {
            continue;
        }
        const char *bad =
            program_check_quiet(&pe->program, pe->program.count, target,
                                world->pes[target].memory + pe->program.self * AREA_WORDS, &step);
        if (bad != NULL) {
            return broken(world, bad, pe->program.self, target, step);
        }
    }
    for (uint32_t i = 0; i < pe->program.count; i++) {
        const struct step *step = &pe->program.steps[i];
        if (step->kind == STEP_FENCE || step->kind == STEP_FENCE_ALL) {
            continue;
        }
        if (!pe->done[i] || (whole && pe->status[i] != PERSEUS_OK)) {
            return broken(world, "quiet completed before a token did", pe->program.self,
                          step->target, i);
        }
        if (step->kind == STEP_FETCH && pe->status[i] == PERSEUS_OK && pe->fetched[i] != 0) {
            return broken(world, "a fetch returned something else than the value before",
                          pe->program.self, step->target, i);
        }
    }
    return NULL;
}

static const char *run_world(struct world *world)
{
    bool checked[WORLD_PES] = {false};
    uint32_t left = WORLD_PES;
    struct prs_clock real = prs_clock_monotonic();
    uint64_t deadline_ns = prs_clock_now_ns(&real) + REAL_NS_MAX;
    bool in_time = true;
    for (uint32_t turn = 0; in_time && left > 0; turn++) {
        in_time = world->what->provider == NULL ? turn < TURNS_MAX
                                                : prs_clock_now_ns(&real) < deadline_ns;
        uint32_t index = prs_rng_below(&world->rng, WORLD_PES);
        struct world_pe *pe = &world->pes[index];
        world->now_ns += prs_rng_below(&world->rng, 200);
        const char *bad = NULL;
        if (!pe->quiet_asked && prs_rng_below(&world->rng, 2) == 0) {
            bad = advance_program(world, pe);
        }
        bool did;
        enum perseus_status status = prs_orderer_progress(pe->orderer, 16, &did);
        if (status != PERSEUS_OK) {
            bad = broken(world, perseus_status_string(status), index, index, 0);
        }
        if (bad == NULL && pe->bad_quiet != NULL) {
            bad = broken(world, pe->bad_quiet, index, pe->bad_target, pe->bad_step);
        }
        if (bad == NULL) {
            bad = check_around(world, index);
        }
        if (bad == NULL && pe->done[QUIET_TOKEN] && !checked[index]) {
            checked[index] = true;
            left--;
            bad = check_quiet(world, pe);
        }
        if (bad != NULL) {
            return bad;
        }
    }
    return left == 0 ? NULL : broken(world, "no end: something waits for ever", 0, 0, 0);
}

const char *world_run(const struct world_case *what, uint64_t seed, char *why, size_t why_bytes)
{
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL) {
        abort();
    }
    world->what = what;
    world->why = why;
    world->why_bytes = why_bytes;
    world->rng = prs_rng_seeded(seed);
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < WORLD_PES && status == PERSEUS_OK; i++) {
        status = build_pe(world, i, seed);
    }
    if (status == PERSEUS_OK) {
        status = connect_all(world);
    }
    const char *bad = NULL;
    if (status != PERSEUS_OK) {
        bad = broken(world, perseus_status_string(status), 0, 0, 0);
    } else {
        const struct prs_orderer *any = world->pes[0].orderer;
        bool adds = any->has_mailbox || any->atomics_native != 0;
        for (uint32_t i = 0; i < WORLD_PES; i++) {
            program_generate(&world->pes[i].program, i, WORLD_PES, what->style, adds, &world->rng);
        }
        bad = run_world(world);
    }
    destroy_world(world);
    return bad;
}

enum perseus_status world_supported(const struct world_case *what)
{
    struct prs_clock clock = prs_clock_monotonic();
    struct prs_faulty_config adversary = {.seed = 1};
    struct prs_fabric *fabric;
    enum perseus_status status = open_fabric(what, clock, &adversary, 0, &fabric);
    if (status != PERSEUS_OK) {
        return status;
    }
    char why[256];
    status = prs_ordering_check(what->ordering, &fabric->caps, why, sizeof why);
    fabric->ops->close(fabric);
    return status;
}
