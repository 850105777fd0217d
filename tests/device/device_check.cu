/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles and links only if every call of the device header does, at every scope. Without a GPU it
 * is not run. */
#include <perseus/device.cuh>

__global__ void every_call(perseus_device_pe pe, perseus_device_group *group, uint64_t *signal)
{
    unsigned char *at = pe.heap;
    perseus_put_nbi(pe, at, at, 8, 1);
    perseus_put_signal_nbi(pe, at, at, 8, signal, 1, PERSEUS_SIGNAL_SET, 1);
    perseus_signal_op_nbi(pe, signal, 1, PERSEUS_SIGNAL_ADD, 1);
    perseus_fence(pe);
    perseus_quiet(pe);
    perseus_signal_wait_until(pe, signal, PERSEUS_CMP_GE, 1, 10, 1);
    perseus_signal_group_put(pe, group, 0, at, at, 8, 1);
    perseus_put_nbi_warp(pe, at, at, 8, 1);
    perseus_put_signal_nbi_warp(pe, at, at, 8, signal, 1, PERSEUS_SIGNAL_SET, 1);
    perseus_signal_op_nbi_warp(pe, signal, 1, PERSEUS_SIGNAL_SET, 1);
    perseus_fence_warp(pe);
    perseus_quiet_warp(pe);
    perseus_signal_wait_until_warp(pe, signal, PERSEUS_CMP_GE, 1, 10, 1);
    perseus_put_nbi_block(pe, at, at, 8, 1);
    perseus_put_signal_nbi_block(pe, at, at, 8, signal, 1, PERSEUS_SIGNAL_SET, 1);
    perseus_signal_op_nbi_block(pe, signal, 1, PERSEUS_SIGNAL_SET, 1);
    perseus_fence_block(pe);
    perseus_quiet_block(pe);
    perseus_signal_wait_until_block(pe, signal, PERSEUS_CMP_GE, 1, 10, 1);
    perseus_signal_group_put_block(pe, group, 0, at, at, 8, 1);
}

int main()
{
    perseus_device_pe pe = {};
    every_call<<<1, 32>>>(pe, nullptr, nullptr);
    return 0;
}
