/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_limit.h"

#define PRS_LF_BELL_BYTES 4096

static void *map_page(int fd)
{
    void *page = mmap(NULL, PRS_LF_BELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page != MAP_FAILED ? page : NULL;
}

static void close_keeping_errno(int fd)
{
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
}

bool prs_lf_bell_open(struct prs_lf_bell *bell)
{
    *bell = (struct prs_lf_bell){.page_fd = -1, .ear = -1, .mouth = -1};
    /* proc(5): of a process that is not dumpable, /proc/PID/fd is root's. */
    if (prctl(PR_GET_DUMPABLE) != 1) {
        errno = EACCES;
        return false;
    }
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    bell->ear = pipe_ends[0];
    bell->mouth = pipe_ends[1];
    bell->page_fd = memfd_create("perseus-bell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct prs_file_limit limit;
    prs_file_limit_begin(&limit);
    bool has_size = bell->page_fd >= 0 && ftruncate(bell->page_fd, PRS_LF_BELL_BYTES) == 0;
    prs_file_limit_end(&limit);
    /* Sealed: nobody can take the page from under a peer's feet. */
    if (has_size && fcntl(bell->page_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
        bell->page = map_page(bell->page_fd);
    }
    if (bell->page == NULL) {
        close_keeping_errno(bell->page_fd);
        close_keeping_errno(bell->ear);
        close_keeping_errno(bell->mouth);
    }
    return bell->page != NULL;
}

void prs_lf_bell_close(struct prs_lf_bell *bell)
{
    if (bell->page != NULL) {
        munmap(bell->page, PRS_LF_BELL_BYTES);
        close(bell->page_fd);
        close(bell->ear);
        close(bell->mouth);
        bell->page = NULL;
    }
}

bool prs_lf_bell_address(const struct prs_lf_bell *bell, struct prs_lf_bell_address *out)
{
    struct stat page, pipe_end;
    *out = (struct prs_lf_bell_address){0};
    if (bell->page == NULL || fstat(bell->page_fd, &page) != 0 ||
        fstat(bell->ear, &pipe_end) != 0) {
        return false;
    }
    *out = (struct prs_lf_bell_address){.page_fd = bell->page_fd,
                                        .pipe_fd = bell->ear,
                                        .page_inode = page.st_ino,
                                        .pipe_inode = pipe_end.st_ino};
    return true;
}

void prs_lf_bell_listen(struct prs_lf_bell *bell)
{
    /* Rings of before: the caller looks after this. One that is still on its way ends the sleep,
     * for nothing. */
    char rings[64];
    while (read(bell->ear, rings, sizeof rings) == (ssize_t)sizeof rings) {
    }
    bell->is_armed = true;
    atomic_store_explicit(&bell->page->asleep, 1, memory_order_relaxed);
    /* With the fence of who pulls: what it has put there before is seen after this. */
    atomic_thread_fence(memory_order_seq_cst);
}

/* Opens descriptor `fd` of process `pid` if it is inode `inode` of the file system of `like`.
 * -1 with errno. */
static int open_of(pid_t pid, int fd, uint64_t inode, int like, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    struct stat own, other;
    if (fstat(like, &own) != 0 || stat(path, &other) != 0) {
        return -1;
    }
    if (other.st_dev != own.st_dev || other.st_ino != inode) {
        errno = ESTALE;
        return -1;
    }
    return open(path, flags | O_CLOEXEC);
}

/* A page that its owner could shorten would end whoever looks at it. */
static bool is_sealed(int page_fd)
{
    struct stat page;
    int seals = fcntl(page_fd, F_GET_SEALS);
    bool is_whole = seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(page_fd, &page) == 0 &&
                    page.st_size >= PRS_LF_BELL_BYTES;
    if (!is_whole) {
        errno = EPERM;
    }
    return is_whole;
}

bool prs_lf_rope_open(struct prs_lf_rope *rope, const struct prs_lf_bell *own, pid_t pid,
                      const struct prs_lf_bell_address *address)
{
    *rope = (struct prs_lf_rope){.pipe = -1};
    int page_fd = open_of(pid, address->page_fd, address->page_inode, own->page_fd, O_RDWR);
    if (page_fd < 0) {
        return false;
    }
    struct prs_lf_bell_page *page = is_sealed(page_fd) ? map_page(page_fd) : NULL;
    close_keeping_errno(page_fd);
    if (page == NULL) {
        return false;
    }
    /* Both ways: a pipe without readers would send a signal to who writes. */
    rope->pipe = open_of(pid, address->pipe_fd, address->pipe_inode, own->ear, O_RDWR | O_NONBLOCK);
    if (rope->pipe < 0) {
        int error = errno;
        munmap(page, PRS_LF_BELL_BYTES);
        errno = error;
        return false;
    }
    rope->page = page;
    return true;
}

void prs_lf_rope_close(struct prs_lf_rope *rope)
{
    if (rope->page != NULL) {
        munmap(rope->page, PRS_LF_BELL_BYTES);
        close(rope->pipe);
        rope->page = NULL;
    }
}

void prs_lf_rope_pull(struct prs_lf_rope *rope)
{
    /* Relaxed, both: the caller's fence is with that of prs_lf_bell_listen. One of several peers
     * makes the system call. A pipe that is full is readable. */
    if (rope->page != NULL && atomic_load_explicit(&rope->page->asleep, memory_order_relaxed) &&
        atomic_exchange_explicit(&rope->page->asleep, 0, memory_order_relaxed)) {
        ssize_t rung = write(rope->pipe, "", 1);
        (void)rung;
    }
}
