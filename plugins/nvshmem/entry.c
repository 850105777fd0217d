/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c: the one symbol NVSHMEM looks up. Built once per file name. */
#include "base/export.h"
#include "host/block.h"
#include "host/notice.h"
#include "host/status.h"
#include "plugin.h"

PRS_PUBLIC int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version);

int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version)
{
    struct prs_log log = prs_notice_log();
    int version;
    const struct prs_interface *interface = NULL;
    struct prs_plugin *plugin = NULL;
    enum perseus_status status = prs_interface_negotiate(api_version, &log, &interface, &version);
    if (status == PERSEUS_OK) {
        status = prs_plugin_create(PRS_TRANSPORT_NAME, interface, cuda, &log, &plugin);
    }
    if (status != PERSEUS_OK) {
        return (int)prs_abi_status(status);
    }
    const struct prs_calls calls = prs_plugin_calls(plugin);
    struct prs_block *block = prs_block_create(interface, version, &calls, plugin);
    if (block == NULL) {
        prs_plugin_destroy(plugin);
        return (int)prs_abi_status(
            prs_fail(&log, PERSEUS_OUT_OF_MEMORY, "no memory for the transport object"));
    }
    *block->fields = (struct prs_abi_fields){
        .state = plugin,
        .attr = PRS_ABI_ATTR_CONNECTED,
        .atomics_complete_on_quiet = true,
        .is_successfully_initialized = true,
        .max_op_bytes = plugin->op_bytes_max,
    };
    *out = block->host;
    return PRS_ABI_SUCCESS;
}
