/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap/proof.h: how a PE and the hub show each other that they know the job's secret, which
 * never travels.
 *
 *     PE   ->  hub   nonce
 *     hub  ->  PE    nonce, proof of the hub
 *     PE   ->  hub   proof of the PE
 *
 * A proof is a MAC (libsodium's crypto_auth, HMAC-SHA512-256) under the secret over both nonces,
 * what the PE says about itself, and whose proof it is: neither a recorded one nor the other side's
 * own is of any use again.
 */
#ifndef PRS_BOOTSTRAP_PROOF_H
#define PRS_BOOTSTRAP_PROOF_H

#include <stdbool.h>
#include <stdint.h>

enum { PRS_PROOF_SECRET_BYTES = 32, PRS_PROOF_NONCE_BYTES = 16, PRS_PROOF_BYTES = 32 };

enum prs_proof_side { PRS_PROOF_OF_HUB = 1, PRS_PROOF_OF_PE = 2 };

/* What both proofs of one connection are about. */
struct prs_proof_terms {
    unsigned char nonce_of_pe[PRS_PROOF_NONCE_BYTES], nonce_of_hub[PRS_PROOF_NONCE_BYTES];
    uint32_t rank, size, timeout_ms; /* as the PE says */
};

/* The hub's answer to a hello. */
struct prs_proof_challenge {
    unsigned char nonce[PRS_PROOF_NONCE_BYTES];
    unsigned char proof[PRS_PROOF_BYTES];
};

/* Draws the hub's nonce, for the terms too, and proves. False: the kernel has no random bytes. */
bool prs_proof_challenge(const unsigned char secret[PRS_PROOF_SECRET_BYTES],
                         struct prs_proof_terms *terms, struct prs_proof_challenge *out);
void prs_proof_make(const unsigned char secret[PRS_PROOF_SECRET_BYTES], enum prs_proof_side side,
                    const struct prs_proof_terms *terms, unsigned char out[PRS_PROOF_BYTES]);
/* In constant time. */
bool prs_proof_check(const unsigned char secret[PRS_PROOF_SECRET_BYTES], enum prs_proof_side side,
                     const struct prs_proof_terms *terms,
                     const unsigned char proof[PRS_PROOF_BYTES]);

#endif
