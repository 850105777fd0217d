/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/traits.h"

#include <stddef.h>

#include "fabric/libfabric/provider/choose.h"

static const struct {
    const char *provider;
    uint32_t traits;
} known[] = {
    {"sockets", PRS_LF_FENCES_SLOWLY | PRS_LF_COPIES_WORDS | PRS_LF_PEEKS},
    {"cxi", PRS_LF_FENCES_ENDPOINT | PRS_LF_REFUSES_IMMEDIATE | PRS_LF_HAS_DOORBELL},
    {"efa", PRS_LF_HAS_DOORBELL},
    {"efa-direct", PRS_LF_HAS_DOORBELL},
    {"shm",
     PRS_LF_REFUSES_EMPTY | PRS_LF_SPOILS_ATOMICS | PRS_LF_RETURNS_IN_LINE | PRS_LF_COPIES_WORDS},
    {"tcp;ofi_rxm",
     PRS_LF_SPLITS_WORDS | PRS_LF_ACKNOWLEDGES | PRS_LF_WAKES_FOR_ALL | PRS_LF_GATHERS},
    {"tcp", PRS_LF_SPLITS_WORDS | PRS_LF_ACKNOWLEDGES},
    {"net", PRS_LF_SPLITS_WORDS | PRS_LF_ACKNOWLEDGES | PRS_LF_WAKES_FOR_EVER},
    {"udp;ofi_rxd", PRS_LF_BREAKS_FETCHES},
};

uint32_t prs_lf_traits(const char *provider)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (prs_lf_provider_is(provider, known[i].provider)) {
            return known[i].traits;
        }
    }
    return 0;
}
