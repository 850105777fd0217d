/* SPDX-License-Identifier: Apache-2.0 */
/* perseus unique-id: what the PEs of a job on several hosts need to find each other. */
#include "bootstrap/unique_id.h"

#include <stdio.h>

#include "base/env.h"
#include "base/local_address.h"
#include "command.h"
#include "kit/exit.h"
#include "kit/options.h"
#include "kit/tool_log.h"

int prs_tool_unique_id(int argc, char **argv)
{
    const char *bind = prs_env_text(PRS_ENV_BIND);
    const struct prs_option table[] = {
        {"bind", "WHERE",
         "where PE 0 listens: an address of this host, an interface (eth0) or\n"
         "a subnet (10.1.0.0/16) (default: PERSEUS_BIND, else 127.0.0.1)",
         prs_parse_text, &bind},
    };
    const struct prs_command command = {
        .name = "perseus unique-id",
        .summary =
            "Prints a unique id for one job, on the host of its PE 0. Start every PE with it:\n\n"
            "  PERSEUS_UNIQUE_ID=ID PERSEUS_RANK=0 PERSEUS_SIZE=2 ./program    # on this host\n"
            "  PERSEUS_UNIQUE_ID=ID PERSEUS_RANK=1 PERSEUS_SIZE=2 ./program    # on any\n\n"
            "and with PERSEUS_BIND, so that they can reach each other. It holds the job's\n"
            "secret: treat it as a password.",
        .options = table,
        .n_options = sizeof table / sizeof *table,
    };
    int exit_code;
    if (!prs_command_parse(&command, argc, argv, NULL, &exit_code)) {
        return exit_code;
    }
    const struct prs_log log = prs_tool_log();
    char address[PRS_LOCAL_ADDRESS_BYTES], text[PRS_UNIQUE_ID_TEXT_BYTES];
    struct perseus_unique_id id;
    if (prs_local_address(bind, &log, address) != PERSEUS_OK) {
        return PRS_EXIT_FAILED;
    }
    enum perseus_status status = perseus_unique_id_create(address, &id);
    if (status != PERSEUS_OK) {
        fprintf(stderr,
                "perseus unique-id: cannot listen at %s: %s; is it an address of this host?\n",
                address, perseus_status_string(status));
        return PRS_EXIT_FAILED;
    }
    prs_unique_id_format(&id, text);
    puts(text);
    return PRS_EXIT_OK;
}
