# SPDX-License-Identifier: Apache-2.0
"""perseus sim from outside: every figure drawn, every published number beside ours, the same bytes from one seed, and
the conclusions that docs/simulator.md draws."""
import csv
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree as xml

from program import SOURCE, ProgramTest

SANITIZED = os.environ.get("PERSEUS_SANITIZED") is not None
FIGURES = ("1", "5a", "5b", "5c", "7", "8", "9", "10", "alltoall")
SVG = "{http://www.w3.org/2000/svg}"
QWEN3 = ("sim", "--model", "qwen3-30b")


def by_run(document):
    return {row["run"]: row for row in document["rows"]}


class SimTest(ProgramTest):
    def check_figure(self, figure, folder):
        svg, points, numbers = (os.path.join(folder, f"{figure}.{ending}") for ending in ("svg", "csv", "json"))
        done = self.ok("sim", "--figure", figure, "--plot", svg, "--csv", points, "--json", numbers)
        with open(points, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        with open(numbers, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(document["figure"], figure)
        self.assertEqual([(row["line"], float(row["x"])) for row in rows],
                         [(row["line"], row["x"]) for row in document["rows"]])
        self.assertEqual(len(done.stdout.strip().splitlines()), 2 + len(rows))
        for row in document["rows"]:
            self.assertGreater(row["y"], 0, row)
            self.assertIn(row["source"], ("simulated", "published"))
        lines = {row["line"] for row in document["rows"]}
        texts = {"".join(text.itertext()).strip() for text in xml.parse(svg).getroot().iter(f"{SVG}text")}
        for line in lines:
            self.assertTrue(any(text.startswith(line) for text in texts), f"{line} is not in the key: {texts}")
        self.assertGreaterEqual(len(list(xml.parse(svg).getroot().iter(f"{SVG}path"))), len(lines))
        return document

    @unittest.skipIf(SANITIZED, "the same code; too long")
    def test_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            for figure in FIGURES:
                with self.subTest(figure=figure):
                    document = self.check_figure(figure, folder)
                    if figure != "8": # the paper prints no number of it
                        self.assertIn("published", {row["source"] for row in document["rows"]})

    def test_wrong_figure(self):
        self.assertIn("there are 1 5a", self.fails(2, "sim", "--figure", "6").stderr)
        self.assertIn("cannot write", self.fails(1, "sim", "--figure", "5a", "--plot", "/nowhere/x.svg").stderr)

    @unittest.skipIf(SANITIZED, "the same code; too long")
    def test_compare(self):
        """Every number of the paper is met by the fitted sets; those of second hand but for the ones in the docs."""
        document, done = self.json_of("sim", "--compare")
        rows = document["rows"]
        self.assertEqual(len({row["id"] for row in rows}), len(rows))
        self.assertEqual(len(rows), 40)
        for row in rows:
            self.assertEqual(set(row), {"id", "source", "published", "simulated", "unit", "error", "ok"})
            self.assertIn(row["source"], ("paper", "secondary"))
        with open(os.path.join(SOURCE, "docs", "simulator.md"), encoding="utf-8") as file:
            docs = file.read()
        for row in rows:
            if not row["ok"]:
                self.assertIn(f"`{row['id']}`", docs, "a number that is missed is named in the docs, with why")
        self.assertIn("numbers of the paper within 20%", done.stdout)

    def test_same_seed_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            texts = []
            for seed in (7, 7, 8):
                path = os.path.join(folder, "out.json")
                self.ok(*QWEN3, "--nodes", "3", "--tokens", "300", "--seed", seed, "--json", path)
                with open(path, "rb") as file:
                    texts.append([line for line in file if b'"seed"' not in line])
            self.assertEqual(texts[0], texts[1])
            self.assertNotEqual(texts[0], texts[2])

    def test_sweeps(self):
        for sweep in ("nodes=2,3", "tokens=64,300", "group=1,7,96", "skew=0,1.2", "qps=1,2,4", "fabric.queues=0,1,4",
                      "bulk=0,1", "vector=0,1", "in-turn=0,1", "pes-per-node=2,8", "gpu.tflop_s=50,200",
                      "experts=64,256", "top-k=1,8", "job-pes=4,8", "decoupled=0,1", "answers-decoupled=0,1", "ordering=drain,deferred,nic-fence",
                      "model=qwen3-30b,gpt-oss-120b", "channels=1,2,4"):
            with self.subTest(sweep=sweep):
                name, values = sweep.split("=")
                rows = self.json_of(*QWEN3, "--nodes", "2", "--tokens", "256", "--decoupled", "--sweep", sweep)[0]["rows"]
                self.assertEqual([row["run"] for row in rows], [f"{name}={value}" for value in values.split(",")])
                for row in rows:
                    self.assertGreaterEqual(row["total_ms"], row["compute_floor_ms"])
                    self.assertGreaterEqual(row["total_ms"], row["bytes_floor_ms"])
        self.assertIn("it sweeps model experts", self.fails(1, *QWEN3, "--sweep", "wheels=4").stderr)
        self.assertIn("it sweeps model experts", self.fails(1, *QWEN3, "--sweep", "skew").stderr)
        for wrong in ("nodes=0", "tokens=1.5", "vector=2", "ordering=best", "model=none", "skew=-1", "qps=x", "qps=0",
                      "top-k=,"):
            self.assertIn("stops at", self.fails(1, *QWEN3, "--sweep", wrong).stderr, wrong)

    def test_what_is_swept_is_an_option(self):
        base = (*QWEN3, "--nodes", "2", "--tokens", "256")
        for name, value in (("experts", "256"), ("top-k", "2"), ("nodes", "3"), ("pes-per-node", "8"), ("tokens", "300"),
                            ("skew", "1.2"), ("job-pes", "4"), ("qps", "4"), ("ordering", "deferred"),
                            ("channels", "4")):
            with self.subTest(option=name):
                given = self.json_of(*base, f"--{name}", value, "--sweep", "in-turn=0")[0]["rows"][0]
                swept = self.json_of(*base, "--sweep", f"{name}={value}")[0]["rows"][0]
                self.assertEqual(given["total_ms"], swept["total_ms"])
        self.assertIn("--skew 9 is not", self.fails(2, *base, "--skew", "9").stderr)

    def test_presets(self):
        """Fitted is what a fit printed; what no number of the paper is of is an estimate."""
        listed = {line.split()[0]: line for line in self.ok("sim", "--presets").stdout.splitlines()}
        for name in ("slingshot11-a100", "cx7-h100-ibrc-4qp", "cx7-h100-ibgda"):
            self.assertRegex(listed[name], r"^\S+ +fitted ")
            self.assertRegex(listed[f"{name.removesuffix('-4qp')}-base"], r"^\S+ +not fitted ")
        for name in ("efa-srd", "tcp-loopback", "cx7-h100-ibrc-1qp"):
            self.assertRegex(listed[name], r"^\S+ +estimate ")
        self.assertEqual(len(listed), 9)

    def test_queue_pairs(self):
        """Fence flags hold a queue pair, so several hold less; those of the preset are the engine's lanes."""
        words = (*QWEN3, "--nodes", "4", "--scenario", "cx7-h100-ibrc-4qp", "--ordering", "nic-fence", "--sweep")
        four = self.json_of(*words, "skew=0")[0]["rows"][0]
        rows = by_run(self.json_of(*words, "qps=1,2,4")[0])
        self.assertEqual(rows["qps=4"]["total_ms"], four["total_ms"])
        self.assertGreater(rows["qps=1"]["total_ms"], rows["qps=2"]["total_ms"])
        self.assertGreater(rows["qps=2"]["total_ms"], rows["qps=4"]["total_ms"])
        self.assertIn("stops at", self.fails(1, *words, "qps=17").stderr)

    def test_check(self):
        """Every cell of mode by protocol has signals that were looked at, or the program does not claim so."""
        document, done = self.json_of("sim", "--check", "--schedules", "32")
        rows = document["rows"]
        self.assertIn("32 schedules", done.stdout)
        self.assertIn("in every mode", done.stdout)
        protocols = {"put_signal", "group", "vector", "counter"}
        modes = {"drain", "drain-peer", "deferred", "nic-fence", "fifo", "counted"}
        self.assertEqual({(row["ordering"], row["lanes"], row["protocol"]) for row in rows},
                         {(mode, lanes, protocol) for mode in modes for lanes in (1, 4) for protocol in protocols})
        for row in rows:
            self.assertGreater(row["seen"], 8, row)
        self.assertNotIn("in every mode", self.ok("sim", "--check", "--schedules", "3").stdout)


class ConclusionTest(ProgramTest):
    """What docs/simulator.md concludes, each with the command it names."""

    def total(self, *words):
        return self.json_of(*QWEN3, *words)[0]["rows"][0]["total_ms"]

    def test_naive_cures(self):
        """Channels help who drains; who does not pays for the order across them."""
        vanilla = by_run(self.json_of(*QWEN3)[0])
        as_asked = vanilla["as asked"]["total_ms"]
        self.assertLess(vanilla["four proxy channels"]["total_ms"], as_asked / 1.5)
        self.assertLess(vanilla["bulk: one put for all experts of a PE"]["total_ms"], as_asked)
        rows = self.json_of(*QWEN3, "--decoupled", "--sweep", "channels=1,2,4,8")[0]["rows"]
        for row in rows[1:]:
            self.assertGreater(row["total_ms"], 1.2 * rows[0]["total_ms"])

    def test_coupled_collapses_with_nodes(self):
        rows = self.json_of(*QWEN3, "--sweep", "nodes=1,2,4,8")[0]["rows"]
        times = [row["total_ms"] for row in rows]
        for before, after in zip(times[1:], times[2:]):
            self.assertGreater(after, 1.5 * before)
        self.assertGreater(times[3], 5 * times[0])

    @unittest.skipIf(SANITIZED, "the same code; too long")
    def test_either_alone_by_nodes(self):
        """At 2 nodes fewer fences win more, at 8 cheaper ones."""
        for nodes, first in ((2, "drain"), (8, "nic-fence")):
            at = ("--nodes", nodes, "--tokens", "4096", "--sweep", "skew=0")
            alone = {"drain": self.total(*at, "--decoupled", "--ordering", "drain"),
                     "nic-fence": self.total(*at, "--ordering", "nic-fence")}
            self.assertEqual(min(alone, key=alone.get), first, alone)
            self.assertLess(max(alone.values()), self.total(*at))

    def behind_best(self, *words):
        rows = self.json_of(*QWEN3, "--decoupled", "--ordering", "nic-fence", *words, "--sweep",
                            "group=0,1,2,7,14,28,56,112")[0]["rows"]
        return rows[0]["total_ms"] / min(row["total_ms"] for row in rows) - 1

    @unittest.skipIf(SANITIZED, "the same code; too long")
    def test_groups(self):
        """A flag that stops the whole queue makes large groups of long sequences a matter of luck."""
        self.assertLess(self.behind_best(), 0.05)
        for tokens in (1024, 4096, 16384):
            self.assertLess(self.behind_best("--tokens", tokens, "--set", "fabric.queues=0"), 0.02)

    def test_one_queue_pair_does_not_drain(self):
        rows = by_run(self.json_of(*QWEN3, "--nodes", "4", "--scenario", "cx7-h100-ibrc-1qp")[0])
        self.assertEqual(rows["as asked"]["drain_ms"], 0)
        self.assertEqual(rows["order by the platform's own means"]["total_ms"], rows["as asked"]["total_ms"])

    def test_other_orders(self):
        """Orders that need no flag are as good as the flag, wherever the fabric grants them."""
        for preset in ("slingshot11-a100", "cx7-h100-ibrc-4qp"):
            flag = self.total("--scenario", preset, "--decoupled", "--ordering", "nic-fence", "--sweep", "skew=0")
            for ordering in ("deferred", "counted") + (("fifo",) if preset.startswith("cx7") else ()):
                other = self.total("--scenario", preset, "--decoupled", "--ordering", ordering, "--sweep", "skew=0")
                self.assertLess(other, 1.05 * flag, f"{ordering} on {preset}")


class CalibrateTest(ProgramTest):
    def file(self, folder, **changed):
        """Times of a link of 20 us and 4 GB/s, 1 us an operation."""
        rows = []
        for transfers in (1, 32):
            for size in (4096, 1 << 20):
                for protocol, waits in (("put-only", 1), ("coupled", transfers + 1),
                                        ("decoupled", min(transfers, 3) + 1)):
                    us = transfers * (1 + size / 4000) + 40 * waits
                    rows.append({"transfers": transfers, "bytes": size, "peers": 3, "protocol": protocol, "ordering":
                                 "drain", "vector": False, "supported": True, "time_us": {"median": us}})
        path = os.path.join(folder, "measured.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"command": "bench put-signal", "all_send": False, "rows": rows, **changed}, file)
        return path, rows

    def test_fit_and_prediction(self):
        with tempfile.TemporaryDirectory() as folder:
            path, rows = self.file(folder)
            found = os.path.join(folder, "found.cfg")
            words = ("sim", "--calibrate", path, "--scenario", "tcp-loopback", "--rounds", "300", "--write", found)
            document, done = self.json_of(*words)
            self.assertEqual(len(document["rows"]), len(rows))
            self.assertLess(document["error"], 0.25, done.stdout)
            self.assertIn("The model fits these times to", done.stdout)
            forward = self.ok(*words, "--model", "qwen3-30b", "--nodes", "2", "--tokens", "64")
            self.assertIn("The lever that wins most", forward.stdout)
            again = self.json_of(*QWEN3, "--scenario", found, "--nodes", "2", "--tokens", "64", "--sweep", "skew=0")[0]
            self.assertIn(f"{again['rows'][0]['total_ms']:.3f}", forward.stdout)

    def test_wrong_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for changed, words in (({"command": "info"}, "no file of perseus bench put-signal"),
                                   ({"rows": []}, "no row of put-only")):
                path, _ = self.file(folder, **changed)
                self.assertIn(words, self.fails(2, "sim", "--calibrate", path).stderr)
            self.fails(2, "sim", "--calibrate", os.path.join(folder, "nothing.json"))


class FitTest(ProgramTest):
    def fit(self, preset, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "found.cfg")
            document, done = self.json_of("sim", "--fit", "--scenario", preset, "--write", path, *words, timeout=3000)
            with open(path, encoding="utf-8") as file:
                return file.read(), document["rows"], done.stdout

    def check_printed(self, preset):
        """The preset in the tree is what the command in its third line prints."""
        with open(os.path.join(SOURCE, "sim", "presets", f"{preset}.cfg"), encoding="utf-8") as file:
            text = file.read()
        words = text.splitlines()[2].removeprefix("# Printed by perseus sim --fit --scenario ").removesuffix(".").split()
        self.assertEqual(words[:2], [preset, "--rounds"])
        found, _, printed = self.fit(preset, "--rounds", words[2])
        self.assertEqual(found, text)
        self.assertTrue(printed.startswith(text))

    @unittest.skipIf(SANITIZED, "the same code; too long")
    def test_infiniband(self):
        for preset in ("cx7-h100-ibrc-4qp", "cx7-h100-ibgda"):
            with self.subTest(preset=preset):
                self.check_printed(preset)

    @unittest.skipUnless(os.environ.get("PERSEUS_FIT"), "minutes: ctest -C soak")
    def test_slingshot(self):
        self.check_printed("slingshot11-a100")

    def test_held_out(self):
        """What is fitted is told from what is held out; a search from elsewhere ends elsewhere."""
        text, rows, printed = self.fit("slingshot11-a100", "--rounds", "1", "--fit-on", "5,7")
        fitted = {row["id"] for row in rows if row["fitted"]}
        self.assertEqual(fitted, {row["id"] for row in rows if row["id"].startswith(("fig5", "fig7"))} -
                         {"fig7.per_pe_gap"}) # of long sequences, which no fit runs
        self.assertIn("numbers, 0 fitted", printed)
        self.assertIn('based_on = "slingshot11-a100-base"', text)
        self.fails(2, "sim", "--fit", "--scenario", "efa-srd")


if __name__ == "__main__":
    unittest.main()
