/* SPDX-License-Identifier: Apache-2.0 */
/* device/device.h: the inside of a device PE. */
#ifndef PRS_DEVICE_DEVICE_H
#define PRS_DEVICE_DEVICE_H

#include <perseus/device.h>

#include "gpu/side.h"
#include "link/link.h"
#include "proxy/thread.h"

/* What a PE tells the others, as bytes of a struct perseus_device_contact. */
struct prs_device_contact {
    uint32_t address_bytes; /* directly before the address, as prs_orderer_set_directory wants it */
    unsigned char address[PRS_ORDERER_ADDRESS_MAX];
    uint32_t window_bytes;
    unsigned char window[PRS_WINDOW_BLOB_MAX];
    int gpu;
    uint64_t heap_bytes;
    unsigned char *heap;
};

struct perseus_device {
    struct perseus_device_attr attr;
    struct prs_log log;
    struct prs_gpu_side *side;
    struct prs_link link;
    uint32_t n_windows; /* the heap, then the registered buffers */
    struct prs_window *windows[PERSEUS_DEVICE_BUFFERS_MAX];
    struct perseus_device_buffer buffers[PERSEUS_DEVICE_BUFFERS_MAX];
    struct prs_ring *ring;
    struct prs_tickets *tickets;
    struct prs_sources *sources;
    struct prs_proxy *proxy;
    struct prs_proxy_thread *thread;
    struct prs_device_contact *contacts;
    struct prs_window_remote **remotes; /* heaps by PE, imported by the proxy on first use */
};

/* perseus_device_start but for the thread: `proxy` is there, for the caller to step. */
enum perseus_status prs_device_connect(struct perseus_device *device,
                                       const struct perseus_device_contact *contacts);

#endif
