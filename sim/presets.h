/* SPDX-License-Identifier: Apache-2.0 */
/* presets.h: the files of presets/, built in. */
#ifndef SIM_PRESETS_H
#define SIM_PRESETS_H

#include <stdint.h>

struct sim_preset {
    const char *name, *text;
};
extern const struct sim_preset sim_presets[];
extern const uint32_t sim_presets_count;

#endif
