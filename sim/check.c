/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sim/cluster.h"

#define MEMBERS_MAX 4
#define PUT_WORDS   3
#define STEP_WORDS  (MEMBERS_MAX * (PUT_WORDS + 1))     /* puts, then their signals */
#define AREA_WORDS  (SIM_CHECK_STEPS * STEP_WORDS + 1u) /* of one sender; the last is its counter */
#define HEAP_WORDS  (AREA_WORDS * (SIM_CHECK_PES + 1))  /* the last area is staged */
#define EVENTS_MAX  2000000u

struct run;

struct check_pe {
    struct run *run;
    struct sim_pe *pe;
    uint32_t self, next, ticket;
    bool leads, is_quiet; /* leads: the puts of `next` are out, its signals are not */
};

struct run {
    struct sim_check *check;
    struct sim_platform platform;
    struct sim_cluster cluster;
    struct check_pe pes[SIM_CHECK_PES];
    uint32_t quiet;
    bool is_broken;
    bool is_over; /* what ends from here on is canceled with the cluster, PE by PE */
    uint8_t seen[SIM_CHECK_PES][SIM_CHECK_STEPS][MEMBERS_MAX]; /* signals, by sender */
};

static void broken(struct run *run, const char *what, uint32_t sender, uint32_t target,
                   uint32_t step)
{
    if (!run->is_broken) {
        run->is_broken = true;
        snprintf(run->check->why, sizeof run->check->why,
                 "%s (PE %u to PE %u, step %u, at %llu ns)", what, sender, target, step,
                 (unsigned long long)prs_timeline_now_ns(run->cluster.timeline));
    }
}

#define LANES 4

const struct sim_check sim_check_cases[] = {
    {.ordering = PERSEUS_ORDERING_DRAIN},
    {.ordering = PERSEUS_ORDERING_DRAIN, .lanes = LANES},
    {.ordering = PERSEUS_ORDERING_DRAIN_PEER},
    {.ordering = PERSEUS_ORDERING_DRAIN_PEER, .lanes = LANES},
    {.ordering = PERSEUS_ORDERING_DEFERRED},
    {.ordering = PERSEUS_ORDERING_DEFERRED, .lanes = LANES},
    {.ordering = PERSEUS_ORDERING_NIC_FENCE, .fence = true},
    {.ordering = PERSEUS_ORDERING_NIC_FENCE, .fence = true, .lanes = LANES},
    {.ordering = PERSEUS_ORDERING_NIC_FENCE, .fence = true, .ordered = true, .immediate_bits = 64},
    {.ordering = PERSEUS_ORDERING_NIC_FENCE,
     .fence = true,
     .ordered = true,
     .immediate_bits = 64,
     .lanes = LANES},
    {.ordering = PERSEUS_ORDERING_FIFO, .ordered = true},
    {.ordering = PERSEUS_ORDERING_FIFO, .ordered = true, .lanes = LANES},
    {.ordering = PERSEUS_ORDERING_COUNTED, .immediate_bits = 32},
    {.ordering = PERSEUS_ORDERING_COUNTED, .immediate_bits = 32, .lanes = LANES},
    {.ordering = PERSEUS_ORDERING_COUNTED, .immediate_bits = 64},
    {.ordering = PERSEUS_ORDERING_COUNTED, .ordered = true, .immediate_bits = 64, .lanes = LANES},
};
const uint32_t sim_check_cases_count = sizeof sim_check_cases / sizeof sim_check_cases[0];

/* ---- words ---- */

static uint64_t put_word(uint32_t step, uint32_t member)
{
    return step * STEP_WORDS + member * PUT_WORDS;
}

static uint64_t signal_word(uint32_t step, uint32_t member)
{
    return step * STEP_WORDS + MEMBERS_MAX * PUT_WORDS + member;
}

static uint64_t content(uint32_t sender, uint64_t word)
{
    return (uint64_t)(sender + 1) << 32 | (word + 1);
}

static bool has_payload(struct check_pe *target, uint32_t sender, uint32_t step, uint32_t member)
{
    const uint64_t *area = sim_pe_words(target->pe) + (size_t)sender * AREA_WORDS;
    for (uint64_t i = 0; i < PUT_WORDS; i++) {
        uint64_t word = put_word(step, member) + i;
        if (area[word] != content(sender, word)) {
            return false;
        }
    }
    return true;
}

/* ---- what becomes visible ---- */

static void see_signal(struct check_pe *target, uint32_t sender, uint32_t index, uint32_t member)
{
    struct run *run = target->run;
    const struct sim_check_step *step = &run->check->steps[sender][index];
    const uint64_t *area = sim_pe_words(target->pe) + (size_t)sender * AREA_WORDS;
    if (++run->seen[sender][index][member] > 1 || area[signal_word(index, member)] != 1 + member) {
        broken(run, "a signal came twice", sender, target->self, index);
    }
    uint32_t first = step->kind == SIM_CHECK_PUT_SIGNAL ? member : 0;
    uint32_t end = step->kind == SIM_CHECK_PUT_SIGNAL ? member + 1 : step->members;
    run->check->seen[step->kind]++;
    for (uint32_t i = first; i < end; i++) {
        if (!has_payload(target, sender, index, i)) {
            broken(run, "a signal is visible before its puts", sender, target->self, index);
        }
    }
}

/* A counter counts its own steps: all of its sender's to this target before it are visible. */
static void see_counter(struct check_pe *target, uint32_t sender, uint64_t value)
{
    struct run *run = target->run;
    run->check->seen[SIM_CHECK_COUNTER]++;
    for (uint32_t i = 0; i + 1 < value && i < SIM_CHECK_STEPS; i++) {
        const struct sim_check_step *step = &run->check->steps[sender][i];
        bool counts =
            !step->is_left_out && step->target == target->self && step->kind != SIM_CHECK_COUNTER;
        for (uint32_t m = 0; counts && m < step->members; m++) {
            if (!has_payload(target, sender, i, m) || run->seen[sender][i][m] == 0) {
                broken(run, "what is behind a fence is visible before what is in front", sender,
                       target->self, i);
            }
        }
    }
}

static void written(void *context, uint64_t offset, uint64_t bytes)
{
    struct check_pe *target = context;
    for (uint64_t word = offset / 8; word < (offset + bytes) / 8; word++) {
        uint32_t sender = (uint32_t)(word / AREA_WORDS), at = (uint32_t)(word % AREA_WORDS);
        if (at == AREA_WORDS - 1) {
            see_counter(target, sender, sim_pe_words(target->pe)[word]);
        } else if (at % STEP_WORDS >= MEMBERS_MAX * PUT_WORDS) {
            see_signal(target, sender, at / STEP_WORDS, at % STEP_WORDS - MEMBERS_MAX * PUT_WORDS);
        }
    }
}

static void check_all_there(struct check_pe *pe)
{
    struct run *run = pe->run;
    for (uint32_t i = 0; i < SIM_CHECK_STEPS; i++) {
        const struct sim_check_step *step = &run->check->steps[pe->self][i];
        struct check_pe *target = &run->pes[step->target];
        if (step->is_left_out || step->kind == SIM_CHECK_COUNTER) {
            continue;
        }
        for (uint32_t m = 0; m < step->members; m++) {
            if (!has_payload(target, pe->self, i, m) || run->seen[pe->self][i][m] != 1) {
                broken(run, "quiet came before everything was there", pe->self, step->target, i);
            }
        }
    }
}

/* After quiet the source is the program's again. */
static void completed(void *context)
{
    struct check_pe *pe = context;
    enum perseus_status status;
    if (pe->run->is_over || pe->is_quiet || pe->next < SIM_CHECK_STEPS ||
        !sim_pe_poll_ticket(pe->pe, pe->ticket, &status)) {
        return;
    }
    pe->is_quiet = true;
    pe->run->quiet++;
    check_all_there(pe);
    memset(sim_pe_words(pe->pe) + (size_t)SIM_CHECK_PES * AREA_WORDS, 0xee, AREA_WORDS * 8);
}

/* ---- programs ---- */

static void submit(struct check_pe *pe, const struct prs_desc *descs, uint32_t n)
{
    if (sim_pe_submit(pe->pe, descs, n) != PERSEUS_OK) {
        broken(pe->run, "a submission failed", pe->self, pe->self, pe->next);
    }
}

static struct prs_desc base_of(const struct check_pe *pe, uint8_t kind, uint32_t target)
{
    (void)pe;
    return (struct prs_desc){
        .kind = kind, .sub = PERSEUS_SIGNAL_SET, .peer = target, .ticket = PRS_DESC_NO_TICKET};
}

static void submit_puts(struct check_pe *pe, const struct sim_check_step *step, bool with_signals)
{
    for (uint32_t m = 0; m < step->members; m++) {
        struct prs_desc desc =
            base_of(pe, with_signals ? PRS_DESC_PUT_SIGNAL : PRS_DESC_PUT, step->target);
        desc.local = (SIM_CHECK_PES * AREA_WORDS + put_word(pe->next, m)) * 8;
        desc.remote = (pe->self * AREA_WORDS + put_word(pe->next, m)) * 8;
        desc.bytes = PUT_WORDS * 8;
        desc.value = 1 + m;
        desc.sub = step->adds && with_signals ? PERSEUS_SIGNAL_ADD : PERSEUS_SIGNAL_SET;
        desc.signal = with_signals ? (pe->self * AREA_WORDS + signal_word(pe->next, m)) * 8 : 0;
        submit(pe, &desc, 1);
    }
}

static void submit_signals(struct check_pe *pe, const struct sim_check_step *step)
{
    struct prs_desc fence = base_of(pe, PRS_DESC_FENCE, step->target);
    uint64_t word = (pe->self * AREA_WORDS + signal_word(pe->next, 0)) * 8;
    uint64_t values[MEMBERS_MAX] = {1, 2, 3, 4};
    submit(pe, &fence, 1);
    if (step->kind == SIM_CHECK_VECTOR && step->members > 1) {
        union prs_desc_slot slots[1 + MEMBERS_MAX];
        uint32_t used = 1;
        slots[0].desc = base_of(pe, PRS_DESC_SIGNAL_VECTOR, step->target);
        slots[0].desc.remote = word;
        slots[0].desc.bytes = step->members * 8ull;
        for (uint32_t at = 0; at < step->members;) {
            at += prs_desc_take_values(&slots[used++], values + at, step->members - at);
        }
        submit(pe, &slots[0].desc, used);
        return;
    }
    for (uint32_t m = 0; m < step->members; m++) {
        struct prs_desc desc = base_of(pe, PRS_DESC_SIGNAL, step->target);
        desc.remote = word + m * 8ull;
        desc.value = values[m];
        desc.sub = step->adds ? PERSEUS_SIGNAL_ADD : PERSEUS_SIGNAL_SET;
        submit(pe, &desc, 1);
    }
}

static void submit_counter(struct check_pe *pe, const struct sim_check_step *step)
{
    struct prs_desc fence = base_of(pe, PRS_DESC_FENCE, step->target);
    struct prs_desc desc = base_of(pe, PRS_DESC_SIGNAL, step->target);
    desc.remote = (pe->self * AREA_WORDS + AREA_WORDS - 1) * 8ull;
    desc.value = pe->next + 1;
    submit(pe, &fence, 1);
    submit(pe, &desc, 1);
}

static void submit_quiet(struct check_pe *pe)
{
    struct prs_desc quiet = base_of(pe, PRS_DESC_QUIET, PRS_DESC_ALL_PEERS);
    if (sim_pe_ticket(pe->pe, &pe->ticket) != PERSEUS_OK) {
        broken(pe->run, "no ticket is free", pe->self, pe->self, pe->next);
    }
    quiet.ticket = pe->ticket;
    submit(pe, &quiet, 1);
}

/* One step of a program, in two halves where a leader may be preempted between them. */
static void advance(void *context)
{
    struct check_pe *pe = context;
    struct sim_check *check = pe->run->check;
    while (pe->next < SIM_CHECK_STEPS && check->steps[pe->self][pe->next].is_left_out) {
        pe->next++;
    }
    if (pe->next == SIM_CHECK_STEPS) {
        submit_quiet(pe);
        return;
    }
    const struct sim_check_step *step = &check->steps[pe->self][pe->next];
    bool in_halves = step->kind == SIM_CHECK_GROUP || step->kind == SIM_CHECK_VECTOR;
    uint64_t wait_ns = step->delay_ns;
    if (pe->leads) {
        submit_signals(pe, step);
    } else if (step->kind == SIM_CHECK_COUNTER) {
        submit_counter(pe, step);
    } else {
        submit_puts(pe, step, !in_halves);
        wait_ns = in_halves ? step->preempted_ns : wait_ns;
    }
    pe->leads = in_halves && !pe->leads;
    pe->next += !pe->leads;
    prs_timeline_add(pe->run->cluster.timeline,
                     prs_timeline_now_ns(pe->run->cluster.timeline) + wait_ns, advance, pe);
}

/* ---- a run ---- */

void sim_check_plan(struct sim_check *check)
{
    struct prs_rng rng = prs_rng_seeded(check->seed);
    for (uint32_t pe = 0; pe < SIM_CHECK_PES; pe++) {
        for (uint32_t i = 0; i < SIM_CHECK_STEPS; i++) {
            struct sim_check_step *step = &check->steps[pe][i];
            uint32_t other = prs_rng_below(&rng, SIM_CHECK_PES - 1);
            /* Few targets, so that what is sent there meets. */
            other = prs_rng_below(&rng, 2) == 0 ? other % 2 : other;
            /* One draw a statement: an initializer leaves open which comes first. */
            *step = (struct sim_check_step){.target = (uint8_t)((pe + 1 + other) % SIM_CHECK_PES)};
            step->kind = (uint8_t)prs_rng_below(&rng, SIM_CHECK_KINDS);
            step->members = (uint8_t)(1 + prs_rng_below(&rng, MEMBERS_MAX));
            step->adds = prs_rng_below(&rng, 3) == 0 && check->immediate_bits > 0;
            step->delay_ns = prs_rng_below(&rng, 1u << prs_rng_below(&rng, 16));
            step->preempted_ns = prs_rng_below(&rng, 1u << prs_rng_below(&rng, 18));
        }
    }
}

/* A fabric that does what it may: a different one for every seed. */
static void make_hostile(const struct sim_check *check, struct sim_platform *out)
{
    static const double queues[] = {0, 1, 2, 5};
    struct prs_rng rng = prs_rng_seeded(check->seed ^ 0x9e3779b97f4a7c15u);
    uint32_t wild = prs_rng_below(&rng, 16);
    struct prs_sim_model *fabric = &out->fabric;
    *out = (struct sim_platform){.pes_per_node = 1,
                                 .fabric = {.hops = 1,
                                            .lanes = check->lanes,
                                            .ordered = check->ordered,
                                            .fence = check->fence,
                                            .immediate_bits = check->immediate_bits}};
    out->batch = 1 + prs_rng_below(&rng, 16);
    fabric->step_ns = 1 + prs_rng_below(&rng, 500);
    fabric->post_ns = prs_rng_below(&rng, 300);
    fabric->event_ns = prs_rng_below(&rng, 100);
    fabric->queues = queues[prs_rng_below(&rng, 4)];
    fabric->inflight = 1 + prs_rng_below(&rng, 1u << prs_rng_below(&rng, 7));
    fabric->hop_ns = prs_rng_below(&rng, 2000);
    fabric->jitter_ns = 1 + prs_rng_below(&rng, 2u << wild);
    fabric->receive_message_ns = prs_rng_below(&rng, 300);
    fabric->ack_ns = prs_rng_below(&rng, 3000);
    fabric->completion_ns = prs_rng_below(&rng, 20000);
    snprintf(out->name, sizeof out->name, "hostile");
}

static void *context_of(void *context, uint32_t pe)
{
    return &((struct run *)context)->pes[pe];
}

static enum perseus_status build(struct run *run)
{
    const struct sim_check *check = run->check;
    struct prs_rng rng = prs_rng_seeded(check->seed + 1);
    const uint32_t ring_slots = 8u << prs_rng_below(&rng, 4);
    const bool meet = prs_rng_below(&rng, 2) == 0;
    make_hostile(check, &run->platform);
    struct sim_cluster_config config = {.platform = &run->platform,
                                        .n_pes = SIM_CHECK_PES,
                                        .job_pes = SIM_CHECK_PES,
                                        .seed = check->seed,
                                        .ordering = check->ordering,
                                        .mode = check->mode,
                                        .piece_bytes = check->seed % 2 * 8,
                                        .words_bytes = HEAP_WORDS * 8ull,
                                        .heap_bytes = HEAP_WORDS * 8ull,
                                        .ring_slots = ring_slots,
                                        .written = written,
                                        .completed = completed,
                                        .context_of = context_of,
                                        .context = run,
                                        .meet = meet,
                                        .log = check->log};
    enum perseus_status status = sim_cluster_create(&config, &run->cluster);
    if (status == PERSEUS_OK) {
        status = prs_timeline_reserve(run->cluster.timeline, SIM_CHECK_PES);
    }
    for (uint32_t i = 0; i < SIM_CHECK_PES && status == PERSEUS_OK; i++) {
        run->pes[i] = (struct check_pe){.run = run, .pe = run->cluster.pes[i], .self = i};
        uint64_t *staged = sim_pe_words(run->pes[i].pe) + (size_t)SIM_CHECK_PES * AREA_WORDS;
        for (uint64_t word = 0; word < AREA_WORDS; word++) {
            staged[word] = content(i, word);
        }
        prs_timeline_add(run->cluster.timeline, 0, advance, &run->pes[i]);
    }
    return status;
}

const char *sim_check_run(struct sim_check *check)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        snprintf(check->why, sizeof check->why, "no memory");
        return check->why;
    }
    run->check = check;
    memset(check->seen, 0, sizeof check->seen);
    enum perseus_status status = build(run);
    uint32_t events = 0;
    while (status == PERSEUS_OK && !run->is_broken && events++ < EVENTS_MAX &&
           prs_timeline_step(run->cluster.timeline)) {
    }
    if (status != PERSEUS_OK) {
        run->is_broken = true;
        snprintf(check->why, sizeof check->why, "the cluster cannot be made: %s",
                 perseus_status_string(status));
    } else if (run->quiet < SIM_CHECK_PES) {
        broken(run, "no end: something waits for ever", run->quiet, 0, 0);
    }
    if (run->cluster.timeline != NULL) {
        check->operations = prs_sim_net_posted(run->cluster.net);
        run->is_over = true;
        prs_timeline_give_back(run->cluster.timeline, status == PERSEUS_OK ? SIM_CHECK_PES : 0);
        sim_cluster_destroy(&run->cluster);
    }
    bool is_broken = run->is_broken;
    free(run);
    return is_broken ? check->why : NULL;
}

/* Halves of the programs first, then quarters, down to single steps. */
uint32_t sim_check_shrink(struct sim_check *check)
{
    struct sim_check_step *all = &check->steps[0][0];
    uint32_t n = SIM_CHECK_PES * SIM_CHECK_STEPS, left = 0;
    for (uint32_t size = n / 2; size > 0; size /= 2) {
        for (uint32_t first = 0; first < n; first += size) {
            struct sim_check tried = *check;
            struct sim_check_step *steps = &tried.steps[0][0];
            for (uint32_t i = first; i < first + size && i < n; i++) {
                steps[i].is_left_out = true;
            }
            if (sim_check_run(&tried) != NULL) {
                *check = tried;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        left += !all[i].is_left_out;
    }
    return left;
}
