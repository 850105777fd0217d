/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: how rows open the fabrics that need nothing but memory. */
#ifndef TEST_FABRIC_MEMORY_H
#define TEST_FABRIC_MEMORY_H

#include "row.h"

/* With the row's masks. */
enum perseus_status open_loopback(const struct row *row, uint64_t seed, const struct prs_log *log,
                                  struct prs_clock clock, struct prs_fabric **out);
/* That, behind the row's faulty decorator with this seed. The decorator keeps fence flags by
 * itself, so it can be told that the inside grants a wider scope. */
enum perseus_status open_faulty(const struct row *row, uint64_t seed, const struct prs_log *log,
                                struct prs_clock clock, struct prs_fabric **out);

#endif
