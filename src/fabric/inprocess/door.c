/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/inprocess/door.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_limit.h"

/* What is in the file. Each visitor maps it at another address. */
struct prs_door_page {
    atomic_bool is_busy; /* a lock of a few instructions around `port` */
    uint64_t id;
    struct prs_port *port; /* NULL: closed */
};

struct prs_door {
    struct prs_door_address address;
    struct prs_door_page *page;
};

static void door_lock(struct prs_door_page *page)
{
    /* Acquire pairs with the release in door_unlock. */
    while (atomic_exchange_explicit(&page->is_busy, true, memory_order_acquire)) {
        sched_yield();
    }
}

static void door_unlock(struct prs_door_page *page)
{
    atomic_store_explicit(&page->is_busy, false, memory_order_release); /* see door_lock */
}

static struct prs_door_page *door_map(int file)
{
    void *page =
        mmap(NULL, sizeof(struct prs_door_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return page != MAP_FAILED ? page : NULL;
}

enum perseus_status prs_door_create(struct prs_port *port, const struct prs_log *log,
                                    struct prs_door **out)
{
    struct stat info;
    struct prs_door *door = calloc(1, sizeof *door);
    int file = memfd_create("perseus-door", MFD_CLOEXEC);
    struct prs_file_limit limit;
    prs_file_limit_begin(&limit);
    bool is_made = door != NULL && file >= 0 && ftruncate(file, sizeof *door->page) == 0 &&
                   fstat(file, &info) == 0 && (door->page = door_map(file)) != NULL;
    prs_file_limit_end(&limit);
    if (!is_made) {
        enum perseus_status status =
            prs_fail(log, PERSEUS_OUT_OF_MEMORY,
                     "could not make the file that addresses refer to: %s; raise the limit of "
                     "open files (ulimit -n) or of their sizes (ulimit -f), or free memory",
                     strerror(errno));
        if (file >= 0) {
            close(file);
        }
        free(door);
        return status;
    }
    door->page->id = prs_port_id(port);
    door->page->port = port;
    door->address = (struct prs_door_address){.id = door->page->id,
                                              .device = info.st_dev,
                                              .inode = info.st_ino,
                                              .process = getpid(),
                                              .file = file};
    *out = door;
    return PERSEUS_OK;
}

void prs_door_destroy(struct prs_door *door)
{
    if (door == NULL) {
        return;
    }
    door_lock(door->page);
    door->page->port = NULL;
    door_unlock(door->page);
    munmap(door->page, sizeof *door->page);
    close(door->address.file);
    free(door);
}

struct prs_door_address prs_door_address(const struct prs_door *door)
{
    return door->address;
}

/* The door's file under a descriptor of our own, or -1 if it is no longer there. */
static int door_open_file(const struct prs_door_address *address)
{
    struct stat info;
    int file = fcntl(address->file, F_DUPFD_CLOEXEC, 0);
    if (file < 0) {
        return -1;
    }
    if (fstat(file, &info) != 0 || info.st_dev != address->device ||
        info.st_ino != address->inode || info.st_size != sizeof(struct prs_door_page)) {
        close(file);
        return -1;
    }
    return file;
}

enum perseus_status prs_door_knock(const struct prs_door_address *address,
                                   const struct prs_log *log, struct prs_port **out)
{
    if (address->process != getpid()) {
        return prs_fail(
            log, PERSEUS_NOT_SUPPORTED,
            "this fabric reaches its own process only, and this peer is in process %lld; "
            "choose fabric libfabric for several processes",
            (long long)address->process);
    }
    struct prs_port *port = NULL;
    int file = door_open_file(address);
    struct prs_door_page *page = file >= 0 ? door_map(file) : NULL;
    if (page != NULL) {
        door_lock(page);
        if (page->port != NULL && page->id == address->id) {
            port = page->port;
            prs_port_ref(port);
        }
        door_unlock(page);
        munmap(page, sizeof *page);
    }
    if (file >= 0) {
        close(file);
    }
    if (port == NULL) {
        return prs_fail(log, PERSEUS_PEER_LOST,
                        "peer %016llx has closed its fabric; connect while it is open",
                        (unsigned long long)address->id);
    }
    *out = port;
    return PERSEUS_OK;
}
