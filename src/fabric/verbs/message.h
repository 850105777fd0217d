/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h: what two endpoints say to each other to make a connection, as bytes.
 *
 *     REQUEST  who connects: my queue pairs, and how to answer me
 *     ACCEPT   the other: those that I made for yours. Repeated requests get the same answer
 *     BYE      either: this end is closed
 *
 * They travel as datagrams, which may be lost, doubled, or sent by anybody who can reach the port.
 * So each is signed: the address of the one who is connected to holds a key, which whoever was
 * given the address knows, and nobody else; addresses travel over the job's own bootstrap. What is
 * not signed is dropped without a word. A message recorded and sent again finds its connection,
 * made or closed.
 */
#ifndef PRS_VERBS_MESSAGE_H
#define PRS_VERBS_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/verbs/settings.h"

#define PRS_VERBS_MAGIC     0x31564250u /* "PBV1" */
#define PRS_VERBS_KEY_BYTES 32
#define PRS_VERBS_MAC_BYTES 16

/* How datagrams reach an endpoint. */
struct prs_verbs_route {
    unsigned char gid[16];
    uint32_t qp, qkey;
    uint16_t lid;
    uint8_t is_ethernet, zero;
};

/* An endpoint's address. All hosts of a job are little-endian. */
struct prs_verbs_address {
    uint32_t magic;
    uint32_t lanes;
    uint64_t id; /* random */
    struct prs_verbs_route route;
    uint32_t zero;
    unsigned char key[PRS_VERBS_KEY_BYTES];
};

enum prs_verbs_message_kind { PRS_VERBS_REQUEST = 1, PRS_VERBS_ACCEPT, PRS_VERBS_BYE };

struct prs_verbs_message {
    uint32_t magic;
    uint8_t kind; /* enum prs_verbs_message_kind */
    uint8_t lanes;
    uint8_t mtu;       /* enum ibv_mtu */
    uint8_t rd_atomic; /* reads and atomics at once that the sender answers */
    uint64_t from, to; /* ids of the endpoints: who connects, and to whom, in all three */
    uint32_t peer;     /* number of the connection at `from` */
    uint32_t psn;      /* of the sender's queue pairs */
    struct prs_verbs_route route; /* of the sender */
    uint32_t qp[PRS_VERBS_LANES_MAX];
    uint32_t of_accepter; /* BYE: 1 if it is `to` that closed */
    unsigned char mac[PRS_VERBS_MAC_BYTES];
};

void prs_verbs_message_sign(struct prs_verbs_message *message, const unsigned char *key);
bool prs_verbs_message_is_genuine(const struct prs_verbs_message *message,
                                  const unsigned char *key);

#endif
