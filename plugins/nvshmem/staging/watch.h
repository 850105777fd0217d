/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h: says when a call of the CUDA driver does not come back.
 *
 * A synchronous call of the program (cudaMemcpy, cudaMalloc, cudaFree, a blocking copy) behind a
 * kernel in the default stream holds the driver, and with it every other thread's copy, until that
 * kernel ends. If the kernel waits for what the proxy thread is about to copy, nobody moves again,
 * and only a thread beside both can tell. It cannot help: it says what the program has to do
 * otherwise.
 */
#ifndef PRS_NVSHMEM_WATCH_H
#define PRS_NVSHMEM_WATCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/log.h"

struct prs_watch;

/* One line per call that takes longer than `patience_ms`. */
enum perseus_status prs_watch_start(uint64_t patience_ms, const struct prs_log *log,
                                    struct prs_watch **out);
void prs_watch_stop(struct prs_watch *watch); /* NULL allowed */

/* Around every call that may wait; from one thread at a time. NULL allowed. */
void prs_watch_enter(struct prs_watch *watch);
void prs_watch_leave(struct prs_watch *watch);

#endif
