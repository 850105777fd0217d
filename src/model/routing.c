/* SPDX-License-Identifier: Apache-2.0 */
#include "model/routing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/file_map.h"

#define ZIPF_EXPONENT_MAX 16.0

const char *prs_routing_kind_name(enum prs_routing_kind kind)
{
    static const char *const names[] = {[PRS_ROUTING_TRACE] = "trace",
                                        [PRS_ROUTING_UNIFORM] = "uniform",
                                        [PRS_ROUTING_BALANCED] = "balanced",
                                        [PRS_ROUTING_ZIPF] = "zipf"};
    return names[kind];
}

enum perseus_status prs_routing_spec_parse(const char *text, const struct prs_log *log,
                                           struct prs_routing_spec *out)
{
    struct prs_routing_spec spec = {.kind = PRS_ROUTING_UNIFORM};
    if (strncmp(text, "trace:", 6) == 0 && text[6] != '\0') {
        spec.kind = PRS_ROUTING_TRACE;
        spec.path = text + 6;
    } else if (strcmp(text, "balanced") == 0) {
        spec.kind = PRS_ROUTING_BALANCED;
    } else if (strncmp(text, "zipf:", 5) == 0) {
        char *end;
        spec.kind = PRS_ROUTING_ZIPF;
        spec.exponent = strtod(text + 5, &end);
        if (end == text + 5 || *end != '\0' ||
            !(spec.exponent >= 0 && spec.exponent <= ZIPF_EXPONENT_MAX)) {
            return prs_fail(
                log, PERSEUS_INVALID_ARGUMENT,
                "routing \"%s\": the exponent behind zipf: must be a number from 0 to %g", text,
                ZIPF_EXPONENT_MAX);
        }
    } else if (strcmp(text, "uniform") != 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "routing \"%s\" is none of trace:FILE, uniform, balanced, zipf:S", text);
    }
    *out = spec;
    return PERSEUS_OK;
}

/* top_k distinct experts: a partial Fisher-Yates shuffle of `deck`, which stays a permutation. */
static void fill_uniform(const struct prs_routing *routing, struct prs_rng *rng, int32_t *deck)
{
    for (uint32_t token = 0; token < routing->tokens; token++) {
        for (uint32_t j = 0; j < routing->top_k; j++) {
            uint32_t other = j + prs_rng_below(rng, routing->experts - j);
            int32_t chosen = deck[other];
            deck[other] = deck[j];
            deck[j] = chosen;
            routing->ids[(size_t)token * routing->top_k + j] = chosen;
        }
    }
}

static void fill_balanced(const struct prs_routing *routing)
{
    size_t count = (size_t)routing->tokens * routing->top_k;
    for (size_t i = 0; i < count; i++) {
        routing->ids[i] = (int32_t)(i % routing->experts);
    }
}

/* Draws without replacement: the top_k largest of log(u) / weight (Efraimidis and Spirakis
 * 2006). */
static void fill_zipf(const struct prs_routing *routing, struct prs_rng *rng,
                      const int32_t *rank_of, double exponent)
{
    for (uint32_t token = 0; token < routing->tokens; token++) {
        int32_t *ids = routing->ids + (size_t)token * routing->top_k;
        double keys[PRS_ROUTING_TOP_K_MAX];
        uint32_t kept = 0;
        for (uint32_t expert = 0; expert < routing->experts; expert++) {
            double u = prs_rng_unit(rng) + 0x1.0p-54; /* never log(0) */
            double key = log(u) * pow(rank_of[expert] + 1, exponent);
            if (kept == routing->top_k && key <= keys[kept - 1]) {
                continue;
            }
            uint32_t at = kept < routing->top_k ? kept++ : kept - 1;
            for (; at > 0 && keys[at - 1] < key; at--) {
                keys[at] = keys[at - 1];
                ids[at] = ids[at - 1];
            }
            keys[at] = key;
            ids[at] = (int32_t)expert;
        }
    }
}

static enum perseus_status generate(const struct prs_routing *routing,
                                    const struct prs_routing_spec *spec, uint64_t seed,
                                    const struct prs_log *log)
{
    struct prs_rng rng = prs_rng_seeded(seed);
    if (spec->kind == PRS_ROUTING_BALANCED) {
        fill_balanced(routing);
        return PERSEUS_OK;
    }
    int32_t *deck = malloc(routing->experts * sizeof *deck);
    if (deck == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory to generate routing");
    }
    for (uint32_t i = 0; i < routing->experts; i++) {
        uint32_t other = prs_rng_below(&rng, i + 1);
        deck[i] = deck[other];
        deck[other] = (int32_t)i;
    }
    if (spec->kind == PRS_ROUTING_UNIFORM) {
        fill_uniform(routing, &rng, deck);
    } else {
        fill_zipf(routing, &rng, deck, spec->exponent);
    }
    free(deck);
    return PERSEUS_OK;
}

/* What else such captures are kept in, and how to make a file that is read. */
static enum perseus_status refuse_container(const char *path, const char *ending,
                                            const struct prs_log *log)
{
    static const struct {
        const char *ending, *what;
    } others[] = {
        {".npz", "an archive of arrays: save the one array with numpy.save"},
        {".pt",
         "PyTorch's archive (SGLang's recorder writes it): numpy.save(path, ids.cpu().numpy())"},
        {".pth", "PyTorch's archive: numpy.save(path, ids.cpu().numpy())"},
        {".pkl", "pickled Python objects: numpy.save the array of experts' numbers"},
        {".json", "JSON: write a line of k numbers, with commas, per token, as .csv"},
        {".jsonl", "JSON: write a line of k numbers, with commas, per token, as .csv"},
        {".parquet", "a Parquet table: numpy.save the array of experts' numbers"},
        {".safetensors",
         "a checkpoint: routing is an array, numpy.save it (--weights reads weights)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(ending, others[i].ending) == 0) {
            return prs_fail(log, PERSEUS_NOT_SUPPORTED, "routing trace %s is %s", path,
                            others[i].what);
        }
    }
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                    "routing trace %s: the name must end in .npy or .csv", path);
}

static enum perseus_status read_trace(const struct prs_routing *routing,
                                      const struct prs_routing_spec *spec,
                                      const struct prs_log *log)
{
    const char *dot = strrchr(spec->path, '.');
    const char *ending = dot != NULL ? dot : "";
    bool npy = strcmp(ending, ".npy") == 0;
    if (!npy && strcmp(ending, ".csv") != 0) {
        return refuse_container(spec->path, ending, log);
    }
    struct prs_file_map map;
    enum perseus_status status = prs_file_map_init(&map, spec->path, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = npy ? prs_routing_read_npy(routing, spec->path, map.bytes, map.size, spec->layer, log)
                 : prs_routing_read_csv(routing, spec->path, map.bytes, map.size, log);
    prs_file_map_finish(&map);
    return status;
}

enum perseus_status prs_routing_init(struct prs_routing *routing,
                                     const struct prs_routing_spec *spec, uint32_t tokens,
                                     uint32_t experts, uint32_t top_k, uint64_t seed,
                                     const struct prs_log *log)
{
    if (tokens == 0 || experts == 0 || top_k == 0 || top_k > experts ||
        top_k > PRS_ROUTING_TOP_K_MAX) {
        return prs_fail(
            log, PERSEUS_INVALID_ARGUMENT,
            "routing of %u tokens to %u of %u experts: all must be 1 or more, and no more "
            "experts a token than there are (nor %d)",
            tokens, top_k, experts, PRS_ROUTING_TOP_K_MAX);
    }
    struct prs_routing made = {.tokens = tokens, .experts = experts, .top_k = top_k};
    made.ids = malloc((size_t)tokens * top_k * sizeof *made.ids);
    if (made.ids == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the routing of %u tokens",
                        tokens);
    }
    enum perseus_status status = spec->kind == PRS_ROUTING_TRACE ? read_trace(&made, spec, log)
                                                                 : generate(&made, spec, seed, log);
    if (status != PERSEUS_OK) {
        prs_routing_finish(&made);
        return status;
    }
    *routing = made;
    return PERSEUS_OK;
}

void prs_routing_finish(struct prs_routing *routing)
{
    free(routing->ids);
    *routing = (struct prs_routing){0};
}

void prs_routing_gate_weights(uint64_t seed, uint32_t tokens, uint32_t top_k, float *out)
{
    struct prs_rng rng = prs_rng_seeded(seed);
    for (uint32_t token = 0; token < tokens; token++) {
        float *weights = out + (size_t)token * top_k;
        float sum = 0;
        for (uint32_t j = 0; j < top_k; j++) {
            weights[j] = expf((float)(4.0 * prs_rng_unit(&rng) - 2.0));
            sum += weights[j];
        }
        for (uint32_t j = 0; j < top_k; j++) {
            weights[j] /= sum;
        }
    }
}
