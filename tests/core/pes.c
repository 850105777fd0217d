/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pes.h"

#include <stdlib.h>
#include <string.h>

#include "bootstrap/hub.h"
#include "core/check.h"

#define PES_TIMEOUT_MS 60000 /* of bodies that do not test deadlines: the machine may be busy */

struct pes_thread {
    struct pes *pes;
    int rank, fd;
    pes_body body;
    void *context;
    pthread_t thread;
};

struct perseus_attr pes_attr(int pes_per_node)
{
    return (struct perseus_attr){
        .fabric = "loopback",
        .heap_bytes = 4 << 20,
        .timeout_ms = PES_TIMEOUT_MS,
        .pes_per_node = pes_per_node,
    };
}

void pes_init(struct pes *pes, int size, const struct perseus_attr *attr)
{
    memset(pes, 0, sizeof *pes);
    pes->size = size;
    pthread_barrier_init(&pes->gate, NULL, (unsigned)size);
    for (int rank = 0; rank < size; rank++) {
        messages_init(&pes->messages[rank]);
        pes->attr[rank] = *attr;
        pes->attr[rank].log = messages_take;
        pes->attr[rank].log_user = &pes->messages[rank];
    }
}

static void *pes_thread_main(void *context)
{
    struct pes_thread *thread = context;
    struct pes *pes = thread->pes;
    int rank = thread->rank;
    const struct perseus_attr *attr = &pes->attr[rank];
    const struct prs_log log = {.fn = attr->log, .user = attr->log_user, .pe = rank};
    struct prs_bootstrap *bootstrap = NULL;
    struct perseus_pe *pe = NULL;
    CHECK_OK(
        prs_bootstrap_open_local(thread->fd, rank, pes->size, attr->timeout_ms, &log, &bootstrap));
    pes->opened[rank] = prs_pe_open(attr, bootstrap, &pe);
    if (pes->opened[rank] != PERSEUS_OK) {
        CHECK(pe == NULL);
        return NULL;
    }
    thread->body(pes, pe, thread->context);
    if (!pes->aborted[rank]) {
        pes->finalized[rank] = perseus_finalize(pe);
    }
    return NULL;
}

static void *pes_serve(void *hub)
{
    while (prs_hub_serve(hub, 1000) == PERSEUS_AGAIN) {
        /* until every PE has left */
    }
    return NULL;
}

void pes_run(struct pes *pes, pes_body body, void *context)
{
    struct prs_hub *hub = NULL;
    pthread_t server;
    struct pes_thread threads[PES_MAX];
    CHECK_OK(prs_hub_create(pes->size, NULL, &hub));
    for (int rank = 0; rank < pes->size; rank++) {
        threads[rank] =
            (struct pes_thread){.pes = pes, .rank = rank, .body = body, .context = context};
        threads[rank].fd = prs_hub_take_fd(hub, rank);
    }
    CHECK(pthread_create(&server, NULL, pes_serve, hub) == 0);
    for (int rank = 0; rank < pes->size; rank++) {
        CHECK(pthread_create(&threads[rank].thread, NULL, pes_thread_main, &threads[rank]) == 0);
    }
    for (int rank = 0; rank < pes->size; rank++) {
        pthread_join(threads[rank].thread, NULL);
    }
    pthread_join(server, NULL);
    prs_hub_destroy(hub);
}

void pes_run_well(struct pes *pes, pes_body body, void *context)
{
    pes_run(pes, body, context);
    for (int rank = 0; rank < pes->size; rank++) {
        if (pes->opened[rank] != PERSEUS_OK || pes->finalized[rank] != PERSEUS_OK) {
            fprintf(stderr, "PE %d: init %s, finalize %s\n%s", rank,
                    perseus_status_name(pes->opened[rank]),
                    perseus_status_name(pes->finalized[rank]), pes->messages[rank].text);
            _Exit(1);
        }
        CHECK(pes->messages[rank].overlapped == 0);
    }
}

void pes_finish(struct pes *pes)
{
    pthread_barrier_destroy(&pes->gate);
    for (int rank = 0; rank < pes->size; rank++) {
        pthread_mutex_destroy(&pes->messages[rank].mutex);
    }
}

void pes_with(int size, const struct perseus_attr *attr, pes_body body, void *context)
{
    static struct pes pes; /* large; tests run one job at a time */
    pes_init(&pes, size, attr);
    pes_run_well(&pes, body, context);
    pes_finish(&pes);
}

void pes_with_every_mode(int size, const struct perseus_attr *attr, unsigned seed, pes_body body,
                         void *context)
{
    for (int mode = PERSEUS_ORDERING_AUTO; mode < PERSEUS_ORDERING_COUNT; mode++) {
        struct perseus_attr attr_of_mode = *attr;
        char adversary[128] = "";
        attr_of_mode.ordering = (enum perseus_ordering)mode;
        if (seed != 0) {
            snprintf(adversary, sizeof adversary, "seed=%u,reorder=1,again=0.2,unordered=%d", seed,
                     mode == PERSEUS_ORDERING_FIFO ? 0 : PRS_ORDER_EVERY_PAIR);
        }
        fprintf(stderr, "ordering %s, PERSEUS_ADVERSARY=%s\n",
                perseus_ordering_name((enum perseus_ordering)mode), adversary);
        setenv("PERSEUS_ADVERSARY", adversary, 1);
        pes_with(size, &attr_of_mode, body, context);
    }
    unsetenv("PERSEUS_ADVERSARY");
}

void pes_meet(struct pes *pes)
{
    pthread_barrier_wait(&pes->gate);
}
