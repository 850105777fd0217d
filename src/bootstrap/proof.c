/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/proof.h"

#include <string.h>

#include <sodium/crypto_auth.h>

#include "base/random.h"

_Static_assert(crypto_auth_KEYBYTES == PRS_PROOF_SECRET_BYTES, "the secret is the MAC's key");
_Static_assert(crypto_auth_BYTES == PRS_PROOF_BYTES, "a proof is a MAC");

static const char purpose[16] = "perseus join v2";

enum { MESSAGE_BYTES = sizeof purpose + 4 + 2 * PRS_PROOF_NONCE_BYTES + 3 * 4 };

static unsigned char *put(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        *at++ = (unsigned char)(value >> (8 * i));
    }
    return at;
}

static void write_message(enum prs_proof_side side, const struct prs_proof_terms *terms,
                          unsigned char out[MESSAGE_BYTES])
{
    memcpy(out, purpose, sizeof purpose);
    unsigned char *at = put(out + sizeof purpose, (uint32_t)side);
    memcpy(at, terms->nonce_of_pe, PRS_PROOF_NONCE_BYTES);
    memcpy(at + PRS_PROOF_NONCE_BYTES, terms->nonce_of_hub, PRS_PROOF_NONCE_BYTES);
    at = put(at + 2 * PRS_PROOF_NONCE_BYTES, terms->rank);
    at = put(at, terms->size);
    put(at, terms->timeout_ms);
}

void prs_proof_make(const unsigned char secret[PRS_PROOF_SECRET_BYTES], enum prs_proof_side side,
                    const struct prs_proof_terms *terms, unsigned char out[PRS_PROOF_BYTES])
{
    unsigned char message[MESSAGE_BYTES];
    write_message(side, terms, message);
    crypto_auth(out, message, sizeof message, secret);
}

bool prs_proof_check(const unsigned char secret[PRS_PROOF_SECRET_BYTES], enum prs_proof_side side,
                     const struct prs_proof_terms *terms,
                     const unsigned char proof[PRS_PROOF_BYTES])
{
    unsigned char message[MESSAGE_BYTES];
    write_message(side, terms, message);
    return crypto_auth_verify(proof, message, sizeof message, secret) == 0;
}

bool prs_proof_challenge(const unsigned char secret[PRS_PROOF_SECRET_BYTES],
                         struct prs_proof_terms *terms, struct prs_proof_challenge *out)
{
    if (!prs_random_fill(out->nonce, sizeof out->nonce)) {
        return false;
    }
    memcpy(terms->nonce_of_hub, out->nonce, sizeof out->nonce);
    prs_proof_make(secret, PRS_PROOF_OF_HUB, terms, out->proof);
    return true;
}
