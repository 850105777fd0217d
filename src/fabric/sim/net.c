/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fabric/sim/internal.h"

#define SLAB_ITEMS 256u
#define OP_PLACES  2 /* on the timeline */

struct prs_sim_slab {
    struct prs_sim_slab *next;
    struct prs_sim_op ops[SLAB_ITEMS];
    struct prs_sim_arrival arrivals[SLAB_ITEMS];
};

enum perseus_status prs_sim_net_create(const struct prs_sim_model *model, uint64_t seed,
                                       struct prs_timeline *timeline, struct prs_sim_net **out)
{
    struct prs_sim_net *net = calloc(1, sizeof *net);
    if (net == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    net->model = *model;
    net->timeline = timeline;
    net->rng = prs_rng_seeded(seed);
    net->latency_ns = (uint64_t)(model->hops * model->hop_ns + 0.5);
    *out = net;
    return PERSEUS_OK;
}

void prs_sim_net_destroy(struct prs_sim_net *net)
{
    if (net == NULL) {
        return;
    }
    for (uint32_t i = 0; i < net->n_endpoints; i++) {
        if (net->endpoints[i] != NULL) { /* closed, with operations that never ended */
            prs_sim_endpoint_free(net->endpoints[i]);
        }
    }
    while (net->slabs != NULL) {
        struct prs_sim_slab *slab = net->slabs;
        net->slabs = slab->next;
        free(slab);
        prs_timeline_give_back(net->timeline, OP_PLACES * SLAB_ITEMS);
    }
    while (net->lines != NULL) {
        struct prs_sim_line *line = net->lines;
        net->lines = line->next;
        free(line);
    }
    free(net->endpoints);
    free(net->regions);
    free(net);
}

uint64_t prs_sim_net_posted(const struct prs_sim_net *net)
{
    return net->posted;
}

/* One more slab of operations, each with its places on the timeline, and of arrivals. */
static bool grow(struct prs_sim_net *net)
{
    struct prs_sim_slab *slab = malloc(sizeof *slab);
    if (slab == NULL || prs_timeline_reserve(net->timeline, OP_PLACES * SLAB_ITEMS) != PERSEUS_OK) {
        free(slab);
        return false;
    }
    slab->next = net->slabs;
    net->slabs = slab;
    for (uint32_t i = 0; i < SLAB_ITEMS; i++) {
        slab->ops[i].next = net->free_ops;
        net->free_ops = &slab->ops[i];
        slab->arrivals[i].next = net->free_arrivals;
        net->free_arrivals = &slab->arrivals[i];
    }
    return true;
}

struct prs_sim_op *prs_sim_op_take(struct prs_sim_net *net, bool with_arrival)
{
    bool is_short = net->free_ops == NULL || (with_arrival && net->free_arrivals == NULL);
    if (is_short && !grow(net)) {
        return NULL;
    }
    struct prs_sim_op *op = net->free_ops;
    net->free_ops = op->next;
    op->arrival = NULL;
    if (with_arrival) {
        op->arrival = net->free_arrivals;
        net->free_arrivals = op->arrival->next;
    }
    return op;
}

void prs_sim_op_give_back(struct prs_sim_op *op)
{
    struct prs_sim_endpoint *endpoint = op->endpoint;
    struct prs_sim_net *net = endpoint->net;
    if (op->arrival != NULL) {
        prs_sim_arrival_give_back(net, op->arrival);
    }
    op->next = net->free_ops;
    net->free_ops = op;
    endpoint->in_flight--;
    if (endpoint->is_closed && endpoint->in_flight == 0) {
        prs_sim_endpoint_free(endpoint);
    }
}

void prs_sim_arrival_give_back(struct prs_sim_net *net, struct prs_sim_arrival *arrival)
{
    arrival->next = net->free_arrivals;
    net->free_arrivals = arrival;
}

/* A table of pointers with room for one more. */
static bool has_room(void **table, uint32_t used, uint32_t *room)
{
    if (used < *room) {
        return true;
    }
    uint32_t wider = *room == 0 ? 64 : 2 * *room;
    void *moved = realloc(*table, wider * sizeof(void *));
    if (moved == NULL) {
        return false;
    }
    *table = moved;
    *room = wider;
    return true;
}

enum perseus_status prs_sim_net_add_endpoint(struct prs_sim_net *net,
                                             struct prs_sim_endpoint *endpoint)
{
    void *table = net->endpoints;
    bool is_ok = has_room(&table, net->n_endpoints, &net->endpoints_room);
    net->endpoints = table;
    if (!is_ok) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    endpoint->number = net->n_endpoints;
    net->endpoints[net->n_endpoints++] = endpoint;
    return PERSEUS_OK;
}

bool prs_sim_net_add_lines(struct prs_sim_net *net, struct prs_sim_line *lines[PRS_SIM_SIDES])
{
    for (int side = 0; side < PRS_SIM_SIDES; side++) {
        struct prs_sim_line *line = calloc(1, sizeof *line);
        if (line == NULL) {
            return false;
        }
        line->timeline = net->timeline;
        line->side = (enum prs_sim_side)side;
        line->next = net->lines;
        net->lines = lines[side] = line;
    }
    return true;
}

enum perseus_status prs_sim_net_add_region(struct prs_sim_net *net, struct prs_sim_region *region)
{
    void *table = net->regions;
    bool is_ok = has_room(&table, net->n_regions, &net->regions_room);
    net->regions = table;
    if (!is_ok) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    region->number = net->n_regions;
    net->regions[net->n_regions++] = region;
    return PERSEUS_OK;
}

struct prs_sim_endpoint *prs_sim_net_endpoint(const struct prs_sim_net *net, uint32_t number)
{
    struct prs_sim_endpoint *endpoint = number < net->n_endpoints ? net->endpoints[number] : NULL;
    return endpoint == NULL || endpoint->is_closed ? NULL : endpoint;
}

struct prs_sim_region *prs_sim_net_region(const struct prs_sim_net *net, uint32_t number)
{
    return number < net->n_regions ? net->regions[number] : NULL;
}
