/* SPDX-License-Identifier: Apache-2.0 */
#include "nvshmem/nv_options.h"

struct row {
    int commands; /* enum prs_nv_command, those that have it */
    struct prs_option option;
    size_t place; /* of the value in struct prs_nv_options */
};
#define PLACE(member) offsetof(struct prs_nv_options, member)

static const struct row rows[] = {
    {PRS_NV_ENV,
     {.name = "transport",
      .argument = "NAME",
      .help = "libfabric (default) or ibrc: the transport to stand in for",
      .parse = prs_parse_text},
     PLACE(transport)},
    {PRS_NV_PROFILE,
     {.name = "transport",
      .argument = "WHICH",
      .help = "there (default): the one the environment preloads, else NVSHMEM's own;\n"
              "stock: NVSHMEM's own; perseus; or the path of a file",
      .parse = prs_parse_text},
     PLACE(transport)},
    {PRS_NV_ENV,
     {.name = "provider",
      .argument = "NAME",
      .help = "libfabric provider: tcp, sockets, shm, verbs, cxi, efa\n"
              "(default: the best one found)",
      .parse = prs_parse_text},
     PLACE(provider)},
    {PRS_NV_ENV,
     {.name = "ordering",
      .argument = "MODE",
      .help = "auto (default), drain, drain-peer, deferred, nic-fence, fifo or counted;\n"
              "drain is what NVSHMEM does by itself",
      .parse = prs_parse_text},
     PLACE(ordering)},
    {PRS_NV_ENV,
     {.name = "heap",
      .argument = "KIND",
      .help = "device or system: where NVSHMEM puts the symmetric heap",
      .parse = prs_parse_text},
     PLACE(heap)},
    {PRS_NV_ENV,
     {.name = "nvshmem",
      .argument = "DIR",
      .help = "the NVSHMEM to be used (its lib folder, its prefix, or its wheel's root):\n"
              "its interface is checked (default: NVSHMEM_HOME, if that is set)",
      .parse = prs_parse_text},
     PLACE(nvshmem)},
    {PRS_NV_INSTALL,
     {.name = "undo", .help = "puts back what was there", .parse = prs_parse_on},
     PLACE(undo)},
    {PRS_NV_PROFILE,
     {.name = "out",
      .argument = "PREFIX",
      .help = "also writes PREFIX.json and PREFIX.trace.json (for Perfetto)",
      .parse = prs_parse_text},
     PLACE(prefix)},
    {PRS_NV_PROFILE,
     {.name = "records",
      .argument = "DIR",
      .help = "runs nothing, reports the records in DIR: of PEs on several hosts, say,\n"
              "which write them where PERSEUS_PROFILE_DIR says",
      .parse = prs_parse_text},
     PLACE(records)},
    {PRS_NV_ENV | PRS_NV_INSTALL | PRS_NV_PROFILE,
     {.name = "plugins",
      .argument = "DIR",
      .help = "where the built transports are (default: beside this program)",
      .parse = prs_parse_text},
     PLACE(plugins)},
};
#define ROWS (sizeof rows / sizeof rows[0])

static struct prs_command command_of(const struct prs_nv_command_text *text,
                                     struct prs_option *options, struct prs_nv_options *values)
{
    size_t n = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if ((rows[i].commands & (int)text->command) != 0) {
            options[n] = rows[i].option;
            options[n].target = (char *)values + rows[i].place;
            n++;
        }
    }
    return (struct prs_command){.name = text->name,
                                .operands = text->operands,
                                .summary = text->summary,
                                .options = options,
                                .n_options = n};
}

bool prs_nv_options_parse(const struct prs_nv_command_text *text, int argc, char **argv,
                          struct prs_nv_options *out, int *out_rest, int *out_exit)
{
    struct prs_option options[ROWS];
    *out = (struct prs_nv_options){.transport = NULL};
    const struct prs_command command = command_of(text, options, out);
    return prs_command_parse(&command, argc, argv, out_rest, out_exit);
}

int prs_nv_options_mistake(const struct prs_nv_command_text *text, const char *message,
                           const char *what)
{
    const struct prs_command command = {.name = text->name};
    return prs_command_mistake(&command, "%s%s", message, what);
}
