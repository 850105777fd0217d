/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traits.h: what is known of providers and stands in no attribute, from their manual pages, their
 * sources and our tests. A trait only narrows what was granted or changes how a thing is asked for;
 * a provider that is not listed is taken at its word.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_TRAITS_H
#define PRS_LIBFABRIC_PROVIDER_TRAITS_H

#include <stdint.h>

enum prs_lf_trait {
    /* FI_FENCE waits for what was posted to any peer, and holds what comes after it to any: a
     * fence of the command queue. fi_rma(3) says: of its own peer. */
    PRS_LF_FENCES_ENDPOINT = 1,
    /* fi_writemsg rejects FI_REMOTE_CQ_DATA. */
    PRS_LF_REFUSES_IMMEDIATE = 2,
    /* An empty write with remote CQ data never completes, nor does anything behind it. */
    PRS_LF_REFUSES_EMPTY = 4,
    /* A delivery-complete atomic without result frees its buffer twice, and a later one loses its
     * value. Fetching ones are right. */
    PRS_LF_SPOILS_ATOMICS = 8,
    /* Fetching atomics from several peers crash it. */
    PRS_LF_BREAKS_FETCHES = 16,
    /* FI_MORE postpones a write to the device. */
    PRS_LF_HAS_DOORBELL = 32,
    /* Receives a byte stream right into its place: a word can be seen half-written. */
    PRS_LF_SPLITS_WORDS = 64,
    /* Returns operations strictly in the order of their posts, whatever peer they went to: behind
     * one that a dead peer will never answer, nothing comes back. */
    PRS_LF_RETURNS_IN_LINE = 128,
    /* FI_FENCE waits for every peer, but holds only its own: what is posted later to others passes
     * it. So it keeps the promise of a peer's fence and has the cost of an endpoint's. */
    PRS_LF_FENCES_SLOWLY = 256,
    /* FI_WAIT_FD tells of everything that poll would move: bytes of plain writes, room to send,
     * connections. */
    PRS_LF_WAKES_FOR_ALL = 512,
    /* What FI_WAIT_FD gives stays readable once it has been: fi_trywait does not reset it. */
    PRS_LF_WAKES_FOR_EVER = 1024,
    /* Delivery is a message back from the target; without it a write completes once it is sent. */
    PRS_LF_ACKNOWLEDGES = 2048,
    /* A message costs a system call and FI_MORE saves none; several segments of one are carried out
     * in their order. */
    PRS_LF_GATHERS = 4096,
    /* Waits for a whole header without taking what is there of it (window.h). */
    PRS_LF_PEEKS = 8192,
    /* A thread of the target copies with memcpy, whose eight bytes are two stores of the same word:
     * the second one brings back what a waiter has seen and taken in between. */
    PRS_LF_COPIES_WORDS = 16384
};

/* Bits of enum prs_lf_trait. */
uint32_t prs_lf_traits(const char *provider);

#endif
