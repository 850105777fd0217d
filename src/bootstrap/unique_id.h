/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap/unique_id.h: what is inside a struct perseus_unique_id, and its text form for
 * PERSEUS_UNIQUE_ID. */
#ifndef PRS_BOOTSTRAP_UNIQUE_ID_H
#define PRS_BOOTSTRAP_UNIQUE_ID_H

#include <perseus/perseus.h>

#include "base/log.h"
#include "bootstrap/proof.h"
#include "bootstrap/stream.h"

struct prs_unique_id {
    struct prs_stream_address address; /* where rank 0 listens */
    /* The descriptor of the listening socket in the process that made the id. A hint: another
     * process has something else, or nothing, under this number. */
    int listen_fd;
    unsigned char secret[PRS_PROOF_SECRET_BYTES];
};

enum { PRS_UNIQUE_ID_TEXT_BYTES = 2 * PERSEUS_UNIQUE_ID_BYTES + 1 };

void prs_unique_id_encode(const struct prs_unique_id *id, struct perseus_unique_id *out);
/* PROTOCOL: no unique id; VERSION: of another version. Logged. */
enum perseus_status prs_unique_id_decode(const struct perseus_unique_id *id,
                                         const struct prs_log *log, struct prs_unique_id *out);

void prs_unique_id_format(const struct perseus_unique_id *id, char out[PRS_UNIQUE_ID_TEXT_BYTES]);
/* Exactly as many hexadecimal digits as format writes; else INVALID_ARGUMENT, logged without the
 * text, which may hold a secret. */
enum perseus_status prs_unique_id_parse(const char *text, const struct prs_log *log,
                                        struct perseus_unique_id *out);

#endif
