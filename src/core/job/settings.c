/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/settings.h"

#include <string.h>
#include <unistd.h>

#include "base/env.h"

static enum perseus_status read_u32(uint64_t asked, const char *field, enum prs_env_id id,
                                    uint64_t min, uint64_t max, const struct prs_log *log,
                                    uint32_t *out)
{
    uint64_t value = 0;
    enum perseus_status status = prs_env_or_u64(asked, field, id, min, max, log, &value);
    if (status == PERSEUS_OK) {
        *out = (uint32_t)value;
    }
    return status;
}

static enum perseus_status read_steps(enum prs_env_id id, const struct prs_log *log, uint32_t *out)
{
    if (prs_env_text(id)[0] == '\0') {
        *out = PRS_STEPS_AUTO;
        return PERSEUS_OK;
    }
    return read_u32(0, "", id, 0, 1u << 30, log, out);
}

void prs_backoff_decide(struct prs_backoff *backoff, int pes, uint32_t cpus)
{
    bool is_crowded = 2L * pes > (long)cpus;
    if (backoff->spin_steps == PRS_STEPS_AUTO) {
        backoff->spin_steps = is_crowded ? 0 : 2000;
    }
    if (backoff->yield_steps == PRS_STEPS_AUTO) {
        backoff->yield_steps = is_crowded ? 5 : 100;
    }
}

static enum perseus_status read_backoff(const struct prs_log *log, struct prs_settings *s)
{
    enum perseus_status status = read_steps(PRS_ENV_PROXY_SPIN, log, &s->backoff.spin_steps);
    if (status == PERSEUS_OK) {
        status = read_steps(PRS_ENV_PROXY_YIELD, log, &s->backoff.yield_steps);
    }
    if (status == PERSEUS_OK) {
        status = read_u32(0, "", PRS_ENV_PROXY_SLEEP_US, 0, 1000000, log, &s->backoff.sleep_us);
    }
    if (status == PERSEUS_OK) {
        status =
            read_u32(0, "", PRS_ENV_PROXY_SLEEP_MAX_US, 0, 1000000, log, &s->backoff.sleep_max_us);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    const char *cpu = prs_env_text(PRS_ENV_PROXY_CPU);
    s->backoff.cpu = -1;
    if (strcmp(cpu, "numa") == 0) {
        s->pin = PRS_PIN_NUMA;
    } else if (cpu[0] != '\0') {
        uint64_t number = 0;
        if (prs_parse_bytes(cpu, &number) != PERSEUS_OK || number > 65535) {
            return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "%s=\"%s\" is neither a CPU nor numa",
                            prs_env_row(PRS_ENV_PROXY_CPU)->name, cpu);
        }
        s->pin = PRS_PIN_CPU;
        s->backoff.cpu = (int)number;
    }
    return PERSEUS_OK;
}

static enum perseus_status read_memory(const struct perseus_attr *attr, const struct prs_log *log,
                                       struct prs_settings *s)
{
    uint64_t heap = 0;
    enum perseus_status status = prs_env_or_u64(attr->heap_bytes, "heap_bytes", PRS_ENV_HEAP_BYTES,
                                                1, PRS_HEAP_BYTES_MAX, log, &heap);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    s->heap_bytes = (size_t)((heap + page - 1) / page * page);
    status = read_u32(attr->ring_slots, "ring_slots", PRS_ENV_RING_SLOTS, 2, 1u << 20, log,
                      &s->ring_slots);
    if (status == PERSEUS_OK) {
        status = prs_env_power_of_two(s->ring_slots, PRS_ENV_RING_SLOTS, "the ring's depth", log);
    }
    return status;
}

enum perseus_status prs_settings_read(const struct perseus_attr *attr, const struct prs_log *log,
                                      struct prs_settings *out)
{
    static const struct perseus_attr nothing_asked;
    attr = attr != NULL ? attr : &nothing_asked;
    struct prs_settings s = {.heap_bytes = 0};
    if (attr->pes_per_node < 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "perseus_attr.pes_per_node is %d; it must not be negative",
                        attr->pes_per_node);
    }
    enum perseus_status status = prs_link_settings_read(attr, log, &s.link);
    if (status == PERSEUS_OK) {
        status = read_memory(attr, log, &s);
    }
    if (status == PERSEUS_OK) {
        status = read_u32(attr->timeout_ms, "timeout_ms", PRS_ENV_TIMEOUT_MS, 1, PERSEUS_NO_TIMEOUT,
                          log, &s.timeout_ms);
    }
    if (status == PERSEUS_OK) {
        status = read_u32((uint64_t)attr->pes_per_node, "pes_per_node", PRS_ENV_PES_PER_NODE, 0,
                          INT32_MAX, log, &s.pes_per_node);
    }
    if (status == PERSEUS_OK) {
        status = read_backoff(log, &s);
    }
    if (status == PERSEUS_OK) {
        *out = s;
    }
    return status;
}
