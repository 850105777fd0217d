/* SPDX-License-Identifier: Apache-2.0 */
/* gpus.h: the GPUs of this machine, as perseus info shows them. */
#ifndef PERSEUS_TOOLS_GPUS_H
#define PERSEUS_TOOLS_GPUS_H

#include <jansson.h>

/* An array of objects; empty without a driver or a GPU. The caller owns it. */
json_t *prs_gpus_list(void);
/* Nothing for an empty list. */
void prs_gpus_print(const json_t *gpus);

#endif
