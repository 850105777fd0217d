/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap/wire.h: the framing that the local and the tcp bootstrap share.
 *
 * A frame is a fixed header and a body whose length the header states. Numbers are little-endian.
 * The limit of the body belongs to the frame's type and is checked before anything is allocated or
 * read for it. HELLO and FAILED keep their layout in every version, so that two versions can at
 * least tell each other that they differ.
 */
#ifndef PRS_BOOTSTRAP_WIRE_H
#define PRS_BOOTSTRAP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <perseus/status.h>

#include "bootstrap/proof.h"

enum {
    PRS_WIRE_VERSION = 2,
    PRS_WIRE_HEADER_BYTES = 20,
    PRS_WIRE_HELLO_BYTES = 24, /* body of HELLO: nonce, size, timeout_ms */
    PRS_WIRE_CHALLENGE_BYTES = PRS_PROOF_NONCE_BYTES + PRS_PROOF_BYTES,
    PRS_WIRE_FAILED_BYTES = 8,       /* body of FAILED: status, detail */
    PRS_WIRE_GATHER_BYTES = 1 << 20, /* one PE's contribution */
    PRS_WIRE_SIZE_MAX = 1 << 20      /* PEs of a job */
};

enum prs_wire_type {
    PRS_WIRE_HELLO = 1, /* PE to hub, first: who I am, and a nonce */
    PRS_WIRE_WELCOME,   /* hub to PE: you are in */
    PRS_WIRE_GATHER,    /* PE to hub: my contribution */
    PRS_WIRE_RESULT,    /* hub to PE: all contributions in rank order */
    PRS_WIRE_FAILED,    /* hub to PE: nothing more can be gathered, and why */
    PRS_WIRE_BYE,       /* either way: I leave in good order */
    PRS_WIRE_CHALLENGE, /* hub to PE, behind its HELLO: a nonce, and that I know the secret */
    PRS_WIRE_PROOF      /* PE to hub, behind that: that I know it too */
};

struct prs_wire_header {
    uint16_t version;
    uint16_t type;  /* enum prs_wire_type */
    uint32_t rank;  /* of the PE that sends or gets it; in FAILED that it is about */
    uint64_t bytes; /* of the body */
};

/* What FAILED says, with the rank of its header:
 * PEER_LOST: the rank is gone; detail is enum prs_wire_loss.
 * TIMEOUT: the rank is the first of `detail` that did not call in time.
 * INVALID_ARGUMENT: the rank called with other bytes than the rest (after WELCOME), or this PE
 * cannot join (before): detail is enum prs_wire_refusal.
 * VERSION: this PE cannot join; detail is the hub's version. */
struct prs_wire_failed {
    uint32_t status; /* enum perseus_status */
    uint32_t detail;
};
enum prs_wire_loss {
    PRS_WIRE_DIED, /* without BYE */
    PRS_WIRE_LEFT  /* with BYE, but another PE still wants to gather */
};
enum prs_wire_refusal {
    PRS_WIRE_WRONG_SECRET = 1,
    PRS_WIRE_WRONG_RANK, /* not below size, or not that of this socket */
    PRS_WIRE_WRONG_SIZE,
    PRS_WIRE_DUPLICATE /* that rank is there, or was */
};

void prs_wire_put_header(const struct prs_wire_header *header,
                         unsigned char out[PRS_WIRE_HEADER_BYTES]);
/* PROTOCOL: not a frame of ours, or its type does not allow that body. VERSION: another version's,
 * and neither HELLO nor FAILED. */
enum perseus_status prs_wire_get_header(const unsigned char in[PRS_WIRE_HEADER_BYTES],
                                        struct prs_wire_header *out);
/* What a HELLO says of the terms; the rank is in its header, the hub's nonce in the CHALLENGE. */
void prs_wire_put_hello(const struct prs_proof_terms *terms,
                        unsigned char out[PRS_WIRE_HELLO_BYTES]);
void prs_wire_get_hello(const unsigned char in[PRS_WIRE_HELLO_BYTES], struct prs_proof_terms *out);
void prs_wire_put_challenge(const struct prs_proof_challenge *challenge,
                            unsigned char out[PRS_WIRE_CHALLENGE_BYTES]);
void prs_wire_get_challenge(const unsigned char in[PRS_WIRE_CHALLENGE_BYTES],
                            struct prs_proof_challenge *out);
void prs_wire_put_failed(const struct prs_wire_failed *failed,
                         unsigned char out[PRS_WIRE_FAILED_BYTES]);
void prs_wire_get_failed(const unsigned char in[PRS_WIRE_FAILED_BYTES],
                         struct prs_wire_failed *out);

/* Takes a byte stream apart: the owner reads up to prs_wire_room bytes to prs_wire_place, tells
 * prs_wire_received, and may then set `body` if a header came in. A body without a place of its own
 * passes through scratch; a control frame's body is still whole there when it is complete. */
struct prs_wire_reader {
    struct prs_wire_header header; /* valid once header_have is PRS_WIRE_HEADER_BYTES */
    unsigned char *body;           /* where it goes; NULL: scratch */
    uint64_t body_have;
    size_t header_have;
    unsigned char header_bytes[PRS_WIRE_HEADER_BYTES];
    unsigned char scratch[512];
};

/* Begins with the next frame. */
void prs_wire_next(struct prs_wire_reader *reader);
unsigned char *prs_wire_place(struct prs_wire_reader *reader);
/* Never 0 unless the frame is complete. */
size_t prs_wire_room(const struct prs_wire_reader *reader);
/* n: at most what prs_wire_room said. *out_headed: a header is complete just now and is good.
 * Errors are those of prs_wire_get_header; the stream is of no use any more then. */
enum perseus_status prs_wire_received(struct prs_wire_reader *reader, size_t n, bool *out_headed);
/* Whether header and body are there. */
bool prs_wire_complete(const struct prs_wire_reader *reader);

#endif
