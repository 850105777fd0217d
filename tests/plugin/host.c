/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 30000

bool host_check(struct host_pe *pe, bool holds, const char *text, const char *file, int line)
{
    if (!holds && atomic_fetch_add(&pe->failures, 1) < 5) {
        fprintf(stderr, "PE %d: %s:%d: %s\n", pe->rank, file, line, text);
    }
    return holds;
}

/* ---- bootstrap ---- */

static struct host_pe *pe_of(struct prs_abi_bootstrap *self)
{
    return self->comm_state;
}

static int allgather(const void *send, void *receive, int bytes, struct prs_abi_bootstrap *self)
{
    struct host_pe *pe = pe_of(self);
    char block[RENDEZVOUS_BLOCK_MAX];
    if (bytes > RENDEZVOUS_BLOCK_MAX) {
        return 1;
    }
    memcpy(block, send, (size_t)bytes);
    if (pe->spec->bootstrap_fails) {
        return 7;
    }
    if (pe->spec->tamper != NULL) {
        pe->spec->tamper(pe, block, (size_t)bytes);
    }
    return rendezvous_allgather(pe->meeting, self->pg_rank, block, receive, bytes);
}

static int barrier(struct prs_abi_bootstrap *self)
{
    return rendezvous_barrier(pe_of(self)->meeting);
}

static void fill_bootstrap(struct host_pe *pe)
{
    pe->bootstrap = (struct prs_abi_bootstrap){
        .version = 1,
        .pg_rank = pe->rank,
        .pg_size = pe->n_pes,
        .node_pe = pe->rank,
        .node_pes = pe->n_pes,
        .allgather = allgather,
        .barrier = barrier,
        .comm_state = pe,
    };
}

/* ---- memory ---- */

static void *plain_allocate(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void plain_release(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

static void *plain_view(void *memory)
{
    return memory;
}

static void plain_pin(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}

static void plain_unpin(void *memory)
{
    (void)memory;
}

static int no_faults(void)
{
    return 0;
}

static const struct host_memory plain_memory = {plain_allocate, plain_release, plain_view,
                                                plain_pin,      plain_unpin,   no_faults};

static const struct host_memory *memory_of(const struct host_pe *pe)
{
    return pe->spec->memory != NULL ? pe->spec->memory : &plain_memory;
}

static unsigned char *own_blob(struct host_pe *pe, int chunk)
{
    return pe->blobs +
           ((size_t)chunk * (size_t)pe->n_pes + (size_t)pe->rank) * PRS_ABI_HANDLE_BYTES;
}

/* One chunk, as heap growth does it: register, then gather everybody's blob. */
static bool register_chunk(struct host_pe *pe, int chunk)
{
    unsigned char blob[PRS_ABI_HANDLE_BYTES] = {0};
    int failed = host_register_memory(pe, pe->heap + (size_t)chunk * HOST_CHUNK_BYTES,
                                      HOST_CHUNK_BYTES, false, blob);
    static const unsigned char zeroes[PRS_ABI_HANDLE_BYTES];
    return CHECK(pe, failed == 0) && CHECK(pe, memcmp(blob, zeroes, sizeof blob) != 0) &&
           CHECK(pe, rendezvous_allgather(pe->meeting, pe->rank, blob,
                                          pe->blobs + (size_t)chunk * (size_t)pe->n_pes *
                                                          PRS_ABI_HANDLE_BYTES,
                                          PRS_ABI_HANDLE_BYTES) == 0);
}

static bool set_up_heap(struct host_pe *pe)
{
    pe->heap = memory_of(pe)->allocate(HOST_HEAP_BYTES);
    pe->blobs = calloc((size_t)HOST_CHUNKS * (size_t)pe->n_pes, PRS_ABI_HANDLE_BYTES);
    pe->heaps = calloc((size_t)pe->n_pes, sizeof *pe->heaps);
    if (!CHECK(pe, pe->heap != NULL && pe->blobs != NULL && pe->heaps != NULL)) {
        return false;
    }
    pe->view = memory_of(pe)->view(pe->heap);
    memset(pe->view, 0, HOST_HEAP_BYTES);
    bool good = CHECK(pe, rendezvous_allgather(pe->meeting, pe->rank, &pe->heap, pe->heaps,
                                               sizeof pe->heap) == 0);
    for (int chunk = 0; chunk < HOST_CHUNKS && good; chunk++) {
        good = register_chunk(pe, chunk);
    }
    return good;
}

static void tear_down_heap(struct host_pe *pe)
{
    for (int chunk = 0; pe->blobs != NULL && chunk < HOST_CHUNKS; chunk++) {
        struct {
            char odd;
            unsigned char bytes[PRS_ABI_HANDLE_BYTES];
        } copy; /* the host's copy lies anywhere */
        memcpy(copy.bytes, own_blob(pe, chunk), sizeof copy.bytes);
        uint64_t first;
        memcpy(&first, copy.bytes, sizeof first);
        if (first != 0) {
            CHECK(pe, host_release_memory(pe, copy.bytes) == 0);
        }
    }
}

static void free_heap(struct host_pe *pe)
{
    if (pe->heap != NULL) {
        memory_of(pe)->release(pe->heap, HOST_HEAP_BYTES);
    }
    free(pe->blobs);
    free(pe->heaps);
}

void host_register_buffer(struct host_pe *pe, void *buffer, size_t bytes, unsigned char *blob)
{
    memory_of(pe)->pin(buffer, bytes);
    CHECK(pe, host_register_memory(pe, buffer, bytes, true, blob) == 0);
}

void host_release_buffer(struct host_pe *pe, void *buffer, unsigned char *blob)
{
    CHECK(pe, host_release_memory(pe, blob) == 0);
    memory_of(pe)->unpin(buffer);
}

/* ---- proxy thread ---- */

static void *proxy_main(void *argument)
{
    struct host_pe *pe = argument;
    pthread_mutex_lock(&pe->lock);
    while (!pe->stop) {
        host_body command = pe->command;
        pthread_mutex_unlock(&pe->lock);
        if (command != NULL) {
            command(pe, pe->command_argument);
        }
        CHECK(pe, host_progress(pe) == 0);
        if (command == NULL) {
            usleep(10); /* NVSHMEM spins; the harness shares two cores */
        }
        pthread_mutex_lock(&pe->lock);
        if (command != NULL) {
            pe->command = NULL;
            pthread_cond_broadcast(&pe->changed);
        }
    }
    pthread_mutex_unlock(&pe->lock);
    return NULL;
}

void host_on_proxy(struct host_pe *pe, host_body kernel, void *argument)
{
    pthread_mutex_lock(&pe->lock);
    pe->command = kernel;
    pe->command_argument = argument;
    while (pe->command != NULL) {
        pthread_cond_wait(&pe->changed, &pe->lock);
    }
    pthread_mutex_unlock(&pe->lock);
}

static void stop_proxy(struct host_pe *pe)
{
    pthread_mutex_lock(&pe->lock);
    pe->stop = true;
    pthread_mutex_unlock(&pe->lock);
    pthread_join(pe->proxy, NULL);
}

/* ---- a PE's life ---- */

/* ThreadSanitizer does not see the loader's lock, so it gets one that it sees. */
static pthread_mutex_t loader = PTHREAD_MUTEX_INITIALIZER;

static void unload(void *library)
{
    pthread_mutex_lock(&loader);
    dlclose(library);
    pthread_mutex_unlock(&loader);
}

typedef int (*init_fn)(void **out, const struct prs_abi_cuda_table *cuda, int version);

const char *host_file(int major)
{
    static const char *const files[] = {
        "nvshmem_transport_libfabric.so.3", "nvshmem_transport_ibrc.so.4",
        "nvshmem_transport_libfabric.so.5", "nvshmem_transport_ibrc.so.6",
        "nvshmem_transport_libfabric.so.7"};
    return files[major - PRS_INTERFACE_FIRST];
}

void *host_open(const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", PLUGIN_DIRECTORY, file);
    if (getenv("PERSEUS_HARNESS_PRELOADED") != NULL) {
        return dlopen(file, RTLD_NOW);
    }
    void *preloaded = dlopen(path, RTLD_NOW);
    const char *slash = strrchr(file, '/');
    const char *soname = slash != NULL ? slash + 1 : file;
    void *library = preloaded != NULL ? dlopen(soname, RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
    }
    if (preloaded != NULL) {
        dlclose(preloaded);
    }
    return library;
}

static bool load(struct host_pe *pe)
{
    pthread_mutex_lock(&loader);
    pe->library = host_open(pe->spec->file);
    pthread_mutex_unlock(&loader);
    if (!CHECK(pe, pe->library != NULL)) {
        return false;
    }
    init_fn init;
    void *symbol = dlsym(pe->library, "nvshmemt_init");
    memcpy(&init, &symbol, sizeof init);
    return CHECK(pe, init != NULL) &&
           CHECK(pe, init(&pe->transport, pe->spec->cuda, pe->spec->version) == 0);
}

static bool start(struct host_pe *pe)
{
    if (!load(pe)) {
        return false;
    }
    host_adopt(pe);
    for (int target = 0; target < pe->n_pes; target++) {
        CHECK(pe, host_can_reach_peer(pe, target, &pe->cap[target]) == 0);
        CHECK(pe, pe->cap[target] == 112);
    }
    int failed = host_connect(pe);
    CHECK(pe, (failed != 0) == pe->spec->starts_badly);
    if (failed != 0 || !set_up_heap(pe)) {
        return false;
    }
    return CHECK(pe, pthread_create(&pe->proxy, NULL, proxy_main, pe) == 0);
}

static void drain_proxy(struct host_pe *pe, void *argument)
{
    (void)argument;
    CHECK(pe, device_quiet(pe) == 0);
}

static void run_pe(struct host_pe *pe)
{
    fill_bootstrap(pe);
    pthread_mutex_init(&pe->lock, NULL);
    pthread_cond_init(&pe->changed, NULL);
    if (pe->spec->prepare != NULL) {
        pe->spec->prepare(pe, pe->spec->argument);
    }
    if (start(pe)) {
        CHECK(pe, host_barrier(pe) == 0);
        pe->spec->body(pe, pe->spec->argument);
        host_barrier(pe);
        host_on_proxy(pe, drain_proxy, NULL);
        CHECK(pe, user_quiet(pe) == 0);
        host_barrier(pe);
        stop_proxy(pe);
        tear_down_heap(pe);
    }
    if (pe->transport != NULL) {
        CHECK(pe, host_finalize(pe) == 0);
    }
    if (pe->library != NULL) {
        unload(pe->library);
    }
    free_heap(pe);
    CHECK(pe, memory_of(pe)->faults() == 0);
    host_barrier(pe);
    pthread_cond_destroy(&pe->changed);
    pthread_mutex_destroy(&pe->lock);
}

int host_barrier(struct host_pe *pe)
{
    return rendezvous_barrier(pe->meeting);
}

/* ---- the job ---- */

static void *thread_main(void *argument)
{
    run_pe(argument);
    return NULL;
}

static int run_threads(struct host_pe *pes, int n_pes)
{
    pthread_t threads[64];
    int failures = 0;
    for (int i = 0; i < n_pes; i++) {
        pthread_create(&threads[i], NULL, thread_main, &pes[i]);
    }
    for (int i = 0; i < n_pes; i++) {
        pthread_join(threads[i], NULL);
        failures += atomic_load(&pes[i].failures);
    }
    return failures;
}

static int run_processes(struct host_pe *pes, int n_pes)
{
    pid_t children[64];
    int failures = 0;
    for (int i = 0; i < n_pes; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            run_pe(&pes[i]);
            int failed = atomic_load(&pes[i].failures);
            exit(failed > 100 ? 100 : failed);
        }
    }
    for (int i = 0; i < n_pes; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        failures += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    }
    return failures;
}

int host_run(const struct host_spec *spec)
{
    int timeout_ms = spec->timeout_ms != 0 ? spec->timeout_ms : DEFAULT_TIMEOUT_MS;
    struct rendezvous *meeting = rendezvous_create(spec->n_pes, timeout_ms);
    struct host_pe *pes = calloc((size_t)spec->n_pes, sizeof *pes);
    for (int i = 0; i < spec->n_pes; i++) {
        pes[i].spec = spec;
        pes[i].meeting = meeting;
        pes[i].rank = i;
        pes[i].n_pes = spec->n_pes;
        pes[i].interface = prs_interface_find(spec->version / 10000);
    }
    int failures =
        spec->processes ? run_processes(pes, spec->n_pes) : run_threads(pes, spec->n_pes);
    free(pes);
    rendezvous_destroy(meeting);
    return failures;
}
