/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_fabric.h"

#include <stdlib.h>
#include <string.h>

static struct fake_fabric *of_endpoint(struct prs_endpoint *endpoint)
{
    return (struct fake_fabric *)(void *)((char *)endpoint -
                                          offsetof(struct fake_fabric, endpoint));
}

static void fake_endpoint_close(struct prs_endpoint *endpoint)
{
    of_endpoint(endpoint)->closed = true;
}

static enum perseus_status fake_address(struct prs_endpoint *endpoint, void *out, size_t *bytes)
{
    (void)endpoint;
    memcpy(out, "fake", 4);
    *bytes = 4;
    return PERSEUS_OK;
}

static enum perseus_status fake_connect(struct prs_endpoint *endpoint, const void *address,
                                        size_t bytes, uint32_t *out_peer)
{
    (void)address;
    (void)bytes;
    *out_peer = of_endpoint(endpoint)->peers_count++;
    return PERSEUS_OK;
}

static enum perseus_status fake_register(struct prs_fabric *fabric, void *base, size_t bytes,
                                         enum prs_memory_kind kind, struct prs_region **out)
{
    struct prs_region *region = calloc(1, sizeof *region);
    *region = (struct prs_region){.fabric = fabric, .base = base, .bytes = bytes, .kind = kind};
    *out = region;
    return PERSEUS_OK;
}

static void fake_region_close(struct prs_region *region)
{
    free(region);
}

static enum perseus_status fake_export(struct prs_region *region, void *blob, size_t *bytes)
{
    memcpy(blob, &region->bytes, sizeof region->bytes);
    *bytes = sizeof region->bytes;
    return PERSEUS_OK;
}

static enum perseus_status fake_import(struct prs_endpoint *endpoint, uint32_t peer,
                                       const void *blob, size_t bytes, struct prs_remote **out)
{
    (void)bytes;
    struct prs_remote *remote = calloc(1, sizeof *remote);
    remote->endpoint = endpoint;
    remote->peer = peer;
    memcpy(&remote->bytes, blob, sizeof remote->bytes);
    *out = remote;
    return PERSEUS_OK;
}

static void fake_remote_close(struct prs_remote *remote)
{
    free(remote);
}

static enum perseus_status fake_post_op(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    struct fake_fabric *fake = of_endpoint(endpoint);
    if (fake->fail != PERSEUS_OK) {
        enum perseus_status status = fake->fail;
        fake->fail = PERSEUS_OK;
        return status;
    }
    if (fake->refuses != NULL && fake->refuses(op)) {
        return PERSEUS_AGAIN;
    }
    if (fake->refuse > 0 || fake->posts_count == FAKE_POSTS_MAX) {
        fake->refuse -= fake->refuse > 0;
        return PERSEUS_AGAIN;
    }
    struct fake_post *post = &fake->posts[fake->posts_count++];
    post->op = *op;
    post->completed = false;
    if (op->kind == PRS_OP_PUT && op->bytes <= sizeof post->data) {
        const void *source = (op->flags & PRS_OP_INLINE) != 0 ? op->inline_source
                                                              : op->local->base + op->local_offset;
        memcpy(post->data, source, op->bytes);
    }
    return PERSEUS_OK;
}

static enum perseus_status fake_flush(struct prs_endpoint *endpoint)
{
    (void)endpoint;
    return PERSEUS_OK;
}

static enum perseus_status fake_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                     uint32_t n, uint32_t *out_n)
{
    struct fake_fabric *fake = of_endpoint(endpoint);
    uint32_t got = fake->events_count < n ? fake->events_count : n;
    memcpy(events, fake->events, got * sizeof *events);
    memmove(fake->events, fake->events + got, (fake->events_count - got) * sizeof *events);
    fake->events_count -= got;
    *out_n = got;
    return PERSEUS_OK;
}

static const struct prs_fabric_ops fake_ops = {.name = "fake",
                                               .endpoint_close = fake_endpoint_close,
                                               .endpoint_address = fake_address,
                                               .connect = fake_connect,
                                               .region_register = fake_register,
                                               .region_close = fake_region_close,
                                               .region_export = fake_export,
                                               .remote_import = fake_import,
                                               .remote_close = fake_remote_close,
                                               .post = fake_post_op,
                                               .flush = fake_flush,
                                               .poll = fake_poll};

struct fake_fabric *fake_fabric_create(void)
{
    struct fake_fabric *fake = calloc(1, sizeof *fake);
    fake->fabric.ops = &fake_ops;
    fake->endpoint = (struct prs_endpoint){.ops = &fake_ops, .fabric = &fake->fabric};
    fake->fabric.caps = (struct prs_caps){.order = PRS_ORDER_EVERY_PAIR,
                                          .fence_scope = PRS_FENCE_PEER,
                                          .completion = PRS_COMPLETION_DELIVERED,
                                          .completion_per_operation = true,
                                          .immediate_bits = 64,
                                          .inline_bytes = 64,
                                          .message_bytes_max = UINT64_MAX,
                                          .lanes_max = 1,
                                          .provider = "fake"};
    return fake;
}

void fake_fabric_destroy(struct fake_fabric *fake)
{
    free(fake);
}

void fake_complete(struct fake_fabric *fake, uint32_t index, enum perseus_status status)
{
    struct fake_post *post = &fake->posts[index];
    post->completed = true;
    fake->events[fake->events_count++] = (struct prs_event){.kind = PRS_EVENT_COMPLETION,
                                                            .status = status,
                                                            .peer = post->op.peer,
                                                            .cookie = post->op.cookie};
}

void fake_complete_all(struct fake_fabric *fake)
{
    for (uint32_t i = 0; i < fake->posts_count; i++) {
        if (!fake->posts[i].completed) {
            fake_complete(fake, i, PERSEUS_OK);
        }
    }
}

void fake_arrive(struct fake_fabric *fake, uint64_t immediate)
{
    fake->events[fake->events_count++] = (struct prs_event){
        .kind = PRS_EVENT_IMMEDIATE, .peer = PRS_PEER_UNKNOWN, .immediate = immediate};
}

static uint64_t fake_now(void *context)
{
    return ((struct fake_fabric *)context)->now_ns;
}

struct prs_clock fake_clock(struct fake_fabric *fake)
{
    return (struct prs_clock){.now_ns = fake_now, .context = fake};
}
