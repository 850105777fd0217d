/* SPDX-License-Identifier: Apache-2.0 */
/* nv_options.h: the options of the nvshmem commands, from one table. */
#ifndef PRS_TOOLS_NV_OPTIONS_H
#define PRS_TOOLS_NV_OPTIONS_H

#include "kit/options.h"

enum prs_nv_command { PRS_NV_ENV = 1, PRS_NV_INSTALL = 2, PRS_NV_PROFILE = 4 };

/* NULL and false: not given. */
struct prs_nv_options {
    const char *transport; /* env: the one to stand in for; profile: the one to wrap */
    const char *provider, *ordering, *heap;
    const char *plugins, *nvshmem;
    const char *prefix, *records;
    bool undo;
};

/* What a command says of itself; its options are those of the table that are its own. */
struct prs_nv_command_text {
    enum prs_nv_command command;
    const char *name, *operands, *summary;
};

/* As prs_command_parse. */
bool prs_nv_options_parse(const struct prs_nv_command_text *text, int argc, char **argv,
                          struct prs_nv_options *out, int *out_rest, int *out_exit);
/* As prs_command_mistake. */
int prs_nv_options_mistake(const struct prs_nv_command_text *text, const char *message,
                           const char *what);

#endif
