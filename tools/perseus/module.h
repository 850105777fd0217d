/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h: commands in modules beside the program. They are loaded when they are asked for, so
 * that a command runs wherever its own libraries are, whatever the others need.
 */
#ifndef PRS_TOOLS_MODULE_H
#define PRS_TOOLS_MODULE_H

/* Loads `module` and runs its command `function`. PRS_EXIT_FAILED, after a message on stderr that
 * names the library which is missing, when it cannot be loaded. */
int prs_module_run(const char *module, const char *function, int argc, char **argv);

#endif
