/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/outbox.h"

#include <string.h>

static struct prs_outbox_frame *push(struct prs_outbox *outbox, enum prs_wire_type type,
                                     uint32_t rank, uint64_t bytes)
{
    struct prs_outbox_frame *frame = &outbox->frames[outbox->n++];
    const struct prs_wire_header header = {PRS_WIRE_VERSION, (uint16_t)type, rank, bytes};
    *frame = (struct prs_outbox_frame){.type = type, .control_bytes = PRS_WIRE_HEADER_BYTES};
    prs_wire_put_header(&header, frame->control);
    return frame;
}

void prs_outbox_push(struct prs_outbox *outbox, enum prs_wire_type type, uint32_t rank)
{
    push(outbox, type, rank, 0);
}

void prs_outbox_push_result(struct prs_outbox *outbox, uint32_t rank, const unsigned char *body,
                            uint64_t bytes)
{
    struct prs_outbox_frame *frame = push(outbox, PRS_WIRE_RESULT, rank, bytes);
    frame->body = body;
    frame->body_bytes = bytes;
}

void prs_outbox_push_challenge(struct prs_outbox *outbox, uint32_t rank,
                               const struct prs_proof_challenge *challenge)
{
    struct prs_outbox_frame *frame =
        push(outbox, PRS_WIRE_CHALLENGE, rank, PRS_WIRE_CHALLENGE_BYTES);
    prs_wire_put_challenge(challenge, frame->control + frame->control_bytes);
    frame->control_bytes += PRS_WIRE_CHALLENGE_BYTES;
}

void prs_outbox_push_failed(struct prs_outbox *outbox, uint32_t rank,
                            const struct prs_wire_failed *failed)
{
    struct prs_outbox_frame *frame = push(outbox, PRS_WIRE_FAILED, rank, PRS_WIRE_FAILED_BYTES);
    prs_wire_put_failed(failed, frame->control + frame->control_bytes);
    frame->control_bytes += PRS_WIRE_FAILED_BYTES;
}

bool prs_outbox_has(const struct prs_outbox *outbox, enum prs_wire_type type)
{
    for (int i = 0; i < outbox->n; i++) {
        if (outbox->frames[i].type == type) {
            return true;
        }
    }
    return false;
}

size_t prs_outbox_next(const struct prs_outbox *outbox, const unsigned char **out_at)
{
    if (outbox->n == 0) {
        return 0;
    }
    const struct prs_outbox_frame *frame = &outbox->frames[0];
    if (outbox->sent < frame->control_bytes) {
        *out_at = frame->control + outbox->sent;
        return frame->control_bytes - (size_t)outbox->sent;
    }
    uint64_t done = outbox->sent - frame->control_bytes;
    *out_at = frame->body + done;
    return (size_t)(frame->body_bytes - done);
}

bool prs_outbox_sent(struct prs_outbox *outbox, size_t n, enum prs_wire_type *out_type)
{
    outbox->sent += n;
    if (outbox->sent < outbox->frames[0].control_bytes + outbox->frames[0].body_bytes) {
        return false;
    }
    *out_type = outbox->frames[0].type;
    outbox->n--;
    outbox->sent = 0;
    memmove(outbox->frames, outbox->frames + 1, (size_t)outbox->n * sizeof *outbox->frames);
    return true;
}
