/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/record.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/file_limit.h"

uint64_t prs_profile_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool prs_profile_open(struct prs_profile *profile, const char *directory, int pe, int n_pes,
                      int interface, bool offers_fence, const char *transport)
{
    *profile = (struct prs_profile){.head = NULL};
    char path[4096];
    if (directory == NULL ||
        snprintf(path, sizeof path, "%s/pe-%d.profile", directory, pe) >= (int)sizeof path) {
        return false;
    }
    uint64_t bytes = prs_profile_bytes(n_pes, PRS_PROFILE_EVENTS);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) {
        return false;
    }
    struct prs_file_limit limit;
    prs_file_limit_begin(&limit);
    void *memory = ftruncate(file, (off_t)bytes) == 0 /* sparse: only what is used takes room */
                       ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    prs_file_limit_end(&limit);
    close(file);
    if (memory == MAP_FAILED) {
        return false;
    }
    struct prs_profile_head *head = memory;
    *head = (struct prs_profile_head){
        .version = PRS_PROFILE_VERSION,
        .interface = (uint32_t)interface,
        .pe = pe,
        .n_pes = n_pes,
        .start_ns = prs_profile_now_ns(),
        .offers_fence = offers_fence,
        .events_max = PRS_PROFILE_EVENTS,
        .magic = PRS_PROFILE_MAGIC,
    };
    head->finish_ns = head->start_ns;
    snprintf(head->transport, sizeof head->transport, "%s", transport);
    profile->head = head;
    profile->peers = (struct prs_profile_peer *)(head + 1);
    profile->events = (struct prs_profile_event *)(profile->peers + n_pes);
    profile->bytes = bytes;
    profile->last_kind = PRS_PROFILE_KINDS;
    return true;
}

void prs_profile_close(struct prs_profile *profile)
{
    if (profile->head != NULL) {
        munmap(profile->head, profile->bytes);
    }
    *profile = (struct prs_profile){.head = NULL};
}

/* A fence request, or a quiet, ends what was open. */
static void settle(struct prs_profile *profile, bool is_fence)
{
    struct prs_profile_head *head = profile->head;
    uint64_t open = 0, peers = 0;
    for (int pe = 0; pe < head->n_pes; pe++) {
        open += profile->peers[pe].open;
        peers += profile->peers[pe].open_puts > 0;
        profile->peers[pe].open = 0;
        if (!is_fence) {
            profile->peers[pe].open_puts = 0;
        }
    }
    if (is_fence) {
        head->fence_requests++;
        head->fence_open += open;
        head->fence_open_max = open > head->fence_open_max ? open : head->fence_open_max;
    } else {
        head->peers_between_quiets += peers;
    }
}

static void add_event(struct prs_profile *profile, enum prs_profile_kind kind, int peer,
                      uint64_t bytes, uint64_t start_ns, uint64_t ns)
{
    struct prs_profile_head *head = profile->head;
    if (head->events == head->events_max) {
        head->events_lost++;
        return;
    }
    profile->events[head->events++] = (struct prs_profile_event){
        .start_ns = start_ns - head->start_ns,
        .bytes = bytes,
        .ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX,
        .peer = (uint16_t)(peer < 0 || peer >= head->n_pes ? PRS_PROFILE_ALL : (unsigned)peer),
        .kind = (uint8_t)kind,
        .proxy = 1,
    };
}

static int size_class(uint64_t bytes)
{
    int log2 = bytes == 0 ? 0 : 63 - __builtin_clzll(bytes);
    return log2 < PRS_PROFILE_SIZES ? log2 : PRS_PROFILE_SIZES - 1;
}

static void count(struct prs_profile_count *to, uint64_t bytes, uint64_t ns)
{
    to->calls++;
    to->bytes += bytes;
    to->ns += ns;
}

void prs_profile_add(struct prs_profile *profile, enum prs_profile_kind kind, bool proxy, int peer,
                     uint64_t bytes, uint64_t start_ns)
{
    struct prs_profile_head *head = profile->head;
    if (head == NULL || !proxy) {
        return;
    }
    uint64_t end_ns = prs_profile_now_ns();
    bool settles = kind == PRS_PROFILE_FENCE || kind == PRS_PROFILE_QUIET;
    /* A request is one pass over the PEs. */
    if (settles && (profile->last_kind != kind || peer <= profile->last_peer)) {
        settle(profile, kind == PRS_PROFILE_FENCE);
    }
    profile->last_kind = (uint8_t)kind;
    profile->last_peer = peer;
    head->finish_ns = end_ns;
    struct prs_profile_peer *row =
        &profile->peers[peer >= 0 && peer < head->n_pes ? peer : head->pe];
    bool signaled = kind == PRS_PROFILE_PUT_SIGNAL;
    count(&row->counts[kind], bytes, end_ns - start_ns);
    if (kind == PRS_PROFILE_PUT || signaled) {
        count(&row->sizes[size_class(bytes)], bytes, end_ns - start_ns);
    }
    if (!settles) {
        row->open++;
        row->open_puts += kind == PRS_PROFILE_PUT || kind == PRS_PROFILE_P || signaled;
    }
    if (signaled) {
        settle(profile, true);
        row->open++; /* the signal */
    }
    add_event(profile, kind, peer, bytes, start_ns, end_ns - start_ns);
}
