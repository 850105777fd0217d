# SPDX-License-Identifier: Apache-2.0
"""perseus moe --device cuda: what it refuses, its plan, and on a GPU that results are right."""
import json
import os
import shutil
import tempfile
import unittest

from program import ProgramTest, run

ONE = ("--nodes", 1, "--pes-per-node", 1)
HAS_KERNELS = "built without nvcc" not in run("moe", "--device", "cuda", "--plan").stderr
HAS_GPU = HAS_KERNELS and shutil.which("nvidia-smi") is not None


class MoeGpuTest(ProgramTest):
    def test_words(self):
        self.assertIn("cpu or cuda", self.fails(2, "moe", "--device", "tpu").stderr)
        self.assertIn("--device cuda", self.fails(2, "moe", "--gpus", 2).stderr)

    def test_without_kernels(self):
        if HAS_KERNELS:
            self.skipTest("built with nvcc")
        self.assertIn("nvcc", self.fails(2, "moe", "--device", "cuda").stderr)

    @unittest.skipUnless(HAS_KERNELS, "built without nvcc")
    def test_what_is_not_for_gpus(self):
        for words in (("--dtype", "f32"), ("--wire", "f32"), ("--capacity-factor", 1),
                      ("--provider", "tcp"), ("--ordering", "drain"), ("--link", "latency=1us"), ("--details",),
                      ("--nodes", 65, "--pes-per-node", 1), ("--gpus", 3)):
            with self.subTest(words=words):
                self.assertIn("--", self.fails(2, "moe", "--device", "cuda", *words).stderr)

    @unittest.skipUnless(HAS_KERNELS, "built without nvcc")
    def test_plan(self):
        out = self.ok("moe", "--device", "cuda", "--plan", "--model", "qwen3-30b", "--tokens", 1024, *ONE).stdout
        self.assertIn("weights 1152 MiB", out)  # 128 experts, three matrices of 2048 x 768, two bytes
        # Of 256 experts and one that every PE has: 33 of a PE, three matrices of 7168 x 2048.
        eight = ("--nodes", 8, "--pes-per-node", 1)
        out = self.ok("moe", "--device", "cuda", "--plan", "--model", "deepseek-v3", *eight).stdout
        self.assertIn("weights 2772 MiB", out)
        refused = self.fails(1, "moe", "--device", "cuda", "--plan", "--routing", "uniform", "--hidden", 20)
        self.assertIn("hidden", refused.stderr)  # no multiple of eight

    @unittest.skipIf(HAS_GPU or not HAS_KERNELS, "for machines without a GPU")
    def test_without_a_gpu(self):
        self.assertIn("nvidia-smi", self.fails(1, "moe", "--device", "cuda", *ONE).stderr)

    @unittest.skipUnless(HAS_GPU, "no GPU here")
    def test_results(self):
        for shared in (0, 1, 3):
            document, _ = self.json_of("moe", "--device", "cuda", "--repeat", 1, "--nodes", 4, "--pes-per-node", 1,
                                       "--shared-experts", shared)
            self.assertEqual([v["name"] for v in document["variants"]], ["phase after phase", "megakernel"])
            for variant in document["variants"]:
                self.assertTrue(variant["right"])
                self.assertLess(variant["relative_error"], 1e-2)

    @unittest.skipUnless(HAS_GPU, "no GPU here")
    def test_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self.ok("moe", "--device", "cuda", "--repeat", 1, "--iterations", 1, *ONE, "--trace", path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        lanes = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertGreater(len(lanes), 100)  # every multiprocessor
        self.assertTrue(all(lane.startswith("SM ") for lane in lanes))
        self.assertEqual({e["name"] for e in events if e["ph"] == "X"}, {"route", "send", "gate, up", "down", "combine"})
        for event in events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)


if __name__ == "__main__":
    unittest.main()
