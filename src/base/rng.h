/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h: a small seeded generator (splitmix64) for adversaries, tests and generated data; one seed
 * reproduces a run on every machine. Not for secrets. */
#ifndef PRS_BASE_RNG_H
#define PRS_BASE_RNG_H

#include <stdint.h>

struct prs_rng {
    uint64_t state;
};

static inline struct prs_rng prs_rng_seeded(uint64_t seed)
{
    return (struct prs_rng){.state = seed};
}

static inline uint64_t prs_rng_next(struct prs_rng *rng)
{
    uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, bound); bound > 0. The bias of 64-bit multiply-shift is below 2^-32 for bounds
 * here. */
static inline uint32_t prs_rng_below(struct prs_rng *rng, uint32_t bound)
{
    return (uint32_t)(((prs_rng_next(rng) >> 32) * (uint64_t)bound) >> 32);
}

/* Uniform in [0, 1). */
static inline double prs_rng_unit(struct prs_rng *rng)
{
    return (double)(prs_rng_next(rng) >> 11) * 0x1.0p-53;
}

#endif
