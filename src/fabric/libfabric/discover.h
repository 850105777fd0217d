/* SPDX-License-Identifier: Apache-2.0 */
/* discover.h: which providers libfabric has on this host, for `perseus info`. */
#ifndef PRS_LIBFABRIC_DISCOVER_H
#define PRS_LIBFABRIC_DISCOVER_H

/* Calls `fn` with the name of each, as perseus takes it; none is opened. */
void prs_libfabric_names(void (*fn)(void *user, const char *name), void *user);

#endif
