/* SPDX-License-Identifier: Apache-2.0 */
/* The ways providers want memory registered (FI_MR_...), most of which no software provider has. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "libfabric/fake.h"

static _Alignas(64) unsigned char memory[4096];

static struct prs_region *registered(struct fake *fake)
{
    struct prs_region *region = NULL;
    assert_int_equal(
        prs_lf_region_register(&fake->fabric.base, memory, sizeof memory, PRS_MEMORY_HOST, &region),
        PERSEUS_OK);
    return region;
}

/* Exports and imports again; the peer is ourselves, which is all the same to the blob. */
static struct prs_lf_remote *imported(struct fake *fake, struct prs_region *region)
{
    unsigned char blob[PRS_BLOB_MAX];
    size_t bytes = sizeof blob;
    struct prs_remote *remote = NULL;
    assert_int_equal(prs_lf_region_export(region, blob, &bytes), PERSEUS_OK);
    assert_int_equal(prs_lf_remote_import(&fake->endpoint.base, 0, blob, bytes, &remote),
                     PERSEUS_OK);
    assert_int_equal(remote->bytes, sizeof memory);
    return (struct prs_lf_remote *)remote;
}

static void offsets_and_virtual_addresses(void **state)
{
    (void)state;
    static const int modes[] = {0, FI_MR_VIRT_ADDR};
    for (int i = 0; i < 2; i++) {
        struct fake *fake = fake_create(modes[i], 1);
        struct prs_region *region = registered(fake);
        struct prs_lf_remote *remote = imported(fake, region);
        assert_int_equal(remote->address, modes[i] == 0 ? 0 : (uint64_t)(uintptr_t)memory);
        assert_int_equal(remote->key, fake->mrs[0].mr.key);
        assert_int_equal(fake->mrs[0].access,
                         FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
        prs_lf_remote_close(&remote->base);
        prs_lf_region_close(region);
        assert_false(fake->mrs[0].open);
        fake_destroy(fake);
    }
}

static void keys_cannot_be_guessed(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_region *first = registered(fake), *second = registered(fake);
    uint64_t a = fake->mrs[0].mr.key, b = fake->mrs[1].mr.key;
    assert_true(a != b && (a >> 32) != 0 && (b >> 32) != 0); /* wrong once in four billion runs */
    fake->fabric.info->domain_attr->mr_key_size = 2;
    fake->keys_taken = 3; /* short keys collide: another is tried */
    struct prs_region *third = registered(fake);
    assert_true(fake->mrs[2].mr.key <= 0xffff);
    prs_lf_region_close(second);
    prs_lf_region_close(first);
    prs_lf_region_close(third);
    fake_destroy(fake);
}

static void keys_of_the_provider(void **state)
{
    (void)state;
    struct fake *fake = fake_create(FI_MR_PROV_KEY, 1);
    struct prs_region *region = registered(fake);
    assert_int_equal(fake->mrs[0].mr.key, 0); /* nothing was asked for */
    prs_lf_region_close(region);
    fake_destroy(fake);
}

static void memory_bound_to_endpoints(void **state)
{
    (void)state;
    struct fake *fake = fake_create(FI_MR_ENDPOINT, 1);
    struct prs_region *early = registered(fake);
    assert_false(fake->mrs[0].bound);
    unsigned char blob[PRS_BLOB_MAX];
    size_t bytes = sizeof blob;
    assert_int_equal(prs_lf_region_export(early, blob, &bytes), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_lf_regions_bind(&fake->fabric, &fake->endpoint), PERSEUS_OK);
    fake->fabric.first = &fake->endpoint;
    assert_true(fake->mrs[0].bound && fake->mrs[0].enabled);
    struct prs_region *late = registered(fake);
    assert_true(fake->mrs[1].bound && fake->mrs[1].enabled);
    struct prs_lf_remote *remote = imported(fake, late);
    assert_int_equal(remote->key, 1001); /* known only once it was enabled */
    prs_lf_remote_close(&remote->base);
    prs_lf_regions_unbind(&fake->fabric); /* as endpoint_close does */
    assert_false(fake->mrs[0].open || fake->mrs[1].open);
    bytes = sizeof blob;
    assert_int_equal(prs_lf_region_export(late, blob, &bytes), PERSEUS_INVALID_ARGUMENT);
    prs_lf_region_close(early);
    prs_lf_region_close(late);
    fake_destroy(fake);
}

static void keys_too_long_for_a_number(void **state)
{
    (void)state;
    struct fake *fake = fake_create(FI_MR_RAW | FI_MR_VIRT_ADDR, 1);
    struct prs_region *region = registered(fake);
    struct prs_lf_remote *remote = imported(fake, region);
    assert_int_equal(remote->key, fake->mapped_key);
    assert_int_equal(remote->address, (uint64_t)(uintptr_t)memory);
    prs_lf_remote_close(&remote->base);
    assert_int_equal(fake->unmapped_key, fake->mapped_key);
    prs_lf_region_close(region);
    fake_destroy(fake);
}

static void what_cannot_be_registered(void **state)
{
    (void)state;
    struct fake *fake = fake_create(0, 1);
    struct prs_region *region = NULL;
    struct prs_fabric *fabric = &fake->fabric.base;
    assert_int_equal(prs_lf_region_register(fabric, memory, 0, PRS_MEMORY_HOST, &region),
                     PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_lf_region_register(fabric, NULL, 8, PRS_MEMORY_HOST, &region),
                     PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_lf_region_register(fabric, memory, 8, PRS_MEMORY_CUDA, &region),
                     PERSEUS_NOT_SUPPORTED);
    assert_null(region);
    assert_int_equal(fake->errors, 3);
    fake_destroy(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_and_virtual_addresses),
        cmocka_unit_test(keys_cannot_be_guessed),
        cmocka_unit_test(keys_of_the_provider),
        cmocka_unit_test(memory_bound_to_endpoints),
        cmocka_unit_test(keys_too_long_for_a_number),
        cmocka_unit_test(what_cannot_be_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
