#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: what users run. PERSEUS is the program; PEs use the two ends of a wire in turn. Its figures are those of an
# emulated machine and mean nothing; that it ends, and verifies, does.
export PERSEUS_FABRIC=verbs PERSEUS_IB_HCA=rxe_left,rxe_right PERSEUS_IB_QPS="$QPS"
export PERSEUS_PROXY_SPIN=20 PERSEUS_PROXY_YIELD=5
"$PERSEUS" info --fabric verbs # asks all providers of libfabric, too
"$PERSEUS" bench put-signal --fabric verbs --qps "$QPS" --transfers 16 --bytes 4K --peers 1 --repeat 1 --protocols coupled,decoupled
small="--nodes 2 --pes-per-node 1 --hidden 64 --intermediate 32 --experts 8 --top-k 2 --tokens 4 --iterations 1 --repeat 1"
(unset PERSEUS_IB_QPS && "$PERSEUS" moe --fabric verbs --qps "$QPS" $small)
PERSEUS_IB_ATOMICS=0 "$PERSEUS" moe --fabric verbs $small
