/* SPDX-License-Identifier: Apache-2.0 */
/* random.h: the kernel's random bytes, for secrets and nonces. */
#ifndef PRS_BASE_RANDOM_H
#define PRS_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

/* False when the kernel has none to give. */
bool prs_random_fill(void *out, size_t bytes);

#endif
