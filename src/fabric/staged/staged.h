/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staged.h: a decorator that carries a GPU's memory over a fabric that reaches host memory only.
 *
 * Toward every PE there is a ring of slots in pinned memory, mirrored: what is written at a
 * position of the own outgoing ring is put to the same position of the peer's incoming ring, and
 * the peer's poll takes slots from there in order and has the GPU copy them to where they belong.
 *
 *   memory -copy-> outgoing ring -put, then the count-> incoming ring -copy-> memory
 *
 * The three steps of different slots overlap: copies are asynchronous, on one stream for each way,
 * and a put takes whatever slots are ready. Each ring is emptied in order and incoming copies run
 * one behind the other, so all puts and signals to a peer keep their order, and an operation has
 * been delivered when the peer has counted its slot as copied. Gets are requests that slots of a
 * second ring answer: answers never wait for requests, so two PEs that ask each other for much do
 * not block each other.
 *
 * All memory is treated alike, the host's too, or one way would overtake the other. Pinned memory:
 * 5/2 of ring_bytes for each PE of the job and each direction.
 *
 * What arrives is a claim: a slot is taken only if it lies where counts say, says what a slot may
 * say, and stays within a region of this fabric. One that does not ends its peer.
 */
#ifndef PRS_FABRIC_STAGED_H
#define PRS_FABRIC_STAGED_H

#include "fabric/fabric.h"

#define PRS_STAGED_RING_BYTES_MIN 1024

struct prs_staged_config {
    int gpu;             /* whose memory it is */
    uint64_t ring_bytes; /* toward each PE; a power of two from PRS_STAGED_RING_BYTES_MIN on */
    const struct prs_log *log;
    struct prs_clock clock;
};

/* Wraps `inside`, which the decorator then owns (closed with it, and on failure). NOT_SUPPORTED:
 * its grants do not suffice. */
enum perseus_status prs_staged_wrap(struct prs_fabric *inside,
                                    const struct prs_staged_config *config,
                                    struct prs_fabric **out);
/* Which PE of the job this is, before its endpoint is opened (there is one at a time). Without, it
 * is alone. `staged` is what prs_staged_wrap gave. */
void prs_staged_place(struct prs_fabric *staged, uint32_t self, uint32_t n_pes);

#endif
