/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registration.h: memory that the device has been told of. Telling it pins pages and costs up to
 * milliseconds, so what lies within memory that is registered already shares that registration. One
 * ends with its last user: none is kept for later, as nobody would tell us when the program unmaps
 * the memory and maps something else there.
 */
#ifndef PRS_VERBS_REGISTRATION_H
#define PRS_VERBS_REGISTRATION_H

#include <pthread.h>

#include "cuda/driver.h"
#include "fabric/fabric.h"
#include "fabric/verbs/library.h"

struct prs_verbs_registration {
    struct ibv_mr *mr;
    uintptr_t base;
    size_t bytes;
    enum prs_memory_kind kind;
    uint32_t users;
    struct prs_verbs_registration *next;
};

/* All of a protection domain. Any thread. */
struct prs_verbs_registrations {
    const struct prs_verbs_library *library;
    const struct prs_log *log;
    const char *device; /* its name, for messages */
    struct ibv_pd *pd;
    bool takes_dmabuf; /* the device */
    bool has_peermem;  /* the kernel lets the device have GPU memory by its address */
    pthread_mutex_t lock;
    struct prs_verbs_registration *first;
    struct prs_gpu *gpu; /* NULL until GPU memory is registered by dmabuf */
};

/* Finds out what memory can be registered. The strings and the domain outlive it. */
void prs_verbs_registrations_init(struct prs_verbs_registrations *all,
                                  const struct prs_verbs_library *library,
                                  const struct prs_log *log, const char *device, struct ibv_pd *pd);
void prs_verbs_registrations_finish(struct prs_verbs_registrations *all);
/* Bits of enum prs_memory_kind. */
uint32_t prs_verbs_registrations_kinds(const struct prs_verbs_registrations *all);

/* One that covers the range. OUT_OF_MEMORY or INVALID_ARGUMENT with a message. */
enum perseus_status prs_verbs_registration_take(struct prs_verbs_registrations *all, void *base,
                                                size_t bytes, enum prs_memory_kind kind,
                                                struct prs_verbs_registration **out);
void prs_verbs_registration_give_back(struct prs_verbs_registrations *all,
                                      struct prs_verbs_registration *registration);

#endif
