/* SPDX-License-Identifier: Apache-2.0 */
/* A program that loads the library, opens PEs and unloads it again without finalizing them: their
 * threads go on, so their code must. argv[1]: the library. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <perseus/perseus.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

enum { PES = 2, ROUNDS = 3 };

struct library {
    void *handle;
    enum perseus_status (*init)(const struct perseus_attr *, struct perseus_pe **);
    enum perseus_status (*make_id)(const char *, struct perseus_unique_id *);
};

struct pe {
    const struct library *library;
    struct perseus_attr attr;
    pthread_t thread;
};

static struct library load(const char *path)
{
    struct library library = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (library.handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&library.init = dlsym(library.handle, "perseus_init_attr");
    *(void **)&library.make_id = dlsym(library.handle, "perseus_unique_id_create");
    CHECK(library.init != NULL && library.make_id != NULL);
    return library;
}

static void *open_pe(void *context)
{
    struct pe *pe = context;
    struct perseus_pe *opened = NULL;
    CHECK(pe->library->init(&pe->attr, &opened) == PERSEUS_OK);
    return NULL; /* nobody will finalize it */
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct library library = load(argv[1]);
        struct perseus_unique_id id;
        struct pe pes[PES];
        CHECK(library.make_id("127.0.0.1", &id) == PERSEUS_OK);
        for (int rank = 0; rank < PES; rank++) {
            pes[rank] = (struct pe){.library = &library,
                                    .attr = {.fabric = "loopback",
                                             .heap_bytes = 1 << 20,
                                             .bootstrap = PERSEUS_BOOTSTRAP_TCP,
                                             .unique_id = &id,
                                             .rank = rank,
                                             .size = PES,
                                             .pes_per_node = 1}};
            CHECK(pthread_create(&pes[rank].thread, NULL, open_pe, &pes[rank]) == 0);
        }
        for (int rank = 0; rank < PES; rank++) {
            pthread_join(pes[rank].thread, NULL);
        }
        dlclose(library.handle);
        usleep(20000); /* their proxies step, and the hub serves */
    }
    return 0;
}
