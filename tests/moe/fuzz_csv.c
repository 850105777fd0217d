/* Any bytes as a .csv trace: an answer, never a crash. */
#include <stddef.h>
#include <stdint.h>

#include "moe/routing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int32_t ids[3 * 4];
    const struct prs_routing routing = {.tokens = 3, .experts = 32, .top_k = 4, .ids = ids};
    prs_routing_read_csv(&routing, "fuzz.csv", data, size, NULL);
    return 0;
}
