#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: a PE is killed, with as many queue pairs to it as QPS says. DEATH is the program. Soft-RoCE takes 7 retries
# for endless ones, so with the default the peer's deadline ends the waiting; with fewer, the device does.
export PERSEUS_IB_HCA==rxe_lo PERSEUS_IB_QPS="$QPS" PERSEUS_NO_SKIP=1
"$DEATH"
PERSEUS_IB_RETRY=3 PERSEUS_IB_TIMEOUT=14 "$DEATH" >/tmp/retry 2>&1 || {
    cat /tmp/retry
    exit 1
}
cat /tmp/retry
grep -q "transport retry counter exceeded" /tmp/retry
