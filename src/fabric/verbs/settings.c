/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/verbs/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"

static enum perseus_status bad_list(const char *text, const struct prs_log *log)
{
    return prs_fail(
        log, PERSEUS_INVALID_ARGUMENT,
        "%s=\"%s\" is not a list of at most %u devices: name or name:port, separated by "
        "commas; before the list = for whole names, ^ for all but these",
        prs_env_row(PRS_ENV_IB_HCA)->name, text, PRS_VERBS_HCAS_MAX);
}

/* One "name" or "name:port" of `bytes`. */
static bool parse_hca(struct prs_verbs_hcas *out, const char *text, size_t bytes)
{
    const char *colon = memchr(text, ':', bytes);
    size_t name = colon != NULL ? (size_t)(colon - text) : bytes;
    if (out->n == PRS_VERBS_HCAS_MAX || name == 0 || name >= PRS_VERBS_NAME_MAX) {
        return false;
    }
    uint32_t port = 0;
    for (size_t i = name + 1; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || port > 25) {
            return false;
        }
        port = 10 * port + (uint32_t)(text[i] - '0');
    }
    if (colon != NULL && (port == 0 || port > 255)) {
        return false;
    }
    memcpy(out->list[out->n].name, text, name);
    out->list[out->n].name[name] = '\0';
    out->list[out->n].port = port;
    out->n++;
    return true;
}

enum perseus_status prs_verbs_hcas_parse(const char *text, const struct prs_log *log,
                                         struct prs_verbs_hcas *out)
{
    *out = (struct prs_verbs_hcas){0};
    const char *at = text;
    out->excludes = *at == '^';
    at += out->excludes;
    out->exact = *at == '=';
    at += out->exact;
    if (*at == '\0') {
        return at == text ? PERSEUS_OK : bad_list(text, log);
    }
    for (;;) {
        size_t bytes = strcspn(at, ",");
        if (!parse_hca(out, at, bytes)) {
            return bad_list(text, log);
        }
        if (at[bytes] == '\0') {
            return PERSEUS_OK;
        }
        at += bytes + 1;
    }
}

bool prs_verbs_hcas_allow(const struct prs_verbs_hcas *hcas, const char *name, uint32_t port)
{
    if (hcas->n == 0) {
        return true;
    }
    bool found = false;
    for (uint32_t i = 0; i < hcas->n && !found; i++) {
        const char *listed = hcas->list[i].name;
        bool same =
            hcas->exact ? strcmp(name, listed) == 0 : strncmp(name, listed, strlen(listed)) == 0;
        found = same && (hcas->list[i].port == 0 || hcas->list[i].port == port);
    }
    return found != hcas->excludes;
}

static enum perseus_status read_byte(enum prs_env_id id, uint64_t max, const struct prs_log *log,
                                     uint8_t *out)
{
    uint64_t value = 0;
    enum perseus_status status = prs_env_u64(id, 0, max, log, &value);
    *out = (uint8_t)value;
    return status;
}

/* A partition key, as InfiniBand people write it: 0x8001. The top bit is membership, not name. */
static enum perseus_status read_pkey(const struct prs_log *log, int *out)
{
    *out = -1;
    if (!prs_env_is_set(PRS_ENV_IB_PKEY)) {
        return PERSEUS_OK;
    }
    const char *text = prs_env_text(PRS_ENV_IB_PKEY);
    char *end;
    unsigned long value = strtoul(text, &end, 0);
    if (*end != '\0' || text[0] < '0' || text[0] > '9' || value > 0xffff || (value & 0x7fff) == 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s=\"%s\" is not a partition key, such as 0x8001",
                        prs_env_row(PRS_ENV_IB_PKEY)->name, text);
    }
    *out = (int)(value & 0x7fff);
    return PERSEUS_OK;
}

static enum perseus_status read_mtu(const struct prs_log *log, uint32_t *out)
{
    uint64_t value = 0;
    enum perseus_status status = prs_env_u64(PRS_ENV_IB_MTU, 0, 4096, log, &value);
    if (status == PERSEUS_OK && value != 0 && (value < 256 || (value & (value - 1)) != 0)) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s=%llu is no MTU of InfiniBand: 256, 512, 1024, 2048, 4096, or 0 for "
                        "that of the port",
                        prs_env_row(PRS_ENV_IB_MTU)->name, (unsigned long long)value);
    }
    *out = (uint32_t)value;
    return status;
}

enum perseus_status prs_verbs_settings_read(const struct prs_log *log,
                                            struct prs_verbs_settings *out)
{
    *out = (struct prs_verbs_settings){.gid_index = -1};
    enum perseus_status status =
        prs_verbs_hcas_parse(prs_env_text(PRS_ENV_IB_HCA), log, &out->hcas);
    if (status == PERSEUS_OK && prs_env_is_set(PRS_ENV_IB_GID_INDEX)) {
        uint64_t index = 0;
        status = prs_env_u64(PRS_ENV_IB_GID_INDEX, 0, 255, log, &index);
        out->gid_index = (int)index;
    }
    status = status == PERSEUS_OK ? read_pkey(log, &out->pkey) : status;
    status = status == PERSEUS_OK ? read_mtu(log, &out->mtu) : status;
    status = status == PERSEUS_OK ? read_byte(PRS_ENV_IB_SL, 15, log, &out->sl) : status;
    status = status == PERSEUS_OK
                 ? read_byte(PRS_ENV_IB_TRAFFIC_CLASS, 255, log, &out->traffic_class)
                 : status;
    status = status == PERSEUS_OK ? read_byte(PRS_ENV_IB_TIMEOUT, 31, log, &out->timeout) : status;
    status = status == PERSEUS_OK ? read_byte(PRS_ENV_IB_RETRY, 7, log, &out->retry) : status;
    if (status == PERSEUS_OK) {
        uint64_t lanes = 1;
        status = prs_env_u64(PRS_ENV_IB_QPS, 1, PRS_VERBS_LANES_MAX, log, &lanes);
        out->lanes = (uint8_t)lanes;
    }
    return status == PERSEUS_OK ? prs_env_bool(PRS_ENV_IB_ATOMICS, log, &out->atomics) : status;
}
