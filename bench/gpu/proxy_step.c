/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy_step.h"

#include "base/clock.h"
#include "device/device.h"
#include "fabric/cudadma/cudadma.h"

/* The driver's calls that a proxy makes, and the time in them. One PE at a time. */
static struct prs_gpu_calls driver;
static uint64_t driver_ns;

static uint64_t now_ns(void)
{
    const struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

static int context_get(void **out)
{
    const uint64_t start = now_ns();
    int error = driver.context_get(out);
    driver_ns += now_ns() - start;
    return error;
}

static int event_record(void *event, void *stream)
{
    const uint64_t start = now_ns();
    int error = driver.event_record(event, stream);
    driver_ns += now_ns() - start;
    return error;
}

static int event_query(void *event)
{
    const uint64_t start = now_ns();
    int error = driver.event_query(event);
    driver_ns += now_ns() - start;
    return error;
}

static int copy_batch(uintptr_t *targets, uintptr_t *sources, size_t *sizes, size_t count,
                      struct prs_gpu_copy_attributes *attributes, size_t *first_of_attribute,
                      size_t n_attributes, void *stream)
{
    const uint64_t start = now_ns();
    int error = driver.copy_batch(targets, sources, sizes, count, attributes, first_of_attribute,
                                  n_attributes, stream);
    driver_ns += now_ns() - start;
    return error;
}

enum perseus_status proxy_connect(struct perseus_device *device,
                                  const struct perseus_device_contact *contacts)
{
    return prs_device_connect(device, contacts);
}

void proxy_watch_driver(struct perseus_device *device)
{
    struct prs_gpu_calls *call = &((struct prs_cudadma_fabric *)device->link.fabric)->cuda->call;
    driver = *call;
    call->context_get = context_get;
    call->event_record = event_record;
    call->event_query = event_query;
    call->copy_batch = driver.copy_batch != NULL ? copy_batch : NULL;
}

static enum perseus_status step(struct perseus_device *device, struct proxy_time *out)
{
    bool did = false;
    driver_ns = 0;
    const uint64_t start = now_ns();
    enum perseus_status status = prs_proxy_step(device->proxy, &did);
    const uint64_t took = now_ns() - start;
    if (did) {
        out->own_ns += took - driver_ns;
        out->driver_ns += driver_ns;
        out->steps++;
    } else {
        out->idle_ns += took;
    }
    return status;
}

enum perseus_status proxy_step_all(struct perseus_device *device, bool (*is_over)(void *),
                                   void *context, struct proxy_time *out)
{
    uint32_t ticket = 0;
    enum perseus_status status = prs_ticket_take(device->tickets, &ticket);
    *out = (struct proxy_time){0};
    while (status == PERSEUS_OK && !is_over(context)) {
        status = step(device, out);
    }
    const struct prs_desc quiet = {
        .kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS, .ticket = ticket};
    if (status == PERSEUS_OK) {
        status = prs_ring_push(device->ring, &quiet, NULL);
    }
    enum perseus_status quieted = PERSEUS_OK;
    while (status == PERSEUS_OK && !prs_ticket_poll(device->tickets, ticket, &quieted, NULL)) {
        status = step(device, out);
    }
    return status == PERSEUS_OK ? quieted : status;
}
