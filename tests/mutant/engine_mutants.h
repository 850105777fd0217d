/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_mutants.h: the ordering engine with one of its rules broken, each a bug that it had.
 * Linked into the suites of order/ and contract/, which then must fail; the linker's --wrap puts
 * the mutant's call in place of the engine's. PERSEUS_TEST_MUTANT names the one in force; without
 * it the engine is as it is.
 */
#ifndef TESTS_MUTANT_ENGINE_MUTANTS_H
#define TESTS_MUTANT_ENGINE_MUTANTS_H

#define ENGINE_MUTANT_VARIABLE "PERSEUS_TEST_MUTANT"

#define MUTANT_UNPOISONED     "refused operations poison nobody"
#define MUTANT_LEAK           "a loss does not end unanswered records"
#define MUTANT_POOLED_ANSWERS "answers draw on the pools of requests"
#define MUTANT_TOLD_ONCE      "an error is told once"
#define MUTANT_READ_TWICE     "records are read again after the check"
#define MUTANT_UNTAGGED       "tags of immediates are not looked at"
#define MUTANT_UNPROVEN       "what completed early counts as delivered"
#define MUTANT_OVERPROVEN     "an answer proves what is behind it"
#define MUTANT_EAGER_RIDING   "riding signals are applied as they arrive"
#define MUTANT_FORGOTTEN      "a quiet makes a fence forget"
#define MUTANT_MISALIGNED     "any offset rides"
#define MUTANT_UNSEALED       "signals join what a quiet covers"
#define MUTANT_CLOCK          "the deadline runs while nobody looks"

#endif
