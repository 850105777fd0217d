#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a framework does instead on one GPU: torch's grouped product, SwiGLU, grouped product, as one CUDA graph.

The rows are those that one of two GPUs gets, with half of the experts; milliseconds, median of 30 replays.
"""
import torch

MODELS = {"qwen3-30b": (2048, 768, 128, 8), "gpt-oss-120b": (2880, 2880, 128, 4), "deepseek-v3": (7168, 2048, 256, 8)}
grouped = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm


def median_ms(work):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(31)]
    for _ in range(3):
        graph.replay()
    events[0].record()
    for event in events[1:]:
        graph.replay()
        event.record()
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in zip(events, events[1:]))[15]


def main():
    @torch.compile
    def swiglu(both):
        gate, up = both.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    torch.manual_seed(torch.seed() % 2**31)
    print(f"{'model':13} {'S':>6} {'rows':>8} {'all':>8} {'first':>8} {'swiglu':>8} {'second':>8}")
    for name, (hidden, intermediate, experts, top_k) in MODELS.items():
        hosted = experts // 2
        first = torch.randn(hosted, 2 * intermediate, hidden, device="cuda", dtype=torch.bfloat16) * hidden**-0.5
        second = torch.randn(hosted, hidden, intermediate, device="cuda", dtype=torch.bfloat16) * intermediate**-0.5
        for tokens in (256, 1024, 4096, 16384):
            ids = torch.rand(2 * tokens, experts, device="cuda").topk(top_k).indices.flatten()
            ends = torch.bincount(ids, minlength=experts)[:hosted].cumsum(0).to(torch.int32)
            rows = int(ends[-1])
            x = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)
            both = grouped(x, first.transpose(1, 2), offs=ends)
            middle = swiglu(both)
            times = [
                median_ms(lambda: grouped(swiglu(grouped(x, first.transpose(1, 2), offs=ends)),
                                          second.transpose(1, 2), offs=ends)),
                median_ms(lambda: grouped(x, first.transpose(1, 2), offs=ends)),
                median_ms(lambda: swiglu(both)),
                median_ms(lambda: grouped(middle, second.transpose(1, 2), offs=ends)),
            ]
            print(f"{name:13} {tokens:6} {rows:8}", *(f"{ms:8.4f}" for ms in times), flush=True)
        del first, second


main()
