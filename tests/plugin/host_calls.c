/* SPDX-License-Identifier: Apache-2.0 */
/* host_calls.c: the calls that both interfaces have. */
#include "host/abi3.h"
#include "host.h"

void host_adopt(struct host_pe *pe)
{
    pe->parts = pe->interface->parts(pe);
    struct prs_abi_fields *fields = pe->parts.fields;
    const struct prs_abi_ops_head *head = pe->parts.head;
    const struct prs_abi3_transport *t = pe->transport; /* its first fields are 4.0's, too */
    CHECK(pe, t->api_version > 0 && t->api_version / 100 <= pe->spec->version / 100);
    CHECK(pe, t->type == 0 && fields->attr == PRS_ABI_ATTR_CONNECTED);
    CHECK(pe, fields->is_successfully_initialized && !fields->no_proxy &&
                  fields->atomics_complete_on_quiet);
    CHECK(pe, fields->n_devices <= 1 && fields->atomic_host_endian_min_bytes == 0);
    CHECK(pe, head->rma != NULL && head->amo != NULL && head->quiet != NULL);
    CHECK(pe, pe->parts.tail->enforce_cst_at_target == NULL);
    *pe->parts.cap = pe->cap;
    fields->bootstrap = &pe->bootstrap;
    fields->my_pe = pe->rank;
    fields->n_pes = pe->n_pes;
    fields->heap_base = pe->heap;
    fields->max_op_bytes = fields->max_op_bytes != 0 ? fields->max_op_bytes : SIZE_MAX;
    fields->log2_cumem_granularity = 20;
    fields->index = 1;
}

int host_can_reach_peer(struct host_pe *pe, int target, int *access)
{
    struct prs_abi_pe_info info = {.pe = target, .host_hash = 17};
    return pe->parts.head->can_reach_peer(access, &info, pe->transport);
}

int host_register_memory(struct host_pe *pe, void *buffer, size_t bytes, bool local_only,
                         unsigned char *blob)
{
    return pe->parts.head->get_mem_handle(blob, buffer, bytes, pe->transport, local_only);
}

int host_release_memory(struct host_pe *pe, unsigned char *blob)
{
    return pe->parts.head->release_mem_handle(blob, pe->transport);
}

int host_finalize(struct host_pe *pe)
{
    return pe->parts.head->finalize(pe->transport);
}

int host_progress(struct host_pe *pe)
{
    return pe->parts.head->progress(pe->transport);
}

int host_rma(struct host_pe *pe, bool proxy, int target, struct prs_abi_rma_verb verb,
             struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
             struct prs_abi_rma_bytes bytes)
{
    return pe->parts.head->rma(pe->transport, target, verb, remote, local, bytes,
                               proxy ? PRS_ABI_QP_DEFAULT : PRS_ABI_QP_HOST);
}

int host_amo(struct host_pe *pe, int target, struct prs_abi_amo_verb verb,
             struct prs_abi_amo_memory *memory, struct prs_abi_amo_bytes bytes)
{
    return pe->parts.head->amo(pe->transport, target, NULL, verb, memory, bytes,
                               PRS_ABI_QP_DEFAULT);
}

int host_quiet(struct host_pe *pe, bool proxy, int target)
{
    return pe->parts.head->quiet(pe->transport, target,
                                 proxy ? pe->interface->all_channels : PRS_ABI_QP_HOST);
}
