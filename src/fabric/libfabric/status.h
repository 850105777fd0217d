/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: libfabric's error numbers as Perseus statuses, and what a person can do about each. */
#ifndef PRS_LIBFABRIC_STATUS_H
#define PRS_LIBFABRIC_STATUS_H

#include <perseus/status.h>

/* `error` as libfabric returns it (negative) or as a completion carries it (positive). */
enum perseus_status prs_lf_status(long error);

/* libfabric's text for `error`, either sign; static storage. */
const char *prs_lf_error_text(long error);

/* One sentence on what to do; static storage, "" when there is nothing better than the error. */
const char *prs_lf_advice(enum perseus_status status);

#endif
