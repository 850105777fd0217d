/* SPDX-License-Identifier: Apache-2.0 */
/* tidy.h: included before every file that scripts/style-check --tidy looks at. The analyzer sees
 * one file at a time, so it must be told here that prs_fail returns the status it was given: else
 * it follows paths on which a failed call "succeeds" and leaves its outputs unset. */
#include "base/log.h"

#define prs_fail(log, status, ...) (prs_log((log), PERSEUS_LOG_ERROR, __VA_ARGS__), (status))
