/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pe.h: one PE in virtual time: the production ring, tickets, orderer and proxy on a virtual
 * fabric, stepped by events. No thread, no process, no wall clock.
 *
 * The proxy thread of a real PE polls without rest. Here a step that did nothing is the last one
 * until something can move it; the next step then happens when a poll of that endless loop would
 * have been, so that the cost is the same.
 *
 * A stock PE stands for the library that the paper changes. Its proxy takes one descriptor a turn,
 * and a fence asks the transport about every PE that it reaches, one after the other; each question
 * takes fabric.ask_ns, also when nothing is on its way.
 */
#ifndef SIM_PE_H
#define SIM_PE_H

#include "fabric/sim/sim.h"
#include "proxy/proxy.h"
#include "sim/platform.h"

struct sim_pe;

struct sim_pe_config {
    const struct sim_platform *platform;
    struct prs_timeline *timeline;
    struct prs_sim_net *net;
    uint32_t rank, n_pes; /* of its job: those it can reach */
    /* NULL, or the PE whose further proxy channel this is: with a ring, a proxy thread and queue
     * pairs of its own, on that one's NIC and over its heap. Modes that peers answer (deferred,
     * counted, fifo) are for the first channel alone, where answers arrive. */
    struct sim_pe *beside;
    enum perseus_ordering ordering;
    bool stock;
    uint32_t piece_bytes; /* the least of a put that goes over lanes; 0: the engine's choice */
    const struct prs_mode *mode; /* NULL: the ordering's own; else one with a defect (--check) */
    /* The symmetric heap: its first words_bytes are memory, the rest has addresses only. */
    uint64_t words_bytes, heap_bytes;
    uint32_t ring_slots;
    /* A peer, or this PE's proxy for one, changed words. */
    void (*written)(void *context, uint64_t offset, uint64_t bytes);
    /* A ticket has completed; the caller polls it. NULL: nobody waits. */
    void (*completed)(void *context);
    void *context; /* of both */
    const struct prs_log *log;
};

enum perseus_status sim_pe_create(const struct sim_pe_config *config, struct sim_pe **out);
void sim_pe_destroy(struct sim_pe *pe); /* NULL allowed */

/* Addresses and windows of all PEs of the job, `stride` bytes each: made once, for all. */
#define SIM_DIRECTORY_STRIDE (4 + PRS_ORDERER_ADDRESS_MAX)
#define SIM_WINDOWS_STRIDE   (4 + PRS_WINDOW_BLOB_MAX)
enum perseus_status sim_pe_export(struct sim_pe *pe, unsigned char *directory,
                                  unsigned char *windows);
void sim_pe_set_directory(struct sim_pe *pe, const unsigned char *directory,
                          const unsigned char *windows);
/* Connects to a peer now, rather than at the first transfer: a job that has run before. */
enum perseus_status sim_pe_meet(struct sim_pe *pe, uint32_t peer);

/* What a CTA does: all n descriptors in a row. With a full ring they wait, in order, for room. */
enum perseus_status sim_pe_submit(struct sim_pe *pe, const struct prs_desc *descs, uint32_t n);
/* A ticket for a descriptor; poll until it is complete. */
enum perseus_status sim_pe_ticket(struct sim_pe *pe, uint32_t *out);
bool sim_pe_poll_ticket(struct sim_pe *pe, uint32_t ticket, enum perseus_status *out_status);

uint64_t *sim_pe_words(struct sim_pe *pe);
struct prs_orderer *sim_pe_orderer(struct sim_pe *pe);
/* How long a stock PE asks at a fence or quiet; 0 of any other. */
double sim_pe_sweep_ns(const struct sim_pe *pe);
/* When the proxy's CPU will have done what it is at. */
uint64_t sim_pe_cpu_ns(const struct sim_pe *pe);
/* The first error of a step, which ends this PE's proxy. */
enum perseus_status sim_pe_status(const struct sim_pe *pe);
bool sim_pe_is_idle(const struct sim_pe *pe);
/* Descriptors that found the ring full so far. */
uint64_t sim_pe_ring_full(const struct sim_pe *pe);

#endif
