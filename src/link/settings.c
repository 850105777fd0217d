/* SPDX-License-Identifier: Apache-2.0 */
#include "link/settings.h"

#include "base/env.h"
#include "fabric/registry.h"

static enum perseus_status read_ordering(enum perseus_ordering asked, const struct prs_log *log,
                                         enum perseus_ordering *out)
{
    if ((unsigned)asked >= PERSEUS_ORDERING_COUNT) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "perseus_attr.ordering is %d, which is no ordering mode", (int)asked);
    }
    if (asked != PERSEUS_ORDERING_AUTO) {
        *out = asked;
        return PERSEUS_OK;
    }
    const char *text = prs_env_text(PRS_ENV_ORDERING);
    if (perseus_ordering_parse(text, out) != PERSEUS_OK) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "%s=\"%s\" is not one of: %s",
                        prs_env_row(PRS_ENV_ORDERING)->name, text,
                        prs_env_row(PRS_ENV_ORDERING)->help);
    }
    return PERSEUS_OK;
}

/* The link's model and the adversary are one decorator: what both name, the adversary decides. */
static enum perseus_status read_faulty(const struct prs_log *log, struct prs_link_settings *s)
{
    const char *link = prs_env_text(PRS_ENV_LINK), *adversary = prs_env_text(PRS_ENV_ADVERSARY);
    enum perseus_status status = PERSEUS_OK;
    s->is_faulty = link[0] != '\0' || adversary[0] != '\0';
    if (link[0] != '\0') {
        status = prs_faulty_parse(link, log, &s->faulty);
    }
    if (status == PERSEUS_OK && adversary[0] != '\0') {
        status = prs_faulty_parse(adversary, log, &s->faulty);
    }
    return status;
}

static enum perseus_status read_parked(const struct prs_log *log, uint32_t *out)
{
    uint64_t parked = 0;
    enum perseus_status status = prs_env_u64(PRS_ENV_PARKED, 4, 1u << 20, log, &parked);
    if (status == PERSEUS_OK) {
        status = prs_env_power_of_two(parked, PRS_ENV_PARKED, "the parked queue", log);
        *out = (uint32_t)parked;
    }
    return status;
}

static enum perseus_status read_stage(const struct prs_log *log, uint64_t *out)
{
    enum perseus_status status = prs_env_u64(PRS_ENV_STAGE_BYTES, 1 << 16, 1 << 28, log, out);
    return status == PERSEUS_OK
               ? prs_env_power_of_two(*out, PRS_ENV_STAGE_BYTES, "a staging ring", log)
               : status;
}

enum perseus_status prs_link_settings_read(const struct perseus_attr *attr,
                                           const struct prs_log *log, struct prs_link_settings *out)
{
    struct prs_link_settings s = {
        .memory = attr->heap_memory == PERSEUS_MEMORY_GPU ? PRS_MEMORY_CUDA : PRS_MEMORY_HOST,
        .gpu = attr->gpu,
        .provider = attr->provider != NULL ? attr->provider : prs_env_text(PRS_ENV_PROVIDER),
    };
    s.fabric = attr->fabric != NULL             ? attr->fabric
               : prs_env_is_set(PRS_ENV_FABRIC) ? prs_env_text(PRS_ENV_FABRIC)
                                                : prs_fabric_default(s.memory);
    enum perseus_status status = read_ordering(attr->ordering, log, &s.ordering);
    if (status == PERSEUS_OK) {
        status = prs_local_address(prs_env_text(PRS_ENV_BIND), log, s.bind);
    }
    if (status == PERSEUS_OK) {
        status = read_parked(log, &s.parked_max);
    }
    if (status == PERSEUS_OK && s.memory != PRS_MEMORY_HOST) {
        status = read_stage(log, &s.stage_bytes);
    }
    if (status == PERSEUS_OK) {
        status = prs_env_u64(PRS_ENV_PEER_TIMEOUT_MS, 0, UINT32_MAX, log, &s.peer_timeout_ns);
        s.peer_timeout_ns *= 1000000;
    }
    if (status == PERSEUS_OK) {
        status = prs_env_bool(PRS_ENV_IMMEDIATE_SIGNAL, log, &s.immediate_signal);
    }
    if (status == PERSEUS_OK) {
        status = prs_env_bool(PRS_ENV_NATIVE_ATOMICS, log, &s.native_atomics);
    }
    if (status == PERSEUS_OK) {
        status = prs_env_bool(PRS_ENV_WHOLE_SIGNALS, log, &s.whole_signals);
    }
    if (status == PERSEUS_OK) {
        status = read_faulty(log, &s);
    }
    if (status == PERSEUS_OK) {
        *out = s;
    }
    return status;
}
