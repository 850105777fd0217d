/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: the frame decoder on any bytes, in pieces of any size. What it accepts must come out
 * the same again when encoded, and it must never ask to read outside its buffers. */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_header(const struct prs_wire_reader *reader)
{
    unsigned char again[PRS_WIRE_HEADER_BYTES];
    prs_wire_put_header(&reader->header, again);
    check(memcmp(again, reader->header_bytes, sizeof again) == 0);
    check(reader->header.type != PRS_WIRE_GATHER || reader->header.bytes <= PRS_WIRE_GATHER_BYTES);
}

static void check_control(const struct prs_wire_reader *reader)
{
    unsigned char again[PRS_WIRE_CHALLENGE_BYTES]; /* the largest of the three */
    struct prs_proof_terms terms;
    struct prs_proof_challenge challenge;
    struct prs_wire_failed failed;
    if (reader->header.type == PRS_WIRE_HELLO) {
        prs_wire_get_hello(reader->scratch, &terms);
        prs_wire_put_hello(&terms, again);
        check(memcmp(again, reader->scratch, PRS_WIRE_HELLO_BYTES) == 0);
    } else if (reader->header.type == PRS_WIRE_CHALLENGE) {
        prs_wire_get_challenge(reader->scratch, &challenge);
        prs_wire_put_challenge(&challenge, again);
        check(memcmp(again, reader->scratch, PRS_WIRE_CHALLENGE_BYTES) == 0);
    } else if (reader->header.type == PRS_WIRE_FAILED) {
        prs_wire_get_failed(reader->scratch, &failed);
        prs_wire_put_failed(&failed, again);
        check(memcmp(again, reader->scratch, PRS_WIRE_FAILED_BYTES) == 0);
    }
}

/* The first byte is the size of the pieces, 0: as much as fits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const size_t step = data[0] == 0 ? SIZE_MAX : data[0];
    struct prs_wire_reader reader;
    unsigned char *body = NULL;
    memset(&reader, 0, sizeof reader);
    prs_wire_next(&reader);
    data++;
    size--;
    while (size > 0) {
        size_t n = prs_wire_room(&reader);
        bool has_header;
        check(n > 0);
        n = n < step ? n : step;
        n = n < size ? n : size;
        memcpy(prs_wire_place(&reader), data, n);
        data += n;
        size -= n;
        if (prs_wire_received(&reader, n, &has_header) != PERSEUS_OK) {
            break;
        }
        if (has_header) {
            check_header(&reader);
        }
        if (has_header && reader.header.type == PRS_WIRE_GATHER && reader.header.bytes > 0) {
            body = malloc((size_t)reader.header.bytes);
            reader.body = body;
        }
        if (prs_wire_complete(&reader)) {
            check_control(&reader);
            prs_wire_next(&reader);
            free(body);
            body = NULL;
        }
    }
    free(body);
    return 0;
}
