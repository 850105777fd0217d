/* SPDX-License-Identifier: Apache-2.0 */
/* every_mode.h: the ordering contract on one fabric outside memory, for programs that name it. */
#ifndef TESTS_CONTRACT_EVERY_MODE_H
#define TESTS_CONTRACT_EVERY_MODE_H

#include "contract/world.h"

/* Every mode that the fabric of `base` keeps, every style of program, with and without room, each
 * with as many seeds as PERSEUS_TEST_SEEDS says, or `seeds`; PERSEUS_TEST_SEED runs one. Fails the
 * test at the first broken promise, or if fewer than four modes are kept: drain, drain-peer,
 * deferred, and one that never waits. */
void every_mode(const struct world_case *base, uint64_t seeds);

#endif
