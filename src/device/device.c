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
#include "fabric/registry.h"

#define HEAP_BYTES_DEFAULT ((size_t)64 << 20)
#define HEAP_BYTES_MIN     4096
#define SLOTS_DEFAULT      4096u
#define TIMEOUT_MS_DEFAULT 10000u
#define TICKETS            16 /* of threads of the host: the closing quiet's */

_Static_assert(sizeof(struct prs_device_contact) <= PERSEUS_DEVICE_CONTACT_BYTES, "contacts fit");

/* ---- what the proxy asks ---- */

static void complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct perseus_device *device = context;
    prs_sources_complete(device->sources, token, status, result);
}

static uint64_t apply(void *context, struct prs_window *window, uint64_t offset,
                      enum perseus_atomic op, uint64_t operand, uint64_t compare, uint32_t bytes)
{
    const struct perseus_device *device = context;
    return prs_gpu_side_apply(device->side, (unsigned char *)prs_window_base(window) + offset, op,
                              operand, compare, bytes);
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
    return PERSEUS_OK;
}

static enum perseus_status open_link(struct perseus_device *device)
{
    const struct perseus_device_attr *attr = &device->attr;
    struct perseus_attr asked = {.fabric = prs_fabric_default(PRS_MEMORY_CUDA),
                                 .provider = attr->provider != NULL ? attr->provider : "",
                                 .ordering = attr->ordering,
                                 .heap_memory = PERSEUS_MEMORY_GPU,
                                 .gpu = attr->gpu};
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

static enum perseus_status open_side(struct perseus_device *device)
{
    const struct perseus_device_attr *attr = &device->attr;
    const struct prs_gpu_side_config config = {.gpu = attr->gpu,
                                               .heap_bytes = attr->heap_bytes,
                                               .slots = attr->ring_slots,
                                               .timeout_ms = attr->timeout_ms,
                                               .my_pe = attr->my_pe,
                                               .n_pes = attr->n_pes,
                                               .log = &device->log};
    return prs_gpu_side_open(&config, &device->side);
}

/* The ring of the host's threads is for the closing quiet alone. */
static enum perseus_status open_sources(struct perseus_device *device)
{
    uint32_t number = 0;
    const struct prs_ring consumer = prs_gpu_side_consumer(device->side);
    enum perseus_status status = prs_ring_create(TICKETS, &device->ring);
    status = status == PERSEUS_OK ? prs_tickets_create(TICKETS, &device->tickets) : status;
    if (status == PERSEUS_OK) {
        status = prs_sources_create(device->ring, device->tickets, &device->sources);
    }
    if (status == PERSEUS_OK) {
        status = prs_sources_add(device->sources, &consumer, device->side->answers, &number);
    }
    return status == PERSEUS_OK
               ? status
               : prs_fail(&device->log, status, "no ring of %u slots", device->attr.ring_slots);
}

static enum perseus_status open_all(struct perseus_device *device,
                                    const struct perseus_device_attr *attr)
{
    enum perseus_status status = take_attr(device, attr);
    status = status == PERSEUS_OK ? open_side(device) : status;
    status = status == PERSEUS_OK ? open_sources(device) : status;
    status = status == PERSEUS_OK ? open_link(device) : status;
    if (status == PERSEUS_OK) {
        status = add_window(device, device->side->heap, device->attr.heap_bytes);
    }
    device->remotes = calloc((size_t)attr->n_pes, sizeof(void *));
    device->contacts = calloc((size_t)attr->n_pes, sizeof *device->contacts);
    if (status == PERSEUS_OK && (device->remotes == NULL || device->contacts == NULL)) {
        status = prs_fail(&device->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", attr->n_pes);
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
        .heap = device->side->heap, .gpu = device->attr.gpu, .heap_bytes = device->attr.heap_bytes};
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
            status = prs_gpu_side_copy(device->side, &device->side->direct[pe],
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
    prs_gpu_side_close(device->side);
    free((void *)device->remotes);
    free(device->contacts);
    free(device);
}

/* ---- use ---- */

PRS_PUBLIC void *perseus_device_heap(const struct perseus_device *device)
{
    return device->side->heap;
}

PRS_PUBLIC void perseus_device_pe_get(const struct perseus_device *device,
                                      struct perseus_device_pe *out)
{
    prs_gpu_side_describe(device->side, out);
    out->direct = device->attr.pes_per_node > 0 ? device->side->direct : NULL;
    out->n_buffers = device->n_windows;
    memcpy(out->buffers, device->buffers, sizeof out->buffers);
}

PRS_PUBLIC enum perseus_status perseus_device_check(struct perseus_device *device)
{
    enum perseus_status status = prs_gpu_side_check(device->side);
    return status == PERSEUS_OK && device->thread != NULL ? prs_proxy_thread_status(device->thread)
                                                          : status;
}

/* The leader is one thread, which puts signals into the ring only. */
static bool is_direct(const struct perseus_device *device, int target)
{
    int per_node = device->attr.pes_per_node;
    return per_node > 0 && target / per_node == device->attr.my_pe / per_node;
}

PRS_PUBLIC enum perseus_status
perseus_device_group_create(struct perseus_device *device,
                            const struct perseus_device_group_attr *attr, uint32_t *out_numbers,
                            struct perseus_device_group **out)
{
    for (uint32_t i = 0; i < attr->n_members; i++) {
        if (is_direct(device, attr->targets[i])) {
            return prs_fail(&device->log, PERSEUS_INVALID_ARGUMENT,
                            "a signal group needs PEs of other nodes, and PE %d is of this one",
                            attr->targets[i]);
        }
    }
    return prs_gpu_group_create(device->side, attr, prs_orderer_vector_max(device->link.orderer),
                                out_numbers, out);
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
