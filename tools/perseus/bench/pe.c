/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/pe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/rng.h"
#include "kit/exit.h"

#define HEAP_SLACK_BYTES (UINT64_C(1) << 20) /* rounding, and what the library keeps there */
#define TIMER_SLACK_NS   1000

struct bench_pe {
    const struct prs_bench_pe_config *config;
    struct prs_log log;
    struct perseus_pe *pe;
    uint32_t self;
    struct prs_bench_areas areas;
    struct prs_bench_sender *sender;
    struct prs_bench_exchange exchange;
    bool *is_seen, *is_wrong; /* by incoming transfer, in this round */
    uint64_t round;           /* over all turns; the signals' value */
};

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

uint64_t prs_bench_heap_bytes(const struct prs_bench_workload *workload)
{
    uint64_t payload_bytes = 0;
    uint32_t slots = 0;
    if (!prs_bench_space(workload, &payload_bytes, &slots)) {
        return 0;
    }
    return prs_bench_source_bytes(workload) + payload_bytes +
           (slots + workload->n_pes) * sizeof(uint64_t) + HEAP_SLACK_BYTES;
}

/* ---- receiving ---- */

static void check(struct bench_pe *self, uint32_t i, bool is_whole)
{
    const struct prs_bench_transfer *transfer = &self->exchange.incoming[i];
    const unsigned char *expected = self->areas.source + prs_bench_window(transfer, self->round);
    if (!prs_bench_payload_matches(self->areas.payload + transfer->offset, expected,
                                   transfer->bytes, is_whole)) {
        self->is_wrong[i] = true;
    }
}

/* Takes every signal that is there, not only the one that was waited for. */
static void see(struct bench_pe *self, bool is_ordered)
{
    for (uint32_t i = 0; i < self->exchange.n_incoming; i++) {
        const uint64_t *signal = self->areas.signals + self->exchange.incoming[i].slot;
        if (!self->is_seen[i] && perseus_signal_fetch(signal) == self->round) {
            self->is_seen[i] = true;
            if (is_ordered) {
                check(self, i, false);
            }
        }
    }
}

static enum perseus_status await_word(struct bench_pe *self, const uint64_t *word)
{
    return perseus_signal_wait_until(self->pe, word, PERSEUS_CMP_EQ, self->round,
                                     self->config->wait_timeout_ms, NULL);
}

static enum perseus_status receive_signals(struct bench_pe *self, bool is_ordered)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < self->exchange.n_incoming && status == PERSEUS_OK; i++) {
        if (!self->is_seen[i]) {
            status = await_word(self, self->areas.signals + self->exchange.incoming[i].slot);
            see(self, is_ordered);
        }
    }
    return status;
}

/* In a round without signals, until everybody that sends to this PE has ended. */
static enum perseus_status await_ends(struct bench_pe *self)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < self->exchange.n_incoming && status == PERSEUS_OK; i++) {
        status = await_word(self, self->areas.ends + self->exchange.incoming[i].sender);
    }
    return status;
}

static enum perseus_status tell_end(struct bench_pe *self)
{
    enum perseus_status status = PERSEUS_OK;
    uint32_t told = self->self;
    for (uint32_t i = 0; i < self->exchange.n_outgoing && status == PERSEUS_OK; i++) {
        uint32_t target = self->exchange.outgoing[i].target;
        if (target != told) {
            status = perseus_signal_op(self->pe, self->areas.ends + self->self, self->round,
                                       PERSEUS_SIGNAL_SET, (int)target);
            told = target;
        }
    }
    return status;
}

/* ---- one round ---- */

static void count(const struct perseus_stats *before, const struct perseus_stats *after,
                  struct prs_bench_sample *sample)
{
    sample->fences = after->fences - before->fences;
    sample->drains = after->drains - before->drains;
    sample->drain_ns = after->drain_ns - before->drain_ns;
    sample->again = after->again - before->again;
    sample->signals = after->signals - before->signals;
    sample->signal_messages = after->signal_messages - before->signal_messages;
}

static enum perseus_status send_all(struct bench_pe *self, enum prs_bench_protocol protocol,
                                    struct prs_bench_sample *sample)
{
    struct perseus_stats before, after;
    enum perseus_status status = perseus_stats(self->pe, PERSEUS_ALL_PES, &before);
    sample->start_ns = now_ns();
    if (status == PERSEUS_OK) {
        status = prs_bench_sender_submit(self->sender, protocol, self->round);
    }
    if (status == PERSEUS_OK) {
        status = perseus_quiet(self->pe);
    }
    sample->end_ns = now_ns();
    if (status == PERSEUS_OK) {
        status = perseus_stats(self->pe, PERSEUS_ALL_PES, &after);
    }
    if (status == PERSEUS_OK) {
        count(&before, &after, sample);
    }
    return status;
}

static enum perseus_status communicate(struct bench_pe *self, enum prs_bench_protocol protocol,
                                       struct prs_bench_sample *sample)
{
    const struct prs_bench_protocol_info *info = prs_bench_protocol_info(protocol);
    enum perseus_status status = PERSEUS_OK;
    if (self->exchange.n_outgoing > 0) {
        status = send_all(self, protocol, sample);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    if (protocol == PRS_BENCH_COLLECTIVE) {
        status = perseus_barrier_all(self->pe);
        sample->end_ns = self->exchange.n_outgoing > 0 ? now_ns() : 0;
    } else if (info->has_signals) {
        status = receive_signals(self, info->is_ordered);
        sample->seen_ns = self->exchange.n_incoming > 0 ? now_ns() : 0;
    } else {
        status = tell_end(self);
        if (status == PERSEUS_OK) {
            status = await_ends(self);
        }
    }
    return status;
}

/* The players of a round meet; a barrier needs all PEs. */
static void meet(const struct bench_pe *self, enum prs_bench_protocol protocol,
                 struct prs_bench_board *board)
{
    if (protocol == PRS_BENCH_COLLECTIVE) {
        prs_bench_gate_pass(&board->all, self->config->workload->n_pes);
    } else {
        prs_bench_gate_pass(&board->players, self->exchange.n_taking_part);
    }
}

static enum perseus_status play_round(struct bench_pe *self, enum prs_bench_protocol protocol,
                                      struct prs_bench_board *board,
                                      struct prs_bench_sample *sample)
{
    uint32_t n_incoming = self->exchange.n_incoming;
    bool takes_part = self->exchange.n_outgoing > 0 || n_incoming > 0;
    *sample = (struct prs_bench_sample){0};
    self->round++;
    if (!takes_part && protocol != PRS_BENCH_COLLECTIVE) {
        return PERSEUS_OK;
    }
    memset(self->is_seen, 0, n_incoming * sizeof *self->is_seen);
    memset(self->is_wrong, 0, n_incoming * sizeof *self->is_wrong);
    /* Completes what the last round left, and wakes a proxy that sleeps deeply. */
    enum perseus_status status = perseus_quiet(self->pe);
    if (status != PERSEUS_OK) {
        return status;
    }
    meet(self, protocol, board);
    status = communicate(self, protocol, sample);
    if (status != PERSEUS_OK) {
        return status;
    }
    meet(self, protocol, board);
    for (uint32_t i = 0; i < n_incoming; i++) {
        check(self, i, true);
        sample->payload_errors += self->is_wrong[i];
    }
    return PERSEUS_OK;
}

/* ---- turns ---- */

static enum perseus_status enter_cell(struct bench_pe *self, uint32_t cell)
{
    const struct prs_bench_workload *workload = self->config->workload;
    prs_bench_exchange_destroy(&self->exchange);
    if (!prs_bench_exchange_create(workload, cell, self->self, &self->exchange)) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    return prs_bench_sender_set(self->sender, &self->exchange);
}

static enum perseus_status play_turn(struct bench_pe *self, struct prs_bench_board *board)
{
    struct prs_bench_turn turn = board->turn;
    struct prs_bench_sample warm_up;
    enum perseus_status status = enter_cell(self, turn.cell);
    /* The caches, and connections that slept while this job was stopped. */
    if (status == PERSEUS_OK) {
        status = play_round(self, PRS_BENCH_PUT_ONLY, board, &warm_up);
    }
    for (uint32_t round = 0; round < turn.burst; round++) {
        for (uint32_t i = 0; i < turn.n_protocols && status == PERSEUS_OK; i++) {
            enum prs_bench_protocol protocol = turn.protocols[i];
            status = play_round(self, protocol, board,
                                prs_bench_board_sample(board, self->self, protocol, round));
        }
    }
    return status;
}

/* Tells the driver that the last turn is done and waits for the next. PE 0 only. */
static enum perseus_status await_driver(int control)
{
    char byte = 'd';
    ssize_t n;
    do {
        n = send(control, &byte, 1, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n != 1) {
        return PERSEUS_CANCELED; /* the driver is gone */
    }
    do {
        n = recv(control, &byte, 1, 0);
    } while (n < 0 && errno == EINTR);
    return n == 1 ? PERSEUS_OK : PERSEUS_CANCELED;
}

static enum perseus_status post_counters(struct bench_pe *self, struct prs_bench_board *board)
{
    uint32_t n_pes = self->config->workload->n_pes;
    struct perseus_stats *counters = prs_bench_board_counters(board, n_pes);
    enum perseus_status status = perseus_stats(self->pe, PERSEUS_ALL_PES, &counters[n_pes]);
    for (uint32_t pe = 0; pe < n_pes && status == PERSEUS_OK; pe++) {
        status = perseus_stats(self->pe, (int)pe, &counters[pe]);
    }
    return status;
}

static enum perseus_status play(struct bench_pe *self, struct prs_bench_board *board, int control)
{
    uint32_t n_pes = self->config->workload->n_pes;
    for (;;) {
        enum perseus_status status = self->self == 0 ? await_driver(control) : PERSEUS_OK;
        if (status != PERSEUS_OK) {
            return status;
        }
        prs_bench_gate_pass(&board->all, n_pes);
        if (board->turn.is_end) {
            return PERSEUS_OK;
        }
        status = play_turn(self, board);
        if (status == PERSEUS_OK && self->self == 0) {
            status = post_counters(self, board);
        }
        if (status != PERSEUS_OK) {
            return status;
        }
        /* All samples are on the board, and nobody still reads the turn, when PE 0 answers. */
        prs_bench_gate_pass(&board->all, n_pes);
    }
}

/* ---- life ---- */

static enum perseus_status take_memory(struct bench_pe *self)
{
    const struct prs_bench_workload *workload = self->config->workload;
    uint64_t payload_bytes = 0, source_bytes = prs_bench_source_bytes(workload);
    uint32_t slots = 0;
    size_t incoming_max = (size_t)workload->transfers_max * workload->n_pes;
    self->is_seen = calloc(incoming_max, sizeof *self->is_seen);
    self->is_wrong = calloc(incoming_max, sizeof *self->is_wrong);
    if (self->is_seen == NULL || self->is_wrong == NULL ||
        !prs_bench_space(workload, &payload_bytes, &slots)) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    const uint64_t bytes[] = {source_bytes, payload_bytes, slots * sizeof(uint64_t),
                              workload->n_pes * sizeof(uint64_t), sizeof(uint64_t)};
    void *memory[sizeof bytes / sizeof bytes[0]];
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        enum perseus_status status = perseus_malloc(self->pe, bytes[i], &memory[i]);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    self->areas = (struct prs_bench_areas){memory[0], memory[1], memory[2], memory[3], memory[4]};
    struct prs_rng rng = prs_rng_seeded(self->config->seed);
    for (uint64_t at = 0; at + sizeof(uint64_t) <= source_bytes; at += sizeof(uint64_t)) {
        uint64_t word = prs_rng_next(&rng);
        memcpy(self->areas.source + at, &word, sizeof word);
    }
    return PERSEUS_OK;
}

static enum perseus_status start(struct bench_pe *self)
{
    const struct prs_bench_pe_config *config = self->config;
    struct perseus_attr attr = config->attr;
    attr.heap_bytes = prs_bench_heap_bytes(config->workload);
    enum perseus_status status = perseus_init_attr(&attr, &self->pe);
    if (status != PERSEUS_OK) {
        return status;
    }
    self->self = (uint32_t)perseus_my_pe(self->pe);
    self->log.pe = (int)self->self;
    status = take_memory(self);
    if (status == PERSEUS_OK) {
        status = prs_bench_sender_create(self->pe, &self->areas, config->workload->transfers_max,
                                         config->group_size, config->ctas, &self->sender);
    }
    return status;
}

int prs_bench_pe_main(const struct prs_bench_pe_config *config, struct prs_bench_board *board,
                      int control)
{
    struct bench_pe self = {
        .config = config,
        .log = {.fn = config->attr.log, .level = config->attr.log_level, .pe = -1},
    };
    /* Waits sleep in steps of tens of microseconds; the kernel's default slack doubles them. */
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    enum perseus_status status = start(&self);
    if (status == PERSEUS_OK) {
        status = play(&self, board, control);
    }
    prs_bench_sender_destroy(self.sender);
    if (status == PERSEUS_OK) {
        status = perseus_finalize(self.pe);
    } else {
        perseus_abort(self.pe);
    }
    prs_bench_exchange_destroy(&self.exchange);
    free(self.is_seen);
    free(self.is_wrong);
    if (status == PERSEUS_OUT_OF_MEMORY) {
        prs_log(&self.log, PERSEUS_LOG_ERROR,
                "out of memory for the benchmark; ask for smaller --bytes or fewer --transfers");
    }
    return status == PERSEUS_OK ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
