#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: one queue pair to a PE against four, where one carries all (fifo), and where puts are spread over them
# (counted, deferred). PERSEUS is the program. Reported, not judged: the machine is emulated.
export PERSEUS_FABRIC=verbs PERSEUS_IB_HCA=rxe_left,rxe_right PERSEUS_PROXY_SPIN=20 PERSEUS_PROXY_YIELD=5
for bytes in 4K 64K 1M; do
    for qps in 1 4; do
        echo "== $bytes, $qps queue pairs"
        "$PERSEUS" bench put-signal --fabric verbs --qps $qps --transfers 16 --bytes $bytes --peers 1 --repeat 3 \
            --protocols coupled,decoupled --orderings fifo,counted,deferred --no-vector
    done
done
