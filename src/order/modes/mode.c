/* SPDX-License-Identifier: Apache-2.0 */
/* mode.c: the registry of ordering modes, what each needs of a fabric, and the automatic choice. */
#include "order/engine.h"

#include <stdio.h>
#include <string.h>

static const struct prs_mode *const modes[PERSEUS_ORDERING_COUNT] = {
    [PERSEUS_ORDERING_DRAIN] = &prs_mode_drain,
    [PERSEUS_ORDERING_DRAIN_PEER] = &prs_mode_drain_peer,
    [PERSEUS_ORDERING_DEFERRED] = &prs_mode_deferred,
    [PERSEUS_ORDERING_NIC_FENCE] = &prs_mode_nic_fence,
    [PERSEUS_ORDERING_FIFO] = &prs_mode_fifo,
    [PERSEUS_ORDERING_COUNTED] = &prs_mode_counted,
};

const struct prs_mode *prs_mode_get(enum perseus_ordering ordering)
{
    return (unsigned)ordering < PERSEUS_ORDERING_COUNT ? modes[ordering] : NULL;
}

bool prs_order_proven(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                      const struct prs_pending *pending)
{
    return pending->after == 0 || (orderer->caps.completion == PRS_COMPLETION_DELIVERED &&
                                   prs_epochs_passed(&peer->epochs, pending->after));
}

bool prs_order_behind_records(struct prs_orderer *orderer, const struct prs_order_peer *peer,
                              const struct prs_pending *pending)
{
    const struct prs_pending *oldest = prs_mail_oldest(orderer, peer);
    return pending->form != PRS_FORM_RECORD && oldest != NULL &&
           oldest->of_peer.epoch < pending->after;
}

/* ---- what a mode needs ---- */

#define ORDER_FOR_FIFO     (PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_SET | PRS_ORDER_SET_SET)
#define IMMEDIATE_BITS_MIN 32u /* any job size up to 2^21 PEs fits a record's immediate */

static enum perseus_status verdict(bool ok, char *why, size_t why_bytes, const char *good,
                                   const char *bad, const char *word)
{
    snprintf(why, why_bytes, "%s%s%s%s", ok ? good : bad, word[0] != '\0' ? " (" : "", word,
             word[0] != '\0' ? ")" : "");
    return ok ? PERSEUS_OK : PERSEUS_NOT_SUPPORTED;
}

static enum perseus_status check(enum perseus_ordering mode, const struct prs_caps *caps, char *why,
                                 size_t why_bytes)
{
    bool delivered = caps->completion == PRS_COMPLETION_DELIVERED;
    switch (mode) {
    case PERSEUS_ORDERING_DRAIN:
    case PERSEUS_ORDERING_DRAIN_PEER:
    case PERSEUS_ORDERING_DEFERRED:
        return verdict(delivered && caps->completion_per_operation, why, why_bytes,
                       "completions mean delivered",
                       "completions do not mean delivered, so waiting for them orders nothing",
                       caps->completion_word);
    case PERSEUS_ORDERING_NIC_FENCE:
        return verdict(caps->fence_scope != PRS_FENCE_NONE, why, why_bytes,
                       "the fabric granted a fence flag",
                       "the fabric did not grant a fence flag; it would be ignored silently",
                       caps->fence_word);
    case PERSEUS_ORDERING_FIFO:
        return verdict((caps->order & ORDER_FOR_FIFO) == ORDER_FOR_FIFO, why, why_bytes,
                       "the fabric granted write-after-write order",
                       "the fabric did not grant write-after-write order", caps->order_word);
    case PERSEUS_ORDERING_COUNTED:
        return verdict(delivered && caps->immediate_bits >= IMMEDIATE_BITS_MIN, why, why_bytes,
                       "puts carry immediate data that the target counts",
                       "puts cannot carry 32 bits of immediate data with delivered completions",
                       caps->immediate_word);
    case PERSEUS_ORDERING_AUTO:
    case PERSEUS_ORDERING_COUNT:
        break;
    }
    return verdict(false, why, why_bytes, "", "not a mode of its own", "");
}

/* What becomes of several lanes. */
static void add_lanes(const struct prs_mode *mode, uint32_t lanes, char *why, size_t why_bytes)
{
    size_t length = strlen(why);
    snprintf(why + length, why_bytes - length,
             mode->stripes ? "; puts take %u lanes in turn"
                           : "; all to one PE takes one of %u lanes",
             lanes);
}

enum perseus_status prs_ordering_check(enum perseus_ordering mode, const struct prs_caps *caps,
                                       char *why, size_t why_bytes)
{
    enum perseus_status status = check(mode, caps, why, why_bytes);
    const struct prs_mode *rules = prs_mode_get(mode);
    if (status == PERSEUS_OK && caps->lanes_useful > 1 && rules != NULL) {
        add_lanes(rules, caps->lanes_useful, why, why_bytes);
    }
    return status;
}

/* ---- the automatic choice ---- */

/* What a signal behind a put costs: who waits first, then messages. docs/ordering.md has the table
 * and where the figures come from. */
struct cost {
    enum perseus_ordering mode;
    bool endpoint_fence; /* where a fence flag holds every peer */
    const char *words;
};

/* Cheapest first. */
static const struct cost costs[] = {
    {PERSEUS_ORDERING_FIFO, false, "nobody waits, and one delivery proves the earlier ones"},
    {PERSEUS_ORDERING_NIC_FENCE, false, "only the NIC waits, for one peer"},
    {PERSEUS_ORDERING_COUNTED, false, "nobody waits, but every put tells of its delivery"},
    {PERSEUS_ORDERING_NIC_FENCE, true, "only the NIC waits, but for every peer"},
    {PERSEUS_ORDERING_DEFERRED, false, "a signal leaves one round trip later"},
    {PERSEUS_ORDERING_DRAIN, false, "the channel waits for every delivery"},
};

static enum perseus_status choose(const struct prs_caps *caps, const struct prs_log *log,
                                  enum perseus_ordering *out, char *why, size_t why_bytes)
{
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        bool holds_all = caps->fence_scope == PRS_FENCE_ENDPOINT;
        if ((costs[i].mode == PERSEUS_ORDERING_NIC_FENCE && holds_all != costs[i].endpoint_fence) ||
            prs_ordering_check(costs[i].mode, caps, why, why_bytes) != PERSEUS_OK) {
            continue;
        }
        size_t length = strlen(why);
        snprintf(why + length, why_bytes - length, "; the cheapest kept here: %s", costs[i].words);
        *out = costs[i].mode;
        return PERSEUS_OK;
    }
    return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                    "no ordering mode can be kept on %s: it grants neither order, fence flag, "
                    "immediate data nor delivery-complete. Choose another provider (perseus info)",
                    caps->provider);
}

enum perseus_status prs_ordering_resolve(enum perseus_ordering asked, const struct prs_caps *caps,
                                         const struct prs_log *log, enum perseus_ordering *out,
                                         char *why, size_t why_bytes)
{
    if (asked != PERSEUS_ORDERING_AUTO) {
        enum perseus_status status = prs_ordering_check(asked, caps, why, why_bytes);
        if (status != PERSEUS_OK) {
            return prs_fail(log, status,
                            "ordering mode %s cannot be kept on %s: %s. Use PERSEUS_ORDERING=auto, "
                            "or see `perseus info` for the modes this fabric keeps",
                            perseus_ordering_name(asked), caps->provider, why);
        }
        *out = asked;
        return PERSEUS_OK;
    }
    return choose(caps, log, out, why, why_bytes);
}
