/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: Perseus's statuses in NVSHMEM's numbers. */
#ifndef PRS_NVSHMEM_STATUS_H
#define PRS_NVSHMEM_STATUS_H

#include "host/abi.h"

#include <perseus/status.h>

enum prs_abi_status prs_abi_status(enum perseus_status status);

#endif
