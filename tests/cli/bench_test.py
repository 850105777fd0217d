# SPDX-License-Identifier: Apache-2.0
"""perseus bench put-signal and alltoall: the documented JSON, and what its numbers must obey."""
import os
import shutil
import subprocess
import tempfile
import unittest

from program import SOURCE, ProgramTest

PUT_SIGNAL_KEYS = {
    "protocol": str, "ordering": str, "transfers": int, "bytes": int, "peers": int, "supported": bool, "reason": str,
    "time_us": dict, "efficiency": (int, float), "efficiency_signalled": (int, float), "fences": (int, float),
    "drains": (int, float), "again": (int, float), "signals": (int, float), "payload_errors": int,
    "fence_us": (int, float), "fence_share": (int, float), "vector": bool, "seen_us": dict, "signal_messages": (int, float), "rounds": int,
}
PROTOCOLS = [("put-only", False), ("put-only+signals", False), ("coupled", False), ("decoupled", False),
             ("decoupled", True), ("collective", False)]
MODES = ["drain", "drain-peer", "deferred", "nic-fence", "fifo", "counted"]
TINY = ("--bytes", "64,4K", "--repeat", 1)


class BenchTest(ProgramTest):
    def check_row(self, row, keys):
        self.assertEqual(set(row), set(keys))
        for key, kind in keys.items():
            if row["supported"] or key not in ("efficiency", "efficiency_signalled"):
                self.assertIsInstance(row[key], kind, key)
        self.assertEqual(set(row["time_us"]), {"p10", "median", "p90"})
        self.assertNotEqual(row["reason"], "")
        self.assertEqual(row["payload_errors"], 0)
        if row["supported"]:
            times = [row["time_us"][key] for key in ("p10", "median", "p90")]
            self.assertEqual(times, sorted(times))
            self.assertGreater(times[0], 0)
            self.assertGreater(row["rounds"], 0)
        else:
            self.assertEqual(set(row["time_us"].values()), {None})
            self.assertIsNone(row["efficiency"])
            self.assertEqual(row["rounds"], 0)

    def check_counts(self, row, groups):
        """groups: signal groups per round with the default group size; what every mode must obey."""
        transfers = row["transfers"]
        if row["protocol"] in ("put-only", "collective"):
            self.assertEqual(row["signals"], 0)
            self.assertEqual((row["fences"], row["fence_us"], row["fence_share"]), (0, 0, 0))
            self.assertIsNone(row["seen_us"]["median"])
            return
        self.assertGreater(row["seen_us"]["median"], 0)
        if row["protocol"] == "put-only+signals":  # bare messages: puts of 8 bytes, whatever signals cost here
            self.assertEqual(row["signals"], 0)
            self.assertEqual(row["fences"], 0)
            return
        self.assertEqual(row["signals"], transfers)
        if row["ordering"].startswith("drain"):
            # A fence of its own that comes when all puts have arrived is none, and no fence waits then.
            expected = transfers if row["protocol"] == "coupled" else groups
            self.assertLessEqual(row["fences"], expected)
            self.assertLessEqual(row["drains"], row["fences"])
            if row["protocol"] == "coupled":
                self.assertEqual(row["fences"], expected)
                self.assertGreater(row["drains"], 0)
            # A proxy that stands still does so within its round.
            self.assertEqual(row["fence_us"] > 0, row["drains"] > 0)
            self.assertEqual(row["fence_share"] > 0, row["drains"] > 0)
            self.assertLessEqual(row["fence_share"], 1)
        else:
            self.assertEqual((row["drains"], row["fence_us"], row["fence_share"]), (0, 0, 0))
        if row["vector"] and row["ordering"] == "fifo":
            self.assertEqual(row["signal_messages"], groups)

    def check_put_signal(self, document, cells, modes, kept):
        for key, kind in (("command", str), ("version", str), ("seed", int), ("fabric", str), ("provider", str),
                          ("nodes", int), ("pes", int), ("rows", list), ("counters", list)):
            self.assertIsInstance(document[key], kind, key)
        self.assertEqual(document["command"], "bench put-signal")
        rows = {(r["peers"], r["bytes"], r["transfers"], r["protocol"], r["vector"], r["ordering"]): r
                for r in document["rows"]}
        expected = {cell + protocol + (mode,) for cell in cells for protocol in PROTOCOLS for mode in modes}
        self.assertEqual(set(rows), expected)
        self.assertEqual(len(document["rows"]), len(expected))
        for row in document["rows"]:
            with self.subTest(row=row):
                self.check_row(row, PUT_SIGNAL_KEYS)
                self.assertEqual(row["supported"], row["ordering"] in kept)
                if row["supported"]:
                    self.check_counts(row, min(row["peers"], row["transfers"]))
                    ceiling = (row["peers"], row["bytes"], row["transfers"])
                    for name, key in (("put-only", "efficiency"), ("put-only+signals", "efficiency_signalled")):
                        base = rows[ceiling + (name, False, document["ceiling_ordering"])]["time_us"]["median"]
                        self.assertAlmostEqual(row[key], base / row["time_us"]["median"], places=5)

    def test_put_signal_on_tcp(self):
        document, done = self.json_of("bench", "put-signal", "--provider", "tcp", "--transfers", "1,5",
                                      "--peers", "3", "--seed", 9, *TINY)
        self.assertEqual(document["seed"], 9)
        self.assertEqual((document["fabric"], document["nodes"], document["pes"]), ("libfabric", 4, 4))
        self.assertIn("tcp", document["provider"])
        cells = [(3, b, t) for b in (64, 4096) for t in (1, 5)]
        kept = ["drain", "drain-peer", "deferred", "fifo", "counted"]
        self.check_put_signal(document, cells, MODES, kept)
        # What is not run is told with its reason, and never has a row in the table.
        self.assertRegex(done.stdout, r"not run: nic-fence, .+FI_FENCE")
        self.assertNotRegex(done.stdout, r"(?m)^coupled +nic-fence")
        self.assertRegex(done.stdout, r"(?m)^coupled +drain +\d+%")
        self.assertIn("5 transfers of 64 bytes to 3 PEs", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +3 +4 KiB +1( +\d+)( +\d+%)+ +\d+ +\d+%$")
        self.assertEqual(done.stderr, "")

    def test_details_and_limit(self):
        """A table per cell on demand; the default leaves out what would take long, and --bytes does not."""
        words = ("bench", "put-signal", "--fabric", "loopback", "--orderings", "fifo", "--protocols", "coupled",
                 "--peers", 1, "--repeat", 1)
        document, done = self.json_of(*words, "--transfers", "1,8", "--details")
        cells = {(row["bytes"], row["transfers"]) for row in document["rows"]}
        self.assertEqual(cells, {(b << 10, t) for b in (4, 64, 1024, 4096) for t in (1, 8)} - {(4096 << 10, 8)})
        self.assertEqual(done.stdout.count("transfers of") + done.stdout.count("transfer of"), len(cells))
        document, _ = self.json_of(*words, "--transfers", 8, "--bytes", "4M")
        self.assertEqual({row["bytes"] for row in document["rows"]}, {4 << 20})

    def test_put_signal_on_loopback(self):
        document, _ = self.json_of("bench", "put-signal", "--fabric", "loopback", "--transfers", "6", "--peers", "2",
                                   *TINY)
        self.assertEqual(document["fabric"], "loopback")
        self.check_put_signal(document, [(2, b, 6) for b in (64, 4096)], MODES, MODES)

    def test_put_signal_from_everywhere(self):
        """Every PE sends, from several threads, to PEs of other nodes only."""
        document, _ = self.json_of("bench", "put-signal", "--all", "--ctas", 3, "--pes-per-node", 2, "--peers", 2,
                                   "--transfers", 9, "--orderings", "drain,auto", *TINY)
        self.assertEqual((document["nodes"], document["pes"]), (2, 4))
        self.assertEqual({r["ordering"] for r in document["rows"]}, {"drain", "fifo"})
        for row in document["rows"]:
            self.check_row(row, PUT_SIGNAL_KEYS)
            if row["protocol"] == "coupled":
                self.assertEqual(row["signals"], 4 * 9)

    def test_stats(self):
        document, done = self.json_of("bench", "put-signal", "--fabric", "loopback", "--transfers", 6, "--peers", 3,
                                      "--orderings", "drain-peer,fifo", "--stats", *TINY)
        for mode in ("drain-peer", "fifo"):
            rows = {row["peer"]: row for row in document["counters"] if row["ordering"] == mode}
            self.assertEqual(set(rows), {0, 1, 2, 3, None})
            for key in ("puts", "put_bytes", "signals", "fences"):
                self.assertEqual(sum(row[key] for peer, row in rows.items() if peer is not None), rows[None][key])
                self.assertGreater(rows[1][key], 0)
            self.assertEqual(rows[0]["puts"], 0)
            self.assertEqual(rows[1]["drains"] > 0, mode == "drain-peer")
            self.assertEqual(rows[1]["drain_ns"] > 0, mode == "drain-peer")
            self.assertRegex(done.stdout, rf"(?m)^{mode} +3 +{rows[3]['puts']} +{rows[3]['put_bytes']} ")

    def test_group_size(self):
        for size, groups in (("1", 8), ("3", 3), ("all", 1), ("pe", 2)):
            with self.subTest(size=size):
                document, _ = self.json_of("bench", "put-signal", "--transfers", 8, "--peers", 2, "--bytes", 64,
                                           "--orderings", "drain", "--protocols", "decoupled", "--no-vector",
                                           "--group-size", size, "--repeat", 1)
                rows = [r for r in document["rows"] if r["protocol"] == "decoupled"]
                self.assertEqual([r["vector"] for r in rows], [False])
                self.assertGreaterEqual(rows[0]["drains"], groups)

    def test_alltoall(self):
        document, done = self.json_of("bench", "alltoall", "--tokens", "3,6", "--experts", 10, "--top-k", 3,
                                      "--hidden", 33, "--nodes", 3, "--repeat", 1, "--orderings", "drain,auto")
        self.assertEqual(document["command"], "bench alltoall")
        self.assertEqual(len(document["rows"]), 2 * len(PROTOCOLS) * 2)
        keys = {k: v for k, v in PUT_SIGNAL_KEYS.items() if k not in ("transfers", "peers", "bytes")}
        keys.update(tokens=int, bytes=(int, float))
        for row in document["rows"]:
            with self.subTest(row=row):
                self.check_row(row, keys)
                if row["protocol"] in ("coupled", "decoupled"):
                    self.assertEqual(row["signals"], 20)  # experts on the 2 other nodes, of all 3 PEs
        self.assertEqual(len(document["fits"]), len(PROTOCOLS) * 2)
        for fit in document["fits"]:
            self.assertEqual(set(fit), {"protocol", "vector", "ordering", "alpha_us", "beta_us_per_byte",
                                        "gigabytes_per_s", "r2"})
        self.assertEqual([row["tokens"] for row in document["unchanged_callers"]], [3, 6])
        self.assertIn("put_signal_nbi", done.stdout)

    def test_one_seed_one_routing(self):
        sizes = []
        for seed in (1, 1, 2):
            document, _ = self.json_of("bench", "alltoall", "--fabric", "loopback", "--tokens", 5, "--experts", 6,
                                       "--top-k", 2, "--hidden", 4, "--nodes", 2, "--repeat", 1, "--orderings", "fifo",
                                       "--protocols", "coupled", "--seed", seed)
            sizes.append(document["rows"][0]["bytes"])
        self.assertEqual(sizes[0], sizes[1])
        self.assertNotEqual(sizes[0], sizes[2])


    @unittest.skipIf(shutil.which("gnuplot") is None, "no gnuplot here")
    def test_plot(self):
        plot = os.path.join(SOURCE, "scripts/plot")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "in.json")
            self.ok("bench", "put-signal", "--fabric", "loopback", "--repeat", 1, "--orderings", "fifo", "--transfers",
                    "2,4", "--bytes", "8", "--peers", "1", "--json", path)
            for out, code in ((os.path.join(folder, "out.svg"), 0), (os.path.join(folder, "missing/out.svg"), 1),
                              ("/dev/full", 1)):
                with self.subTest(out=out):
                    done = subprocess.run([plot, path, out], capture_output=True, text=True, timeout=100, check=False)
                    self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                    self.assertEqual(done.stderr.startswith(f"cannot write {out}: "), code == 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
