/* SPDX-License-Identifier: Apache-2.0 */
#include "host/block.h"

#include <stdlib.h>

static struct prs_block *block_of(void *t)
{
    return (struct prs_block *)(void *)((char *)t - offsetof(struct prs_block, host));
}

/* ---- one form in all interfaces ---- */

static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, void *t)
{
    struct prs_block *block = block_of(t);
    return block->calls.can_reach_peer(block, access, peer);
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes, void *t,
                          bool local_only)
{
    struct prs_block *block = block_of(t);
    return block->calls.get_mem_handle(block, handle, buffer, bytes, local_only);
}

static int release_mem_handle(unsigned char *handle, void *t)
{
    struct prs_block *block = block_of(t);
    return block->calls.release_mem_handle(block, handle);
}

static int finalize(void *t)
{
    struct prs_block *block = block_of(t);
    int failed = block->calls.finalize(block);
    free(block);
    return failed;
}

static int show_info(void *t, int style)
{
    struct prs_block *block = block_of(t);
    return block->calls.show_info(block, style);
}

static int progress(void *t)
{
    struct prs_block *block = block_of(t);
    return block->calls.progress(block);
}

static int rma(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_rma_memory *remote,
               struct prs_abi_rma_memory *local, struct prs_abi_rma_bytes bytes, int channel)
{
    struct prs_block *block = block_of(t);
    return block->calls.rma(block, pe, &verb, remote, local, &bytes, channel, NULL);
}

static int quiet(void *t, int pe, int channel)
{
    struct prs_block *block = block_of(t);
    return block->calls.quiet(block, pe, channel);
}

static int enforce_cst(void *t)
{
    struct prs_block *block = block_of(t);
    return block->calls.enforce_cst(block);
}

static int enforce_cst_at_target(void *t)
{
    struct prs_block *block = block_of(t);
    return block->calls.enforce_cst_at_target(block);
}

static int add_device_handles(void *t, int stride, unsigned char *handles, uint64_t heap_offset,
                              size_t bytes)
{
    struct prs_block *block = block_of(t);
    return block->calls.add_device_handles(block, stride, handles, heap_offset, bytes);
}

/* ---- connect and fence ---- */

static int connect_to_3(void *t, int *devices, int n_devices)
{
    struct prs_block *block = block_of(t);
    return block->calls.connect(block, devices, n_devices, NULL, 0);
}

static int connect_from_4(void *t, int *devices, int n_devices, int *out_qps, int n_qps)
{
    struct prs_block *block = block_of(t);
    return block->calls.connect(block, devices, n_devices, out_qps, n_qps);
}

static int fence_to_3(void *t, int pe, int channel)
{
    struct prs_block *block = block_of(t);
    return block->calls.fence(block, pe, channel, 0);
}

static int fence_from_4(void *t, int pe, int channel, int is_multi)
{
    struct prs_block *block = block_of(t);
    return block->calls.fence(block, pe, channel, is_multi);
}

/* ---- the verb of atomics, 16 bytes or 20 ---- */

static struct prs_abi_amo_verb widened(struct prs_abi_amo_verb16 verb)
{
    return (struct prs_abi_amo_verb){verb.desc, verb.is_fetch, verb.is_value, verb.is_cmp, 0};
}

static int amo_from_6(void *t, int pe, void *unused, struct prs_abi_amo_verb verb,
                      struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes,
                      int channel)
{
    struct prs_block *block = block_of(t);
    (void)unused;
    return block->calls.amo(block, pe, &verb, target, &bytes, channel);
}

static int amo_to_5(void *t, int pe, void *unused, struct prs_abi_amo_verb16 verb,
                    struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int channel)
{
    return amo_from_6(t, pe, unused, widened(verb), target, bytes, channel);
}

static int put_signal_from_6(void *t, int pe, struct prs_abi_rma_verb verb,
                             struct prs_abi_vector *remote, struct prs_abi_vector *local,
                             struct prs_abi_vector *bytes, struct prs_abi_amo_verb signal_verb,
                             struct prs_abi_amo_memory *signal,
                             struct prs_abi_amo_bytes signal_bytes, int channel)
{
    struct prs_block *block = block_of(t);
    return block->calls.put_signal(block, pe, &verb, remote, local, bytes, &signal_verb, signal,
                                   &signal_bytes, channel);
}

static int put_signal_to_5(void *t, int pe, struct prs_abi_rma_verb verb,
                           struct prs_abi_vector *remote, struct prs_abi_vector *local,
                           struct prs_abi_vector *bytes, struct prs_abi_amo_verb16 signal_verb,
                           struct prs_abi_amo_memory *signal, struct prs_abi_amo_bytes signal_bytes,
                           int channel)
{
    return put_signal_from_6(t, pe, verb, remote, local, bytes, widened(signal_verb), signal,
                             signal_bytes, channel);
}

/* ---- 7.0 ---- */

static int rma_with_hints(void *t, int pe, struct prs_abi_rma_verb verb,
                          struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
                          struct prs_abi_rma_bytes bytes, int channel,
                          const struct prs_abi_hints *hints)
{
    struct prs_block *block = block_of(t);
    return block->calls.rma(block, pe, &verb, remote, local, &bytes, channel, hints);
}

static int region_flush(void *t, int role, uint64_t issuer, uint64_t region)
{
    struct prs_block *block = block_of(t);
    return block->calls.region_flush(block, role, issuer, region);
}

/* ---- life ---- */

static void fill_head(const struct prs_block *block, struct prs_abi_ops_head *head)
{
    const struct prs_calls *calls = &block->calls;
    *head = (struct prs_abi_ops_head){
        .can_reach_peer = can_reach_peer,
        .get_mem_handle = calls->get_mem_handle != NULL ? get_mem_handle : NULL,
        .release_mem_handle = calls->release_mem_handle != NULL ? release_mem_handle : NULL,
        .finalize = finalize,
        .show_info = calls->show_info != NULL ? show_info : NULL,
        .progress = calls->progress != NULL ? progress : NULL,
        .rma = rma,
        .quiet = quiet,
    };
    if (block->interface->has_queue_pairs) {
        head->connect_endpoints.from_4 = connect_from_4;
        head->fence.from_4 = calls->fence != NULL ? fence_from_4 : NULL;
    } else {
        head->connect_endpoints.to_3 = connect_to_3;
        head->fence.to_3 = calls->fence != NULL ? fence_to_3 : NULL;
    }
    if (block->interface->has_floats) {
        head->amo.from_6 = amo_from_6;
    } else {
        head->amo.to_5 = amo_to_5;
    }
}

static void fill_rest(struct prs_block *block)
{
    const struct prs_interface *interface = block->interface;
    const struct prs_calls *calls = &block->calls;
    union prs_abi_op_put_signal *signal = prs_interface_put_signal(interface, block->host);
    struct prs_abi_ops_hints *hints = prs_interface_hints(interface, block->host);
    *prs_interface_tail(interface, block->host) = (struct prs_abi_ops_tail){
        .enforce_cst = calls->enforce_cst != NULL ? enforce_cst : NULL,
        .enforce_cst_at_target =
            calls->enforce_cst_at_target != NULL ? enforce_cst_at_target : NULL,
        .add_device_remote_mem_handles =
            calls->add_device_handles != NULL ? add_device_handles : NULL,
    };
    if (signal != NULL && calls->put_signal != NULL && interface->has_floats) {
        signal->from_6 = put_signal_from_6;
    } else if (signal != NULL && calls->put_signal != NULL) {
        signal->to_5 = put_signal_to_5;
    }
    if (hints != NULL && calls->region_flush != NULL) {
        *hints = (struct prs_abi_ops_hints){rma_with_hints, region_flush};
    }
}

struct prs_block *prs_block_create(const struct prs_interface *interface, int version,
                                   const struct prs_calls *calls, void *owner)
{
    struct prs_block *block = calloc(1, sizeof *block);
    if (block == NULL) {
        return NULL;
    }
    block->interface = interface;
    block->calls = *calls;
    block->owner = owner;
    block->fields = prs_interface_fields(interface, block->host);
    prs_interface_start(block->host)->api_version = version;
    fill_head(block, prs_interface_head(interface, block->host));
    fill_rest(block);
    return block;
}
