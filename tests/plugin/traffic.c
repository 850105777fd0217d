/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* Heap layout. Inbox slots are 64 KiB apart from an odd start, so that one lies across the
 * chunks. */
#define SLOTS       4 /* per source */
#define SIGNALS     0
#define FLAGS       4096
#define FETCHES     8192
#define WORDS       12288
#define INBOX       (96 << 10)
#define SLOT_BYTES  (64 << 10)
#define OUTBOX      (1280 << 10)
#define OUT_BYTES   (32 << 10)
#define GROUP       40
#define MESSAGE_MAX OUT_BYTES

static size_t signal_at(int source, int slot)
{
    return SIGNALS + (size_t)(source * SLOTS + slot) * 8;
}

static size_t inbox_at(int source, int slot)
{
    return INBOX + (size_t)(source * SLOTS + slot) * SLOT_BYTES;
}

static size_t outbox_at(int target, int slot)
{
    return OUTBOX + (size_t)(target * SLOTS + slot) * OUT_BYTES;
}

/* Every byte of a payload depends on who, where, when. */
static struct prs_rng payload_rng(uint64_t seed, int source, int target, int slot, int round)
{
    return prs_rng_seeded(seed ^ ((uint64_t)source << 48 | (uint64_t)target << 32 |
                                  (uint64_t)slot << 16 | (uint64_t)round));
}

static size_t payload_bytes(struct prs_rng *rng)
{
    return 1 + prs_rng_below(rng, prs_rng_below(rng, 4) == 0 ? MESSAGE_MAX : 512);
}

static void fill(struct prs_rng *rng, unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)prs_rng_below(rng, 256);
    }
}

static bool matches(struct prs_rng *rng, const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != (unsigned char)prs_rng_below(rng, 256)) {
            return false;
        }
    }
    return true;
}

/* ---- storm ---- */

static void storm_send(struct host_pe *pe, const struct traffic *traffic, int target, int slot,
                       int round)
{
    struct prs_rng rng = payload_rng(traffic->seed, pe->rank, target, slot, round);
    size_t bytes = payload_bytes(&rng), out = outbox_at(target, slot);
    fill(&rng, pe->view + out, bytes);
    size_t signal = signal_at(pe->rank, slot);
    if (slot % 2 == 0) {
        CHECK(pe, device_put_signal(pe, target, inbox_at(pe->rank, slot), pe->heap + out, bytes,
                                    signal, (uint64_t)round, PRS_ABI_AMO_SIGNAL_SET) == 0);
    } else {
        CHECK(pe, device_put_signal(pe, target, inbox_at(pe->rank, slot), pe->heap + out, bytes,
                                    signal, 1, PRS_ABI_AMO_SIGNAL_ADD) == 0);
    }
}

static void storm_receive(struct host_pe *pe, const struct traffic *traffic, int source, int slot,
                          int round)
{
    if (!CHECK(pe, device_wait(pe, signal_at(source, slot), (uint64_t)round))) {
        return;
    }
    struct prs_rng rng = payload_rng(traffic->seed, source, pe->rank, slot, round);
    size_t bytes = payload_bytes(&rng);
    CHECK(pe, matches(&rng, pe->view + inbox_at(source, slot), bytes));
    CHECK(pe, host_word(pe, signal_at(source, slot)) == (uint64_t)round);
}

static void storm_kernel(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    uint64_t barriers = 0;
    for (int round = 1; round <= traffic->rounds && pe->failures == 0; round++) {
        for (int slot = 0; slot < SLOTS; slot++) {
            for (int step = 0; step < pe->n_pes; step++) {
                storm_send(pe, traffic, (pe->rank + step) % pe->n_pes, slot, round);
            }
        }
        for (int source = 0; source < pe->n_pes; source++) {
            for (int slot = 0; slot < SLOTS; slot++) {
                storm_receive(pe, traffic, source, slot, round);
            }
        }
        CHECK(pe, device_barrier(pe, FLAGS, &barriers));
    }
}

void traffic_storm(struct host_pe *pe, void *traffic)
{
    host_on_proxy(pe, storm_kernel, traffic);
}

/* ---- groups ---- */

/* Decoupled: all puts, one fence, then the signals of neighbouring words, low to high. */
static void groups_kernel(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    uint64_t barriers = 0;
    int target = (pe->rank + 1) % pe->n_pes, source = (pe->rank + pe->n_pes - 1) % pe->n_pes;
    for (int round = 1; round <= traffic->rounds && pe->failures == 0; round++) {
        for (int part = 0; part < GROUP; part++) {
            struct prs_rng rng = payload_rng(traffic->seed, pe->rank, target, part, round);
            size_t out = OUTBOX + (size_t)part * 512;
            fill(&rng, pe->view + out, 500);
            CHECK(pe, device_put(pe, target, INBOX + (size_t)part * 512, pe->heap + out, 500) == 0);
        }
        CHECK(pe, device_fence(pe) == 0);
        for (size_t part = 0; part < GROUP; part++) {
            CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_SIGNAL_SET, WORDS + 8 * part, 8,
                                 (uint64_t)round, 0) == 0);
        }
        for (int part = GROUP - 1; part >= 0; part--) {
            struct prs_rng rng = payload_rng(traffic->seed, source, pe->rank, part, round);
            CHECK(pe, device_wait(pe, WORDS + 8 * (size_t)part, (uint64_t)round));
            CHECK(pe, host_word(pe, WORDS + 8 * (size_t)part) == (uint64_t)round);
            CHECK(pe, matches(&rng, pe->view + INBOX + (size_t)part * 512, 500));
        }
        CHECK(pe, host_word(pe, WORDS + 8 * GROUP) == 0); /* nothing beyond */
        CHECK(pe, device_barrier(pe, FLAGS, &barriers));
    }
}

void traffic_groups(struct host_pe *pe, void *traffic)
{
    host_on_proxy(pe, groups_kernel, traffic);
}

/* ---- flags ---- */

enum flag_kind { FLAG_P, FLAG_SMALL_PUT, FLAG_SET, FLAG_ADD, FLAG_ADD_32, FLAG_KINDS };

static void raise_flag(struct host_pe *pe, int target, enum flag_kind kind, size_t word, int round)
{
    size_t out = outbox_at(target, 3) + OUT_BYTES - 64 - (size_t)(round % 4) * 8;
    uint64_t value = (uint64_t)round;
    switch (kind) {
    case FLAG_P:
        CHECK(pe, device_p(pe, target, word, value, 8) == 0);
        break;
    case FLAG_SMALL_PUT:
        memcpy(pe->view + out, &value, sizeof value);
        CHECK(pe, device_put(pe, target, word, pe->heap + out, sizeof value) == 0);
        break;
    case FLAG_SET:
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_SET, word, 8, value, 0) == 0);
        break;
    case FLAG_ADD:
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_ADD, word, 8, 1, 0) == 0);
        break;
    case FLAG_ADD_32:
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_INC, word, 4, 0, 0) == 0);
        break;
    case FLAG_KINDS:
        break;
    }
}

/* put; fence; flag, then without waiting: put elsewhere; fence; flag of another kind. */
static void flags_kernel(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    uint64_t barriers = 0;
    int target = (pe->rank + 1) % pe->n_pes, source = (pe->rank + pe->n_pes - 1) % pe->n_pes;
    for (int round = 1; round <= traffic->rounds && pe->failures == 0; round++) {
        for (int kind = 0; kind < FLAG_KINDS; kind++) {
            int slot = kind % 3;
            struct prs_rng rng = payload_rng(traffic->seed, pe->rank, target, kind, round);
            size_t out = outbox_at(target, slot), bytes = 600 + 1000 * (size_t)kind;
            if (kind >= 3) {
                out += OUT_BYTES / 2;
            }
            fill(&rng, pe->view + out, bytes);
            size_t inbox = inbox_at(pe->rank, slot) + (kind >= 3 ? SLOT_BYTES / 2 : 0);
            CHECK(pe, device_put(pe, target, inbox, pe->heap + out, bytes) == 0);
            CHECK(pe, device_fence(pe) == 0);
            raise_flag(pe, target, (enum flag_kind)kind, WORDS + 8 * (size_t)kind, round);
        }
        /* The last flag is behind all the others. */
        size_t last = WORDS + 8 * (FLAG_KINDS - 1);
        if (CHECK(pe, device_wait(pe, last, (uint64_t)round))) {
            for (int kind = 0; kind < FLAG_KINDS - 1; kind++) {
                CHECK(pe, host_word(pe, WORDS + 8 * (size_t)kind) == (uint64_t)round);
            }
        }
        for (int kind = 0; kind < FLAG_KINDS; kind++) {
            struct prs_rng rng = payload_rng(traffic->seed, source, pe->rank, kind, round);
            size_t inbox = inbox_at(source, kind % 3) + (kind >= 3 ? SLOT_BYTES / 2 : 0);
            CHECK(pe, matches(&rng, pe->view + inbox, 600 + 1000 * (size_t)kind));
        }
        CHECK(pe, device_barrier(pe, FLAGS, &barriers));
    }
}

void traffic_flags(struct host_pe *pe, void *traffic)
{
    host_on_proxy(pe, flags_kernel, traffic);
}

/* ---- growing ---- */

static void growing_kernel(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    int target = (pe->rank + 1) % pe->n_pes;
    for (uint64_t value = 1; value <= (uint64_t)traffic->rounds * 20; value++) {
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_SIGNAL, WORDS, 8, value, 0) == 0);
        CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_SIGNAL, WORDS + 8 + value % 7 * 8, 8, value,
                             0) == 0);
    }
    CHECK(pe, device_quiet(pe) == 0);
}

void traffic_growing(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    uint64_t last = (uint64_t)traffic->rounds * 20, seen = 0;
    host_on_proxy(pe, growing_kernel, argument);
    /* What the last SET wrote stays; and on the way there it never fell. */
    for (int looks = 0; looks < 20000000 && seen < last; looks++) {
        uint64_t now = host_word(pe, WORDS);
        if (!CHECK(pe, now >= seen)) {
            return;
        }
        seen = now;
    }
    host_barrier(pe);
    CHECK(pe, host_word(pe, WORDS) == last);
    for (uint64_t i = 0; i < 7; i++) {
        uint64_t newest = last - (last + 7 - i) % 7;
        CHECK(pe, host_word(pe, WORDS + 8 + i * 8) == newest);
    }
}
