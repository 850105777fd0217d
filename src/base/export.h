/* SPDX-License-Identifier: Apache-2.0 */
/* export.h: marks what the shared library exports; everything else is hidden. */
#ifndef PRS_BASE_EXPORT_H
#define PRS_BASE_EXPORT_H

#define PRS_PUBLIC __attribute__((visibility("default")))

#endif
