/* SPDX-License-Identifier: Apache-2.0 */
/* rxm.h: keeps ofi_rxm (tcp over Debian 12's libfabric) from taking megabytes per connection. */
#ifndef PRS_LIBFABRIC_PROVIDER_RXM_H
#define PRS_LIBFABRIC_PROVIDER_RXM_H

/* Before the process's first fi_getinfo; later calls change nothing. */
void prs_lf_rxm_trim(void);

#endif
