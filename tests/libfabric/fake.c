/* SPDX-License-Identifier: Apache-2.0 */
#include "libfabric/fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "fabric/libfabric/libfabric.h"

#include <cmocka.h>

#define FAKE_OF(pointer, member) \
    ((struct fake *)(void *)((char *)(pointer)-offsetof(struct fake, member)))

static ssize_t fake_record(struct fake *fake, const struct fake_post *post)
{
    if (fake->answer != 0) {
        return fake->answer;
    }
    fake->posts[fake->post_count++] = *post;
    return 0;
}

static ssize_t fake_rma(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
                        enum fake_call call)
{
    const struct fake_post post = {
        .call = call,
        .flags = flags,
        .address = msg->rma_iov[0].addr,
        .segments = msg->rma_iov_count,
        .key = msg->rma_iov[0].key,
        .data = msg->data,
        .bytes = msg->rma_iov[0].len,
        .peer = msg->addr,
        .source = msg->msg_iov[0].iov_base,
        .descriptor = msg->desc[0],
        .context = msg->context,
    };
    return fake_record(FAKE_OF(ep, ep), &post);
}

static ssize_t fake_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return fake_rma(ep, msg, flags, FAKE_WRITE);
}

static ssize_t fake_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return fake_rma(ep, msg, flags, FAKE_READ);
}

static ssize_t fake_any_atomic(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags,
                               enum fake_call call, const struct fi_ioc *compare, void *result)
{
    struct fake_post post = {
        .call = call,
        .flags = flags,
        .address = msg->rma_iov[0].addr,
        .key = msg->rma_iov[0].key,
        .bytes = 8,
        .peer = msg->addr,
        .source = result,
        .descriptor = msg->desc[0],
        .context = msg->context,
    };
    memcpy(&post.operand, msg->msg_iov[0].addr, 8);
    if (compare != NULL) {
        memcpy(&post.compare, compare->addr, 8);
    }
    return fake_record(FAKE_OF(ep, ep), &post);
}

static ssize_t fake_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    return fake_any_atomic(ep, msg, flags, FAKE_ATOMIC, NULL, NULL);
}

static ssize_t fake_fetchmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                             struct fi_ioc *result, void **desc, size_t count, uint64_t flags)
{
    (void)desc;
    (void)count;
    return fake_any_atomic(ep, msg, flags, FAKE_FETCH, NULL, result->addr);
}

static ssize_t fake_comparemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                               const struct fi_ioc *compare, void **compare_desc,
                               size_t compare_count, struct fi_ioc *result, void **desc,
                               size_t count, uint64_t flags)
{
    (void)compare_desc;
    (void)compare_count;
    (void)desc;
    (void)count;
    return fake_any_atomic(ep, msg, flags, FAKE_COMPARE, compare, result->addr);
}

static ssize_t fake_cq_read(struct fid_cq *cq, void *buffer, size_t count)
{
    struct fake *fake = FAKE_OF(cq, cq);
    fake->reads++;
    if (fake->cq_answer != 0) {
        return fake->cq_answer;
    }
    if (fake->has_error) {
        return -FI_EAVAIL;
    }
    if (fake->completion_count == 0) {
        return -FI_EAGAIN;
    }
    size_t n = count < fake->completion_count ? count : fake->completion_count;
    memcpy(buffer, fake->completions, n * sizeof fake->completions[0]);
    fake->completion_count -= (uint32_t)n;
    memmove(fake->completions, fake->completions + n,
            fake->completion_count * sizeof fake->completions[0]);
    fake->entries_read += (uint32_t)n;
    return (ssize_t)n;
}

static ssize_t fake_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct fake *fake = FAKE_OF(cq, cq);
    (void)flags;
    *entry = fake->error;
    fake->has_error = false;
    return 1;
}

static const char *fake_cq_strerror(struct fid_cq *cq, int error, const void *data, char *buffer,
                                    size_t bytes)
{
    (void)cq;
    (void)data;
    snprintf(buffer, bytes, "provider error %d", error);
    return buffer;
}

static int fake_close(struct fid *fid)
{
    if (fid->fclass == FI_CLASS_MR) {
        ((struct fake_mr *)(void *)fid)->open = false;
    }
    return 0;
}

static int fake_mr_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    struct fake_mr *mr = (struct fake_mr *)(void *)fid;
    (void)flags;
    mr->bound = to == &mr->fake->ep.fid;
    return 0;
}

static int fake_mr_control(struct fid *fid, int command, void *argument)
{
    struct fake_mr *mr = (struct fake_mr *)(void *)fid;
    if (command == FI_ENABLE) {
        mr->enabled = mr->bound;
        mr->mr.key = 1000 + (uint64_t)(mr - mr->fake->mrs);
        return 0;
    }
    struct fi_mr_raw_attr *raw = argument;
    memset(raw->raw_key, 0x42, 40);
    *raw->key_size = 40;
    *raw->base_addr = 0xba5e;
    return 0;
}

static int fake_domain_control(struct fid *fid, int command, void *argument)
{
    struct fake *fake = FAKE_OF(fid, domain);
    if (command == FI_MAP_RAW_MR) {
        struct fi_mr_map_raw *map = argument;
        unsigned char expected[40];
        memset(expected, 0x42, sizeof expected);
        if (map->base_addr != 0xba5e || map->key_size != 40 ||
            memcmp(map->raw_key, expected, 40) != 0) {
            return -FI_EINVAL;
        }
        *map->key = fake->mapped_key = 0x3a9;
        return 0;
    }
    fake->unmapped_key = *(uint64_t *)argument;
    return 0;
}

static struct fi_ops fake_ops = {.size = sizeof fake_ops, .close = fake_close};
static struct fi_ops fake_mr_ops = {.size = sizeof fake_mr_ops,
                                    .close = fake_close,
                                    .bind = fake_mr_bind,
                                    .control = fake_mr_control};
static struct fi_ops fake_domain_ops = {
    .size = sizeof fake_domain_ops, .close = fake_close, .control = fake_domain_control};
static struct fi_ops_rma fake_rma_ops = {
    .size = sizeof fake_rma_ops, .writemsg = fake_writemsg, .readmsg = fake_readmsg};
static struct fi_ops_atomic fake_atomic_ops = {.size = sizeof fake_atomic_ops,
                                               .writemsg = fake_atomicmsg,
                                               .readwritemsg = fake_fetchmsg,
                                               .compwritemsg = fake_comparemsg};
static struct fi_ops_cq fake_cq_ops = {.size = sizeof fake_cq_ops,
                                       .read = fake_cq_read,
                                       .readerr = fake_cq_readerr,
                                       .strerror = fake_cq_strerror};

static int fake_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                        struct fid_mr **out)
{
    struct fake *fake = FAKE_OF(fid, domain);
    (void)flags;
    if (fake->keys_taken > 0) {
        fake->keys_taken--;
        return -FI_ENOKEY;
    }
    struct fake_mr *mr = &fake->mrs[fake->mr_count++];
    *mr = (struct fake_mr){
        .mr = {.fid = {.fclass = FI_CLASS_MR, .ops = &fake_mr_ops},
               .mem_desc = (void *)(uintptr_t)(0xd000 + fake->mr_count),
               .key = attr->requested_key},
        .fake = fake,
        .access = attr->access,
        .open = true,
    };
    *out = &mr->mr;
    return 0;
}

static struct fi_ops_mr fake_reg_ops = {.size = sizeof fake_reg_ops, .regattr = fake_regattr};

static void fake_keep_log(void *user, enum perseus_log_level level, const char *text)
{
    struct fake *fake = user;
    fake->errors += level == PERSEUS_LOG_ERROR;
    snprintf(fake->last_error, sizeof fake->last_error, "%s", text);
}

static uint64_t fake_now(void *context)
{
    return ((struct fake *)context)->now_ns;
}

static void fake_fill_fabric(struct fake *fake, int mr_mode)
{
    struct prs_lf_fabric *fabric = &fake->fabric;
    fake->log =
        (struct prs_log){.fn = fake_keep_log, .user = fake, .level = PERSEUS_LOG_WARN, .pe = -1};
    fabric->base.ops = &prs_libfabric_ops;
    fabric->base.caps = (struct prs_caps){
        .order = PRS_ORDER_EVERY_PAIR,
        .fence_scope = PRS_FENCE_PEER,
        .completion = PRS_COMPLETION_DELIVERED,
        .immediate_bits = 64,
        .atomics = 0x1f,
        .atomics_fetch = 0x3f,
        .inline_bytes = PRS_LF_SLOT_BYTES,
        .message_bytes_max = 1 << 30,
        .inflight_max = 16,
        .memory_kinds = PRS_MEMORY_HOST,
        .source_needs_region = mr_mode & FI_MR_LOCAL,
        .lanes_max = 1,
        .provider = "fake",
    };
    fabric->log = &fake->log;
    fabric->clock = (struct prs_clock){.now_ns = fake_now, .context = fake};
    fabric->info = fi_allocinfo();
    fabric->info->domain_attr->mr_mode = mr_mode;
    fabric->info->domain_attr->mr_key_size = 8;
    fabric->info->fabric_attr->prov_name = strdup("fake");
    fabric->domain = &fake->domain;
    pthread_mutex_init(&fabric->lock, NULL);
}

struct fake *fake_create(int mr_mode, uint32_t peers)
{
    struct fake *fake = calloc(1, sizeof *fake);
    struct prs_lf_endpoint *endpoint = &fake->endpoint;
    fake->domain.fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .ops = &fake_domain_ops};
    fake->domain.mr = &fake_reg_ops;
    fake->ep.fid = (struct fid){.fclass = FI_CLASS_EP, .ops = &fake_ops};
    fake->ep.rma = &fake_rma_ops;
    fake->ep.atomic = &fake_atomic_ops;
    fake->cq.fid = (struct fid){.fclass = FI_CLASS_CQ, .ops = &fake_ops};
    fake->cq.ops = &fake_cq_ops;
    fake_fill_fabric(fake, mr_mode);
    endpoint->base = (struct prs_endpoint){.ops = &prs_libfabric_ops, .fabric = &fake->fabric.base};
    endpoint->ep = &fake->ep;
    endpoint->cq = &fake->cq;
    endpoint->peers = calloc(peers, sizeof *endpoint->peers);
    endpoint->peer_count = endpoint->peer_capacity = peers;
    for (uint32_t i = 0; i < peers; i++) {
        endpoint->peers[i] = (struct prs_lf_peer){.address = 100 + i, .process = -1};
    }
    endpoint->gather_first = PRS_LF_NO_PEER;
    prs_lf_pool_init(&endpoint->pool, fake->fabric.base.caps.inflight_max);
    return fake;
}

void fake_destroy(struct fake *fake)
{
    prs_lf_pool_finish(&fake->endpoint.pool);
    prs_lf_peers_finish(&fake->endpoint);
    pthread_mutex_destroy(&fake->fabric.lock);
    fi_freeinfo(fake->fabric.info);
    free(fake);
}

void fake_complete(struct fake *fake, uint32_t post, uint64_t flags)
{
    fake->completions[fake->completion_count++] =
        (struct fi_cq_data_entry){.op_context = fake->posts[post].context, .flags = flags};
}

void fake_fail(struct fake *fake, uint32_t post, int error)
{
    fake->error = (struct fi_cq_err_entry){
        .op_context = fake->posts[post].context, .err = error, .prov_errno = 7};
    fake->has_error = true;
}

struct prs_lf_remote fake_remote(struct fake *fake, uint32_t peer)
{
    return (struct prs_lf_remote){
        .base = {.endpoint = &fake->endpoint.base, .peer = peer, .bytes = 65536},
        .address = FAKE_ADDRESS,
        .key = FAKE_KEY};
}

struct prs_op fake_put(struct prs_lf_remote *remote, uint64_t cookie)
{
    return (struct prs_op){
        .kind = PRS_OP_PUT,
        .flags = PRS_OP_INLINE,
        .peer = remote->base.peer,
        .inline_source = "eight by",
        .bytes = 8,
        .remote = &remote->base,
        .remote_offset = 64,
        .cookie = cookie,
    };
}

enum perseus_status fake_submit(struct fake *fake, const struct prs_op *op)
{
    return prs_lf_post(&fake->endpoint.base, op);
}

uint32_t fake_take(struct fake *fake, struct prs_event *events, uint32_t n)
{
    uint32_t count = 0;
    assert_int_equal(prs_lf_poll(&fake->endpoint.base, events, n, &count), PERSEUS_OK);
    return count;
}
