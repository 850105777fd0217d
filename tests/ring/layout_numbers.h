/* SPDX-License-Identifier: Apache-2.0 */
/* The offsets that producers in every language rely on. */
#ifndef PRS_TESTS_RING_LAYOUT_NUMBERS_H
#define PRS_TESTS_RING_LAYOUT_NUMBERS_H

#include <stddef.h>

#include "ring/layout.h"

static_assert(offsetof(struct prs_desc, turn) == 0, "turn");
static_assert(offsetof(struct prs_desc, kind) == 4, "kind");
static_assert(offsetof(struct prs_desc, sub) == 5, "sub");
static_assert(offsetof(struct prs_desc, local_window) == 6, "local_window");
static_assert(offsetof(struct prs_desc, peer) == 8, "peer");
static_assert(offsetof(struct prs_desc, ticket) == 12, "ticket");
static_assert(offsetof(struct prs_desc, local) == 16, "local");
static_assert(offsetof(struct prs_desc, remote) == 24, "remote");
static_assert(offsetof(struct prs_desc, bytes) == 32, "bytes");
static_assert(offsetof(struct prs_desc, signal) == 40, "signal");
static_assert(offsetof(struct prs_desc, value) == 48, "value");
static_assert(offsetof(struct prs_desc, compare) == 56, "compare");
static_assert(offsetof(struct prs_desc_values, kind) == 4, "values: kind");
static_assert(offsetof(struct prs_desc_values, count) == 5, "values: count");
static_assert(offsetof(struct prs_desc_values, values) == 8, "values");
static_assert(offsetof(struct prs_ring_control, tail) == 0, "tail");
static_assert(offsetof(struct prs_ring_control, head) == 128, "head");

#endif
