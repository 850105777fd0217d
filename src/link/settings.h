/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link/settings.h: which fabric, and which ordering over it: the caller's attributes, then the
 * environment, then the defaults, all checked.
 */
#ifndef PRS_LINK_SETTINGS_H
#define PRS_LINK_SETTINGS_H

#include "base/local_address.h"
#include "fabric/faulty/faulty.h"

/* Texts belong to the caller's attributes or the environment: valid while those are. */
struct prs_link_settings {
    const char *fabric, *provider;
    enum prs_memory_kind memory; /* of the heap */
    int gpu;                     /* that the memory is of, where the provider does not say */
    char bind[PRS_LOCAL_ADDRESS_BYTES];
    enum perseus_ordering ordering; /* may be AUTO */
    uint64_t stage_bytes;           /* toward each PE, of a heap that the fabric does not reach */
    uint32_t parked_max;
    uint32_t ordinal; /* of this PE, for fabrics that spread PEs over devices; not read, 0 */
    uint64_t peer_timeout_ns; /* 0: never */
    bool immediate_signal, native_atomics, whole_signals;
    bool is_faulty; /* a link model or an adversary is asked for */
    struct prs_faulty_config faulty;
};

/* `attr`: its fabric, provider, ordering and memory count. */
enum perseus_status prs_link_settings_read(const struct perseus_attr *attr,
                                           const struct prs_log *log,
                                           struct prs_link_settings *out);

#endif
