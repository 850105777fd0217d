/* SPDX-License-Identifier: Apache-2.0 */
#include "row.h"

enum perseus_status row_shuffle(const struct row *row, uint64_t seed, const struct prs_log *log,
                                struct prs_clock clock, struct prs_fabric *inside,
                                struct prs_fabric **out)
{
    struct prs_faulty_config faulty = row->faulty;
    faulty.seed = seed;
    return prs_faulty_wrap(inside, &faulty, log, clock, out);
}
