/* SPDX-License-Identifier: Apache-2.0 */
/* Each pair __wrap_x, __real_x: the call that the rest of the engine makes, and the engine's
 * own. */
#include "mutant/engine_mutants.h"

#include <stdlib.h>
#include <string.h>

#include "order/engine.h"

static bool is_in_force(const char *mutant)
{
    const char *name = getenv(ENGINE_MUTANT_VARIABLE);
    return name != NULL && strcmp(name, mutant) == 0;
}

/* ---- fail.c ---- */

void __real_prs_order_peer_fail(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                enum perseus_status why);
void __wrap_prs_order_peer_fail(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                enum perseus_status why);

void __wrap_prs_order_peer_fail(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                enum perseus_status why)
{
    if (is_in_force(MUTANT_UNPOISONED) && why != PERSEUS_PEER_LOST) {
        orderer->status = why; /* only the next quiet tells */
        return;
    }
    uint32_t records = peer->mail_out.first_open;
    bool leaks = is_in_force(MUTANT_LEAK);
    peer->mail_out.first_open = leaks ? PRS_NONE : records;
    __real_prs_order_peer_fail(orderer, peer, why);
    peer->mail_out.first_open = leaks ? records : peer->mail_out.first_open;
}

void __real_prs_order_watch_clock(struct prs_orderer *orderer);
void __wrap_prs_order_watch_clock(struct prs_orderer *orderer);

void __wrap_prs_order_watch_clock(struct prs_orderer *orderer)
{
    uint64_t looked_ns = orderer->looked_ns, now_ns = orderer->now_ns;
    __real_prs_order_watch_clock(orderer);
    if (is_in_force(MUTANT_CLOCK)) {
        orderer->now_ns = now_ns + (orderer->looked_ns - looked_ns);
    }
}

/* ---- fence.c, and what it seals ---- */

static void forget_errors(struct prs_orderer *orderer)
{
    orderer->status = PERSEUS_OK;
    for (uint32_t i = 0; i < orderer->config.n_peers; i++) {
        struct prs_order_peer *peer = atomic_load(&orderer->peers[i]);
        if (peer != NULL) {
            peer->status = PERSEUS_OK;
        }
    }
}

enum perseus_status __real_prs_orderer_quiet(struct prs_orderer *orderer, uint32_t rank,
                                             uint32_t token);
enum perseus_status __wrap_prs_orderer_quiet(struct prs_orderer *orderer, uint32_t rank,
                                             uint32_t token);

enum perseus_status __wrap_prs_orderer_quiet(struct prs_orderer *orderer, uint32_t rank,
                                             uint32_t token)
{
    enum perseus_status status = __real_prs_orderer_quiet(orderer, rank, token);
    if (is_in_force(MUTANT_TOLD_ONCE) && status == PERSEUS_OK) {
        forget_errors(orderer);
    }
    return status;
}

void __real_prs_order_catch_up(struct prs_orderer *orderer, struct prs_order_peer *peer);
void __wrap_prs_order_catch_up(struct prs_orderer *orderer, struct prs_order_peer *peer);

void __wrap_prs_order_catch_up(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    if (is_in_force(MUTANT_FORGOTTEN) && peer->epochs.open == 0) {
        peer->fences_seen = orderer->fences_all; /* all has completed: as if all were ordered */
        peer->fence_due = false;
    }
    __real_prs_order_catch_up(orderer, peer);
}

void __real_prs_order_seal(struct prs_orderer *orderer, const struct prs_order_peer *peer);
void __wrap_prs_order_seal(struct prs_orderer *orderer, const struct prs_order_peer *peer);

void __wrap_prs_order_seal(struct prs_orderer *orderer, const struct prs_order_peer *peer)
{
    if (!is_in_force(MUTANT_UNSEALED)) {
        __real_prs_order_seal(orderer, peer);
    }
}

/* ---- mail_in.c, apply.c, immediate.c ---- */

bool __real_prs_mail_in_pump(struct prs_orderer *orderer);
bool __wrap_prs_mail_in_pump(struct prs_orderer *orderer);

bool __wrap_prs_mail_in_pump(struct prs_orderer *orderer)
{
    const struct prs_free_list *free = &orderer->pools.pending_free;
    bool is_empty = free->first == PRS_NONE && free->used == free->count;
    return !(is_in_force(MUTANT_POOLED_ANSWERS) && is_empty) && __real_prs_mail_in_pump(orderer);
}

bool __real_prs_mail_apply(struct prs_orderer *orderer, uint32_t sender,
                           const struct prs_record *record, uint64_t *out_old);
bool __wrap_prs_mail_apply(struct prs_orderer *orderer, uint32_t sender,
                           const struct prs_record *record, uint64_t *out_old);

bool __wrap_prs_mail_apply(struct prs_orderer *orderer, uint32_t sender,
                           const struct prs_record *record, uint64_t *out_old)
{
    struct prs_record again = *record;
    if (is_in_force(MUTANT_READ_TWICE)) {
        const struct prs_mail_in *in = orderer->mail_in[sender];
        memcpy(&again,
               orderer->control +
                   prs_mail_place(&orderer->layout, in->ring, sender, in->at[in->ring]),
               prs_record_bytes(record));
    }
    return __real_prs_mail_apply(orderer, sender, &again, out_old);
}

bool __real_prs_immediate_is_genuine(const struct prs_immediate_layout *layout,
                                     const unsigned char *secret, uint32_t target, uint64_t number,
                                     uint64_t bits);
bool __wrap_prs_immediate_is_genuine(const struct prs_immediate_layout *layout,
                                     const unsigned char *secret, uint32_t target, uint64_t number,
                                     uint64_t bits);

bool __wrap_prs_immediate_is_genuine(const struct prs_immediate_layout *layout,
                                     const unsigned char *secret, uint32_t target, uint64_t number,
                                     uint64_t bits)
{
    return is_in_force(MUTANT_UNTAGGED) ||
           __real_prs_immediate_is_genuine(layout, secret, target, number, bits);
}

void __real_prs_mail_immediate(struct prs_orderer *orderer, uint64_t bits);
void __wrap_prs_mail_immediate(struct prs_orderer *orderer, uint64_t bits);

void __wrap_prs_mail_immediate(struct prs_orderer *orderer, uint64_t bits)
{
    struct prs_immediate what;
    __real_prs_mail_immediate(orderer, bits);
    prs_immediate_decode(&orderer->immediate, bits, &what);
    if (is_in_force(MUTANT_EAGER_RIDING) && what.kind == PRS_IMMEDIATE_RIDING &&
        what.sender < orderer->config.n_peers && orderer->mail_in[what.sender] != NULL) {
        prs_mail_apply_riding(orderer, orderer->mail_in[what.sender], &what);
    }
}

/* ---- prove.c, operation.c ---- */

void __real_prs_order_unproven(struct prs_orderer *orderer, struct prs_pending *pending);
void __wrap_prs_order_unproven(struct prs_orderer *orderer, struct prs_pending *pending);

void __wrap_prs_order_unproven(struct prs_orderer *orderer, struct prs_pending *pending)
{
    if (!is_in_force(MUTANT_UNPROVEN)) {
        __real_prs_order_unproven(orderer, pending);
    }
}

void __real_prs_order_prove(struct prs_orderer *orderer, struct prs_order_peer *peer,
                            uint64_t sequence);
void __wrap_prs_order_prove(struct prs_orderer *orderer, struct prs_order_peer *peer,
                            uint64_t sequence);

void __wrap_prs_order_prove(struct prs_orderer *orderer, struct prs_order_peer *peer,
                            uint64_t sequence)
{
    __real_prs_order_prove(orderer, peer, is_in_force(MUTANT_OVERPROVEN) ? UINT64_MAX : sequence);
}

bool __real_prs_operation_rides(const struct prs_orderer *orderer,
                                const struct prs_order_peer *peer,
                                const struct prs_request *request);
bool __wrap_prs_operation_rides(const struct prs_orderer *orderer,
                                const struct prs_order_peer *peer,
                                const struct prs_request *request);

bool __wrap_prs_operation_rides(const struct prs_orderer *orderer,
                                const struct prs_order_peer *peer,
                                const struct prs_request *request)
{
    struct prs_request rounded = *request;
    if (is_in_force(MUTANT_MISALIGNED)) {
        rounded.signal_offset -= rounded.signal_offset % sizeof(uint64_t);
    }
    return __real_prs_operation_rides(orderer, peer, &rounded);
}
