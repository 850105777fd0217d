/* SPDX-License-Identifier: Apache-2.0 */
/* harness_test.c: the whole contract against the built files, all interfaces, every ordering mode,
 * over fabrics that reorder and refuse all that they may. Arguments: a lane (see lanes), and
 * optionally a seed and one of the works. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "traffic.h"

struct lane {
    const char *name;
    const char *fabric, *provider, *ordering, *adversary;
    bool processes;
    int rounds;
    bool device; /* heaps in (fake) device memory */
};

#define SHUFFLED "seed=%llu,reorder=1,unordered=15,again=0.1"

static const struct lane lanes[] = {
    {"fifo", "loopback", "", "fifo", "seed=%llu,reorder=1,again=0.1", false, 12, false},
    {"fifo-fence", "loopback", "", "fifo", "seed=%llu,reorder=1,again=0.1", false, 12, false},
    {"staged", "loopback", "", "fifo", "seed=%llu,reorder=1,again=0.1", false, 12, false},
    {"staged-deferred", "loopback", "", "deferred", SHUFFLED, false, 12, false},
    {"staged-drain", "loopback", "", "drain", SHUFFLED, false, 6, false},
    {"nic-fence", "loopback", "", "nic-fence", SHUFFLED, false, 12, false},
    {"deferred", "loopback", "", "deferred", SHUFFLED, false, 12, false},
    {"counted", "loopback", "", "counted", SHUFFLED, false, 12, false},
    {"drain", "loopback", "", "drain", SHUFFLED, false, 8, false},
    {"drain-peer", "loopback", "", "drain-peer", SHUFFLED, false, 8, false},
    {"tcp", "libfabric", "tcp", "auto", "", true, 6, false},
    {"tcp-direct", "libfabric", "tcp", "auto", "", true, 4, false},
    {"tcp-drain", "libfabric", "tcp", "drain", "", true, 4, false},
    {"sockets", "libfabric", "sockets", "nic-fence", "", true, 4, false},
    {"shm", "libfabric", "shm", "auto", "", true, 6, false},
    {"device", "loopback", "", "fifo", "seed=%llu,again=0.1", false, 6, true},
    {"device-nic-fence", "loopback", "", "nic-fence", SHUFFLED, false, 6, true},
    {"device-counted", "loopback", "", "counted", SHUFFLED, false, 6, true},
    {"device-drain", "loopback", "", "drain", SHUFFLED, false, 3, true},
    {"device-tcp", "libfabric", "tcp", "auto", "", true, 4, true},
};

struct work {
    const char *name;
    host_body body;
};
static const struct work works[] = {
    {"storm", traffic_storm},   {"flags", traffic_flags}, {"growing", traffic_growing},
    {"groups", traffic_groups}, {"order", traffic_order}, {"atomics", traffic_atomics},
    {"shapes", traffic_shapes}, {"user", traffic_user},
};

static void set(const char *name, const char *value)
{
    if (value[0] == '\0') {
        unsetenv(name);
    } else {
        setenv(name, value, 1);
    }
}

static void enter(struct host_pe *pe, void *argument)
{
    (void)pe;
    (void)argument;
    fake_cuda_enter();
}

static const char *stage_host_of(const struct lane *lane)
{
    return strncmp(lane->name, "staged", 6) == 0   ? "1"
           : strcmp(lane->name, "tcp-direct") == 0 ? "0"
                                                   : "";
}

static int run_lane(const struct lane *lane, uint64_t seed, const char *only)
{
    char adversary[128];
    snprintf(adversary, sizeof adversary, lane->adversary, (unsigned long long)seed);
    set("PERSEUS_FABRIC", lane->fabric);
    set("PERSEUS_PROVIDER", lane->provider);
    set("PERSEUS_ORDERING", lane->ordering);
    set("PERSEUS_ADVERSARY", adversary);
    set("PERSEUS_STAGE_HOST", stage_host_of(lane));
    set("PERSEUS_OFFER_FENCE", strcmp(lane->name, "fifo-fence") == 0 ? "1" : "");
    set("PERSEUS_STAGE_BYTES", "64K"); /* small: it wraps and fills */
    int failures = 0;
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        if (only != NULL && strcmp(only, works[i].name) != 0) {
            continue;
        }
        for (int major = PRS_INTERFACE_FIRST; major <= PRS_INTERFACE_LAST; major++) {
            if (lane->processes && (i + i / 5 + (size_t)major + 2) % 5 > 1) {
                continue; /* real providers take a second to start: two interfaces each will do */
            }
            struct traffic traffic = {
                .seed = seed,
                .rounds = lane->rounds,
                /* Staging, and connections in order, cannot but keep them. */
                .keeps_puts = lane->device || strcmp(stage_host_of(lane), "1") == 0 ||
                              strcmp(lane->ordering, "fifo") == 0,
            };
            const struct host_spec spec = {
                .file = host_file(major),
                .version = major * 10000,
                .n_pes = 3,
                .processes = lane->processes,
                .drops_fences = true,
                .prepare = lane->device ? enter : NULL,
                .cuda = lane->device ? fake_cuda_table(major) : NULL,
                .memory = lane->device ? &fake_cuda_memory : NULL,
                .body = works[i].body,
                .argument = &traffic,
            };
            int failed = host_run(&spec);
            if (failed != 0) {
                fprintf(stderr, "FAILED: %s, interface %d.0, lane %s, seed %llu\n", works[i].name,
                        major, lane->name, (unsigned long long)seed);
            }
            failures += failed;
        }
    }
    return failures;
}

int main(int argc, char **argv)
{
    /* Loaded for good: it keeps what it allocated once in globals, which LeakSanitizer would
     * miss. */
    dlopen("libfabric.so.1", RTLD_NOW | RTLD_NODELETE);
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    for (size_t i = 0; argc > 1 && i < sizeof lanes / sizeof lanes[0]; i++) {
        if (strcmp(argv[1], lanes[i].name) == 0) {
            return run_lane(&lanes[i], seed, argc > 3 ? argv[3] : NULL) == 0 ? 0 : 1;
        }
    }
    fprintf(stderr, "usage: %s LANE [SEED [WORK]]\n", argv[0]);
    return 2;
}
