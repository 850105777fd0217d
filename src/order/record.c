/* SPDX-License-Identifier: Apache-2.0 */
#include "order/record.h"

#include "order/pool.h"

/* Far rings share this much of a PE's memory, and each has from 1 to 3 KiB of it: enough for every
 * open record where few PEs are, none where thousands are. */
#define FAR_BYTES     (256u * 1024)
#define FAR_BYTES_MAX 3072u
#define FAR_BYTES_MIN 1024u

_Static_assert(PRS_RECORDS_OPEN_MAX <= PRS_NUMBERS / 2, "numbers never alias");
_Static_assert(PRS_RECORD_HEAD_BYTES == 24, "a record has no padding");

static uint64_t take(uint64_t *at, uint64_t bytes)
{
    uint64_t place = *at;
    *at = (place + bytes + 63) / 64 * 64;
    return place;
}

struct prs_control_layout prs_control_layout(uint32_t n_peers, uint32_t replies, uint32_t stages)
{
    struct prs_control_layout layout = {.ring_size = {PRS_MAIL_NEAR_SIZE, 0}};
    uint32_t far = n_peers == 0 ? 0 : FAR_BYTES / n_peers / 64 * 64;
    if (far >= FAR_BYTES_MIN) {
        far = far < FAR_BYTES_MAX ? far : FAR_BYTES_MAX;
        layout.ring_size[PRS_MAIL_FAR] = far - (uint32_t)PRS_MAIL_PAD;
    }
    uint64_t at = 0;
    layout.mail[PRS_MAIL_NEAR] = take(&at, n_peers * (PRS_MAIL_NEAR_SIZE + PRS_MAIL_PAD));
    layout.mail[PRS_MAIL_FAR] = take(&at, far >= FAR_BYTES_MIN ? (uint64_t)n_peers * far : 0);
    layout.answers = take(&at, n_peers * sizeof(struct prs_reply));
    layout.replies = take(&at, replies * sizeof(struct prs_reply));
    layout.scratch = take(&at, sizeof(uint64_t));
    layout.staging = take(&at, (uint64_t)stages * PRS_STAGE_BYTES);
    layout.bytes = at;
    return layout;
}
