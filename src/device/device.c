/* SPDX-License-Identifier: Apache-2.0 */
#include <perseus/device.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/log.h"
#include "device/device.h"
#include "fabric/word.h"
#include "ring/answers.h"

#define HEAP_BYTES_DEFAULT ((size_t)64 << 20)
#define HEAP_BYTES_MIN     4096
#define SLOTS_DEFAULT      4096u
#define SLOTS_MIN          64u /* a warp claims 32 at once */
#define TIMEOUT_MS_DEFAULT 10000u
#define TICKETS            16 /* of threads of the host: the closing quiet's */

_Static_assert(sizeof(struct prs_device_contact) <= PERSEUS_DEVICE_CONTACT_BYTES, "contacts fit");

/* ---- what the proxy asks ---- */

static void complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct perseus_device *device = context;
    prs_sources_complete(device->sources, token, status, result);
}

/* A signal or atomic that a peer's put cannot carry out, for a word in the GPU's memory. Never a
 * CPU's atomic: two copies around it, on the proxy's thread, which is the one writer of such words
 * while they are targets of peers' atomics; this PE's kernels read them. */
static uint64_t apply(void *context, struct prs_window *window, uint64_t offset,
                      enum perseus_atomic op, uint64_t operand, uint64_t compare, uint32_t bytes)
{
    struct perseus_device *device = context;
    unsigned char *word = (unsigned char *)prs_window_base(window) + offset;
    uint64_t *staged = device->staged;
    *staged = 0;
    if (prs_gpu_side_copy(&device->side, staged, word, bytes) != PERSEUS_OK) {
        return 0; /* told by the log; the GPU is lost, and every later call says so */
    }
    uint64_t old = *staged;
    *staged = prs_word_result(op, old, operand, compare);
    (void)prs_gpu_side_copy(&device->side, word, staged, bytes);
    return old;
}

static struct prs_region *local_region(void *context, uint16_t window)
{
    const struct perseus_device *device = context;
    return window < device->n_windows ? prs_window_region(device->windows[window]) : NULL;
}

static enum perseus_status remote_window(void *context, uint32_t peer,
                                         struct prs_window_remote **out)
{
    struct perseus_device *device = context;
    if (peer >= (uint32_t)device->attr.n_pes) {
        return prs_fail(&device->log, PERSEUS_INVALID_ARGUMENT,
                        "a kernel names PE %u of %d; it writes malformed descriptors", peer,
                        device->attr.n_pes);
    }
    if (device->remotes[peer] == NULL) {
        const struct prs_device_contact *contact = &device->contacts[peer];
        enum perseus_status status =
            prs_window_import(device->link.orderer, peer, contact->window, contact->window_bytes,
                              &device->remotes[peer]);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    *out = device->remotes[peer];
    return PERSEUS_OK;
}

/* ---- opening ---- */

static enum perseus_status take_attr(struct perseus_device *device,
                                     const struct perseus_device_attr *attr)
{
    struct perseus_device_attr *own = &device->attr;
    *own = *attr;
    device->log = (struct prs_log){
        .fn = attr->log, .user = attr->log_user, .level = attr->log_level, .pe = attr->my_pe};
    own->heap_bytes = own->heap_bytes == 0 ? HEAP_BYTES_DEFAULT : own->heap_bytes;
    own->ring_slots = own->ring_slots == 0 ? SLOTS_DEFAULT : own->ring_slots;
    own->timeout_ms = own->timeout_ms == 0 ? TIMEOUT_MS_DEFAULT : own->timeout_ms;
    if (own->n_pes < 1 || own->my_pe < 0 || own->my_pe >= own->n_pes || own->pes_per_node < 0) {
        return prs_fail(&device->log, PERSEUS_INVALID_ARGUMENT,
                        "PE %d of %d, %d a node: give a number below the count", own->my_pe,
                        own->n_pes, own->pes_per_node);
    }
    if (own->heap_bytes < HEAP_BYTES_MIN) {
        return prs_fail(&device->log, PERSEUS_INVALID_ARGUMENT,
                        "a heap of %zu bytes; %d are the least", own->heap_bytes, HEAP_BYTES_MIN);
    }
    if (own->ring_slots < SLOTS_MIN) {
        return prs_fail(&device->log, PERSEUS_INVALID_ARGUMENT,
                        "a GPU's ring has %u slots; a power of two from %u on is needed",
                        own->ring_slots, SLOTS_MIN);
    }
    return PERSEUS_OK;
}

static enum perseus_status open_link(struct perseus_device *device)
{
    const struct perseus_device_attr *attr = &device->attr;
    char provider[32];
    snprintf(provider, sizeof provider, "%s:%d", attr->provider != NULL ? attr->provider : "batch",
             attr->gpu);
    struct perseus_attr asked = {
        .fabric = "cudadma", .provider = provider, .ordering = attr->ordering};
    struct prs_link_settings settings;
    enum perseus_status status = prs_link_settings_read(&asked, &device->log, &settings);
    if (status == PERSEUS_OK) {
        status = prs_link_open(&device->link, &settings, PERSEUS_LOG_ERROR, &device->log);
    }
    if (status == PERSEUS_OK) {
        status = prs_link_resolve(&device->link, &settings);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_link_end end = {.self = (uint32_t)attr->my_pe,
                                     .n_peers = (uint32_t)attr->n_pes,
                                     .stream = (uint64_t)attr->my_pe,
                                     .complete = complete,
                                     .apply = apply,
                                     .context = device};
    return prs_link_start(&device->link, &settings, &end);
}

static enum perseus_status add_window(struct perseus_device *device, void *base, size_t bytes)
{
    struct prs_window **window = &device->windows[device->n_windows];
    enum perseus_status status =
        prs_window_create(device->link.orderer, base, bytes, PRS_MEMORY_CUDA, window);
    if (status == PERSEUS_OK) {
        device->buffers[device->n_windows] = (struct perseus_device_buffer){
            .base = base, .bytes = bytes, .window = device->n_windows};
        device->n_windows++;
    }
    return status;
}

static enum perseus_status open_gpu(struct perseus_device *device)
{
    enum perseus_status status = prs_gpu_open(&device->log, &device->cuda);
    if (status == PERSEUS_OK) {
        status = prs_gpu_device_open(device->cuda, device->attr.gpu, &device->side.gpu);
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_side_open(&device->side, device->attr.heap_bytes, device->attr.ring_slots,
                                   (uint32_t)device->attr.n_pes);
    }
    return status;
}

/* The ring of the host's threads is for the closing quiet alone. */
static enum perseus_status open_sources(struct perseus_device *device)
{
    uint32_t number = 0;
    struct prs_ring consumer = device->side.ring;
    consumer.producers = NULL; /* out of the proxy's reach */
    enum perseus_status status = prs_ring_create(TICKETS, &device->ring);
    status = status == PERSEUS_OK ? prs_tickets_create(TICKETS, &device->tickets) : status;
    if (status == PERSEUS_OK) {
        status = prs_sources_create(device->ring, device->tickets, &device->sources);
    }
    if (status == PERSEUS_OK) {
        status = prs_answers_create(device->side.answers, PRS_GPU_SIDE_ANSWERS, &device->answers);
    }
    if (status == PERSEUS_OK) {
        status = prs_sources_add(device->sources, &consumer, device->answers, &number);
    }
    return status == PERSEUS_OK
               ? status
               : prs_fail(&device->log, status, "no ring of %u slots", device->attr.ring_slots);
}

static enum perseus_status open_all(struct perseus_device *device,
                                    const struct perseus_device_attr *attr)
{
    void *staged = NULL;
    enum perseus_status status = take_attr(device, attr);
    status = status == PERSEUS_OK ? open_gpu(device) : status;
    status = status == PERSEUS_OK ? open_sources(device) : status;
    status = status == PERSEUS_OK ? open_link(device) : status;
    if (status == PERSEUS_OK) {
        status = add_window(device, device->side.heap, device->attr.heap_bytes);
    }
    device->remotes = calloc((size_t)attr->n_pes, sizeof(void *));
    device->contacts = calloc((size_t)attr->n_pes, sizeof *device->contacts);
    if (status == PERSEUS_OK && (device->remotes == NULL || device->contacts == NULL)) {
        status = prs_fail(&device->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", attr->n_pes);
    }
    void *before = NULL;
    if (status == PERSEUS_OK) {
        status = prs_gpu_enter(&device->side.gpu, &before);
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_host_alloc(&device->side.gpu, sizeof *device->staged, &staged);
        device->staged = staged;
        prs_gpu_leave(&device->side.gpu, before);
    }
    return status;
}

PRS_PUBLIC enum perseus_status perseus_device_open(const struct perseus_device_attr *attr,
                                                   struct perseus_device **out)
{
    struct perseus_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    enum perseus_status status = open_all(device, attr);
    if (status != PERSEUS_OK) {
        perseus_device_close(device);
        return status;
    }
    *out = device;
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_device_buffer_register(struct perseus_device *device,
                                                              void *base, size_t bytes)
{
    if (device->n_windows == PERSEUS_DEVICE_BUFFERS_MAX) {
        return prs_fail(&device->log, PERSEUS_LIMIT,
                        "more than %d registered buffers: register larger pieces",
                        PERSEUS_DEVICE_BUFFERS_MAX - 1);
    }
    return add_window(device, base, bytes);
}

PRS_PUBLIC enum perseus_status perseus_device_contact(struct perseus_device *device,
                                                      struct perseus_device_contact *out)
{
    struct prs_device_contact own = {
        .heap = device->side.heap, .gpu = device->attr.gpu, .heap_bytes = device->attr.heap_bytes};
    size_t address_bytes = sizeof own.address, window_bytes = sizeof own.window;
    enum perseus_status status =
        prs_orderer_address(device->link.orderer, own.address, &address_bytes);
    if (status == PERSEUS_OK) {
        status = prs_window_export(device->windows[0], own.window, &window_bytes);
    }
    if (status == PERSEUS_OK) {
        own.address_bytes = (uint32_t)address_bytes;
        own.window_bytes = (uint32_t)window_bytes;
        memcpy(out->bytes, &own, sizeof own);
    }
    return status;
}

/* Connects to every PE, and fills in the table of heaps that this GPU's stores reach: those of its
 * node. Now, and not at the first use: a GPU is let at another one's memory while neither runs
 * kernels that wait for what it sends. */
static enum perseus_status connect_all(struct perseus_device *device)
{
    int per_node = device->attr.pes_per_node, self = device->attr.my_pe;
    enum perseus_status status = PERSEUS_OK;
    for (int pe = 0; pe < device->attr.n_pes && status == PERSEUS_OK; pe++) {
        struct prs_window_remote *remote = NULL;
        if (pe == self) {
            continue;
        }
        status = remote_window(device, (uint32_t)pe, &remote);
        if (status == PERSEUS_OK && per_node > 0 && pe / per_node == self / per_node) {
            status = prs_gpu_side_copy(&device->side, &device->side.direct[pe],
                                       &device->contacts[pe].heap, sizeof(void *));
        }
    }
    return status;
}

enum perseus_status prs_device_connect(struct perseus_device *device,
                                       const struct perseus_device_contact *contacts)
{
    for (int pe = 0; pe < device->attr.n_pes; pe++) {
        memcpy(&device->contacts[pe], contacts[pe].bytes, sizeof device->contacts[pe]);
        if (device->contacts[pe].heap_bytes != device->attr.heap_bytes) {
            return prs_fail(&device->log, PERSEUS_INVALID_ARGUMENT,
                            "PE %d has a heap of %llu bytes, this one %llu; give every PE the same",
                            pe, (unsigned long long)device->contacts[pe].heap_bytes,
                            (unsigned long long)device->attr.heap_bytes);
        }
    }
    prs_orderer_set_directory(device->link.orderer, (const unsigned char *)device->contacts,
                              sizeof *device->contacts);
    enum perseus_status status = connect_all(device);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_proxy_config config = {.sources = device->sources,
                                            .orderer = device->link.orderer,
                                            .context = device,
                                            .local = local_region,
                                            .remote = remote_window,
                                            .log = &device->log};
    return prs_proxy_create(&config, &device->proxy);
}

PRS_PUBLIC enum perseus_status perseus_device_start(struct perseus_device *device,
                                                    const struct perseus_device_contact *contacts)
{
    enum perseus_status status = prs_device_connect(device, contacts);
    if (status == PERSEUS_OK) {
        const struct prs_backoff backoff = {
            .spin_steps = 2000, .yield_steps = 100, .sleep_us = 50, .cpu = -1};
        status = prs_proxy_thread_start(device->proxy, &backoff, &device->log, &device->thread);
    }
    return status;
}

/* ---- closing ---- */

/* What kernels have sent comes to its end, as far as the deadline allows. */
static void drain(struct perseus_device *device)
{
    uint32_t ticket = 0;
    struct prs_clock clock = prs_clock_monotonic();
    uint64_t deadline_ns =
        prs_clock_now_ns(&clock) + (uint64_t)device->attr.timeout_ms * UINT64_C(1000000);
    if (device->thread == NULL || prs_ticket_take(device->tickets, &ticket) != PERSEUS_OK) {
        return;
    }
    const struct prs_desc quiet = {
        .kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS, .ticket = ticket};
    bool is_done = prs_ring_push(device->ring, &quiet, NULL) != PERSEUS_OK;
    prs_proxy_thread_wake(device->thread);
    while (!is_done && prs_clock_now_ns(&clock) < deadline_ns &&
           prs_proxy_thread_status(device->thread) == PERSEUS_OK) {
        is_done = prs_ticket_poll(device->tickets, ticket, NULL, NULL);
        sched_yield();
    }
}

PRS_PUBLIC void perseus_device_close(struct perseus_device *device)
{
    if (device == NULL) {
        return;
    }
    drain(device);
    prs_proxy_thread_stop(device->thread);
    prs_proxy_destroy(device->proxy);
    for (int pe = 0; device->remotes != NULL && pe < device->attr.n_pes; pe++) {
        prs_window_remote_close(device->remotes[pe]);
    }
    for (uint32_t i = 0; i < device->n_windows; i++) {
        prs_window_destroy(device->windows[i]);
    }
    prs_link_stop(&device->link);
    prs_link_close(&device->link);
    prs_sources_destroy(device->sources);
    prs_tickets_destroy(device->tickets);
    prs_ring_destroy(device->ring);
    prs_answers_destroy(device->answers);
    prs_device_groups_free(device);
    void *before = NULL;
    if (device->staged != NULL && prs_gpu_enter(&device->side.gpu, &before) == PERSEUS_OK) {
        prs_gpu_host_free(&device->side.gpu, device->staged);
        prs_gpu_leave(&device->side.gpu, before);
    }
    prs_gpu_side_close(&device->side);
    prs_gpu_device_close(&device->side.gpu);
    prs_gpu_close(device->cuda);
    free((void *)device->remotes);
    free(device->contacts);
    free(device);
}

/* ---- use ---- */

PRS_PUBLIC void *perseus_device_heap(const struct perseus_device *device)
{
    return device->side.heap;
}

PRS_PUBLIC void perseus_device_pe_get(const struct perseus_device *device,
                                      struct perseus_device_pe *out)
{
    const struct prs_gpu_side *side = &device->side;
    *out = (struct perseus_device_pe){.ring = side->ring,
                                      .answers = side->answers,
                                      .answer_uses = side->answer_uses,
                                      .n_answers = PRS_GPU_SIDE_ANSWERS,
                                      .my_pe = device->attr.my_pe,
                                      .n_pes = device->attr.n_pes,
                                      .heap = side->heap,
                                      .heap_bytes = device->attr.heap_bytes,
                                      .n_buffers = device->n_windows,
                                      .direct = device->attr.pes_per_node > 0 ? side->direct : NULL,
                                      .timeout_ms = device->attr.timeout_ms,
                                      .fault = side->fault,
                                      .fault_taken = side->fault_taken};
    memcpy(out->buffers, device->buffers, sizeof out->buffers);
}

PRS_PUBLIC enum perseus_status perseus_device_check(struct perseus_device *device)
{
    static const char *const what[] = {
        [PERSEUS_DEVICE_FAULT_SIGNAL] = "a signal at heap offset",
        [PERSEUS_DEVICE_FAULT_ANSWER] = "the proxy's answer in slot",
        [PERSEUS_DEVICE_FAULT_RING] = "room in the ring up to position",
        [PERSEUS_DEVICE_FAULT_GROUP] = "the round before, of the signal group's member"};
    struct perseus_device_fault *fault = device->side.fault;
    /* Acquire: with the release of the kernel's report. */
    uint32_t kind = __atomic_load_n(&fault->kind, __ATOMIC_ACQUIRE);
    if (kind == PERSEUS_DEVICE_FAULT_NONE) {
        return device->thread == NULL ? PERSEUS_OK : prs_proxy_thread_status(device->thread);
    }
    bool is_known = kind < sizeof what / sizeof what[0];
    enum perseus_status status =
        prs_fail(&device->log, PERSEUS_TIMEOUT,
                 "a kernel (block %u, thread %u) waited in vain for %s %llu, from PE %d: it is "
                 "%llu, awaited "
                 "%llu; look for a PE that is stuck, or allow more time",
                 fault->block, fault->thread, is_known ? what[kind] : "something",
                 (unsigned long long)fault->slot, fault->peer, (unsigned long long)fault->found,
                 (unsigned long long)fault->expected);
    const uint32_t free_again = 0;
    fault->kind = PERSEUS_DEVICE_FAULT_NONE;
    (void)prs_gpu_side_copy(&device->side, device->side.fault_taken, &free_again,
                            sizeof free_again);
    return status;
}

PRS_PUBLIC void perseus_device_stats(const struct perseus_device *device, int target,
                                     struct perseus_stats *out)
{
    prs_orderer_stats(device->link.orderer,
                      target == PERSEUS_ALL_PES ? PRS_ORDER_ALL_PEERS : (uint32_t)target, out);
}

PRS_PUBLIC enum perseus_ordering perseus_device_ordering(const struct perseus_device *device,
                                                         const char **out_why)
{
    if (out_why != NULL) {
        *out_why = device->link.why;
    }
    return device->link.ordering;
}
