/* SPDX-License-Identifier: Apache-2.0 */
/* proxy_step.h: a device PE's proxy, stepped by hand, and where its time goes. */
#ifndef BENCH_GPU_PROXY_STEP_H
#define BENCH_GPU_PROXY_STEP_H

#include <perseus/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct proxy_time {
    uint64_t own_ns;    /* in steps that moved something, without the driver's calls */
    uint64_t driver_ns; /* in the driver's calls of those steps */
    uint64_t idle_ns;   /* in steps that moved nothing */
    uint32_t steps;     /* that moved something */
};

/* Instead of perseus_device_start: without a thread. */
enum perseus_status proxy_connect(struct perseus_device *device,
                                  const struct perseus_device_contact *contacts);
/* From here on the time of this PE's driver calls counts. */
void proxy_watch_driver(struct perseus_device *device);
/* Steps until `is_over` says that all is in the ring, and then until a quiet behind it is
 * complete. */
enum perseus_status proxy_step_all(struct perseus_device *device, bool (*is_over)(void *),
                                   void *context, struct proxy_time *out);

#ifdef __cplusplus
}
#endif
#endif
