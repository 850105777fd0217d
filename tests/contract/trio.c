/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/trio.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fabric/loopback/loopback.h"

static uint64_t trio_now(void *context)
{
    return ((struct trio *)context)->now_ns;
}

static void on_complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct trio_pe *pe = context;
    (void)result;
    assert_true(token < TRIO_TOKENS && !pe->done[token]);
    pe->done[token] = true;
    pe->status[token] = status;
}

static void open_pe(struct trio *trio, uint32_t self, const struct trio_config *config)
{
    static const struct prs_faulty_config harmless;
    struct trio_pe *pe = &trio->pes[self];
    struct prs_clock clock = {.now_ns = trio_now, .context = trio};
    const struct prs_fabric_config fabric = {.memory_kinds = PRS_MEMORY_HOST,
                                             .unordered_mask = config->unordered_mask,
                                             .ungranted_mask = config->ungranted_mask,
                                             .clock = clock};
    struct prs_fabric *inside;
    struct prs_endpoint *endpoint;
    bool behaves = config->first_only && self > 0;
    assert_int_equal(prs_loopback_ops.open(&fabric, &inside), PERSEUS_OK);
    assert_int_equal(prs_faulty_wrap(inside, behaves ? &harmless : &config->faulty, config->log,
                                     clock, &pe->fabric),
                     PERSEUS_OK);
    assert_int_equal(pe->fabric->ops->endpoint_open(pe->fabric, &endpoint), PERSEUS_OK);
    const struct prs_orderer_config orderer = {.endpoint = endpoint,
                                               .ordering = config->ordering,
                                               .self = self,
                                               .n_peers = TRIO_PES,
                                               .parked_max = config->parked_max,
                                               .pools = config->pools,
                                               .timeout_ns = config->timeout_ns,
                                               .immediate_signal = true,
                                               .complete = on_complete,
                                               .context = pe,
                                               .log = config->log,
                                               .clock = clock};
    assert_int_equal(prs_orderer_create(&orderer, &pe->orderer), PERSEUS_OK);
    size_t bytes = PRS_ORDERER_ADDRESS_MAX;
    assert_int_equal(prs_orderer_address(pe->orderer, trio->directory[self] + 4, &bytes),
                     PERSEUS_OK);
    memcpy(trio->directory[self], &(uint32_t){(uint32_t)bytes}, 4);
    prs_orderer_set_directory(pe->orderer, trio->directory[0], sizeof trio->directory[0]);
    assert_int_equal(
        prs_window_create(pe->orderer, pe->memory, sizeof pe->memory, PRS_MEMORY_HOST, &pe->heap),
        PERSEUS_OK);
}

void trio_open(struct trio *trio, const struct trio_config *config)
{
    *trio = (struct trio){.now_ns = 1000000000};
    for (uint32_t self = 0; self < TRIO_PES; self++) {
        open_pe(trio, self, config);
    }
    for (uint32_t self = 0; self < TRIO_PES; self++) {
        for (uint32_t peer = 0; peer < TRIO_PES; peer++) {
            unsigned char blob[PRS_WINDOW_BLOB_MAX];
            size_t bytes = sizeof blob;
            if (peer == self) {
                continue;
            }
            assert_int_equal(prs_window_export(trio->pes[peer].heap, blob, &bytes), PERSEUS_OK);
            assert_int_equal(prs_window_import(trio->pes[self].orderer, peer, blob, bytes,
                                               &trio->pes[self].remotes[peer]),
                             PERSEUS_OK);
        }
    }
}

void trio_close(struct trio *trio)
{
    for (uint32_t self = 0; self < TRIO_PES; self++) {
        struct trio_pe *pe = &trio->pes[self];
        for (uint32_t peer = 0; peer < TRIO_PES; peer++) {
            prs_window_remote_close(pe->remotes[peer]);
        }
        prs_window_destroy(pe->heap);
        prs_orderer_destroy(pe->orderer);
        pe->fabric->ops->close(pe->fabric);
    }
}

enum perseus_status trio_put_signal(struct trio *trio, uint32_t self, uint32_t peer, uint64_t value)
{
    struct trio_pe *pe = &trio->pes[self];
    const struct prs_request request = {.kind = PRS_REQUEST_PUT_SIGNAL,
                                        .op = PERSEUS_SIGNAL_SET,
                                        .peer = peer,
                                        .token = PRS_ORDER_NO_TOKEN,
                                        .local = prs_window_region(pe->heap),
                                        .remote = pe->remotes[peer],
                                        .bytes = sizeof pe->memory[0],
                                        .signal_remote = pe->remotes[peer],
                                        .signal_offset = (1 + self) * sizeof pe->memory[0],
                                        .value = value};
    return prs_orderer_submit(pe->orderer, &request);
}

bool trio_step(struct trio *trio)
{
    bool any = false;
    for (uint32_t self = 0; self < TRIO_PES; self++) {
        bool did = false;
        assert_int_equal(prs_orderer_flush(trio->pes[self].orderer), PERSEUS_OK);
        assert_int_equal(prs_orderer_progress(trio->pes[self].orderer, 256, &did), PERSEUS_OK);
        any |= did;
    }
    return any;
}
