/* SPDX-License-Identifier: Apache-2.0 */
/* Framing: what is written is read again, and nothing else is taken for a frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/wire.h"

static const struct {
    enum prs_wire_type type;
    uint64_t least, most; /* body bytes allowed */
} limits[] = {
    {PRS_WIRE_HELLO, PRS_WIRE_HELLO_BYTES, PRS_WIRE_HELLO_BYTES},
    {PRS_WIRE_WELCOME, 0, 0},
    {PRS_WIRE_GATHER, 0, PRS_WIRE_GATHER_BYTES},
    {PRS_WIRE_RESULT, 0, (uint64_t)PRS_WIRE_GATHER_BYTES << 20},
    {PRS_WIRE_FAILED, PRS_WIRE_FAILED_BYTES, PRS_WIRE_FAILED_BYTES},
    {PRS_WIRE_BYE, 0, 0},
};
enum { TYPES = sizeof limits / sizeof *limits };

static enum perseus_status round_trip(struct prs_wire_header header)
{
    unsigned char bytes[PRS_WIRE_HEADER_BYTES];
    struct prs_wire_header back = {.rank = 77};
    prs_wire_put_header(&header, bytes);
    enum perseus_status status = prs_wire_get_header(bytes, &back);
    if (status == PERSEUS_OK) {
        assert_int_equal(back.version, header.version);
        assert_int_equal(back.type, header.type);
        assert_int_equal(back.rank, header.rank);
        assert_true(back.bytes == header.bytes);
    } else {
        assert_int_equal(back.rank, 77); /* untouched */
    }
    return status;
}

static void the_layout_is_fixed(void **state)
{
    (void)state;
    static const unsigned char expected[PRS_WIRE_HEADER_BYTES] = {
        'P', 'R', 'S', 'B', 1, 0, 3, 0, 4, 3, 2, 1, 0x56, 0x34, 0x02, 0, 0, 0, 0, 0};
    const struct prs_wire_header header = {1, PRS_WIRE_GATHER, 0x01020304, 0x23456};
    unsigned char bytes[PRS_WIRE_HEADER_BYTES];
    prs_wire_put_header(&header, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void bodies_are_limited_by_type(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        struct prs_wire_header header = {PRS_WIRE_VERSION, (uint16_t)limits[i].type, UINT32_MAX,
                                         limits[i].least};
        assert_int_equal(round_trip(header), PERSEUS_OK);
        header.bytes = limits[i].most;
        assert_int_equal(round_trip(header), PERSEUS_OK);
        header.bytes = limits[i].most + 1;
        assert_int_equal(round_trip(header), PERSEUS_PROTOCOL);
        header.bytes = limits[i].least - 1; /* for 0 the largest number */
        assert_int_equal(round_trip(header), PERSEUS_PROTOCOL);
    }
}

static void other_types_and_magics_are_refused(void **state)
{
    (void)state;
    assert_int_equal(round_trip((struct prs_wire_header){1, 0, 0, 0}), PERSEUS_PROTOCOL);
    assert_int_equal(round_trip((struct prs_wire_header){1, TYPES + 1, 0, 0}), PERSEUS_PROTOCOL);
    assert_int_equal(round_trip((struct prs_wire_header){1, UINT16_MAX, 0, 0}), PERSEUS_PROTOCOL);
    const struct prs_wire_header header = {PRS_WIRE_VERSION, PRS_WIRE_BYE, 0, 0};
    for (int bit = 0; bit < 32; bit++) {
        unsigned char bytes[PRS_WIRE_HEADER_BYTES];
        struct prs_wire_header back;
        prs_wire_put_header(&header, bytes);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(prs_wire_get_header(bytes, &back), PERSEUS_PROTOCOL);
    }
}

static void versions_may_only_meet_and_part(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        const struct prs_wire_header header = {PRS_WIRE_VERSION + 1, (uint16_t)limits[i].type, 0,
                                               limits[i].least};
        bool meets = header.type == PRS_WIRE_HELLO || header.type == PRS_WIRE_FAILED;
        assert_int_equal(round_trip(header), meets ? PERSEUS_OK : PERSEUS_VERSION);
    }
}

/* Feeds a stream in pieces of `step` bytes; returns the number of frames. */
static int feed(const unsigned char *stream, size_t bytes, size_t step, unsigned char *body)
{
    struct prs_wire_reader reader;
    int n_frames = 0;
    memset(&reader, 0, sizeof reader);
    prs_wire_next(&reader);
    while (bytes > 0) {
        size_t n = prs_wire_room(&reader);
        bool has_header;
        assert_true(n > 0);
        n = n < step ? n : step;
        n = n < bytes ? n : bytes;
        memcpy(prs_wire_place(&reader), stream, n);
        stream += n;
        bytes -= n;
        assert_int_equal(prs_wire_received(&reader, n, &has_header), PERSEUS_OK);
        if (has_header && reader.header.type == PRS_WIRE_GATHER) {
            reader.body = body;
        }
        if (prs_wire_complete(&reader)) {
            n_frames++;
            prs_wire_next(&reader);
        }
    }
    assert_int_equal(reader.header_have, 0);
    return n_frames;
}

static void streams_may_be_cut_anywhere(void **state)
{
    (void)state;
    enum { BODY = 1500 };
    unsigned char stream[3 * PRS_WIRE_HEADER_BYTES + 2 * BODY], body[BODY], *at = stream;
    const struct prs_wire_header gather = {PRS_WIRE_VERSION, PRS_WIRE_GATHER, 0, BODY};
    const struct prs_wire_header result = {PRS_WIRE_VERSION, PRS_WIRE_RESULT, 0, BODY};
    const struct prs_wire_header bye = {PRS_WIRE_VERSION, PRS_WIRE_BYE, 0, 0};
    prs_wire_put_header(&gather, at);
    at += PRS_WIRE_HEADER_BYTES;
    for (int i = 0; i < BODY; i++) {
        *at++ = (unsigned char)(i * 7);
    }
    prs_wire_put_header(&result, at); /* nobody gives it a place: it passes through */
    at += PRS_WIRE_HEADER_BYTES;
    memset(at, 0xee, BODY);
    at += BODY;
    prs_wire_put_header(&bye, at);
    for (size_t step = 1; step < 700; step = step * 2 + 1) {
        memset(body, 0, sizeof body);
        assert_int_equal(feed(stream, sizeof stream, step, body), 3);
        for (int i = 0; i < BODY; i++) {
            assert_int_equal(body[i], (unsigned char)(i * 7));
        }
    }
}

static void control_bodies_round_trip(void **state)
{
    (void)state;
    unsigned char hello_bytes[PRS_WIRE_HELLO_BYTES], failed_bytes[PRS_WIRE_FAILED_BYTES];
    unsigned char challenge_bytes[PRS_WIRE_CHALLENGE_BYTES];
    const struct prs_proof_terms hello = {
        .nonce_of_pe = {1, 2, 3, [15] = 16}, .size = 0x01020304, .timeout_ms = UINT32_MAX};
    const struct prs_proof_challenge challenge = {.nonce = {9, [15] = 8}, .proof = {7, [31] = 6}};
    struct prs_proof_challenge challenge_back;
    const struct prs_wire_failed failed = {PERSEUS_TIMEOUT, 0xfffefdfc};
    struct prs_proof_terms hello_back;
    struct prs_wire_failed failed_back;
    prs_wire_put_hello(&hello, hello_bytes);
    prs_wire_get_hello(hello_bytes, &hello_back);
    assert_memory_equal(hello.nonce_of_pe, hello_back.nonce_of_pe, sizeof hello.nonce_of_pe);
    assert_int_equal(hello.size, hello_back.size);
    assert_int_equal(hello.timeout_ms, hello_back.timeout_ms);
    prs_wire_put_challenge(&challenge, challenge_bytes);
    prs_wire_get_challenge(challenge_bytes, &challenge_back);
    assert_memory_equal(&challenge, &challenge_back, sizeof challenge);
    prs_wire_put_failed(&failed, failed_bytes);
    prs_wire_get_failed(failed_bytes, &failed_back);
    assert_int_equal(failed.status, failed_back.status);
    assert_int_equal(failed.detail, failed_back.detail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_fixed),
        cmocka_unit_test(bodies_are_limited_by_type),
        cmocka_unit_test(other_types_and_magics_are_refused),
        cmocka_unit_test(versions_may_only_meet_and_part),
        cmocka_unit_test(streams_may_be_cut_anywhere),
        cmocka_unit_test(control_bodies_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
