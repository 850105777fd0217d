/* SPDX-License-Identifier: Apache-2.0 */
/* rma.h: puts and gets from checked arguments, for the public calls and for signal groups. */
#ifndef PRS_CORE_RMA_H
#define PRS_CORE_RMA_H

#include "core/pe.h"

/* Copies to or from a local peer's heap. An aligned 8-byte word goes in one piece, with acquire and
 * release, so that an 8-byte put behind a fence can serve as a flag. */
void prs_copy(void *to, const void *from, size_t bytes);

#endif
