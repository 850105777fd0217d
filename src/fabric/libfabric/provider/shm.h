/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.h: the files that libfabric's shm provider keeps in /dev/shm.
 *
 * The provider makes a file per endpoint and removes it when the endpoint is closed; a process that
 * is killed leaves its file for ever. So endpoints get names that tell who owns them
 * (perseus-<space of process ids>-<pid>-<random>), and three parties remove a dead owner's file: a
 * peer that sees it die, every later open, and nobody else.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_SHM_H
#define PRS_LIBFABRIC_PROVIDER_SHM_H

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether endpoints of `info` are named files of the shm provider. */
bool prs_lf_shm_is(const struct fi_info *info);
/* A name no other endpoint on this host has. */
void prs_lf_shm_name(char *out, size_t bytes);
/* Removes the file of the endpoint with this address, whose owner has ended. */
void prs_lf_shm_remove(const char *address);
/* Removes the files of owners that are gone. */
void prs_lf_shm_sweep(void);

#endif
