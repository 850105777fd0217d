/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h: the way to peers that are not local: a ring, its proxy thread, an ordering engine, a
 * fabric endpoint. A PE has one, or none when every peer is local.
 *
 * Memory: sizeof(struct prs_contact) + 8 bytes per PE of the job (about 900), the ring (64 bytes a
 * slot), and what the engine and the fabric need (docs/ordering.md).
 */
#ifndef PRS_CORE_CHANNEL_H
#define PRS_CORE_CHANNEL_H

#include "core/memory/buffers.h"
#include "core/memory/heap.h"
#include "core/job/settings.h"
#include "order/order.h"

/* What a PE tells the others so that they can reach it. Sent as bytes. */
struct prs_contact {
    uint32_t address_bytes; /* directly before the address, as prs_orderer_set_directory wants it */
    unsigned char address[PRS_ORDERER_ADDRESS_MAX];
    uint32_t window_bytes;
    unsigned char window[PRS_WINDOW_BLOB_MAX];
    uint32_t ordering; /* of both sides of a connection must be equal */
    char provider[64];
    uint64_t scope; /* of the address: prs_caps.scope */
};

struct prs_channel;

/* Up to and including the own address. `secret` (PRS_SECRET_BYTES) is the job's. `settings` and
 * `secret` are read during the call only, all else outlives the channel. Buffers are registered
 * with the channel's fabric from here on. */
enum perseus_status prs_channel_create(const struct prs_settings *settings, int rank, int size,
                                       const unsigned char *secret, const struct prs_heap *heap,
                                       struct prs_buffers *buffers, const struct prs_log *log,
                                       struct prs_channel **out);
void prs_channel_contact(const struct prs_channel *channel, struct prs_contact *out);
/* `contacts` of every PE; they outlive the channel. Checks that they fit, starts the proxy. */
enum perseus_status prs_channel_start(struct prs_channel *channel,
                                      const struct prs_contact *contacts);
/* Stops the proxy and cancels what is outstanding. The buffers are emptied by their owner between
 * stop and destroy. NULL allowed. */
void prs_channel_stop(struct prs_channel *channel);
void prs_channel_destroy(struct prs_channel *channel); /* after stop; NULL allowed */

/* Waiting for what the proxy brings: proxy/thread.h, expect and await. */
uint32_t prs_channel_expect(struct prs_channel *channel);
void prs_channel_await(struct prs_channel *channel, uint32_t turn, uint64_t limit_ns);

/* Any thread. AGAIN: the ring is full. */
enum perseus_status prs_channel_push(struct prs_channel *channel, const struct prs_desc *descs,
                                     uint32_t n);
struct prs_tickets *prs_channel_tickets(const struct prs_channel *channel);
/* Not OK once the proxy has ended. */
enum perseus_status prs_channel_health(const struct prs_channel *channel);
enum perseus_ordering prs_channel_ordering(const struct prs_channel *channel);
const char *prs_channel_why(const struct prs_channel *channel);
/* SET values that one vector signal can carry through this channel. */
uint32_t prs_channel_vector_max(const struct prs_channel *channel);
/* The most bytes of one transfer. */
uint64_t prs_channel_message_max(const struct prs_channel *channel);
void prs_channel_stats(const struct prs_channel *channel, uint32_t peer, struct perseus_stats *out);

#endif
