# SPDX-License-Identifier: Apache-2.0
"""perseus moe: the documented JSON, results that are right for every shape and routing, refusals, and PEs that die."""
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
import unittest

from program import ENVIRONMENT, PROGRAM, SOURCE, ProgramTest

KEYS = {"command": str, "version": str, "model": str, "shape": dict, "nodes": int, "pes": int, "tokens_per_pe": int,
        "routing": str, "seed": int, "variants": list, "fabric": str, "provider": str}
VARIANT_KEYS = {"protocol": str, "ordering": str, "dispatch_ms": float, "expert_ms": float, "combine_ms": float,
                "total_ms": float, "exposed_comm_ms": float, "speedup_over_vanilla": float, "fences": float,
                "drains": float, "proxy_stall_ms": float, "relative_error": float, "tokens_per_s": float,
                "communication_messages": int, "communication_bytes": int, "communication_cpu_ms": float,
                "communication_waits": int, "communication_preempted": int, "communication_ms": float, "expert_wall_ms": float, "right": bool}
VANILLA_FENCES = 308  # of the default run: pairs with rows of two PEs of different nodes, there and back
QUICK = ("--repeat", 1, "--iterations", 1)
SMALL = (*QUICK, "--hidden", 64, "--intermediate", 48, "--experts", 12, "--top-k", 3, "--tokens", 9)
PATIENCE_MS = "20000" if "PERSEUS_SANITIZED" in os.environ else "4000"
MODELS = ["gpt-oss-20b", "gpt-oss-120b", "qwen3-30b", "qwen3-235b", "deepseek-v3", "llama4-scout", "mixtral-8x7b"]


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def cpu_s():
    """Of the programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class MoeTest(ProgramTest):
    def check(self, document, error_max=1e-2):
        for key, kind in KEYS.items():
            if key != "model" or document["model"] is not None:
                self.assertIsInstance(document[key], kind, key)
        self.assertEqual(document["command"], "moe")
        for variant in document["variants"]:
            with self.subTest(variant=variant):
                for key, kind in VARIANT_KEYS.items():
                    self.assertIsInstance(variant[key], (kind, int), key)
                self.assertTrue(variant["right"])
                self.assertLess(variant["relative_error"], error_max)
                self.assertGreater(variant["total_ms"], 0)
                self.assertGreater(variant["communication_ms"], 0)
                if variant["protocol"] in ("put-only", "collective"):
                    self.assertEqual(variant["fences"], 0)
                if not variant["ordering"].startswith("drain"):
                    self.assertEqual(variant["drains"], 0)
        self.assertGreater(document["ceiling_ms"], 0)
        return {(v["protocol"], v["ordering"]): v for v in document["variants"] if not v["answers_grouped"]}

    def test_default_run(self):
        document, done = self.json_of("moe", *QUICK, cwd=SOURCE)  # where the recorded routing is
        variants = self.check(document)
        self.assertEqual(document["model"], "gpt-oss-20b")
        self.assertEqual(document["pes"], 8)
        self.assertIn("gpt_oss_20b_topk_ids_slice.npy", document["routing"])
        self.assertEqual(len(document["variants"]), 8)
        self.assertIn(("coupled", "drain"), variants)
        self.assertIn("collective", {protocol for protocol, _ in variants})
        vanilla, grouped = variants["coupled", "drain"], variants["decoupled", "drain"]
        self.assertEqual(vanilla["speedup_over_vanilla"], 1)
        self.assertEqual(vanilla["drains"], vanilla["fences"])
        self.assertEqual(vanilla["fences"], VANILLA_FENCES)
        # The paper's: a fence a group of dispatch, 6 far PEs for each of 8; answers keep theirs. A drain less where
        # nothing was in flight.
        self.assertLessEqual(grouped["fences"], 48 + VANILLA_FENCES // 2 + 1)
        both_ways = next(v for v in document["variants"] if v["answers_grouped"] and v["ordering"] == "drain")
        self.assertLessEqual(both_ways["drains"], 96)
        self.assertGreater(vanilla["drains"], grouped["drains"])
        self.assertGreater(grouped["drains"], both_ways["drains"])
        for word in ("dispatch", "expert", "combine", "exposed", "stall", "bottleneck", "takes the most", "plain loop",
                     "both ways", "ceiling, each signaled", "ceiling, signals last", "ceiling, one per PE"):
            self.assertIn(word, done.stdout)

    def test_units(self):
        """A fence a transfer with rows to another node: as many as experts, or as tiles."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            with open(path, "w", encoding="ascii") as file:
                file.write("0,1,2\n" * 16 + "6,7,8\n" * 16)  # PE 1 hosts 6 to 11; all rows stay with PE 0 and 1
            fences = {}
            for dispatch in ("expert", "tile"):
                for combine in ("expert", "tile"):
                    document, _ = self.json_of("moe", *SMALL, "--tokens", 16, "--tile", 4, "--nodes", 2,
                                               "--pes-per-node", 1, "--routing", f"trace:{path}", "--dispatch-unit",
                                               dispatch, "--combine-unit", combine)
                    fences[dispatch, combine] = self.check(document)["coupled", "drain"]["fences"]
                    self.assertEqual(document["dispatch_unit"], dispatch)
                    self.assertEqual(document["combine_unit"], combine)
        self.assertEqual(set(fences.values()), {0})  # everybody's experts are at home: nothing travels
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            with open(path, "w", encoding="ascii") as file:
                file.write("6,7,8\n" * 16 + "0,1,2\n" * 16)  # the other way round: 3 experts, 4 tiles each
            for units, expected in ((("expert", "expert"), 12), (("tile", "expert"), 30), (("expert", "tile"), 30),
                                    (("tile", "tile"), 48)):
                document, _ = self.json_of("moe", *SMALL, "--tokens", 16, "--tile", 4, "--nodes", 2, "--pes-per-node",
                                           1, "--routing", f"trace:{path}", "--dispatch-unit", units[0],
                                           "--combine-unit", units[1])
                self.assertEqual(self.check(document)["coupled", "drain"]["fences"], expected, units)

    def test_details(self):
        """Messages are counted, not guessed: a put and its signals for each pair of PEs of different nodes, twice."""
        document, done = self.json_of("moe", *SMALL, "--nodes", 2, "--pes-per-node", 1, "--ordering", "fifo",
                                      "--provider", "tcp", "--details")
        variants = self.check(document)
        self.assertEqual(variants["collective", "fifo"]["communication_bytes"],
                         variants["coupled", "fifo"]["communication_bytes"])
        self.assertLess(variants["collective", "fifo"]["communication_messages"],
                        variants["coupled", "fifo"]["communication_messages"])
        self.assertIn("What communication is made of", done.stdout)

    def test_sweeps(self):
        """Every pair of --nodes and --tokens, and every size of groups in each, in one run."""
        document, done = self.json_of("moe", *SMALL, "--nodes", "1,2", "--tokens", "3,5", "--group-experts",
                                      "1,4,pe,all")
        self.assertEqual([(p["nodes"], p["tokens_per_pe"]) for p in document["points"]],
                         [(1, 3), (1, 5), (2, 3), (2, 5)])
        for point in document["points"]:
            sizes = [v["group_experts"] for v in point["variants"] if v["protocol"] == "decoupled"]
            self.assertEqual(sizes, ["1", "4", "pe", "all"] * 4)
            self.check({**document, **point})
        self.assertIn("decoupled pe both ways + ", done.stdout)
        self.assertIn("2 nodes, 5 tokens:", done.stdout)

    def test_a_shape_of_its_own(self):
        """A model's name is for its shape alone."""
        for words, name in ((("--hidden", 64), "own shape (gpt-oss-20b with a sixth of its intermediate size but for "
                             "hidden 64)"),
                            (("--model", "qwen3-30b", "--experts", 16, "--top-k", 2, "--intermediate", 64),
                             "own shape (qwen3-30b but for intermediate 64, experts 16, top-k 2)"),
                            (("--hidden", 64, "--intermediate", 64, "--experts", 4, "--top-k", 1), "own shape:")):
            with self.subTest(words=words):
                document, done = self.json_of("moe", *QUICK, "--no-verify", "--nodes", 1, "--tokens", 2, *words)
                self.assertIsNone(document["model"])
                self.assertTrue(done.stdout.startswith(name), done.stdout)

    def test_verdict(self):
        """The closing words name what it is; tests/tools/moe_verdict_test.c has every case."""
        out = self.ok("moe", *QUICK, "--no-verify", "--nodes", 1, "--pes-per-node", 1).stdout
        self.assertIn("Signaling was no bottleneck", out)
        self.assertIn("computing experts takes the most", out)
        out = self.ok("moe", *SMALL, "--no-verify", "--nodes", 3, "--ordering", "drain").stdout
        self.assertIn("decoupled signaling is the only lever", out)

    def test_every_form(self):
        for words in (["--dtype", "f32", "--two-matrix"], ["--dtype", "f32", "--wire", "bf16", "--shared-experts", 2],
                      ["--dtype", "bf16", "--wire", "f32", "--capacity-factor", 0.5],
                      ["--relaxed", "--processors", 2, "--subscribers", 1], ["--processors", 0, "--tile", 2],
                      ["--group-experts", 5, "--no-vector"], ["--nodes", 1, "--pes-per-node", 1],
                      ["--nodes", 8, "--pes-per-node", 2, "--tokens", 2]):
            with self.subTest(words=words):
                document, _ = self.json_of("moe", *SMALL, "--nodes", 2, *words)
                f32 = words[:2] == ["--dtype", "f32"] and "--wire" not in words
                self.check(document, 1e-5 if f32 else 1e-2)

    def test_every_routing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            with open(path, "w", encoding="ascii") as file:
                file.write("# three of twelve\n" + "0,1,2\n11,0,5\n-1,7,-1\n" * 20)
            for routing in ("balanced", "zipf:2", f"trace:{path}"):
                with self.subTest(routing=routing):
                    document, _ = self.json_of("moe", *SMALL, "--nodes", 2, "--routing", routing)
                    self.check(document)
            document, _ = self.json_of("moe", *QUICK, "--nodes", 2, "--layer", 5, "--routing",
                                       f"trace:{SOURCE}/data/gpt_oss_20b_topk_ids_slice.npy")
            self.check(document)

    def test_capacity(self):
        """Of 40 rows for each of three experts, 10 from each PE, ceil(0.5 * 10 * 3 / 12) = 2 get through."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            with open(path, "w", encoding="ascii") as file:
                file.write("3,7,11\n" * 40)
            document, done = self.json_of("moe", *SMALL, "--tokens", 10, "--nodes", 2, "--capacity-factor", 0.5,
                                          "--routing", f"trace:{path}")
            self.check(document)
            self.assertEqual(document["rows_dropped"], 4 * 3 * (10 - 2))
            self.assertIn("96 rows dropped", done.stdout)

    def test_orderings(self):
        for ordering in ("drain-peer", "deferred", "fifo", "counted"):
            with self.subTest(ordering=ordering):
                document, _ = self.json_of("moe", *SMALL, "--provider", "tcp", "--ordering", ordering)
                self.assertIn(("decoupled", ordering), self.check(document))
        document, _ = self.json_of("moe", *SMALL, "--nodes", 2, "--ordering", "drain")
        self.check(document)
        self.assertEqual(len(document["variants"]), 5)
        document, _ = self.json_of("moe", *SMALL, "--nodes", 2, "--provider", "sockets", "--ordering", "nic-fence")
        self.check(document)
        self.assertIn("nic-fence", self.fails(1, "moe", *SMALL, "--provider", "tcp", "--ordering", "nic-fence").stderr)

    def test_link(self):
        document, _ = self.json_of("moe", *SMALL, "--link", "latency=200us,bandwidth=1G")
        self.check(document)
        self.assertEqual(document["link"], "latency=200us,bandwidth=1G")

    def test_queue_pairs(self):  # they are made in tests/rdma/program.sh
        words = ("moe", *SMALL, "--nodes", 2, "--fabric", "verbs", "--qps", 9)
        said = self.fails(1, *words).stderr
        if "libibverbs cannot be loaded" in said or "no fabric" in said:
            self.skipTest("no verbs here")
        self.assertIn("PERSEUS_IB_QPS", said)

    def test_weights_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            words = ("moe", *SMALL, "--nodes", 2, "--weights", path, "--weights-layer")
            for dtype, item in (("F32", b"\0\0"), ("BF16", b"")):
                tensors, data = {}, b""
                for expert in range(12):
                    for name, shape in (("gate_proj", [48, 64]), ("up_proj", [48, 64]), ("down_proj", [64, 48])):
                        values = (item + bytes([expert, 0x3c])) * (shape[0] * shape[1])
                        tensors[f"model.layers.7.mlp.experts.{expert}.{name}.weight"] = {
                            "dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
                        data += values
                header = json.dumps(tensors).encode()
                with open(path, "wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header + data)
                for own in ("f32", "bf16"):
                    with self.subTest(file=dtype, layer=own):
                        document, _ = self.json_of(*words, 7, "--dtype", own)
                        self.check(document, 1e-5 if own == "f32" else 1e-2)
            with open(path, "r+b") as file:  # a NaN is told as what it is
                file.seek(-2, 2)
                file.write(b"\xc0\x7f")
            self.assertIn("experts.11.down_proj.weight has no finite number", self.fails(1, *words, 7).stderr)
            self.assertIn("model.layers.0.mlp.experts.0.gate_proj.weight", self.fails(1, *words, 0).stderr)
            os.truncate(path, os.path.getsize(path) - 1)
            self.assertIn("truncated", self.fails(1, *words, 7).stderr)

    def test_plan(self):
        for model in MODELS:
            with self.subTest(model=model):
                out = self.ok("moe", "--model", model, "--plan").stdout
                self.assertRegex(out, r"reserved +\d+")
                self.assertIn("available", out)

    @unittest.skipIf("PERSEUS_SANITIZED" in os.environ, "shadow memory costs")
    def test_plan_is_what_is_taken(self):
        """In all, and without what every PE takes whatever its layer: a tenth of a small layer is seen, too."""
        def memory_of(*words):
            memory = self.json_of("moe", *QUICK, "--no-verify", "--ordering", "drain", *words)[0]["memory"]
            self.assertGreaterEqual(memory["reserved_bytes"], memory["planned_bytes"])
            return memory["planned_bytes"], memory["peak_bytes"]

        base = memory_of("--hidden", 64, "--intermediate", 48, "--nodes", 2, "--pes-per-node", 1)
        layer = ("--hidden", "1440", "--intermediate", "240")
        for words in ((), ("--nodes", 1, "--pes-per-node", 1), ("--nodes", 12, "--pes-per-node", 1),
                      ("--dtype", "f32"), ("--capacity-factor", 1, "--nodes", 2),
                      ("--tokens", 256, "--nodes", 2, "--intermediate", 96),
                      ("--model", "qwen3-30b", "--hidden", 2048, "--intermediate", 256, "--experts", 16, "--tokens", 4,
                       "--nodes", 2, "--pes-per-node", 1)):
            with self.subTest(words=words):
                planned, peak = memory_of(*layer, *words)
                self.assertAlmostEqual(planned / peak, 1, delta=0.1)
                self.assertAlmostEqual((planned - base[0]) / (peak - base[1]), 1, delta=0.12)

    def test_refuses_what_does_not_fit(self):
        """Before the work: by its own time, as the machine may be busy with other things."""
        began_s = cpu_s()
        done = self.fails(1, "moe", "--model", "deepseek-v3", "--tokens", 65536, "--nodes", 16)
        self.assertRegex(done.stderr, r"32 PEs of .* MiB need .* MiB, but only .* MiB of memory is available")
        self.assertLess(cpu_s() - began_s, 60)

    def test_mistakes(self):
        for words, named in ((["--model", "gpt-5"], "mixtral-8x7b"), (["--tokens", "0"], "--tokens"),
                             (["--tokens", "70000"], "--tokens"), (["--dtype", "f16"], "bf16"),
                             (["--routing", "zipf:x"], "zipf"), (["--routing", "random"], "uniform"),
                             (["--fabric", "loopback"], "loopback"), (["--subscribers", "2"], "--subscribers"),
                             (["--processors", "0", "--subscribers", "1"], "--processors"),
                             (["--ordering", "best"], "fifo"), (["--capacity-factor", "0"], "above 0"),
                             (["--nodes", "2000"], "1024"), (["--top-k", "40"], "--top-k 40 is more than the 32"),
                             (["--experts", "3", "--top-k", "4"], "--experts"),
                             (["--experts", "100", "--top-k", "65"], "--top-k must be at most 64"),
                             (["--experts", "70000"], "--experts"), (["--shared-experts", "65"], "--shared-experts"),
                             (["--tile", "70000"], "--tile"), (["--processors", "300"], "--processors"),
                             (["--tokens", "65536", "--experts", "64", "--top-k", "64"], "--tokens 65536 times"),
                             (["--dispatch-unit", "row"], "expert or tile"), (["--group-experts", "1,x"], "pe or all"),
                             (["--group-experts", "2,2"], "once"), (["--nodes", "1,2", "--trace", "x"], "--trace")):
            with self.subTest(words=words):
                self.assertIn(named, self.fails(2, "moe", *words).stderr)
        for words, named in ((["--routing", "trace:/nonexistent.npy"], "/nonexistent.npy"),
                             (["--routing", f"trace:{SOURCE}/data/README.md"], ".npy or .csv"),
                             (["--layer", "6", "--routing",
                               f"trace:{SOURCE}/data/gpt_oss_20b_topk_ids_slice.npy"], "layers 0 to 5"),
                             (["--tokens", "4096", "--routing",
                               f"trace:{SOURCE}/data/gpt_oss_20b_topk_ids_slice.npy"], "4096 tokens"),
                             (["--model", "qwen3-30b", "--routing",
                               f"trace:{SOURCE}/data/gpt_oss_20b_topk_ids_slice.npy"], "4 experts a token"),
                             (["--weights", "/nonexistent"], "/nonexistent"),
                             (["--provider", "nonesuch"], "nonesuch"),
                             (["--json", "/nonexistent/x"], "/nonexistent/x")):
            with self.subTest(words=words):
                self.assertIn(named, self.fails(1, "moe", *words).stderr)

    def test_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self.ok("moe", *SMALL, "--nodes", 2, "--trace", path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        self.assertEqual({e["pid"] for e in events}, {0, 1, 2, 3})
        lanes = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(lanes, {"worker 0", "forward", "proxy", "fabric"})
        spans = {e["name"] for e in events if e["ph"] == "X"}
        for name in ("dispatch", "expert", "combine", "drained", "coupled + drain", "communication only"):
            self.assertIn(name, spans)
        for event in events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)

    def test_trace_outlives_its_writers(self):
        """Threads of the layer write until they are joined, whatever the run does."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            for roles in ((1, 0), (2, 1)):
                for _ in range(4):
                    self.ok("moe", *SMALL, "--nodes", 2, "--pes-per-node", 1, "--no-verify", "--processors", roles[0],
                            "--subscribers", roles[1], "--trace", path)

    def hit(self, number, *words):
        """Sends a signal to PE 2 of 4 in the middle of forwards; what the command says in the end."""
        process = subprocess.Popen([PROGRAM, "moe", "--repeat", "1000", "--no-verify", "--nodes", "2", "--timeout-ms",
                                    PATIENCE_MS, *words], text=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while len(children_of(process.pid)) < 4:
            self.assertLess(time.monotonic(), deadline, "the PEs did not start")
            time.sleep(0.02)
        time.sleep(0.5)  # into the forwards
        children = children_of(process.pid)
        os.kill(children[2], number)
        _, stderr = process.communicate(timeout=90)
        self.assertEqual(process.returncode, 1, stderr)
        for pid in children:
            self.assertFalse(os.path.exists(f"/proc/{pid}"), "a PE is left")
        left = [name for name in os.listdir("/dev/shm") if any(f"-{pid}-" in name for pid in [process.pid, *children])]
        self.assertEqual(left, [])
        return stderr

    def test_a_pe_is_killed(self):
        for words in ((), ("--processors", "2", "--subscribers", "1"), ("--provider", "sockets")):
            with self.subTest(words=words):
                self.assertRegex(self.hit(signal.SIGKILL, *words), "PE 2 was killed by signal 9")

    def test_a_pe_is_stopped(self):
        for words in ((), ("--processors", "2", "--subscribers", "1")):
            with self.subTest(words=words):
                self.assertRegex(self.hit(signal.SIGSTOP, *words), r"PE [013].*PE 2")

    def test_an_operation_fails(self):
        done = self.fails(1, "moe", "--no-verify", "--timeout-ms", 5000, env={"PERSEUS_ADVERSARY": "fail_nth=500"})
        self.assertRegex(done.stderr, r"PE \d")


if __name__ == "__main__":
    unittest.main()
