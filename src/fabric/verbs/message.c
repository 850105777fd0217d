/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/verbs/message.h"

#include <stddef.h>

#include <sodium/crypto_generichash.h>
#include <sodium/utils.h>

_Static_assert(offsetof(struct prs_verbs_message, mac) + PRS_VERBS_MAC_BYTES ==
                   sizeof(struct prs_verbs_message),
               "everything before the signature is signed");

static void mac_of(const struct prs_verbs_message *message, const unsigned char *key,
                   unsigned char out[PRS_VERBS_MAC_BYTES])
{
    crypto_generichash(out, PRS_VERBS_MAC_BYTES, (const unsigned char *)message,
                       offsetof(struct prs_verbs_message, mac), key, PRS_VERBS_KEY_BYTES);
}

void prs_verbs_message_sign(struct prs_verbs_message *message, const unsigned char *key)
{
    mac_of(message, key, message->mac);
}

bool prs_verbs_message_is_genuine(const struct prs_verbs_message *message, const unsigned char *key)
{
    unsigned char mac[PRS_VERBS_MAC_BYTES];
    mac_of(message, key, mac);
    return message->magic == PRS_VERBS_MAGIC && message->lanes >= 1 &&
           message->lanes <= PRS_VERBS_LANES_MAX &&
           sodium_memcmp(mac, message->mac, sizeof mac) == 0;
}
