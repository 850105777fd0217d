#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: both contract suites on one device, with as many queue pairs as QPS says, and without the device's atomics;
# in TESTS the programs.
export PERSEUS_IB_HCA==rxe_lo PERSEUS_IB_QPS="$QPS" PERSEUS_NO_SKIP=1
"$TESTS/rdma_contract"
PERSEUS_IB_ATOMICS=0 "$TESTS/rdma_contract"
"$TESTS/rdma_ordering"
