/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nodes are numbered in order of their first PE. */
static enum perseus_status number_nodes(struct prs_peers *peers, const struct prs_identity *all)
{
    if (all[0].pes_per_node != 0) {
        for (int pe = 0; pe < peers->size; pe++) {
            peers->peer[pe].node = (int)((uint32_t)pe / all[0].pes_per_node);
        }
        return PERSEUS_OK;
    }
    int *first_pe = calloc((size_t)peers->size, sizeof *first_pe); /* of each node */
    if (first_pe == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    int nodes = 0;
    for (int pe = 0; pe < peers->size; pe++) {
        int node = 0;
        while (node < nodes &&
               memcmp(all[first_pe[node]].host, all[pe].host, PRS_HOST_BYTES) != 0) {
            node++;
        }
        if (node == nodes) {
            first_pe[nodes++] = pe;
        }
        peers->peer[pe].node = node;
    }
    free(first_pe);
    return PERSEUS_OK;
}

static void share_heap(struct prs_peer *peer, const struct prs_identity *identity)
{
    peer->shared = prs_heap_share((struct prs_heap *)(uintptr_t)identity->heap);
    peer->base = peer->shared->base;
}

/* Makes the heap of a PE of this host reachable, or leaves base NULL, with errno. The process
 * number may mean another process here (containers), so the object's identity is checked before
 * anything is opened; and if it is this process that holds the object, the PE is one of this
 * process. */
static void map_heap(struct prs_peer *peer, const struct prs_identity *identity, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)identity->pid, (int)identity->fd);
    struct stat info;
    if (stat(path, &info) != 0) {
        return;
    }
    if (info.st_dev != identity->device || info.st_ino != identity->inode ||
        info.st_size != (off_t)bytes) {
        errno = ESTALE;
        return;
    }
    if (identity->pid == getpid()) {
        share_heap(peer, identity);
        return;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    int error = errno;
    close(fd);
    errno = error;
    peer->base = base != MAP_FAILED ? base : NULL;
}

static void map_local(struct prs_peers *peers, const struct prs_identity *all,
                      const struct prs_log *log)
{
    const struct prs_identity *self = &all[peers->self];
    peers->all_local = true;
    for (int pe = 0; pe < peers->size; pe++) {
        struct prs_peer *peer = &peers->peer[pe];
        bool is_here = memcmp(all[pe].host, self->host, PRS_HOST_BYTES) == 0;
        peers->on_cpus += is_here && all[pe].cpu_set == self->cpu_set;
        if (self->memory == PRS_MEMORY_CUDA) {
            /* this PE's threads reach no heap, its own neither */
        } else if (pe == peers->self) {
            share_heap(peer, self);
        } else if (peer->node == peers->peer[peers->self].node && is_here) {
            map_heap(peer, &all[pe], peers->heap_bytes);
            if (peer->base == NULL) {
                prs_log(log, PERSEUS_LOG_INFO,
                        "cannot map the heap of PE %d of this node (%s); it is reached through the "
                        "fabric instead. Shared memory needs one user and one process namespace",
                        pe, strerror(errno));
            }
        }
        peers->all_local = peers->all_local && peer->base != NULL;
    }
}

enum perseus_status prs_peers_create(const struct prs_identity *all, int self, int size,
                                     size_t heap_bytes, const struct prs_log *log,
                                     struct prs_peers **out)
{
    struct prs_peers *peers = calloc(1, sizeof *peers + (size_t)size * sizeof(struct prs_peer));
    if (peers != NULL) {
        peers->self = self;
        peers->size = size;
        peers->heap_bytes = heap_bytes;
    }
    if (peers == NULL || number_nodes(peers, all) != PERSEUS_OK) {
        free(peers);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the records of %d PEs", size);
    }
    map_local(peers, all, log);
    *out = peers;
    return PERSEUS_OK;
}

void prs_peers_destroy(struct prs_peers *peers)
{
    if (peers == NULL) {
        return;
    }
    for (int pe = 0; pe < peers->size; pe++) {
        struct prs_peer *peer = &peers->peer[pe];
        if (peer->shared != NULL) {
            prs_heap_destroy(peer->shared);
        } else if (peer->base != NULL) {
            munmap(peer->base, peers->heap_bytes);
        }
    }
    free(peers);
}
