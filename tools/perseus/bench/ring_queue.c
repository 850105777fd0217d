/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "bench/ring.h"

/* ---- the channel ring ---- */

static void *channel_create(uint32_t slots)
{
    struct prs_ring *ring = NULL;
    return prs_ring_create(slots, &ring) == PERSEUS_OK ? ring : NULL;
}

static void channel_destroy(void *queue)
{
    prs_ring_destroy(queue);
}

static bool channel_push(void *queue, const struct prs_desc *desc)
{
    return prs_ring_push(queue, desc, NULL) == PERSEUS_OK;
}

static uint32_t channel_take(void *queue, uint32_t batch, prs_ring_visit_fn visit, void *context)
{
    uint32_t n = 0;
    const struct prs_desc *desc;
    while (n < batch && (desc = prs_ring_peek(queue, n)) != NULL) {
        visit(context, desc);
        n++;
    }
    if (n > 0) {
        prs_ring_release(queue, n);
    }
    return n;
}

const struct prs_ring_queue_ops prs_ring_queue_channel = {
    .name = "ring",
    .create = channel_create,
    .destroy = channel_destroy,
    .push = channel_push,
    .take = channel_take,
};

/* ---- an array and a mutex ---- */

struct mutex_queue {
    pthread_mutex_t mutex;
    uint64_t head, tail;
    uint32_t slots;
    struct prs_desc descs[];
};

static void *mutex_create(uint32_t slots)
{
    struct mutex_queue *queue = calloc(1, sizeof *queue + slots * sizeof queue->descs[0]);
    if (queue == NULL || pthread_mutex_init(&queue->mutex, NULL) != 0) {
        free(queue);
        return NULL;
    }
    queue->slots = slots;
    return queue;
}

static void mutex_destroy(void *queue)
{
    struct mutex_queue *self = queue;
    if (self != NULL) {
        pthread_mutex_destroy(&self->mutex);
        free(self);
    }
}

static bool mutex_push(void *queue, const struct prs_desc *desc)
{
    struct mutex_queue *self = queue;
    pthread_mutex_lock(&self->mutex);
    bool fits = self->tail - self->head < self->slots;
    if (fits) {
        self->descs[self->tail++ & (self->slots - 1)] = *desc;
    }
    pthread_mutex_unlock(&self->mutex);
    return fits;
}

static uint32_t mutex_take(void *queue, uint32_t batch, prs_ring_visit_fn visit, void *context)
{
    struct mutex_queue *self = queue;
    for (uint32_t n = 0; n < batch; n++) {
        struct prs_desc desc;
        pthread_mutex_lock(&self->mutex);
        bool is_empty = self->head == self->tail;
        if (!is_empty) {
            desc = self->descs[self->head++ & (self->slots - 1)];
        }
        pthread_mutex_unlock(&self->mutex);
        if (is_empty) {
            return n;
        }
        visit(context, &desc);
    }
    return batch;
}

const struct prs_ring_queue_ops prs_ring_queue_mutex = {
    .name = "mutex",
    .create = mutex_create,
    .destroy = mutex_destroy,
    .push = mutex_push,
    .take = mutex_take,
};
