/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>

#include "base/env.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/unique_id.h"
#include "bootstrap/wire.h"

static enum perseus_bootstrap choose(const struct perseus_attr *attr)
{
    if (attr->bootstrap != PERSEUS_BOOTSTRAP_AUTO) {
        return attr->bootstrap;
    }
    if (attr->unique_id != NULL) {
        return PERSEUS_BOOTSTRAP_TCP;
    }
    if (prs_env_is_set(PRS_ENV_BOOTSTRAP_FD)) {
        return PERSEUS_BOOTSTRAP_LOCAL;
    }
    if (prs_env_is_set(PRS_ENV_UNIQUE_ID)) {
        return PERSEUS_BOOTSTRAP_TCP;
    }
    return getenv("PMIX_RANK") != NULL ? PERSEUS_BOOTSTRAP_PMIX : PERSEUS_BOOTSTRAP_AUTO;
}

static enum perseus_status read_place(const struct prs_log *log, int *out_rank, int *out_size)
{
    uint64_t rank = 0, size = 0;
    enum perseus_status status = prs_env_u64(PRS_ENV_SIZE, 1, PRS_WIRE_SIZE_MAX, log, &size);
    if (status == PERSEUS_OK) {
        status = prs_env_u64(PRS_ENV_RANK, 0, size - 1, log, &rank);
    }
    if (status == PERSEUS_OK) {
        *out_rank = (int)rank;
        *out_size = (int)size;
    }
    return status;
}

static enum perseus_status open_local(uint32_t timeout_ms, const struct prs_log *log,
                                      struct prs_bootstrap **out)
{
    uint64_t fd = 0;
    int rank, size;
    if (!prs_env_is_set(PRS_ENV_BOOTSTRAP_FD)) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "the local bootstrap was asked for, but this process was not started by "
                        "perseus run (no %s): use `perseus run -n N -- PROGRAM`",
                        prs_env_row(PRS_ENV_BOOTSTRAP_FD)->name);
    }
    enum perseus_status status = prs_env_u64(PRS_ENV_BOOTSTRAP_FD, 0, INT_MAX, log, &fd);
    if (status == PERSEUS_OK) {
        status = read_place(log, &rank, &size);
    }
    return status == PERSEUS_OK
               ? prs_bootstrap_open_local((int)fd, rank, size, timeout_ms, log, out)
               : status;
}

static enum perseus_status open_tcp(const struct perseus_attr *attr, uint32_t timeout_ms,
                                    const struct prs_log *log, struct prs_bootstrap **out)
{
    struct perseus_unique_id id;
    int rank = attr->rank, size = attr->size;
    enum perseus_status status = PERSEUS_OK;
    if (attr->unique_id != NULL) {
        id = *attr->unique_id;
    } else {
        status = prs_unique_id_parse(prs_env_text(PRS_ENV_UNIQUE_ID), log, &id);
    }
    if (status == PERSEUS_OK && size == 0) {
        status = read_place(log, &rank, &size);
    }
    return status == PERSEUS_OK ? prs_bootstrap_open_tcp(&id, rank, size, timeout_ms, log, out)
                                : status;
}

/* N PEs that each believe to be alone are a surprise: say so where a launcher is to be seen. */
static void warn_of_launcher(const struct prs_log *log)
{
    static const char other[] = "perseus run, a unique id, or a launcher that speaks PMIx";
    /* What tells of more than one process: a size above 1, or a rank above 0. */
    static const struct {
        const char *variable;
        int above;
        const char *remedy;
    } launchers[] = {
        {"SLURM_STEP_NUM_TASKS", 1, "srun --mpi=pmix, perseus run, or a unique id"},
        {"FLUX_JOB_SIZE", 1, "flux run -o pmi=pmix, perseus run, or a unique id"},
        {"OMPI_COMM_WORLD_SIZE", 1, "the mpirun of Open MPI 4 or 5 with its PMIx"},
        {"PMI_SIZE", 1, other}, /* MPICH's and Intel's hydra */
        {"MV2_COMM_WORLD_SIZE", 1, other},
        {"JSM_NAMESPACE_SIZE", 1, other}, /* jsrun */
        {"PALS_RANKID", 0, other},        /* Cray's mpiexec and aprun */
        {"ALPS_APP_PE", 0, other},
        {"WORLD_SIZE", 1, other}, /* torchrun */
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *text = getenv(launchers[i].variable);
        if (text != NULL && atoi(text) > launchers[i].above) {
            prs_log(log, PERSEUS_LOG_WARN,
                    "this PE runs alone, but %s=%s: a launcher is there, and it offers no PMIx to "
                    "this process. Use %s",
                    launchers[i].variable, text, launchers[i].remedy);
            return;
        }
    }
}

enum perseus_status prs_bootstrap_open(const struct perseus_attr *attr, const struct prs_log *log,
                                       struct prs_bootstrap **out)
{
    uint64_t timeout_ms = attr->timeout_ms;
    if (timeout_ms == 0) {
        enum perseus_status status =
            prs_env_u64(PRS_ENV_TIMEOUT_MS, 1, PERSEUS_NO_TIMEOUT, log, &timeout_ms);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    switch (choose(attr)) {
    case PERSEUS_BOOTSTRAP_LOCAL:
        return open_local((uint32_t)timeout_ms, log, out);
    case PERSEUS_BOOTSTRAP_TCP:
        return open_tcp(attr, (uint32_t)timeout_ms, log, out);
    case PERSEUS_BOOTSTRAP_PMIX:
        return prs_bootstrap_open_pmix((uint32_t)timeout_ms, log, out);
    case PERSEUS_BOOTSTRAP_AUTO:
        warn_of_launcher(log);
        return prs_bootstrap_open_single(out);
    }
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "bootstrap %d is none of enum perseus_bootstrap",
                    (int)attr->bootstrap);
}
