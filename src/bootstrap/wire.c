/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/wire.h"

#include <string.h>

/* "PRSB" as it appears on the wire. */
#define PRS_WIRE_MAGIC 0x42535250u

static void put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

void prs_wire_put_header(const struct prs_wire_header *header,
                         unsigned char out[PRS_WIRE_HEADER_BYTES])
{
    put(out, PRS_WIRE_MAGIC, 4);
    put(out + 4, header->version, 2);
    put(out + 6, header->type, 2);
    put(out + 8, header->rank, 4);
    put(out + 12, header->bytes, 8);
}

static bool body_allowed(uint16_t type, uint64_t bytes)
{
    switch (type) {
    case PRS_WIRE_HELLO:
        return bytes == PRS_WIRE_HELLO_BYTES;
    case PRS_WIRE_GATHER:
        return bytes <= PRS_WIRE_GATHER_BYTES;
    case PRS_WIRE_RESULT:
        return bytes <= (uint64_t)PRS_WIRE_GATHER_BYTES * PRS_WIRE_SIZE_MAX;
    case PRS_WIRE_FAILED:
        return bytes == PRS_WIRE_FAILED_BYTES;
    case PRS_WIRE_CHALLENGE:
        return bytes == PRS_WIRE_CHALLENGE_BYTES;
    case PRS_WIRE_PROOF:
        return bytes == PRS_PROOF_BYTES;
    case PRS_WIRE_WELCOME:
    case PRS_WIRE_BYE:
        return bytes == 0;
    default:
        return false;
    }
}

enum perseus_status prs_wire_get_header(const unsigned char in[PRS_WIRE_HEADER_BYTES],
                                        struct prs_wire_header *out)
{
    struct prs_wire_header header = {
        .version = (uint16_t)get(in + 4, 2),
        .type = (uint16_t)get(in + 6, 2),
        .rank = (uint32_t)get(in + 8, 4),
        .bytes = get(in + 12, 8),
    };
    if (get(in, 4) != PRS_WIRE_MAGIC || !body_allowed(header.type, header.bytes)) {
        return PERSEUS_PROTOCOL;
    }
    if (header.version != PRS_WIRE_VERSION && header.type != PRS_WIRE_HELLO &&
        header.type != PRS_WIRE_FAILED) {
        return PERSEUS_VERSION;
    }
    *out = header;
    return PERSEUS_OK;
}

void prs_wire_put_hello(const struct prs_proof_terms *terms,
                        unsigned char out[PRS_WIRE_HELLO_BYTES])
{
    memcpy(out, terms->nonce_of_pe, PRS_PROOF_NONCE_BYTES);
    put(out + 16, terms->size, 4);
    put(out + 20, terms->timeout_ms, 4);
}

void prs_wire_get_hello(const unsigned char in[PRS_WIRE_HELLO_BYTES], struct prs_proof_terms *out)
{
    memcpy(out->nonce_of_pe, in, PRS_PROOF_NONCE_BYTES);
    out->size = (uint32_t)get(in + 16, 4);
    out->timeout_ms = (uint32_t)get(in + 20, 4);
}

void prs_wire_put_challenge(const struct prs_proof_challenge *challenge,
                            unsigned char out[PRS_WIRE_CHALLENGE_BYTES])
{
    memcpy(out, challenge->nonce, PRS_PROOF_NONCE_BYTES);
    memcpy(out + PRS_PROOF_NONCE_BYTES, challenge->proof, PRS_PROOF_BYTES);
}

void prs_wire_get_challenge(const unsigned char in[PRS_WIRE_CHALLENGE_BYTES],
                            struct prs_proof_challenge *out)
{
    memcpy(out->nonce, in, PRS_PROOF_NONCE_BYTES);
    memcpy(out->proof, in + PRS_PROOF_NONCE_BYTES, PRS_PROOF_BYTES);
}

void prs_wire_put_failed(const struct prs_wire_failed *failed,
                         unsigned char out[PRS_WIRE_FAILED_BYTES])
{
    put(out, failed->status, 4);
    put(out + 4, failed->detail, 4);
}

void prs_wire_get_failed(const unsigned char in[PRS_WIRE_FAILED_BYTES], struct prs_wire_failed *out)
{
    out->status = (uint32_t)get(in, 4);
    out->detail = (uint32_t)get(in + 4, 4);
}

void prs_wire_next(struct prs_wire_reader *reader)
{
    reader->body = NULL;
    reader->body_have = 0;
    reader->header_have = 0;
}

unsigned char *prs_wire_place(struct prs_wire_reader *reader)
{
    if (reader->header_have < PRS_WIRE_HEADER_BYTES) {
        return reader->header_bytes + reader->header_have;
    }
    if (reader->body != NULL) {
        return reader->body + reader->body_have;
    }
    return reader->scratch + reader->body_have % sizeof reader->scratch;
}

size_t prs_wire_room(const struct prs_wire_reader *reader)
{
    if (reader->header_have < PRS_WIRE_HEADER_BYTES) {
        return PRS_WIRE_HEADER_BYTES - reader->header_have;
    }
    uint64_t left = reader->header.bytes - reader->body_have;
    if (reader->body == NULL) {
        uint64_t scratch = sizeof reader->scratch - reader->body_have % sizeof reader->scratch;
        return left < scratch ? (size_t)left : (size_t)scratch;
    }
    return (size_t)left;
}

enum perseus_status prs_wire_received(struct prs_wire_reader *reader, size_t n, bool *out_headed)
{
    *out_headed = false;
    if (reader->header_have == PRS_WIRE_HEADER_BYTES) {
        reader->body_have += n;
        return PERSEUS_OK;
    }
    reader->header_have += n;
    if (reader->header_have < PRS_WIRE_HEADER_BYTES) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_wire_get_header(reader->header_bytes, &reader->header);
    *out_headed = status == PERSEUS_OK;
    return status;
}

bool prs_wire_complete(const struct prs_wire_reader *reader)
{
    return reader->header_have == PRS_WIRE_HEADER_BYTES &&
           reader->body_have == reader->header.bytes;
}
