/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bell.h: how peers of this host wake an endpoint whose provider wakes nobody (shm).
 *
 * An endpoint's bell is a page, whose one word says whether its owner sleeps, and a pipe that the
 * owner sleeps on. Neither has a name or a port: peers open both through /proc/PID/fd, which the
 * kernel allows to processes of the same user that may read each other's memory. A bell is only a
 * bell: nothing in the page or the pipe is believed, and a false ring costs its owner one look.
 *
 * No wake-up is lost: the owner stores that it sleeps, and then looks into its queues; a peer puts
 * something there, and then reads whether the owner sleeps; with a sequentially consistent fence in
 * between on both sides. So either the look finds it, or the bell is rung. A peer that finds the
 * owner awake makes no system call.
 */
#ifndef PRS_LIBFABRIC_BELL_H
#define PRS_LIBFABRIC_BELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct prs_lf_bell_page {
    _Atomic uint32_t asleep; /* true from just before its owner's last look until somebody rings, or
                                it has woken by itself */
};

/* An endpoint's own. */
struct prs_lf_bell {
    struct prs_lf_bell_page *page; /* NULL: there is none */
    int page_fd;
    int ear, mouth; /* the pipe's ends; `mouth` is there so that it never ends */
    bool is_armed;  /* `asleep` may be set */
};

/* How peers find it. As in the address of an endpoint: inode 0, there is none. */
struct prs_lf_bell_address {
    int32_t page_fd, pipe_fd;
    uint64_t page_inode, pipe_inode;
};

/* What a peer holds of it. */
struct prs_lf_rope {
    struct prs_lf_bell_page *page; /* NULL: nothing to pull */
    int pipe;
};

/* False, with errno and no bell: no descriptor or no memory, or the kernel hides this process's
 * descriptors from its own user. */
bool prs_lf_bell_open(struct prs_lf_bell *bell);
void prs_lf_bell_close(struct prs_lf_bell *bell); /* one that was not opened is allowed */
bool prs_lf_bell_address(const struct prs_lf_bell *bell, struct prs_lf_bell_address *out);
/* The owner is about to sleep on `ear`. It must look for work once more after this. */
void prs_lf_bell_listen(struct prs_lf_bell *bell);
/* The owner is awake: nobody needs to ring. */
static inline void prs_lf_bell_rise(struct prs_lf_bell *bell)
{
    if (bell->is_armed) {
        bell->is_armed = false;
        /* Relaxed: who rings in vain ends the next sleep early. */
        atomic_store_explicit(&bell->page->asleep, 0, memory_order_relaxed);
    }
}

/* `own`: of the endpoint that will ring; its objects show what one of this kernel must be like.
 * False with errno: it cannot be reached from here, or is not what it was. */
bool prs_lf_rope_open(struct prs_lf_rope *rope, const struct prs_lf_bell *own, pid_t pid,
                      const struct prs_lf_bell_address *address);
void prs_lf_rope_close(struct prs_lf_rope *rope);
/* Rings if the owner sleeps. After what it shall find, and a sequentially consistent fence. */
void prs_lf_rope_pull(struct prs_lf_rope *rope);

#endif
