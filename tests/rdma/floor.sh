#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: instructions of one operation of a burst of 96 puts and 96 signals to 8 peers, from its post to its
# completion, the device's library included, its kernel driver not (callgrind). FLOOR is bench/verbs_floor.c. Fails where
# Perseus' verbs needs more than MOST % of the loop by hand, or the engine on it more than ENGINE_MOST. With LIBFABRIC=1
# also where the engine needs more than libfabric's verbs by itself, which does not always get connected here.
export PERSEUS_IB_HCA==rxe_left PERSEUS_BIND=10.0.0.1 PERSEUS_PROVIDER="verbs;ofi_rxm"
export FI_UNIVERSE_SIZE=16 # with the default, libfabric asks for a completion queue larger than Soft-RoCE's largest
bursts=2
# The machine may be busy, and its device slow: what was counted then is thrown away, and counted again.
count() {
    for attempt in 1 2 3; do
        if valgrind --tool=callgrind --collect-atstart=no --toggle-collect=count_post --toggle-collect=count_reap \
            --callgrind-out-file=/tmp/"$1" "$FLOOR" "$1" $bursts >/tmp/"$1".log 2>&1; then
            awk -v bursts=$bursts '/Collected/ { printf "%.0f\n", $4 / bursts / 192 }' /tmp/"$1".log
            return
        fi
        echo "$1, attempt $attempt of 3:" >&2
        grep -v "^==" /tmp/"$1".log >&2
    done
    exit 1
}
floor=$(count floor)
verbs=$(count verbs)
each=$(count verbs_each)
engine=$(count engine)
echo "instructions of an operation: by hand $floor, fabric verbs $verbs, with a completion for each $each, the ordering" \
    "engine on it $engine"
[ $((verbs * 100)) -le $((floor * MOST)) ] || {
    echo "fabric verbs needs more than $MOST % of the loop by hand"
    exit 1
}
[ $((engine * 100)) -le $((floor * ENGINE_MOST)) ] || {
    echo "the ordering engine on fabric verbs needs more than $ENGINE_MOST % of the loop by hand"
    exit 1
}
[ "$LIBFABRIC" = 1 ] || exit 0
libfabric=$(count libfabric)
echo "fabric libfabric over its verbs provider $libfabric"
[ "$engine" -lt "$libfabric" ] || {
    echo "the ordering engine on fabric verbs needs more than libfabric's verbs provider by itself"
    exit 1
}
