/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/rxm.h"

#include <stdlib.h>

/*
 * ofi_rxm posts 128 receive buffers of 16 KiB on every connection, for messages that Perseus never
 * sends: 5 MiB a peer, 88 MiB in a job of 16 PEs. No hint of fi_getinfo reaches their size; the
 * environment is the provider's only way. A value that the user has set stays.
 */
void prs_lf_rxm_trim(void)
{
    setenv("FI_OFI_RXM_BUFFER_SIZE", "1024", 0);
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 0);
}
