/* SPDX-License-Identifier: Apache-2.0 */
/* numa.h: which NUMA node a device is on. */
#ifndef PRS_BASE_NUMA_H
#define PRS_BASE_NUMA_H

/* Of the device with this folder in sysfs ("/sys/bus/pci/devices/0000:17:00.0"); -1: unknown. */
int prs_numa_node_of(const char *device_folder);

#endif
