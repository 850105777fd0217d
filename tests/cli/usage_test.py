# SPDX-License-Identifier: Apache-2.0
"""Help, mistakes and exit codes of every command, and that the manual page knows every option."""
import re
import unittest

from program import SOURCE, ProgramTest, run

COMMANDS = [line.split("  ")[1].strip().split()[1:] for line in run("--help").stdout.splitlines()
            if line.startswith("  perseus ")]


class UsageTest(ProgramTest):
    def test_lists_commands(self):
        self.assertIn(["bench", "put-signal"], COMMANDS)
        self.assertIn(["info"], COMMANDS)
        self.assertIn("put-signal", self.ok("bench", "--help").stdout)
        self.assertNotIn("perseus info", self.ok("bench", "--help").stdout)

    def test_version(self):
        self.assertRegex(self.ok("--version").stdout, r"^perseus \d+\.\d+\.\d+\n$")

    def test_every_command_has_help(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.ok(*command, "--help").stdout
                self.assertIn("usage: perseus " + " ".join(command), text)
                # Those that measure or report; the others start programs or print settings.
                is_report = command not in (["run"], ["unique-id"]) and not command[0].startswith("nvshmem-")
                for option in ("--help", "--json", "--seed") if is_report else ("--help",):
                    self.assertIn(option, text)

    def test_mistakes(self):
        for words in ([], ["bench"], ["nonsense"], ["bench", "nonsense"], ["--nonsense"]):
            with self.subTest(words=words):
                self.assertIn("perseus", self.fails(2, *words).stderr)
        for command in COMMANDS:
            with self.subTest(command=command):
                done = self.fails(2, *command, "--nonsense")
                self.assertIn("--nonsense", done.stderr)
                self.assertIn("--help", done.stderr)

    def test_bench_mistakes(self):
        for words, named in (
                (["put-signal", "--bytes", "12"], "--bytes"),
                (["put-signal", "--bytes", "4"], "--bytes"),
                (["put-signal", "--transfers", "0"], "--transfers"),
                (["put-signal", "--transfers", "1021"], "--transfers"),
                (["put-signal", "--peers", "3", "--nodes", "2"], "--nodes"),
                (["put-signal", "--peers", "2000"], "1024"),
                (["put-signal", "--protocols", "copuled"], "coupled"),
                (["put-signal", "--orderings", "fast"], "fifo"),
                (["put-signal", "--group-size", "none"], "pe, all"),
                (["put-signal", "--seed", "-1"], "--seed"),
                (["put-signal", "8"], "8"),
                (["alltoall", "--nodes", "1"], "--nodes"),
                (["alltoall", "--experts", "2"], "--experts"),
                (["alltoall", "--experts", "4", "--top-k", "5"], "--top-k"),
                (["alltoall", "--tokens", "1000000", "--hidden", "1000000"], "--tokens")):
            with self.subTest(words=words):
                self.assertIn(named, self.fails(2, "bench", *words).stderr)

    def test_kernels_as_producers(self):
        """Whatever is missing here, a GPU or the compiler for it, the command says so and what to do."""
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        for command in (["put-signal", "--fabric", "cudadma"], ["ring"]):
            done = self.fails(1, "bench", *command, "--device", "cuda", env=hidden)
            self.assertRegex(done.stderr, "nvidia-smi|nvcc")
            if "nvcc" not in done.stderr:
                self.assertIn("--json", self.ok("bench", *command, "--device=cuda", "--help").stdout)
                self.assertIn("rocm", self.fails(2, "bench", *command, "--device", "rocm").stderr)

    def test_manual_and_help_name_the_same_options(self):
        with open(f"{SOURCE}/man/perseus.1", encoding="utf-8") as file:
            manual = re.sub(r"\\f.", "", file.read().replace("\\-", "-"))
        parts = re.split(r"^\.S[SH] (.*)\n", manual, flags=re.M)
        sections = dict(zip(parts[1::2], parts[2::2]))
        shared = sections["Options of bench put-signal and bench alltoall"]
        for command in COMMANDS:
            name = " ".join(command)
            with self.subTest(command=name):
                text = sections[f"perseus {name}"] + (shared if name in ("bench put-signal", "bench alltoall") else "")
                told = {option for line in text.splitlines() if line.startswith((".B", ".I"))
                        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", line)}
                known = set(re.findall(r"^  (--?[a-z-]+)", run(*command, "--help").stdout, re.M)) - {"--help"}
                self.assertEqual(known - told, set(), "the manual lacks these")
                self.assertEqual(told - known, set(), "the manual tells of these, which are not there")


if __name__ == "__main__":
    unittest.main()
