/* SPDX-License-Identifier: Apache-2.0 */
/* The offsets that producers in every language rely on. */
#ifndef PRS_TESTS_RING_LAYOUT_NUMBERS_H
#define PRS_TESTS_RING_LAYOUT_NUMBERS_H

#include <stddef.h>

#include <perseus/device/layout.h>

static_assert(offsetof(struct prs_desc, turn) == 0, "turn");
static_assert(offsetof(struct prs_desc, kind) == 2, "kind");
static_assert(offsetof(struct prs_desc, sub) == 3, "sub");
static_assert(offsetof(struct prs_desc, peer) == 4, "peer");
static_assert(offsetof(struct prs_desc, local) == 8, "local");
static_assert(offsetof(struct prs_desc, turn_1) == 16, "turn of quarter 1");
static_assert(offsetof(struct prs_desc, local_window) == 18, "local_window");
static_assert(offsetof(struct prs_desc, ticket) == 20, "ticket");
static_assert(offsetof(struct prs_desc, remote) == 24, "remote");
static_assert(offsetof(struct prs_desc, value) == 40,
              "value; turn_2 and bytes are the word before");
static_assert(offsetof(struct prs_desc, turn_3) == 48, "turn of quarter 3");
static_assert(offsetof(struct prs_desc, signal) == 56, "signal");
static_assert(offsetof(struct prs_desc, compare) == 56, "compare");
static_assert(offsetof(struct prs_desc_quarter, turn) == 0, "turn of a quarter");
static_assert(sizeof(struct prs_ring_producers) == 256, "producers");
static_assert(offsetof(struct prs_ring_producers, known_head) == 128, "known_head");
static_assert(sizeof(struct prs_ring_head) == 128, "head");
static_assert(sizeof(struct prs_answer) == 16, "answer");

#endif
