/* SPDX-License-Identifier: Apache-2.0 */
/* mailbox.c: the sending half of mailboxes: layout, flush records, acknowledgements. */
#include "order/engine.h"

#include <string.h>

struct prs_control_layout prs_control_layout(uint32_t n_peers)
{
    struct prs_control_layout layout = {0};
    layout.acks = layout.mail + (uint64_t)n_peers * PRS_MAIL_SLOTS * sizeof(struct prs_record);
    layout.replies = layout.acks + (uint64_t)n_peers * sizeof(uint64_t);
    layout.staging = (layout.replies + PRS_IMMEDIATE_REPLIES * sizeof(uint64_t) + 63) / 64 * 64;
    layout.bytes = layout.staging + (uint64_t)PRS_STAGE_SLOTS * PRS_STAGE_BYTES;
    return layout;
}

enum perseus_status prs_mail_flush(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    struct prs_item item;
    enum perseus_status status = prs_record_item(orderer, peer, PRS_NONE, &item);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_record *record = prs_item_record(orderer, &item);
    record->kind = PRS_RECORD_FLUSH;
    status = prs_order_place(orderer, peer, &item, false);
    if (status != PERSEUS_OK) {
        prs_pending_give_back(orderer, item.pending);
    }
    return status;
}

void prs_mail_acked(struct prs_orderer *orderer, struct prs_order_peer *peer, uint32_t acked)
{
    struct prs_mail_out *mail = &peer->mail_out;
    if (acked - mail->acked > mail->next - mail->acked) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "PE %u acknowledged record %u, but only %u to %u are open: its memory or ours is "
                "overwritten; ignored",
                peer->rank, acked, mail->acked, mail->next);
        return;
    }
    while (mail->acked != acked) {
        uint32_t index = mail->pending[mail->acked % PRS_MAIL_SLOTS];
        mail->acked++;
        prs_pending_clear(orderer, index, PRS_WAIT_ACK, PERSEUS_OK);
    }
}

void prs_mail_abandon(struct prs_orderer *orderer, struct prs_order_peer *peer,
                      enum perseus_status why)
{
    struct prs_mail_out *mail = &peer->mail_out;
    while (mail->acked != mail->next) {
        uint32_t index = mail->pending[mail->acked % PRS_MAIL_SLOTS];
        mail->acked++;
        prs_pending_clear(orderer, index, PRS_WAIT_ACK | PRS_WAIT_REPLY, why);
    }
    mail->signals_parked = 0;
    mail->signals_unacked = 0;
}
