/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an .npy trace: an answer and a message, never a crash. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "capture.h"
#include "model/routing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int32_t ids[3 * 4];
    const struct prs_routing routing = {.tokens = 3, .experts = 32, .top_k = 4, .ids = ids};
    struct capture capture;
    capture_init(&capture);
    if (prs_routing_read_npy(&routing, "fuzz.npy", data, size, 1, &capture.log) != PERSEUS_OK &&
        capture.count == 0) {
        abort();
    }
    return 0;
}
