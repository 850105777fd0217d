/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

bool prs_random_fill(void *out, size_t bytes)
{
    unsigned char *at = out;
    while (bytes > 0) {
        ssize_t n = getrandom(at, bytes, 0);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
    return true;
}
