/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c: the one symbol NVSHMEM looks up. Built once per file name. */
#include "base/export.h"
#include "host/interface.h"
#include "host/notice.h"
#include "host/status.h"
#include "host/version.h"

PRS_PUBLIC int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version);

int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version)
{
    struct prs_log log = prs_notice_log();
    int version;
    struct prs_plugin *plugin = NULL;
    enum perseus_status status = prs_version_negotiate(api_version, &log, &version);
    if (status != PERSEUS_OK) {
        return (int)prs_abi_status(status);
    }
    uint32_t interface = (uint32_t)PRS_INTERFACE_MAJOR(version);
    status = prs_plugin_create(PRS_TRANSPORT_NAME, interface, cuda, &log, &plugin);
    if (status != PERSEUS_OK) {
        return (int)prs_abi_status(status);
    }
    void *transport = prs_interface_create(plugin, version);
    if (transport == NULL) {
        prs_plugin_destroy(plugin);
        return (int)prs_abi_status(
            prs_fail(&log, PERSEUS_OUT_OF_MEMORY, "no memory for the transport object"));
    }
    *out = transport;
    return PRS_ABI_SUCCESS;
}
