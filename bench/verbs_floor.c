/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_floor.c: how many instructions a burst of puts and signals costs that is posted as one list
 * per peer: by a loop written by hand on libibverbs (floor), through a fabric (verbs, libfabric),
 * and through the ordering engine on fabric verbs (engine). For a device at hand; bench/verbs_floor
 * runs it under callgrind, which counts what is called from count_post and count_reap only. In
 * between the device is waited for: until all has arrived at the targets, and then for its
 * completions, so that no loop of waiting is counted.
 *
 *     verbs_floor floor|verbs|verbs_each|libfabric|engine [BURSTS]
 *
 * As by hand, `verbs` asks for one completion of each peer's list; `verbs_each` for one of
 * every operation, as the engine does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/registry.h"
#include "fabric/verbs/device.h"
#include "order/order.h"

#define PEERS         8u
#define PUTS          12u /* to each */
#define OPERATIONS    (PEERS * PUTS * 2)
#define PUT_BYTES     4096u
#define HEAP_BYTES    (PEERS * PUTS * PUT_BYTES)
#define SIGNALS_BYTES (PEERS * PUTS * 8u)
#define COMPLETE_US   300000 /* from the last arrival to the last completion, with patience */
#define LOOK_US       20000
#define DEADLINE_NS   UINT64_C(60000000000) /* of a burst; the first one connects */

struct run {
    unsigned char *source, *target; /* heap, then signals */
    void *way;
    uint32_t open;  /* completions that have not come back */
    uint64_t round; /* the value of this burst's signals */
    uint64_t deadline_ns;
    const char *fabric;
    bool tracks_each; /* every operation has one, not every list */
};

struct way {
    const char *name, *fabric;
    bool tracks_each;
    bool (*open)(struct run *run);
    bool (*post)(struct run *run);
    bool (*reap)(struct run *run); /* once */
    bool (*wait)(struct run *run); /* moves the targets; may be NULL */
};

/* Signal and put of a round, at the source and at the target alike. */
static uint64_t put_at(uint32_t peer, uint32_t i)
{
    return ((uint64_t)i * PEERS + peer) * PUT_BYTES;
}
static uint64_t signal_at(uint32_t peer, uint32_t i)
{
    return HEAP_BYTES + (uint64_t)(i * PEERS + peer) * 8;
}

static bool failed(const char *what, int error)
{
    fprintf(stderr, "verbs_floor: %s: %s\n", what, strerror(error));
    return false;
}

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}
static bool is_late(const struct run *run)
{
    return now_ns() > run->deadline_ns;
}

static const struct prs_log errors = {
    .fn = prs_log_to_stderr, .level = PERSEUS_LOG_ERROR, .pe = -1};

/* ---- by hand ---- */

struct hand {
    const struct prs_verbs_library *library;
    struct prs_verbs_device device;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *source, *target;
    struct ibv_qp *senders[PEERS], *receivers[PEERS];
    struct ibv_send_wr wrs[PEERS][2 * PUTS];
    struct ibv_sge sges[PEERS][2 * PUTS];
};

static int hand_ready(const struct hand *hand, struct ibv_qp *qp, uint32_t other)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = hand->device.pkey_index,
                               .port_num = hand->device.port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int error = hand->library->modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = hand->device.mtu,
        .dest_qp_num = other,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .dlid = hand->device.lid,
                    .port_num = hand->device.port,
                    .grh = {.dgid = hand->device.gid,
                            .sgid_index = hand->device.gid_index,
                            .hop_limit = 64}},
    };
    error = error != 0
                ? error
                : hand->library->modify_qp(qp, &attr,
                                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                               IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7};
    return error != 0 ? error
                      : hand->library->modify_qp(qp, &attr,
                                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                                     IBV_QP_MAX_QP_RD_ATOMIC);
}

static int hand_connect(struct hand *hand, uint32_t peer)
{
    struct ibv_qp_init_attr attr = {.send_cq = hand->cq,
                                    .recv_cq = hand->cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2 * PUTS,
                                            .max_recv_wr = 1,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 8}};
    hand->senders[peer] = hand->library->create_qp(hand->pd, &attr);
    hand->receivers[peer] = hand->library->create_qp(hand->pd, &attr);
    if (hand->senders[peer] == NULL || hand->receivers[peer] == NULL) {
        return errno;
    }
    int error = hand_ready(hand, hand->receivers[peer], hand->senders[peer]->qp_num);
    return error != 0 ? error
                      : hand_ready(hand, hand->senders[peer], hand->receivers[peer]->qp_num);
}

static bool hand_open(struct run *run)
{
    struct hand *hand = calloc(1, sizeof *hand);
    struct prs_verbs_settings settings;
    run->way = hand;
    if (hand == NULL || (hand->library = prs_verbs_library()) == NULL ||
        prs_verbs_settings_read(&errors, &settings) != PERSEUS_OK ||
        prs_verbs_device_open(hand->library, &settings, 0, &errors, &hand->device) != PERSEUS_OK) {
        return failed("no device", ENODEV);
    }
    int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    hand->pd = hand->library->alloc_pd(hand->device.context);
    hand->cq = hand->library->create_cq(hand->device.context, OPERATIONS, NULL, NULL, 0);
    hand->source = hand->library->reg_mr(hand->pd, run->source, HEAP_BYTES + SIGNALS_BYTES, rights);
    hand->target = hand->library->reg_mr(hand->pd, run->target, HEAP_BYTES + SIGNALS_BYTES, rights);
    int error = hand->cq == NULL || hand->source == NULL || hand->target == NULL ? errno : 0;
    for (uint32_t peer = 0; peer < PEERS && error == 0; peer++) {
        error = hand_connect(hand, peer);
    }
    return error == 0 || failed("connecting", error);
}

static bool hand_post(struct run *run)
{
    struct hand *hand = run->way;
    uint64_t value = run->round;
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        struct ibv_send_wr *wr = hand->wrs[peer];
        struct ibv_sge *sge = hand->sges[peer];
        for (uint32_t i = 0; i < 2 * PUTS; i++) {
            bool is_put = i < PUTS;
            uint64_t at = is_put ? put_at(peer, i) : signal_at(peer, i - PUTS);
            void *from = is_put ? (void *)(run->source + at) : &value;
            sge[i] = (struct ibv_sge){.addr = (uintptr_t)from,
                                      .length = is_put ? PUT_BYTES : 8,
                                      .lkey = hand->source->lkey};
            wr[i].wr_id = peer * 2 * PUTS + i;
            wr[i].next = i + 1 < 2 * PUTS ? &wr[i + 1] : NULL;
            wr[i].sg_list = &sge[i];
            wr[i].num_sge = 1;
            wr[i].opcode = IBV_WR_RDMA_WRITE;
            wr[i].send_flags =
                (is_put ? 0 : IBV_SEND_INLINE) | (i + 1 == 2 * PUTS ? IBV_SEND_SIGNALED : 0);
            wr[i].wr.rdma.remote_addr = (uintptr_t)run->target + at;
            wr[i].wr.rdma.rkey = hand->target->rkey;
        }
        struct ibv_send_wr *bad;
        int error = ibv_post_send(hand->senders[peer], wr, &bad);
        if (error != 0) {
            return failed("posting", error);
        }
    }
    run->open += PEERS;
    return true;
}

/* One completion tells of a list. */
static bool hand_reap(struct run *run)
{
    struct hand *hand = run->way;
    struct ibv_wc wcs[32];
    int n = ibv_poll_cq(hand->cq, 32, wcs);
    for (int i = 0; i < n; i++) {
        if (wcs[i].status != IBV_WC_SUCCESS) {
            return failed(hand->library->wc_status_str(wcs[i].status), EIO);
        }
    }
    run->open -= n > 0 ? (uint32_t)n : 0;
    return n >= 0;
}

/* ---- fabrics ---- */

struct end {
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint;
    struct prs_region *region;
};

struct ends {
    struct end sender, targets[PEERS];
    uint32_t peers[PEERS];
    struct prs_remote *remotes[PEERS];
};

static bool end_open(const char *fabric, unsigned char *memory, struct end *out)
{
    const struct prs_fabric_config config = {.provider = getenv("PERSEUS_PROVIDER"),
                                             .bind = getenv("PERSEUS_BIND"),
                                             .memory_kinds = PRS_MEMORY_HOST,
                                             .log = &errors,
                                             .clock = prs_clock_monotonic()};
    const struct prs_fabric_ops *ops;
    enum perseus_status status = prs_fabric_find(fabric, &errors, &ops);
    status = status == PERSEUS_OK ? ops->open(&config, &out->fabric) : status;
    status = status == PERSEUS_OK ? ops->endpoint_open(out->fabric, &out->endpoint) : status;
    status = status == PERSEUS_OK && memory != NULL
                 ? ops->region_register(out->fabric, memory, HEAP_BYTES + SIGNALS_BYTES,
                                        PRS_MEMORY_HOST, &out->region)
                 : status;
    return status == PERSEUS_OK || failed(perseus_status_string(status), EIO);
}

static bool ends_connect(struct ends *ends, uint32_t peer)
{
    const struct prs_fabric_ops *ops = ends->sender.fabric->ops;
    unsigned char address[PRS_ADDRESS_MAX], blob[PRS_BLOB_MAX];
    size_t address_bytes = sizeof address, blob_bytes = sizeof blob;
    struct end *target = &ends->targets[peer];
    enum perseus_status status = ops->endpoint_address(target->endpoint, address, &address_bytes);
    status = status == PERSEUS_OK
                 ? ops->connect(ends->sender.endpoint, address, address_bytes, &ends->peers[peer])
                 : status;
    status = status == PERSEUS_OK ? ops->region_export(target->region, blob, &blob_bytes) : status;
    status = status == PERSEUS_OK ? ops->remote_import(ends->sender.endpoint, ends->peers[peer],
                                                       blob, blob_bytes, &ends->remotes[peer])
                                  : status;
    return status == PERSEUS_OK || failed(perseus_status_string(status), EIO);
}

static bool fabric_open(struct run *run)
{
    struct ends *ends = calloc(1, sizeof *ends);
    run->way = ends;
    bool is_open = ends != NULL && end_open(run->fabric, run->source, &ends->sender);
    for (uint32_t peer = 0; peer < PEERS && is_open; peer++) {
        is_open =
            end_open(run->fabric, run->target, &ends->targets[peer]) && ends_connect(ends, peer);
    }
    return is_open;
}
/* Targets make progress: connections need it. Not counted. */
static bool fabric_wait(struct run *run)
{
    struct ends *ends = run->way;
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        struct prs_event events[16];
        uint32_t n;
        ends->targets[peer].fabric->ops->poll(ends->targets[peer].endpoint, events, 16, &n);
    }
    return true;
}

/* AGAIN is for a burst that is not counted: the first, which connects. */
static enum perseus_status fabric_post_late(struct run *run, const struct prs_op *op)
{
    struct ends *ends = run->way;
    enum perseus_status status = PERSEUS_AGAIN;
    while (status == PERSEUS_AGAIN && !is_late(run)) {
        struct prs_event events[16];
        uint32_t n;
        fabric_wait(run);
        ends->sender.fabric->ops->poll(ends->sender.endpoint, events, 16, &n);
        run->open -= n;
        status = ends->sender.fabric->ops->post(ends->sender.endpoint, op);
    }
    return status;
}

static enum perseus_status fabric_post_some(struct run *run, struct prs_op *op, uint32_t n,
                                            uint64_t step)
{
    struct prs_endpoint *endpoint = ((struct ends *)run->way)->sender.endpoint;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < n && status == PERSEUS_OK; i++) {
        op->cookie++;
        status = endpoint->ops->post(endpoint, op);
        if (status == PERSEUS_AGAIN) {
            status = fabric_post_late(run, op);
        }
        op->local_offset = op->remote_offset += step;
    }
    return status;
}

static enum perseus_status fabric_post_list(struct run *run, uint32_t peer)
{
    struct ends *ends = run->way;
    struct prs_op op = {.kind = PRS_OP_PUT,
                        .flags = run->tracks_each ? PRS_OP_MORE : PRS_OP_MORE | PRS_OP_UNTRACKED,
                        .peer = ends->peers[peer],
                        .local = ends->sender.region,
                        .local_offset = put_at(peer, 0),
                        .remote = ends->remotes[peer],
                        .remote_offset = put_at(peer, 0),
                        .bytes = PUT_BYTES,
                        .value = run->round};
    enum perseus_status status = fabric_post_some(run, &op, PUTS, put_at(0, 1));
    op.kind = PRS_OP_SIGNAL_SET;
    op.local_offset = op.remote_offset = signal_at(peer, 0);
    uint64_t step = signal_at(0, 1) - signal_at(0, 0);
    status = status == PERSEUS_OK ? fabric_post_some(run, &op, PUTS - 1, step) : status;
    op.flags = PRS_OP_MORE;
    return status == PERSEUS_OK ? fabric_post_some(run, &op, 1, step) : status;
}

static bool fabric_post(struct run *run)
{
    struct ends *ends = run->way;
    enum perseus_status status = PERSEUS_OK;
    run->open += run->tracks_each ? OPERATIONS : PEERS;
    for (uint32_t peer = 0; peer < PEERS && status == PERSEUS_OK; peer++) {
        status = fabric_post_list(run, peer);
    }
    status = status == PERSEUS_OK ? ends->sender.fabric->ops->flush(ends->sender.endpoint) : status;
    return status == PERSEUS_OK || failed(perseus_status_string(status), EIO);
}

static bool fabric_reap(struct run *run)
{
    struct ends *ends = run->way;
    uint32_t n = 0;
    do {
        struct prs_event events[64];
        enum perseus_status status =
            ends->sender.fabric->ops->poll(ends->sender.endpoint, events, 64, &n);
        for (uint32_t i = 0; i < n && status == PERSEUS_OK; i++) {
            status = events[i].status;
        }
        if (status != PERSEUS_OK) {
            return failed(perseus_status_string(status), EIO);
        }
        run->open -= n;
    } while (n == 64 && run->open > 0);
    return true;
}

/* ---- the engine ---- */

struct engines {
    struct prs_orderer *orderers[1 + PEERS];
    struct prs_window *windows[1 + PEERS];
    struct prs_window_remote *remotes[1 + PEERS];
    unsigned char directory[1 + PEERS][4 + PRS_ORDERER_ADDRESS_MAX];
};

static bool engine_create(struct engines *engines, struct run *run, uint32_t rank)
{
    struct end end = {0};
    if (!end_open("verbs", NULL, &end)) {
        return false;
    }
    const struct prs_orderer_config config = {.endpoint = end.endpoint,
                                              .ordering = PERSEUS_ORDERING_FIFO,
                                              .self = rank,
                                              .n_peers = 1 + PEERS,
                                              .parked_max = 64,
                                              .clock = prs_clock_monotonic()};
    enum perseus_status status = prs_orderer_create(&config, &engines->orderers[rank]);
    if (status == PERSEUS_OK) {
        status =
            prs_window_create(engines->orderers[rank], rank == 0 ? run->source : run->target,
                              HEAP_BYTES + SIGNALS_BYTES, PRS_MEMORY_HOST, &engines->windows[rank]);
    }
    size_t bytes = PRS_ORDERER_ADDRESS_MAX;
    if (status == PERSEUS_OK) {
        status = prs_orderer_address(engines->orderers[rank], engines->directory[rank] + 4, &bytes);
    }
    memcpy(engines->directory[rank], &(uint32_t){(uint32_t)bytes}, 4);
    return status == PERSEUS_OK || failed(perseus_status_string(status), EIO);
}

static bool engine_open(struct run *run)
{
    struct engines *engines = calloc(1, sizeof *engines);
    run->way = engines;
    for (uint32_t rank = 0; rank <= PEERS; rank++) {
        if (engines == NULL || !engine_create(engines, run, rank)) {
            return false;
        }
    }
    for (uint32_t rank = 0; rank <= PEERS; rank++) {
        unsigned char blob[PRS_WINDOW_BLOB_MAX];
        size_t bytes = sizeof blob;
        prs_orderer_set_directory(engines->orderers[rank], engines->directory[0],
                                  sizeof engines->directory[0]);
        if (rank > 0 && (prs_window_export(engines->windows[rank], blob, &bytes) != PERSEUS_OK ||
                         prs_window_import(engines->orderers[0], rank, blob, bytes,
                                           &engines->remotes[rank]) != PERSEUS_OK)) {
            return failed("connecting", EIO);
        }
    }
    return true;
}

static bool engine_wait(struct run *run)
{
    struct engines *engines = run->way;
    for (uint32_t rank = 1; rank <= PEERS; rank++) {
        bool did;
        prs_orderer_progress(engines->orderers[rank], 64, &did);
    }
    return true;
}

static bool engine_reap(struct run *run)
{
    struct engines *engines = run->way;
    bool did;
    enum perseus_status status = prs_orderer_progress(engines->orderers[0], OPERATIONS, &did);
    run->open = prs_orderer_is_idle(engines->orderers[0]) ? 0 : 1;
    return status == PERSEUS_OK || failed(perseus_status_string(status), EIO);
}

static bool engine_post(struct run *run)
{
    struct engines *engines = run->way;
    struct prs_orderer *orderer = engines->orderers[0];
    for (uint32_t n = 0; n < OPERATIONS; n++) {
        bool is_put = n < OPERATIONS / 2;
        uint32_t peer = n % PEERS, i = n % (OPERATIONS / 2) / PEERS;
        uint64_t at = is_put ? put_at(peer, i) : signal_at(peer, i);
        if (n == OPERATIONS / 2) {
            prs_orderer_fence(orderer, PRS_ORDER_ALL_PEERS);
        }
        const struct prs_request request = {.kind = is_put ? PRS_REQUEST_PUT : PRS_REQUEST_SIGNAL,
                                            .op = PERSEUS_SIGNAL_SET,
                                            .peer = 1 + peer,
                                            .token = PRS_ORDER_NO_TOKEN,
                                            .local = prs_window_region(engines->windows[0]),
                                            .local_offset = at,
                                            .remote = engines->remotes[1 + peer],
                                            .remote_offset = at,
                                            .bytes = is_put ? PUT_BYTES : 8,
                                            .value = run->round};
        enum perseus_status status = prs_orderer_submit(orderer, &request);
        while (status == PERSEUS_AGAIN && !is_late(run)) { /* the first burst, which connects */
            engine_wait(run);
            engine_reap(run);
            status = prs_orderer_submit(orderer, &request);
        }
        if (status != PERSEUS_OK) {
            return failed(perseus_status_string(status), EIO);
        }
    }
    run->open = 1;
    return prs_orderer_flush(orderer) == PERSEUS_OK;
}

/* ---- counting: callgrind looks at these two by their names ---- */

bool count_post(const struct way *way, struct run *run);
bool count_reap(const struct way *way, struct run *run);

__attribute__((noinline)) bool count_post(const struct way *way, struct run *run)
{
    return way->post(run);
}

__attribute__((noinline)) bool count_reap(const struct way *way, struct run *run)
{
    return way->reap(run);
}

static bool has_arrived(const struct run *run)
{
    const uint64_t *signals = (const uint64_t *)(run->target + HEAP_BYTES);
    uint32_t n = 0;
    while (n < OPERATIONS / 2 && __atomic_load_n(&signals[n], __ATOMIC_ACQUIRE) == run->round) {
        n++;
    }
    return n == OPERATIONS / 2;
}

static bool wait_for_arrival(const struct way *way, struct run *run)
{
    while (!has_arrived(run)) {
        if (is_late(run)) {
            return failed("the burst has not arrived", ETIMEDOUT);
        }
        usleep(LOOK_US);
        if (way->wait != NULL && !way->wait(run)) {
            return false;
        }
    }
    usleep(COMPLETE_US);
    return true;
}

/* Connects, and takes whatever it needs to be reaped. */
static bool first_burst(const struct way *way, struct run *run)
{
    if (!way->post(run)) {
        return false;
    }
    while (run->open > 0 && !is_late(run)) {
        usleep(LOOK_US);
        if ((way->wait != NULL && !way->wait(run)) || !way->reap(run)) {
            return false;
        }
    }
    return run->open == 0 || failed("the first burst does not end", ETIMEDOUT);
}

static bool counted_burst(const struct way *way, struct run *run)
{
    return count_post(way, run) && wait_for_arrival(way, run) && count_reap(way, run) &&
           (run->open == 0 || failed("not all has completed: waiting would be counted", EAGAIN));
}

/* Each burst has its own signals. */
static bool burst(const struct way *way, struct run *run, bool is_counted)
{
    run->round++;
    run->deadline_ns = now_ns() + DEADLINE_NS;
    return is_counted ? counted_burst(way, run) : first_burst(way, run);
}

static bool check(const struct run *run)
{
    return (memcmp(run->source, run->target, HEAP_BYTES) == 0 && has_arrived(run)) ||
           failed("what has arrived is not what was sent", EIO);
}

int main(int argc, char **argv)
{
    static const struct way ways[] = {
        {"floor", NULL, false, hand_open, hand_post, hand_reap, NULL},
        {"verbs", "verbs", false, fabric_open, fabric_post, fabric_reap, fabric_wait},
        {"verbs_each", "verbs", true, fabric_open, fabric_post, fabric_reap, fabric_wait},
        {"libfabric", "libfabric", true, fabric_open, fabric_post, fabric_reap, fabric_wait},
        {"engine", "verbs", true, engine_open, engine_post, engine_reap, engine_wait},
    };
    const struct way *way = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && argc == 3; i++) {
        way = strcmp(ways[i].name, argv[1]) == 0 ? &ways[i] : way;
    }
    if (way == NULL) {
        fprintf(stderr, "usage: verbs_floor floor|verbs|verbs_each|libfabric|engine BURSTS\n");
        return 2;
    }
    struct run run = {.fabric = way->fabric,
                      .tracks_each = way->tracks_each,
                      .source = aligned_alloc(4096, HEAP_BYTES + 2 * PUT_BYTES),
                      .target = aligned_alloc(4096, HEAP_BYTES + 2 * PUT_BYTES)};
    if (run.source == NULL || run.target == NULL) {
        failed("memory", ENOMEM);
        return 1;
    }
    memset(run.source, 1, HEAP_BYTES + SIGNALS_BYTES);
    memset(run.target, 0, HEAP_BYTES + SIGNALS_BYTES);
    if (!way->open(&run)) {
        return 1;
    }
    bool is_fine = burst(way, &run, false);
    for (int i = atoi(argv[2]); i > 0 && is_fine; i--) {
        is_fine = burst(way, &run, true);
    }
    return is_fine && check(&run) ? 0 : 1;
}
