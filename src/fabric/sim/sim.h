/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h: a fabric in virtual time. Bytes move as the contract says; when they do is arithmetic over
 * a cost model (model.h).
 *
 *   timeline.[ch]  virtual time
 *   model.[ch]     the parameters
 *   net.c          the network: what is connected to what, and the operations on their way
 *   nic.c          the stations of an operation: queue, line, receiver, way back
 *   line.c         a direction of a NIC, which connections share
 *   copy.c         what it does to memory
 *   fabric.c       open, close, capabilities, regions, the ops table
 *   endpoint.c     endpoints, peers, remotes
 *   post.c         post and poll: what the CPU of the caller does
 *
 * A network and all that is opened on it belong to one thread. Fabrics are made by
 * prs_sim_fabric_open only, since they need a network to be on; each is one PE with one NIC.
 *
 * Not modelled: the answers of gets and fetching atomics cost latency and their own bytes, but
 * contend with nobody; a receiver that is full slows nobody's sending down.
 */
#ifndef PRS_FABRIC_SIM_SIM_H
#define PRS_FABRIC_SIM_SIM_H

#include "fabric/fabric.h"
#include "fabric/sim/model.h"
#include "fabric/sim/timeline.h"

struct prs_sim_net;

/* The timeline is the caller's and outlives the network. The model is copied. */
enum perseus_status prs_sim_net_create(const struct prs_sim_model *model, uint64_t seed,
                                       struct prs_timeline *timeline, struct prs_sim_net **out);
/* All its fabrics are closed, and nothing more happens on the timeline. NULL allowed. */
void prs_sim_net_destroy(struct prs_sim_net *net);
/* Operations accepted so far. */
uint64_t prs_sim_net_posted(const struct prs_sim_net *net);

/* Of config: log, and clock. With a clock, a poll first lets happen what is due by it; without one
 * (now_ns NULL) the caller drives the timeline. */
enum perseus_status prs_sim_fabric_open(struct prs_sim_net *net,
                                        const struct prs_fabric_config *config,
                                        struct prs_fabric **out);

/* When the CPU that drives this endpoint is free again: posts and polls take its time. */
uint64_t prs_sim_endpoint_free_ns(const struct prs_endpoint *endpoint);
/* That CPU does something else, for so long. */
void prs_sim_endpoint_spend(struct prs_endpoint *endpoint, double ns);
/* Whether the completion of everything posted can be polled now, as far as it is told at all. */
bool prs_sim_endpoint_is_told(const struct prs_endpoint *endpoint);
/* Whether a poll would find something now. */
bool prs_sim_endpoint_has_events(const struct prs_endpoint *endpoint);
/* Called when a poll would find something new; must not call into the fabric. */
void prs_sim_endpoint_on_ready(struct prs_endpoint *endpoint, prs_happen_fn ready, void *context);

/* Only the first `bytes` of the region are memory. What lies beyond has addresses and costs, but no
 * contents: a cluster's payload need not fit into this machine. */
void prs_sim_region_set_backed(struct prs_region *region, size_t bytes);
/* Called after a peer's operation has changed backed bytes of the region. */
typedef void (*prs_sim_written_fn)(void *context, uint64_t offset, uint64_t bytes);
void prs_sim_region_on_written(struct prs_region *region, prs_sim_written_fn written,
                               void *context);

#endif
