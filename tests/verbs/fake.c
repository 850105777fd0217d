/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define QPS_MAX     64
#define QP_FIRST    100u
#define RECEIVES    64u
#define GRH_BYTES   40u
#define WCS_MAX     8192u
#define DEVICE_NAME "fake0"

struct fake_cq {
    struct ibv_cq cq;
    bool is_armed;
    struct ibv_wc wcs[WCS_MAX];
    uint32_t first, end;
};

static struct {
    struct ibv_device device;
    struct ibv_device *list[2];
    struct verbs_context context;
    struct fake_qp *qps[QPS_MAX];
    uint32_t qps_made, lose, refuse_at, registered, registrations_made;
    bool refuses_dmabuf;
    struct fake_dmabuf dmabuf;
} fake;

static void tell(struct ibv_cq *cq, struct ibv_wc wc)
{
    struct fake_cq *queue = (struct fake_cq *)cq;
    if (queue->end - queue->first == WCS_MAX) {
        abort(); /* what must never happen on a device */
    }
    queue->wcs[queue->end++ % WCS_MAX] = wc;
    if (queue->is_armed) {
        queue->is_armed = false;
        eventfd_write(cq->channel->fd, 1);
    }
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)solicited;
    ((struct fake_cq *)cq)->is_armed = true;
    return 0;
}

/* All events are one; whose, nobody asks. */
static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
    eventfd_t events;
    *cq = NULL;
    *user = NULL;
    return eventfd_read(channel->fd, &events);
}
static void ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    (void)cq, (void)n;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *out)
{
    struct fake_cq *queue = (struct fake_cq *)cq;
    int got = 0;
    while (got < n && queue->first < queue->end) {
        out[got++] = queue->wcs[queue->first++ % WCS_MAX];
    }
    return got;
}

/* ---- datagrams ---- */

void fake_datagram(uint32_t to, const void *bytes, uint32_t n)
{
    struct fake_qp *qp = fake_qp(to);
    if (qp == NULL || qp->type != IBV_QPT_UD || qp->receives_first == qp->receives_end) {
        return;
    }
    uint32_t at = qp->receives_first++ % RECEIVES;
    memcpy((void *)(uintptr_t)(qp->places[at].addr + GRH_BYTES), bytes, n);
    tell(qp->recv_cq, (struct ibv_wc){.wr_id = qp->receives[at].wr_id,
                                      .opcode = IBV_WC_RECV,
                                      .byte_len = GRH_BYTES + n});
}

static void send_datagram(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    tell(qp->send_cq, (struct ibv_wc){.wr_id = wr->wr_id, .opcode = IBV_WC_SEND});
    if (fake.lose > 0) {
        fake.lose--;
        return;
    }
    fake_datagram(wr->wr.ud.remote_qpn, (const void *)(uintptr_t)wr->sg_list->addr,
                  wr->sg_list->length);
}

/* ---- work requests ---- */

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    uint32_t taken = 0;
    qp->doorbells++;
    for (; wr != NULL; wr = wr->next) {
        if (qp->type == IBV_QPT_UD) {
            send_datagram(qp, wr);
        } else if (fake.refuse_at != 0 && ++taken == fake.refuse_at) {
            fake.refuse_at = 0;
            *bad = wr;
            return ENOMEM;
        } else {
            qp->posts[qp->posted++ % FAKE_POSTS_MAX] = *wr;
        }
    }
    return 0;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    (void)bad;
    uint32_t at = qp->receives_end++ % RECEIVES;
    qp->receives[at] = *wr;
    qp->places[at] = *wr->sg_list;
    return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)srq, (void)wr, (void)bad;
    return 0;
}

void fake_complete(struct fake_qp *qp, uint32_t n)
{
    for (; n > 0 && qp->completed < qp->posted; n--) {
        const struct ibv_send_wr *wr = &qp->posts[qp->completed++ % FAKE_POSTS_MAX];
        if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
            tell(qp->send_cq, (struct ibv_wc){.wr_id = wr->wr_id, .qp_num = qp->qp.qp_num});
        }
    }
}

void fake_fail(struct fake_qp *qp, enum ibv_wc_status status, uint32_t vendor)
{
    for (; qp->completed < qp->posted; qp->completed++, status = IBV_WC_WR_FLUSH_ERR) {
        tell(qp->send_cq, (struct ibv_wc){.wr_id = qp->posts[qp->completed % FAKE_POSTS_MAX].wr_id,
                                          .qp_num = qp->qp.qp_num,
                                          .status = status,
                                          .vendor_err = vendor});
    }
}

/* ---- objects ---- */

static struct ibv_device **get_device_list(int *n)
{
    *n = 1;
    return fake.list;
}
static void free_device_list(struct ibv_device **list)
{
    (void)list;
}
static const char *get_device_name(struct ibv_device *device)
{
    return device->name;
}
static struct ibv_context *open_device(struct ibv_device *device)
{
    (void)device;
    return &fake.context.context;
}
static int close_device(struct ibv_context *context)
{
    (void)context;
    return 0;
}
static int query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
    (void)context;
    *out = (struct ibv_device_attr){.phys_port_cnt = 1,
                                    .max_cqe = 4096,
                                    .max_srq_wr = 1024,
                                    .max_qp_rd_atom = 16,
                                    .max_qp_init_rd_atom = 16,
                                    .atomic_cap = IBV_ATOMIC_HCA};
    return 0;
}
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *out)
{
    (void)context, (void)port;
    *out = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
                                  .active_mtu = IBV_MTU_1024,
                                  .max_msg_sz = 1u << 20,
                                  .gid_tbl_len = 1,
                                  .link_layer = IBV_LINK_LAYER_ETHERNET};
    return 0;
}
static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *out, uint32_t flags, size_t bytes)
{
    (void)context, (void)port, (void)index, (void)flags, (void)bytes;
    *out = (struct ibv_gid_entry){.gid_type = IBV_GID_TYPE_ROCE_V2};
    out->gid.raw[10] = out->gid.raw[11] = 0xff;
    out->gid.raw[15] = 1;
    return 0;
}
static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *out)
{
    (void)context, (void)port, (void)index, (void)out;
    return -1;
}
static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    pd->context = context;
    return pd;
}
static int dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
    (void)pd, (void)base, (void)bytes, (void)access;
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    mr->lkey = mr->rkey = ++fake.registrations_made;
    fake.registered++;
    return mr;
}
/* A device writes where it was told at registration: nothing of a dmabuf may lie beyond its end. */
static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access)
{
    struct stat file;
    if (fake.refuses_dmabuf || fstat(fd, &file) != 0) {
        errno = fake.refuses_dmabuf ? EOPNOTSUPP : EBADF;
        return NULL;
    }
    if (offset + bytes > (uint64_t)file.st_size) {
        errno = EINVAL;
        return NULL;
    }
    fake.dmabuf = (struct fake_dmabuf){offset, iova, (uint64_t)file.st_size, bytes};
    return reg_mr(pd, (void *)(uintptr_t)iova, bytes, access);
}
static int dereg_mr(struct ibv_mr *mr)
{
    fake.registered--;
    free(mr);
    return 0;
}
static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
    channel->context = context;
    channel->fd = eventfd(0, EFD_CLOEXEC);
    return channel;
}
static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    free(channel);
    return 0;
}
static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *user,
                                struct ibv_comp_channel *channel, int vector)
{
    (void)entries, (void)user, (void)vector;
    struct fake_cq *queue = calloc(1, sizeof *queue);
    queue->cq.channel = channel;
    queue->cq.context = context;
    return &queue->cq;
}
static int destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}
static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    (void)attr;
    struct ibv_srq *srq = calloc(1, sizeof *srq);
    srq->context = pd->context;
    return srq;
}
static int destroy_srq(struct ibv_srq *srq)
{
    free(srq);
    return 0;
}
static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fake_qp *qp = calloc(1, sizeof *qp);
    qp->qp.context = pd->context;
    qp->qp.qp_num = QP_FIRST + fake.qps_made;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    qp->type = attr->qp_type;
    fake.qps[fake.qps_made++ % QPS_MAX] = qp;
    return &qp->qp;
}
static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    (void)mask;
    qp->state = attr->qp_state;
    return 0;
}
static int destroy_qp(struct ibv_qp *qp)
{
    fake.qps[(qp->qp_num - QP_FIRST) % QPS_MAX] = NULL;
    free(qp);
    return 0;
}
static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    (void)pd, (void)attr;
    return calloc(1, sizeof(struct ibv_ah));
}
static int destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    return 0;
}
static const char *wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "other";
}

uint32_t fake_registered(void)
{
    return fake.registered;
}

uint32_t fake_registrations_made(void)
{
    return fake.registrations_made;
}

void fake_refuse_dmabuf(void)
{
    fake.refuses_dmabuf = true;
}

struct fake_dmabuf fake_dmabuf(void)
{
    return fake.dmabuf;
}

uint32_t fake_qps_made(void)
{
    return fake.qps_made;
}

struct fake_qp *fake_qp(uint32_t number)
{
    return number >= QP_FIRST && number < QP_FIRST + QPS_MAX ? fake.qps[number - QP_FIRST] : NULL;
}

void fake_lose_datagrams(uint32_t n)
{
    fake.lose = n;
}

void fake_refuse_at(uint32_t n)
{
    fake.refuse_at = n;
}

const struct prs_verbs_library *fake_library(void)
{
    static const struct prs_verbs_library library = {
        get_device_list, free_device_list, get_device_name,     open_device,
        close_device,    query_device,     query_port,          query_gid_ex,
        query_pkey,      alloc_pd,         dealloc_pd,          reg_mr,
        reg_dmabuf_mr,   dereg_mr,         create_comp_channel, destroy_comp_channel,
        create_cq,       destroy_cq,       get_cq_event,        ack_cq_events,
        create_srq,      destroy_srq,      create_qp,           modify_qp,
        destroy_qp,      create_ah,        destroy_ah,          wc_status_str};
    memset(&fake, 0, sizeof fake);
    strcpy(fake.device.name, DEVICE_NAME);
    fake.list[0] = &fake.device;
    fake.context.context.ops.poll_cq = poll_cq;
    fake.context.context.ops.req_notify_cq = req_notify_cq;
    fake.context.context.ops.post_send = post_send;
    fake.context.context.ops.post_recv = post_recv;
    fake.context.context.ops.post_srq_recv = post_srq_recv;
    return &library;
}
