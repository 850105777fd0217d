/* SPDX-License-Identifier: Apache-2.0 */
/* perseus info: which fabrics and providers are here, what each granted, and which ordering mode
 * would be used on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "command.h"
#include "gpus.h"
#include "kit/exit.h"
#include "fabric/registry.h"
#include "kit/json_out.h"
#include "kit/options.h"
#include "kit/probe.h"
#include "kit/table.h"
#include "kit/tool_log.h"
#ifdef PERSEUS_HAVE_LIBFABRIC
#include "fabric/libfabric/discover.h"
#endif

enum { ENTRIES_MAX = 64 };

/* One provider of one fabric. */
struct entry {
    char fabric[32], provider[64];
    struct prs_probe probe; /* error: why it cannot be used */
};

struct info {
    struct entry entries[ENTRIES_MAX];
    uint32_t n;
    struct prs_probe chosen; /* what a program gets with the same options and environment */
    const char *fabric, *provider;
    bool has_gpu_heap;
    struct prs_output json;
    uint64_t seed;
};

static void add_entry(struct info *info, const char *fabric, const char *provider,
                      enum perseus_status status, const struct prs_caps *caps, const char *reason)
{
    if (info->n == ENTRIES_MAX) {
        return;
    }
    struct entry *entry = &info->entries[info->n++];
    snprintf(entry->fabric, sizeof entry->fabric, "%s", fabric);
    snprintf(entry->provider, sizeof entry->provider, "%s", provider);
    snprintf(entry->probe.error, sizeof entry->probe.error, "%s", reason);
    entry->probe.status = status;
    if (status == PERSEUS_OK) {
        entry->probe.caps = *caps;
        prs_probe_modes(&entry->probe);
    }
}

#ifdef PERSEUS_HAVE_LIBFABRIC
/* Each in a child of its own: some end a process, or never come back. */
static void add_provider(void *user, const char *name)
{
    const struct perseus_attr asked = {.fabric = "libfabric", .provider = name};
    struct prs_probe probe;
    if (prs_probe_fabric(&asked, &probe) == PERSEUS_OK) {
        add_entry(user, "libfabric", name, probe.status, &probe.caps, probe.error);
    }
}

static void add_libfabric(struct info *info)
{
    prs_libfabric_names(add_provider, info);
}
#else
static void add_libfabric(struct info *info)
{
    (void)info;
}
#endif

/* Fabrics that are one provider by themselves. */
static void add_others(struct info *info)
{
    for (const struct prs_fabric_ops *const *ops = prs_fabric_registry(); *ops != NULL; ops++) {
        const struct perseus_attr asked = {.fabric = (*ops)->name};
        struct prs_probe probe;
        if (strcmp((*ops)->name, "libfabric") != 0 &&
            prs_probe_fabric(&asked, &probe) == PERSEUS_OK) {
            add_entry(info, (*ops)->name, probe.caps.provider, probe.status, &probe.caps,
                      probe.error);
        }
    }
}

/* ---- text ---- */

static const char *auto_name(const struct prs_probe *probe)
{
    return probe->auto_mode == PERSEUS_ORDERING_AUTO ? "none"
                                                     : perseus_ordering_name(probe->auto_mode);
}

static bool print_entries(const struct info *info)
{
    static const struct prs_table_column columns[] = {
        {"fabric", PRS_ALIGN_LEFT},     {"provider", PRS_ALIGN_LEFT},
        {"order", PRS_ALIGN_LEFT},      {"fence", PRS_ALIGN_LEFT},
        {"completion", PRS_ALIGN_LEFT}, {"immediate bits", PRS_ALIGN_RIGHT},
        {"woken by", PRS_ALIGN_LEFT},   {"auto picks", PRS_ALIGN_LEFT},
    };
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < info->n; i++) {
        const struct prs_probe *probe = &info->entries[i].probe;
        if (probe->status != PERSEUS_OK) {
            continue;
        }
        prs_table_cell(table, "%s", info->entries[i].fabric);
        prs_table_cell(table, "%s", info->entries[i].provider);
        prs_table_cell(table, "%s", probe->caps.order_word);
        prs_table_cell(table, "%s", probe->caps.fence_word);
        prs_table_cell(table, "%s", probe->caps.completion_word);
        prs_table_cell(table, "%u", probe->caps.immediate_bits);
        prs_table_cell(table, "%s", probe->caps.wake_word);
        prs_table_cell(table, "%s", auto_name(probe));
    }
    printf("What each fabric granted here:\n\n");
    bool is_printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    for (uint32_t i = 0; i < info->n; i++) {
        const struct entry *entry = &info->entries[i];
        if (entry->probe.status != PERSEUS_OK) {
            printf("not usable: %s%s%s: %s\n", entry->fabric, entry->provider[0] != '\0' ? " " : "",
                   entry->provider, entry->probe.error);
        }
    }
    return is_printed;
}

static void print_chosen(const struct info *info)
{
    const struct prs_probe *probe = &info->chosen;
    printf("\nA program started now%s uses provider %s",
           info->has_gpu_heap ? " with its heap in a GPU's memory" : "", probe->caps.provider);
    if (probe->auto_mode == PERSEUS_ORDERING_AUTO) {
        printf(", which can keep no ordering mode: %s\n", probe->auto_why);
    } else {
        printf(" and, with auto, the ordering mode %s: %s.\n", auto_name(probe), probe->auto_why);
    }
    printf("Its modes, cheapest first:\n");
    static const enum perseus_ordering cheapest_first[] = {
        PERSEUS_ORDERING_FIFO,     PERSEUS_ORDERING_NIC_FENCE,  PERSEUS_ORDERING_COUNTED,
        PERSEUS_ORDERING_DEFERRED, PERSEUS_ORDERING_DRAIN_PEER, PERSEUS_ORDERING_DRAIN};
    for (size_t i = 0; i < sizeof cheapest_first / sizeof cheapest_first[0]; i++) {
        const struct prs_probe_mode *mode = &probe->modes[cheapest_first[i]];
        printf("  %-10s  %s: %s\n", perseus_ordering_name(cheapest_first[i]),
               mode->is_kept ? "yes" : "no ", mode->why);
    }
}

/* ---- JSON ---- */

static json_t *modes_json(const struct prs_probe *probe)
{
    json_t *modes = json_array();
    for (int i = PERSEUS_ORDERING_AUTO + 1; i < PERSEUS_ORDERING_COUNT; i++) {
        json_array_append_new(modes, json_pack("{s:s, s:b, s:s}", "ordering",
                                               perseus_ordering_name((enum perseus_ordering)i),
                                               "supported", probe->modes[i].is_kept, "reason",
                                               probe->modes[i].why));
    }
    return modes;
}

static json_t *granted_json(const struct prs_caps *caps)
{
    static const char *const scopes[] = {[PRS_FENCE_NONE] = "none",
                                         [PRS_FENCE_LANE] = "lane",
                                         [PRS_FENCE_PEER] = "peer",
                                         [PRS_FENCE_ENDPOINT] = "endpoint"};
    return json_pack(
        "{s:{s:b, s:b, s:b, s:b}, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:I}", "order", "put_put",
        !!(caps->order & PRS_ORDER_PUT_PUT), "put_set", !!(caps->order & PRS_ORDER_PUT_SET),
        "put_atomic", !!(caps->order & PRS_ORDER_PUT_ATOMIC), "set_set",
        !!(caps->order & PRS_ORDER_SET_SET), "fence", scopes[caps->fence_scope], "completion",
        caps->completion == PRS_COMPLETION_DELIVERED ? "delivered" : "transmitted",
        "immediate_bits", (json_int_t)caps->immediate_bits, "inline_bytes",
        (json_int_t)caps->inline_bytes, "inflight_max", (json_int_t)caps->inflight_max, "batching",
        caps->batching, "target_must_progress", caps->target_must_progress, "wakes", caps->wakes,
        "numa_node", (json_int_t)caps->numa_node);
}

static json_t *entry_json(const struct entry *entry)
{
    const struct prs_probe *probe = &entry->probe;
    bool is_usable = probe->status == PERSEUS_OK;
    json_t *object = json_pack("{s:s, s:s, s:b, s:s}", "fabric", entry->fabric, "provider",
                               entry->provider, "usable", is_usable, "reason", probe->error);
    if (is_usable) {
        json_object_set_new(object, "granted", granted_json(&probe->caps));
        json_object_set_new(object, "auto", json_string(auto_name(probe)));
        json_object_set_new(object, "auto_reason", json_string(probe->auto_why));
        json_object_set_new(object, "modes", modes_json(probe));
    }
    return object;
}

static bool write_json(const struct info *info)
{
    if (info->json.path == NULL) {
        return true;
    }
    json_t *document = prs_json_begin("info", info->seed);
    json_t *fabrics = json_array();
    for (uint32_t i = 0; i < info->n; i++) {
        json_array_append_new(fabrics, entry_json(&info->entries[i]));
    }
    json_object_set_new(document, "provider", json_string(info->chosen.caps.provider));
    json_object_set_new(document, "ordering", json_string(auto_name(&info->chosen)));
    json_object_set_new(document, "ordering_reason", json_string(info->chosen.auto_why));
    json_object_set_new(document, "fabrics", fabrics);
    json_object_set_new(document, "gpus", prs_gpus_list());
    return prs_json_write(document, &info->json);
}

/* ---- the command ---- */

static bool run(struct info *info)
{
    if (!prs_output_check(&info->json, 1)) {
        return false;
    }
    const struct perseus_attr asked = {.fabric = info->fabric,
                                       .provider = info->provider,
                                       .heap_memory = info->has_gpu_heap ? PERSEUS_MEMORY_GPU
                                                                         : PERSEUS_MEMORY_HOST};
    add_libfabric(info);
    add_others(info);
    if (prs_probe_fabric(&asked, &info->chosen) != PERSEUS_OK) {
        return false;
    }
    bool is_printed = print_entries(info);
    json_t *gpus = prs_gpus_list();
    prs_gpus_print(gpus);
    json_decref(gpus);
    if (info->chosen.status != PERSEUS_OK) {
        fprintf(stderr, "perseus: %s\n", info->chosen.error);
        return false;
    }
    print_chosen(info);
    return write_json(info) && is_printed;
}

int prs_tool_info(int argc, char **argv)
{
    struct info *info = calloc(1, sizeof *info);
    if (info == NULL) {
        fprintf(stderr, "perseus: out of memory\n");
        return PRS_EXIT_FAILED;
    }
    info->json.option = "--json";
    const struct prs_option options[] = {
        {"fabric", "NAME", "look closer at this one: libfabric, verbs, cudadma, loopback",
         prs_parse_text, &info->fabric},
        {"provider", "NAME", "and this libfabric provider: tcp, sockets, shm, ...", prs_parse_text,
         &info->provider},
        {"gpu-heap", NULL, "for programs whose heap is a GPU's memory", prs_parse_on,
         &info->has_gpu_heap},
        {"json", "FILE", "write everything there", prs_parse_text, &info->json.path},
        {"seed", "N", "goes to the JSON file; nothing here is random", prs_parse_seed, &info->seed},
    };
    const struct prs_command command = {
        .name = "perseus info",
        .summary = "Shows the fabrics and libfabric providers of this machine, what each granted\n"
                   "when asked, and the ordering mode that auto picks on it, with the reason.",
        .options = options,
        .n_options = sizeof options / sizeof options[0],
    };
    int exit_code = PRS_EXIT_OK;
    if (prs_command_parse(&command, argc, argv, NULL, &exit_code)) {
        exit_code = run(info) ? PRS_EXIT_OK : PRS_EXIT_FAILED;
    }
    free(info);
    return exit_code;
}
