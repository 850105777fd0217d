/* SPDX-License-Identifier: Apache-2.0 */
/* routing.h: which experts every token goes to: recorded, or generated from a seed. */
#ifndef PRS_MODEL_ROUTING_H
#define PRS_MODEL_ROUTING_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define PRS_ROUTING_NONE      (-1) /* this choice of the token is not used */
#define PRS_ROUTING_TOP_K_MAX 64

struct prs_routing {
    uint32_t tokens, experts, top_k;
    int32_t *ids; /* [tokens, top_k] row-major; the ids of one token are distinct */
};

enum prs_routing_kind {
    PRS_ROUTING_TRACE,    /* recorded: .npy or .csv */
    PRS_ROUTING_UNIFORM,  /* every set of top_k experts is as likely */
    PRS_ROUTING_BALANCED, /* round robin: every expert gets the same number of tokens, +-1 */
    PRS_ROUTING_ZIPF /* expert of rank r is drawn with weight r^-exponent; the seed ranks them */
};

struct prs_routing_spec {
    enum prs_routing_kind kind;
    const char *path; /* TRACE; points into the parsed text */
    uint32_t layer;   /* TRACE of several layers */
    double exponent;  /* ZIPF */
};

/* "trace:FILE", "uniform", "balanced" or "zipf:S". INVALID_ARGUMENT says what is allowed. */
enum perseus_status prs_routing_spec_parse(const char *text, const struct prs_log *log,
                                           struct prs_routing_spec *out);
/* The name without its argument, for tables. */
const char *prs_routing_kind_name(enum prs_routing_kind kind);

/* Allocates ids; for prs_routing_finish. A trace gives its first `tokens` tokens; fewer, other than
 * top_k ids a token, an id that is not an expert or one twice in a token is an error that names the
 * place. */
enum perseus_status prs_routing_init(struct prs_routing *routing,
                                     const struct prs_routing_spec *spec, uint32_t tokens,
                                     uint32_t experts, uint32_t top_k, uint64_t seed,
                                     const struct prs_log *log);
void prs_routing_finish(struct prs_routing *routing); /* zeroed is allowed */

/* The readers behind TRACE, on bytes in memory; `name` is for messages. They fill routing->ids,
 * which is allocated for the tokens, experts and top_k that are set. */
enum perseus_status prs_routing_read_npy(const struct prs_routing *routing, const char *name,
                                         const unsigned char *bytes, size_t size, uint32_t layer,
                                         const struct prs_log *log);
enum perseus_status prs_routing_read_csv(const struct prs_routing *routing, const char *name,
                                         const unsigned char *bytes, size_t size,
                                         const struct prs_log *log);

/* Gate weights as the models make them: softmax over the chosen experts' scores; [tokens, top_k],
 * from the seed. */
void prs_routing_gate_weights(uint64_t seed, uint32_t tokens, uint32_t top_k, float *out);

#endif
