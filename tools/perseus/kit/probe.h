/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h: opens a fabric in a child process, to see what it grants without bringing its library
 * into this one (a process that forks PEs must not have a fabric open). */
#ifndef PRS_TOOLS_PROBE_H
#define PRS_TOOLS_PROBE_H

#include "fabric/fabric.h"

#define PRS_PROBE_WHY_BYTES 256

struct prs_probe_mode {
    bool is_kept;
    char why[PRS_PROBE_WHY_BYTES]; /* what it stands on, or the reason why not */
};

struct prs_probe {
    enum perseus_status status;      /* of opening; nothing below counts unless it is OK */
    char error[PRS_PROBE_WHY_BYTES]; /* the first message, when it is not */
    struct prs_caps caps;
    enum perseus_ordering auto_mode; /* AUTO: no mode can be kept */
    char auto_why[PRS_PROBE_WHY_BYTES];
    struct prs_probe_mode modes[PERSEUS_ORDERING_COUNT]; /* AUTO's is not used */
};

/* Asks in the child, and fills in what it heard; messages go to the log. */
typedef enum perseus_status (*prs_probe_fn)(const struct perseus_attr *asked,
                                            const struct prs_log *log, struct prs_probe *probe);
/* The returned status is of the probing (a child that could not be made), out->status of what was
 * asked: IO where it ended the child, TIMEOUT where the child did not answer in time. */
enum perseus_status prs_probe_ask(prs_probe_fn ask, const struct perseus_attr *asked,
                                  uint32_t timeout_ms, struct prs_probe *out);
/* Asks a fabric. `asked`: its fabric, provider and heap's memory; zeroed: what the environment
 * says, then the default. */
enum perseus_status prs_probe_fabric(const struct perseus_attr *asked, struct prs_probe *out);

/* Fills modes, auto_mode and auto_why from caps. */
void prs_probe_modes(struct prs_probe *probe);

#endif
