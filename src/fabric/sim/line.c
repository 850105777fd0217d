/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line.c: a line that connections share, as fair queueing by packets does in the limit of small
 * packets. n connections that have messages on it get an n-th each; of one connection, one message
 * follows the other.
 *
 * `served` is what each of them has been given. A message leaves when that reaches its `end`, which
 * is known when it comes, whatever comes later: a heap by `end` is the order of leaving. When that
 * is in time depends on what comes. For the first of the heap it is no earlier than if nothing more
 * came, so an event at that time is never too late; if it is too early, the next is closer. An
 * event that was too early is owed to a message that came since.
 *
 * A pairing heap, linked through the messages: nothing is allocated, and a step costs the logarithm
 * of its length, amortised.
 */
#include "fabric/sim/internal.h"

#define UNITS_NS 65536 /* of service in a ns, so that a thousand connections share without a loss */

static void on_time(void *context);

/* ---- the heap ---- */

static struct prs_sim_turn *meld(struct prs_sim_turn *a, struct prs_sim_turn *b)
{
    if (a == NULL || b == NULL) {
        return a == NULL ? b : a;
    }
    struct prs_sim_turn *first = b->end < a->end ? b : a;
    struct prs_sim_turn *second = first == a ? b : a;
    second->next = first->child;
    first->child = second;
    return first;
}

static struct prs_sim_turn *take_first(struct prs_sim_line *line)
{
    struct prs_sim_turn *first = line->first, *pairs = NULL, *left = first->child;
    while (left != NULL) {
        struct prs_sim_turn *a = left, *b = left->next;
        left = b == NULL ? NULL : b->next;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    line->first = NULL;
    while (pairs != NULL) {
        struct prs_sim_turn *next = pairs->next;
        line->first = meld(line->first, pairs);
        pairs = next;
    }
    return first;
}

/* ---- the line ---- */

static void serve(struct prs_sim_line *line)
{
    uint64_t now_ns = prs_timeline_now_ns(line->timeline);
    uint64_t units = (now_ns - line->served_ns) * UNITS_NS + line->rest;
    if (line->n_connections == 1) { /* most of the time: a division costs more than the rest */
        line->served += units;
        line->rest = 0;
    } else if (line->n_connections > 0) {
        line->served += units / line->n_connections;
        line->rest = units % line->n_connections;
    }
    line->served_ns = now_ns;
}

/* An event for the first of the heap, unless it has one: that one is no later. */
static void await_first(struct prs_sim_line *line)
{
    struct prs_sim_turn *first = line->first;
    if (first != NULL && !first->is_timed) {
        double units = (double)(first->end - line->served) * line->n_connections;
        double exact_ns = (units - (double)line->rest) / UNITS_NS;
        uint64_t left_ns = (uint64_t)exact_ns;
        left_ns += (double)left_ns < exact_ns; /* no earlier */
        first->is_timed = true;
        prs_timeline_add(line->timeline, line->served_ns + left_ns, on_time, first);
    }
}

static struct prs_sim_share *share_of(const struct prs_sim_turn *turn)
{
    return &prs_sim_lane_of(turn->op)->shares[turn->line->side];
}

bool prs_sim_line_add(struct prs_sim_line *line, struct prs_sim_op *op, uint64_t service_ns)
{
    struct prs_sim_turn *turn = &op->turns[line->side];
    *turn = (struct prs_sim_turn){.op = op, .line = line};
    struct prs_sim_share *share = share_of(turn);
    struct prs_sim_turn *before = share->last;
    serve(line);
    if (before == NULL) {
        line->n_connections++;
        share->end = line->served;
    } else {
        before->behind = turn;
    }
    share->last = turn;
    turn->end = share->end += service_ns * UNITS_NS;
    line->first = meld(line->first, turn);
    await_first(line);
    return before == NULL;
}

static void leave(struct prs_sim_turn *turn)
{
    struct prs_sim_share *share = share_of(turn);
    if (share->last == turn) {
        share->last = NULL;
        turn->line->n_connections--;
    }
    struct prs_sim_op *behind = turn->behind == NULL ? NULL : turn->behind->op;
    if (turn->line->side == PRS_SIM_SEND) {
        prs_sim_nic_sent(turn->op, behind);
    } else {
        prs_sim_nic_received(turn->op);
    }
}

static void on_time(void *context)
{
    struct prs_sim_turn *turn = context;
    struct prs_sim_line *line = turn->line;
    turn->is_timed = false;
    serve(line);
    while (line->first != NULL && line->first->end <= line->served) {
        leave(take_first(line));
    }
    await_first(line);
}
