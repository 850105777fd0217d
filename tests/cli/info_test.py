# SPDX-License-Identifier: Apache-2.0
"""perseus info: the providers that every Debian 12 has, what they grant, and the modes."""
import os
import unittest

from program import ProgramTest

MODES = {"drain", "drain-peer", "deferred", "nic-fence", "fifo", "counted"}


class InfoTest(ProgramTest):
    def setUp(self):
        self.document, self.done = self.json_of("info")

    def entry(self, name):
        found = [e for e in self.document["fabrics"] if name in e["provider"].split(";")]
        self.assertTrue(found, f"no provider {name}")
        return found[0]

    def test_schema(self):
        self.assertEqual(self.document["command"], "info")
        for entry in self.document["fabrics"]:
            with self.subTest(entry=entry):
                self.assertIsInstance(entry["usable"], bool)
                if not entry["usable"]:
                    self.assertNotEqual(entry["reason"], "")
                    continue
                self.assertEqual({m["ordering"] for m in entry["modes"]}, MODES)
                self.assertTrue(all(m["reason"] for m in entry["modes"]))
                kept = {m["ordering"] for m in entry["modes"] if m["supported"]}
                self.assertIn(entry["auto"], kept)

    def test_grants_match_the_providers(self):
        self.assertEqual(self.entry("tcp")["granted"]["fence"], "none")
        self.assertNotEqual(self.entry("sockets")["granted"]["fence"], "none")
        self.assertEqual(self.entry("loopback")["fabric"], "loopback")

    def test_explains_the_choice(self):
        chosen = self.document["ordering"]
        self.assertIn(f"the ordering mode {chosen}", self.done.stdout)
        self.assertIn(self.document["ordering_reason"], self.done.stdout)
        self.assertRegex(self.done.stdout, r"nic-fence +no +: .+")

    def test_looks_closer(self):
        text = self.ok("info", "--provider", "sockets").stdout
        self.assertIn("uses provider sockets", text)
        self.assertRegex(text, r"nic-fence +yes: .*FI_FENCE")

    def test_lists_gpus(self):
        driver = os.environ["PERSEUS_SCRIPTED_CUDA"]
        document, done = self.json_of("info", env={"PERSEUS_CUDA_LIBRARY": driver})
        self.assertEqual([g["reaches"] for g in document["gpus"]], [[1], [0]])
        self.assertIn("GPU 1: scripted GPU 1, compute capability 9.0, 3 multiprocessors, "
                      "3 copy engines, reaches GPU 0", done.stdout)

    def test_gpu_heaps(self):
        env = {"PERSEUS_CUDA_LIBRARY": os.environ["PERSEUS_SCRIPTED_CUDA"]}
        text = self.ok("info", "--provider", "tcp", "--fabric", "libfabric", "--gpu-heap", env=env).stdout
        self.assertIn("with its heap in a GPU's memory uses provider staged tcp", text)
        self.assertRegex(text, r"fifo +yes: ")
        self.assertRegex(text, r"nic-fence +no +: ")
        self.assertIn("uses provider batch", self.ok("info", "--gpu-heap", env=env).stdout)

    def test_unknown_provider(self):
        self.assertIn("nonesuch", self.fails(1, "info", "--provider", "nonesuch").stderr)


if __name__ == "__main__":
    unittest.main()
