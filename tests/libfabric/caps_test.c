/* SPDX-License-Identifier: Apache-2.0 */
/* From grants to capabilities, for providers that are not here: what fi_getinfo would return for
 * them is written down, and so is what must become of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "fabric/libfabric/provider/caps.h"
#include "fabric/libfabric/status.h"

#define ORDERED (FI_ORDER_WAW | FI_ORDER_RMA_WAW)

struct grant {
    const char *provider;
    uint64_t caps, order, completion;
    size_t waw_bytes, cq_data_bytes;
    int mr_mode;
    enum fi_progress progress;
};

static struct prs_caps caps_of(const struct grant *grant)
{
    struct fi_info *info = fi_allocinfo();
    struct prs_caps caps;
    assert_non_null(info);
    info->caps = info->tx_attr->caps = grant->caps | FI_RMA;
    info->tx_attr->msg_order = info->rx_attr->msg_order = grant->order;
    info->tx_attr->op_flags = grant->completion;
    info->tx_attr->size = 4096;
    info->ep_attr->max_msg_size = 1u << 30;
    info->ep_attr->max_order_waw_size = grant->waw_bytes;
    info->domain_attr->cq_data_size = grant->cq_data_bytes;
    info->domain_attr->mr_mode = grant->mr_mode;
    info->domain_attr->data_progress = grant->progress;
    info->fabric_attr->prov_name = strdup(grant->provider);
    prs_lf_caps_fill(info, &caps);
    fi_freeinfo(info);
    return caps;
}

static const uint32_t writes = PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_SET | PRS_ORDER_SET_SET;

static void cxi(void **state)
{
    (void)state;
    const struct grant grant = {"cxi",
                                FI_FENCE | FI_ATOMIC | FI_HMEM,
                                ORDERED,
                                FI_DELIVERY_COMPLETE,
                                SIZE_MAX,
                                8,
                                FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
                                FI_PROGRESS_MANUAL};
    struct prs_caps caps = caps_of(&grant);
    assert_int_equal(caps.order, writes | PRS_ORDER_PUT_ATOMIC);
    assert_int_equal(caps.fence_scope, PRS_FENCE_ENDPOINT);
    assert_int_equal(caps.completion, PRS_COMPLETION_DELIVERED);
    assert_int_equal(caps.immediate_bits, 0); /* its fi_writemsg refuses remote CQ data */
    assert_true(caps.batching);
    assert_true(caps.target_must_progress);
    assert_false(caps.source_needs_region);
    assert_int_equal(caps.memory_kinds, PRS_MEMORY_HOST | PRS_MEMORY_CUDA);
    assert_int_equal(caps.inflight_max, 1024);
}

static void a_fence_not_granted_is_no_fence(void **state)
{
    (void)state;
    const struct grant grant = {"cxi", 0, 0, FI_DELIVERY_COMPLETE, 0, 8, 0, FI_PROGRESS_MANUAL};
    struct prs_caps caps = caps_of(&grant);
    assert_int_equal(caps.order, 0);
    assert_int_equal(caps.fence_scope, PRS_FENCE_NONE);
    assert_string_equal(caps.order_word, "msg_order=none");
    assert_string_equal(caps.fence_word, "FI_FENCE not granted");
}

/* Its fence waits for every peer and holds only its own (traits.h): promised is what it holds. */
static void sockets(void **state)
{
    (void)state;
    const struct grant grant = {
        "sockets", FI_FENCE | FI_ATOMIC, ORDERED, FI_DELIVERY_COMPLETE, SIZE_MAX, 8,
        0,         FI_PROGRESS_MANUAL};
    struct prs_caps caps = caps_of(&grant);
    assert_int_equal(caps.fence_scope, PRS_FENCE_PEER);
    assert_non_null(strstr(caps.fence_word, "waits for every peer"));
}

static void efa(void **state)
{
    (void)state;
    const struct grant grant = {"efa",
                                FI_ATOMIC,
                                FI_ORDER_SAS | FI_ORDER_ATOMIC_WAW,
                                FI_DELIVERY_COMPLETE,
                                0,
                                4,
                                FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
                                FI_PROGRESS_MANUAL};
    struct prs_caps caps = caps_of(&grant);
    assert_int_equal(caps.order, 0);
    assert_int_equal(caps.immediate_bits, 32);
    assert_true(caps.source_needs_region);
    assert_true(caps.batching);
    assert_int_equal(caps.memory_kinds, PRS_MEMORY_HOST);
}

static void verbs(void **state)
{
    (void)state;
    const struct grant grant = {"verbs;ofi_rxm",
                                0,
                                ORDERED,
                                0,
                                SIZE_MAX,
                                4,
                                FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
                                FI_PROGRESS_AUTO};
    struct prs_caps caps = caps_of(&grant);
    assert_int_equal(caps.order, writes);
    assert_int_equal(caps.completion, PRS_COMPLETION_TRANSMITTED);
    assert_int_equal(caps.immediate_bits, 32);
    assert_false(caps.target_must_progress);
    assert_false(caps.signals_tear);
}

/* Message order without data order is no order: ofi_rxm with atomics, psm3 above a packet. */
static void data_order_bounds_message_order(void **state)
{
    (void)state;
    struct grant grant = {"psm3", FI_ATOMIC, ORDERED, FI_DELIVERY_COMPLETE,
                          4096,   8,         0,       FI_PROGRESS_AUTO};
    struct prs_caps caps = caps_of(&grant);
    assert_int_equal(caps.order, 0);
    assert_non_null(strstr(caps.order_word, "max_order_waw_size=4096"));
    grant.waw_bytes = 0;
    grant.order = FI_ORDER_RMA_WAW;
    assert_int_equal(caps_of(&grant).order, 0);
}

static void order_of_one_side_only_is_none(void **state)
{
    (void)state;
    struct fi_info *info = fi_allocinfo();
    struct prs_caps caps;
    info->tx_attr->msg_order = FI_ORDER_SAS;
    info->rx_attr->msg_order = ORDERED;
    info->ep_attr->max_order_waw_size = SIZE_MAX;
    info->fabric_attr->prov_name = strdup("shm");
    prs_lf_caps_fill(info, &caps);
    assert_int_equal(caps.order, 0);
    fi_freeinfo(info);
}

static void write_order_alone_does_not_cover_atomics(void **state)
{
    (void)state;
    const struct grant grant = {"x", FI_ATOMIC, FI_ORDER_RMA_WAW, FI_DELIVERY_COMPLETE, SIZE_MAX,
                                0,   0,         FI_PROGRESS_AUTO};
    struct prs_caps caps = caps_of(&grant);
    assert_int_equal(caps.order, writes);
    assert_int_equal(caps.immediate_bits, 0);
    assert_string_equal(caps.order_word, "msg_order=RMA_WAW");
}

static void byte_streams_tear(void **state)
{
    (void)state;
    struct grant grant = {"tcp;ofi_rxm", 0, ORDERED, FI_DELIVERY_COMPLETE,
                          SIZE_MAX,      8, 0,       FI_PROGRESS_MANUAL};
    assert_true(caps_of(&grant).signals_tear);
    grant.provider = "tcpx"; /* some other provider */
    assert_false(caps_of(&grant).signals_tear);
}

/* Whose word has been taken must not find it there again: MoE's layer ended by it, on sockets. */
static void copies_by_a_cpu_store_words_twice(void **state)
{
    (void)state;
    struct grant grant = {"sockets", 0, ORDERED, FI_DELIVERY_COMPLETE,
                          SIZE_MAX,  8, 0,       FI_PROGRESS_MANUAL};
    assert_true(caps_of(&grant).signals_repeat);
    assert_false(caps_of(&grant).signals_tear);
    grant.provider = "shm";
    assert_true(caps_of(&grant).signals_repeat);
    grant.provider = "tcp;ofi_rxm";
    assert_false(caps_of(&grant).signals_repeat);
}

static void errors_become_statuses(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum perseus_status status;
    } cases[] = {
        {0, PERSEUS_OK},
        {FI_EAGAIN, PERSEUS_AGAIN},
        {FI_ENOMEM, PERSEUS_OUT_OF_MEMORY},
        {FI_EINVAL, PERSEUS_INVALID_ARGUMENT},
        {FI_ENOSYS, PERSEUS_NOT_SUPPORTED},
        {FI_ENODATA, PERSEUS_NOT_FOUND},
        {FI_ECONNREFUSED, PERSEUS_PEER_LOST},
        {FI_ECONNRESET, PERSEUS_PEER_LOST},
        {FI_EHOSTUNREACH, PERSEUS_PEER_LOST},
        {FI_ETIMEDOUT, PERSEUS_PEER_LOST},
        {FI_ECANCELED, PERSEUS_CANCELED},
        {FI_EMFILE, PERSEUS_LIMIT},
        {FI_EIO, PERSEUS_IO},
        {FI_EOTHER, PERSEUS_IO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(prs_lf_status(cases[i].error), cases[i].status);
        assert_int_equal(prs_lf_status(-cases[i].error), cases[i].status);
        assert_true(strlen(prs_lf_error_text(-cases[i].error)) > 0);
        assert_true(strlen(prs_lf_advice(cases[i].status)) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cxi),
        cmocka_unit_test(a_fence_not_granted_is_no_fence),
        cmocka_unit_test(sockets),
        cmocka_unit_test(efa),
        cmocka_unit_test(verbs),
        cmocka_unit_test(data_order_bounds_message_order),
        cmocka_unit_test(order_of_one_side_only_is_none),
        cmocka_unit_test(write_order_alone_does_not_cover_atomics),
        cmocka_unit_test(byte_streams_tear),
        cmocka_unit_test(copies_by_a_cpu_store_words_twice),
        cmocka_unit_test(errors_become_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
