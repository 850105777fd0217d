/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/verbs/registration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No IBV_ACCESS_RELAXED_ORDERING: a signal in a region could pass its payload on its way into
 * memory, and every window may hold signals. */
#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

/* Drivers refuse a descriptor that is none with EBADF once they know what it is for. */
static bool device_takes_dmabuf(const struct prs_verbs_library *library, struct ibv_pd *pd)
{
    return library->reg_dmabuf_mr != NULL &&
           library->reg_dmabuf_mr(pd, 0, (size_t)sysconf(_SC_PAGESIZE), 0, -1, ACCESS) == NULL &&
           errno == EBADF;
}

void prs_verbs_registrations_init(struct prs_verbs_registrations *all,
                                  const struct prs_verbs_library *library,
                                  const struct prs_log *log, const char *device, struct ibv_pd *pd)
{
    *all = (struct prs_verbs_registrations){
        .library = library,
        .log = log,
        .device = device,
        .pd = pd,
        .takes_dmabuf = device_takes_dmabuf(library, pd),
        .has_peermem = access("/sys/module/nvidia_peermem", F_OK) == 0,
    };
    pthread_mutex_init(&all->lock, NULL);
}

void prs_verbs_registrations_finish(struct prs_verbs_registrations *all)
{
    prs_gpu_close(all->gpu);
    pthread_mutex_destroy(&all->lock);
}

uint32_t prs_verbs_registrations_kinds(const struct prs_verbs_registrations *all)
{
    return PRS_MEMORY_HOST | (all->takes_dmabuf || all->has_peermem ? PRS_MEMORY_CUDA : 0u);
}

/* ---- GPU memory ---- */

/* The driver's descriptor of the pages that hold the range, or -1. */
static int dmabuf_of(struct prs_gpu *gpu, uintptr_t first, uintptr_t end)
{
    int fd = -1;
    if (gpu->call.memory_handle == NULL ||
        gpu->call.memory_handle(&fd, first, end - first, PRS_CUDA_HANDLE_DMABUF, 0) !=
            PRS_CUDA_SUCCESS) {
        return -1;
    }
    return fd;
}

static struct ibv_mr *register_dmabuf(struct prs_verbs_registrations *all, uintptr_t base,
                                      size_t bytes)
{
    if (!all->takes_dmabuf ||
        (all->gpu == NULL && prs_gpu_open(all->log, &all->gpu) != PERSEUS_OK)) {
        return NULL;
    }
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = base & ~(page - 1), end = (base + bytes + page - 1) & ~(page - 1);
    int fd = dmabuf_of(all->gpu, first, end);
    if (fd < 0) {
        return NULL;
    }
    struct ibv_mr *mr = all->library->reg_dmabuf_mr(all->pd, base - first, bytes, base, fd, ACCESS);
    close(fd); /* the device holds on to what it stands for */
    return mr;
}

static enum perseus_status register_gpu(struct prs_verbs_registrations *all, void *base,
                                        size_t bytes, struct ibv_mr **out)
{
    *out = register_dmabuf(all, (uintptr_t)base, bytes);
    if (*out == NULL && all->has_peermem) {
        *out = all->library->reg_mr(all->pd, base, bytes, ACCESS);
    }
    if (*out != NULL) {
        return PERSEUS_OK;
    }
    return prs_fail(all->log, PERSEUS_NOT_SUPPORTED,
                    "%s cannot register %zu bytes of GPU memory: %s, and nvidia_peermem %s; load "
                    "that kernel module, use a driver with open kernel modules (dmabuf), or put "
                    "the heap into host memory",
                    all->device, bytes,
                    all->takes_dmabuf ? "the CUDA driver gives no dmabuf for it"
                                      : "the device takes no dmabuf",
                    all->has_peermem ? "refuses it" : "is not loaded");
}

/* ---- all memory ---- */

static enum perseus_status register_host(struct prs_verbs_registrations *all, void *base,
                                         size_t bytes, struct ibv_mr **out)
{
    *out = all->library->reg_mr(all->pd, base, bytes, ACCESS);
    if (*out != NULL) {
        return PERSEUS_OK;
    }
    return prs_fail(all->log, errno == ENOMEM ? PERSEUS_OUT_OF_MEMORY : PERSEUS_INVALID_ARGUMENT,
                    "%s cannot register %zu bytes: %s; raise the locked-memory limit (ulimit -l)",
                    all->device, bytes, strerror(errno));
}

static struct prs_verbs_registration *find(const struct prs_verbs_registrations *all,
                                           uintptr_t base, size_t bytes, enum prs_memory_kind kind)
{
    struct prs_verbs_registration *at = all->first;
    while (at != NULL && !(at->kind == kind && base >= at->base && bytes <= at->bytes &&
                           base - at->base <= at->bytes - bytes)) {
        at = at->next;
    }
    return at;
}

static enum perseus_status add(struct prs_verbs_registrations *all, void *base, size_t bytes,
                               enum prs_memory_kind kind, struct prs_verbs_registration **out)
{
    struct prs_verbs_registration *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return prs_fail(all->log, PERSEUS_OUT_OF_MEMORY, "no memory for a region");
    }
    enum perseus_status status = kind == PRS_MEMORY_CUDA
                                     ? register_gpu(all, base, bytes, &made->mr)
                                     : register_host(all, base, bytes, &made->mr);
    if (status != PERSEUS_OK) {
        free(made);
        return status;
    }
    made->base = (uintptr_t)base;
    made->bytes = bytes;
    made->kind = kind;
    made->next = all->first;
    all->first = *out = made;
    return PERSEUS_OK;
}

enum perseus_status prs_verbs_registration_take(struct prs_verbs_registrations *all, void *base,
                                                size_t bytes, enum prs_memory_kind kind,
                                                struct prs_verbs_registration **out)
{
    enum perseus_status status = PERSEUS_OK;
    pthread_mutex_lock(&all->lock);
    *out = find(all, (uintptr_t)base, bytes, kind);
    if (*out == NULL) {
        status = add(all, base, bytes, kind, out);
    }
    if (status == PERSEUS_OK) {
        (*out)->users++;
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}

void prs_verbs_registration_give_back(struct prs_verbs_registrations *all,
                                      struct prs_verbs_registration *registration)
{
    pthread_mutex_lock(&all->lock);
    if (--registration->users == 0) {
        struct prs_verbs_registration **at = &all->first;
        while (*at != registration) {
            at = &(*at)->next;
        }
        *at = registration->next;
        all->library->dereg_mr(registration->mr);
        free(registration);
    }
    pthread_mutex_unlock(&all->lock);
}
