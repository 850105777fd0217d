# SPDX-License-Identifier: Apache-2.0
"""perseus moe in many shapes over real fabrics, with verified results: minutes. ctest -C soak -L soak."""
import os
import tempfile
import unittest

from program import SOURCE, ProgramTest

# Full rows; intermediate sizes, and where there are many, experts, are cut to what a small machine multiplies.
MODELS = {"gpt-oss-20b": ("--intermediate", 96), "gpt-oss-120b": ("--intermediate", 64),
          "qwen3-30b": ("--intermediate", 128), "qwen3-235b": ("--intermediate", 64),
          "deepseek-v3": ("--intermediate", 64, "--experts", 96), "llama4-scout": ("--intermediate", 256),
          "mixtral-8x7b": ("--intermediate", 256)}
JOBS = ((1, 1), (1, 4), (2, 1), (3, 1), (4, 2), (5, 2), (8, 2), (16, 1))
ORDERINGS = {"tcp": ("auto", "drain-peer", "deferred", "fifo", "counted"),
             "sockets": ("auto", "drain-peer", "deferred", "nic-fence", "counted")}
EXTRAS = ((), ("--processors", 2, "--subscribers", 1), ("--relaxed",), ("--capacity-factor", 0.7), ("--tile", 4),
          ("--group-experts", 3, "--no-vector"), ("--dtype", "f32"), ("--wire", "f32"), ("--two-matrix",))


def pick(choices, index):
    return choices[index % len(choices)]


class MoeSoakTest(ProgramTest):
    def check(self, *words):
        with self.subTest(words=words):
            document, _ = self.json_of("moe", "--repeat", 1, "--iterations", 2, *words)
            for variant in document["variants"]:
                self.assertTrue(variant["right"], variant)
            self.checked += 1

    def setUp(self):
        self.checked = 0

    def test_models_on_fabrics(self):
        """Every model with every routing over both fabrics; PEs, ordering modes and options in turn."""
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.csv")
            index = 0
            for model, cut in MODELS.items():
                k = {"llama4-scout": 1, "mixtral-8x7b": 2}.get(model, 4 if "gpt" in model else 8)
                with open(trace, "w", encoding="ascii") as file:
                    for token in range(300):
                        file.write(",".join(str((token * 5 + i) % 8) for i in range(k)) + "\n")
                for routing in ("uniform", "balanced", "zipf:1.2", "zipf:9", f"trace:{trace}"):
                    for provider, orderings in ORDERINGS.items():
                        nodes, pes = pick(JOBS, index)
                        self.check("--model", model, *cut, "--tokens", 1 + index % 7, "--nodes", nodes,
                                   "--pes-per-node", pes, "--routing", routing, "--provider", provider,
                                   "--ordering", pick(orderings, index // 2), *pick(EXTRAS, index))
                        index += 1
        print(f"{self.checked} runs")

    def test_recorded_routing(self):
        trace = f"trace:{SOURCE}/data/gpt_oss_20b_topk_ids_slice.npy"
        for layer in range(6):
            self.check("--routing", trace, "--layer", layer, "--nodes", 1 + layer, "--tokens", 5)

    def test_full_size(self):
        """Nothing cut but tokens."""
        self.check("--model", "qwen3-30b", "--tokens", 4, "--nodes", 2, "--pes-per-node", 1)


if __name__ == "__main__":
    unittest.main()
