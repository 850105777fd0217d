/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: what the profiler writes, one file per PE, and how.
 *
 * The file is mapped memory, so that it is complete whatever ends the process. The layout is read
 * by `perseus nvshmem-profile` of the same build: head, then a row per peer, then the events.
 */
#ifndef PRS_NVSHMEM_PROFILE_RECORD_H
#define PRS_NVSHMEM_PROFILE_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PRS_PROFILE_MAGIC   0x31666f7270737270u
#define PRS_PROFILE_VERSION 2
#define PRS_PROFILE_SIZES   33 /* puts by floor(log2(bytes)) */
#define PRS_PROFILE_EVENTS  (1u << 18)
#define PRS_PROFILE_ALL     0xffffu /* peer of an event that concerns every PE */

enum prs_profile_kind {
    PRS_PROFILE_PUT,
    PRS_PROFILE_P,
    PRS_PROFILE_GET,
    PRS_PROFILE_AMO,
    PRS_PROFILE_PUT_SIGNAL,
    PRS_PROFILE_FENCE,
    PRS_PROFILE_QUIET,
    PRS_PROFILE_KINDS
};

struct prs_profile_count {
    uint64_t calls, bytes, ns;
};

struct prs_profile_peer {
    struct prs_profile_count counts[PRS_PROFILE_KINDS];
    struct prs_profile_count sizes[PRS_PROFILE_SIZES]; /* of puts, with a signal or without */
    uint64_t open,
        open_puts; /* operations (puts) since the last fence or quiet of this PE's proxy */
};

struct prs_profile_event {
    uint64_t start_ns; /* since head.start_ns */
    uint64_t bytes;
    uint32_t ns;
    uint16_t peer;
    uint8_t kind; /* enum prs_profile_kind */
    uint8_t proxy;
};

struct prs_profile_head {
    uint64_t magic;
    uint32_t version, interface;
    int32_t pe, n_pes;
    uint64_t start_ns;   /* CLOCK_MONOTONIC of this host */
    uint64_t finish_ns;  /* of the last call seen */
    char transport[256]; /* the file that did the work */
    uint32_t offers_fence;
    uint32_t events_max;
    uint64_t events, events_lost;
    /* A fence request is a run of fence calls: interface 3.0 asks for every PE in turn. A
     * put_signal of 4.0 has one inside, behind its put. */
    uint64_t fence_requests;
    uint64_t fence_open, fence_open_max; /* operations open when it came: sum, most */
    /* Peers with operations, summed over the quiets: fences that would do. */
    uint64_t peers_between_quiets;
};

struct prs_profile {
    struct prs_profile_head *head; /* NULL: no file, nothing is recorded */
    struct prs_profile_peer *peers;
    struct prs_profile_event *events;
    uint64_t bytes;
    uint8_t last_kind; /* of the proxy's calls */
    int last_peer;
};

static inline uint64_t prs_profile_bytes(int n_pes, uint32_t events_max)
{
    return sizeof(struct prs_profile_head) + (uint64_t)n_pes * sizeof(struct prs_profile_peer) +
           (uint64_t)events_max * sizeof(struct prs_profile_event);
}

/* Makes DIRECTORY/pe-N.profile. False: it could not, and *profile records nothing. */
bool prs_profile_open(struct prs_profile *profile, const char *directory, int pe, int n_pes,
                      int interface, bool offers_fence, const char *transport);
void prs_profile_close(struct prs_profile *profile);

uint64_t prs_profile_now_ns(void);
/* One call toward `peer` (or out of range: all) that began at start_ns and is over. The proxy's
 * calls come from one thread; those of user threads are not recorded. */
void prs_profile_add(struct prs_profile *profile, enum prs_profile_kind kind, bool proxy, int peer,
                     uint64_t bytes, uint64_t start_ns);

#endif
