/* SPDX-License-Identifier: Apache-2.0 */
#include "host/notice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file_limit.h"

static void to_stderr(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    /* One write: lines of several PEs on one terminal stay whole. */
    char line[1280];
    int bytes = snprintf(line, sizeof line, "perseus nvshmem: %s\n", text);
    struct prs_file_limit limit;
    prs_file_limit_begin(&limit); /* stderr may be a file */
    fwrite(line, 1, (size_t)bytes < sizeof line ? (size_t)bytes : sizeof line - 1, stderr);
    prs_file_limit_end(&limit);
}

struct prs_log prs_notice_log(void)
{
    static const struct {
        const char *word;
        enum perseus_log_level level;
    } levels[] = {
        {"VERSION", PERSEUS_LOG_WARN}, {"WARN", PERSEUS_LOG_WARN},   {"ABORT", PERSEUS_LOG_WARN},
        {"INFO", PERSEUS_LOG_INFO},    {"TRACE", PERSEUS_LOG_DEBUG},
    };
    struct prs_log log = {.fn = to_stderr, .level = PERSEUS_LOG_WARN, .pe = -1};
    const char *wanted = getenv("NVSHMEM_DEBUG");
    if (wanted == NULL || wanted[0] == '\0') {
        return log;
    }
    log.level = PERSEUS_LOG_INFO; /* what NVSHMEM makes of an unknown word */
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcasecmp(wanted, levels[i].word) == 0) {
            log.level = levels[i].level;
        }
    }
    return log;
}

/* Variables of NVSHMEM's own transports that tune what this one does not have; "*": all that begin
 * so. Those of the host library (heap, proxy, P2P) work unchanged, as do LIBFABRIC_PROVIDER, DEBUG
 * and FI_*. */
static const char *const without_effect[] = {
    "NVSHMEM_DEBUG_SUBSYS",
    "NVSHMEM_DISABLE_DATA_DIRECT",
    "NVSHMEM_DISABLE_GDRCOPY",
    "NVSHMEM_DISABLE_IB_NATIVE_ATOMICS",
    "NVSHMEM_HCA_LIST",
    "NVSHMEM_HCA_PE_MAPPING",
    "NVSHMEM_HCA_PREFIX",
    "NVSHMEM_IBGDA_*",
    "NVSHMEM_IB_ADDR_FAMILY",
    "NVSHMEM_IB_ADDR_RANGE",
    "NVSHMEM_IB_DISABLE_DMABUF",
    "NVSHMEM_IB_ENABLE_IBGDA",
    "NVSHMEM_IB_ENABLE_RELAXED_ORDERING",
    "NVSHMEM_IB_GID_INDEX",
    "NVSHMEM_IB_NUM_RC_PER_DEVICE",
    "NVSHMEM_IB_ROCE_VERSION_NUM",
    "NVSHMEM_IB_SL",
    "NVSHMEM_IB_TRAFFIC_CLASS",
    "NVSHMEM_QP_DEPTH",
    "NVSHMEM_SRQ_DEPTH",
};

static bool is_set(const char *name)
{
    const char *star = strchr(name, '*');
    if (star == NULL) {
        return getenv(name) != NULL;
    }
    size_t bytes = (size_t)(star - name);
    char **variable = environ;
    while (*variable != NULL && strncmp(*variable, name, bytes) != 0) {
        variable++;
    }
    return *variable != NULL;
}

void prs_notice_environment(const struct prs_log *log)
{
    char names[900] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof without_effect / sizeof without_effect[0]; i++) {
        if (is_set(without_effect[i])) {
            int wrote = snprintf(names + used, sizeof names - used, " %s", without_effect[i]);
            used += (size_t)wrote < sizeof names - used ? (size_t)wrote : 0;
        }
    }
    if (used > 0) {
        prs_log(log, PERSEUS_LOG_WARN,
                "set but not applicable to the Perseus transport (docs/nvshmem.md):%s", names);
    }
}
