/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap/outbox.h: the frames that wait to be written to one connection of the hub. */
#ifndef PRS_BOOTSTRAP_OUTBOX_H
#define PRS_BOOTSTRAP_OUTBOX_H

#include "bootstrap/wire.h"

/* One of each type that the hub sends can wait: CHALLENGE, WELCOME, RESULT, FAILED, BYE. */
enum { PRS_OUTBOX_FRAMES = 5 };

struct prs_outbox_frame {
    enum prs_wire_type type;
    unsigned char control[PRS_WIRE_HEADER_BYTES + PRS_WIRE_CHALLENGE_BYTES]; /* the longest */
    size_t control_bytes;
    const unsigned char *body; /* gathered data, not owned */
    uint64_t body_bytes;
};

/* All zero is empty. */
struct prs_outbox {
    struct prs_outbox_frame frames[PRS_OUTBOX_FRAMES];
    int n;
    uint64_t sent; /* of frames[0] */
};

void prs_outbox_push(struct prs_outbox *outbox, enum prs_wire_type type, uint32_t rank);
void prs_outbox_push_result(struct prs_outbox *outbox, uint32_t rank, const unsigned char *body,
                            uint64_t bytes);
void prs_outbox_push_challenge(struct prs_outbox *outbox, uint32_t rank,
                               const struct prs_proof_challenge *challenge);
void prs_outbox_push_failed(struct prs_outbox *outbox, uint32_t rank,
                            const struct prs_wire_failed *failed);
/* Whether a frame of that type is still waiting, or partly. */
bool prs_outbox_has(const struct prs_outbox *outbox, enum prs_wire_type type);
/* What to write next; 0: nothing. */
size_t prs_outbox_next(const struct prs_outbox *outbox, const unsigned char **out_at);
/* n bytes of it are written. True when a frame is finished; *out_type is what it was. */
bool prs_outbox_sent(struct prs_outbox *outbox, size_t n, enum prs_wire_type *out_type);

#endif
