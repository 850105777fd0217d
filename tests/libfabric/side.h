/* SPDX-License-Identifier: Apache-2.0 */
/* side.h: one end of a test's conversation: a fabric, its endpoint, one region, one peer. */
#ifndef PRS_TESTS_LIBFABRIC_SIDE_H
#define PRS_TESTS_LIBFABRIC_SIDE_H

#include "fabric/fabric.h"

struct side_log {
    uint32_t errors;
    char last[1024];
};

struct side {
    struct side_log log_text;
    struct prs_log log;
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint;
    unsigned char *memory;
    size_t bytes;
    struct prs_region *region;
    uint32_t peer;
    struct prs_remote *remote;
};

/* What a side tells the other. */
struct side_card {
    size_t address_bytes, blob_bytes;
    unsigned char address[PRS_ADDRESS_MAX], blob[PRS_BLOB_MAX];
};

/* Ends the running test, or the process if it is a forked child (side_become_child). */
void side_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* From here on this process is a child: a failure prints and exits. */
void side_become_child(void);

/* All of these fail on any error. Memory is the caller's. */
void side_open(struct side *side, const char *provider, bool want_atomics, void *memory,
               size_t bytes);
/* A second endpoint of `of`'s fabric, which must outlive it. */
void side_open_beside(struct side *side, const struct side *of, void *memory, size_t bytes);
void side_card(struct side *side, struct side_card *out);
void side_meet(struct side *side, const struct side_card *card);
void side_close(struct side *side);

/* Memory that a forked child and its parent both see. */
void *side_shared_memory(size_t bytes);
void side_shared_free(void *memory, size_t bytes);

uint64_t side_now_ms(void);

uint32_t side_poll(struct side *side, struct prs_event *events, uint32_t n);

/* Posts, turning while the answer is AGAIN. */
enum perseus_status side_post(struct side *side, struct side *other, const struct prs_op *op,
                              uint32_t *completions);
/* Polls `other` (may be NULL), then `side`, whose completions are counted; a bad one fails. */
void side_turn(struct side *side, struct side *other, uint32_t *completions);
/* Polls until *completions reaches `wanted`; fails the test after ten seconds. */
void side_wait(struct side *side, struct side *other, uint32_t *completions, uint32_t wanted);

/* Operations with the boilerplate filled in. */
struct prs_op side_put(const struct side *side, uint64_t local, uint64_t remote, uint64_t bytes);
struct prs_op side_set(const struct side *side, uint64_t remote, uint64_t value);

#endif
