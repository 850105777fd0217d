/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.h: what the transport that is not ours is known by. */
#ifndef FOREIGN_H
#define FOREIGN_H

#define FOREIGN_FENCE_NS 200000

#endif
