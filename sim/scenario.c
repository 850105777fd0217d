/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c: scenario files, and the presets among them. */
#include "sim/platform.h"

#include <stdio.h>
#include <string.h>

#include <libconfig.h>

#include "sim/presets.h"

#define DEPTH_MAX 4

const char *sim_preset_name(uint32_t index)
{
    return index < sim_presets_count ? sim_presets[index].name : NULL;
}

const char *sim_preset_text(const char *name)
{
    for (uint32_t i = 0; i < sim_presets_count; i++) {
        if (strcmp(sim_presets[i].name, name) == 0) {
            return sim_presets[i].text;
        }
    }
    return NULL;
}

static enum perseus_status wrong(const struct prs_log *log, const char *file,
                                 const config_setting_t *setting, const char *what)
{
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "%s:%u: %s: %s", file,
                    config_setting_source_line(setting), config_setting_name(setting), what);
}

static enum perseus_status read_ordering(const char *file, const config_setting_t *setting,
                                         const struct prs_log *log, enum perseus_ordering *out)
{
    const char *text = config_setting_get_string(setting);
    for (int mode = PERSEUS_ORDERING_DRAIN; text != NULL && mode <= PERSEUS_ORDERING_COUNTED;
         mode++) {
        if (strcmp(perseus_ordering_name((enum perseus_ordering)mode), text) == 0) {
            *out = (enum perseus_ordering)mode;
            return PERSEUS_OK;
        }
    }
    return wrong(log, file, setting, "an ordering mode, as \"drain\"");
}

static enum perseus_status read_value(const char *file, const char *group,
                                      const config_setting_t *setting, const struct prs_log *log,
                                      struct sim_platform *out)
{
    char name[2 * SIM_NAME_MAX];
    snprintf(name, sizeof name, "%s.%s", group, config_setting_name(setting));
    if (strcmp(name, "cluster.vanilla") == 0) {
        return read_ordering(file, setting, log, &out->vanilla);
    }
    if (strcmp(name, "cluster.perseus") == 0) {
        return read_ordering(file, setting, log, &out->perseus);
    }
    double value;
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_INT:
        value = config_setting_get_int(setting);
        break;
    case CONFIG_TYPE_INT64:
        value = (double)config_setting_get_int64(setting);
        break;
    case CONFIG_TYPE_FLOAT:
        value = config_setting_get_float(setting);
        break;
    case CONFIG_TYPE_BOOL:
        value = config_setting_get_bool(setting);
        break;
    default:
        return wrong(log, file, setting, "must be a number, true or false");
    }
    enum perseus_status status = sim_platform_set(out, name, value, log);
    return status == PERSEUS_OK ? status
                                : wrong(log, file, setting, "not a field, or out of range");
}

static enum perseus_status read_group(const char *file, const config_setting_t *group,
                                      const struct prs_log *log, struct sim_platform *out)
{
    const char *name = config_setting_name(group);
    bool known =
        strcmp(name, "fabric") == 0 || strcmp(name, "gpu") == 0 || strcmp(name, "cluster") == 0;
    if (!known || !config_setting_is_group(group)) {
        return wrong(log, file, group, "expected the groups fabric, gpu and cluster");
    }
    enum perseus_status status = PERSEUS_OK;
    for (int i = 0; i < config_setting_length(group) && status == PERSEUS_OK; i++) {
        status = read_value(file, name, config_setting_get_elem(group, (unsigned)i), log, out);
    }
    return status;
}

static enum perseus_status load(const char *source, int depth, const struct prs_log *log,
                                struct sim_platform *out);

static enum perseus_status read_config(const config_t *config, const char *file, int depth,
                                       const struct prs_log *log, struct sim_platform *out)
{
    const config_setting_t *root = config_root_setting(config);
    const char *base = NULL;
    enum perseus_status status = PERSEUS_OK;
    if (config_lookup_string(config, "based_on", &base) == CONFIG_TRUE) {
        status = load(base, depth + 1, log, out);
    }
    for (int i = 0; i < config_setting_length(root) && status == PERSEUS_OK; i++) {
        const config_setting_t *group = config_setting_get_elem(root, (unsigned)i);
        if (strcmp(config_setting_name(group), "based_on") != 0) {
            status = read_group(file, group, log, out);
        }
    }
    return status;
}

static enum perseus_status load(const char *source, int depth, const struct prs_log *log,
                                struct sim_platform *out)
{
    if (depth > DEPTH_MAX) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s: more than %d files based on each other; is it a circle?", source,
                        DEPTH_MAX);
    }
    const char *text = sim_preset_text(source);
    config_t config;
    config_init(&config);
    config_set_auto_convert(&config, CONFIG_TRUE);
    bool is_read = text != NULL ? config_read_string(&config, text) == CONFIG_TRUE
                                : config_read_file(&config, source) == CONFIG_TRUE;
    enum perseus_status status = PERSEUS_OK;
    if (!is_read && config_error_type(&config) == CONFIG_ERR_FILE_IO) {
        status = prs_fail(log, PERSEUS_NOT_FOUND,
                          "%s is no preset, and no file that can be read; perseus sim --presets "
                          "lists the presets",
                          source);
    } else if (!is_read) {
        status = prs_fail(log, PERSEUS_INVALID_ARGUMENT, "%s:%d: %s", source,
                          config_error_line(&config), config_error_text(&config));
    } else {
        status = read_config(&config, source, depth, log, out);
    }
    config_destroy(&config);
    return status;
}

/* What a field is that neither a file nor what it is based on sets. */
static const struct sim_platform neutral = {
    .fabric = {.line_gbit_s = 100, .inflight = 1024, .tail_exponent = 1},
    .gpu =
        {.tflop_s = 100, .memory_gbyte_s = 1000, .tile_rows = 128, .ctas = 64, .link_gbyte_s = 100},
    .pes_per_node = 8,
    .batch = 8,
    .vanilla = PERSEUS_ORDERING_DRAIN,
    .perseus = PERSEUS_ORDERING_NIC_FENCE,
};

enum perseus_status sim_platform_load(const char *preset_or_path, const struct prs_log *log,
                                      struct sim_platform *out)
{
    *out = neutral;
    snprintf(out->name, sizeof out->name, "%s", preset_or_path);
    return load(preset_or_path, 0, log, out);
}
