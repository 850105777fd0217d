# SPDX-License-Identifier: Apache-2.0
"""What could not be written is an error of every command; files are tried before the work starts."""
import os
import subprocess
import tempfile
import unittest

from program import ENVIRONMENT, PROGRAM, ProgramTest, run

SMALL = ("--fabric", "loopback", "--repeat", "1", "--orderings", "fifo", "--protocols", "coupled")
PUT_SIGNAL = ("bench", "put-signal", *SMALL, "--transfers", "2", "--bytes", "8", "--peers", "1")
ALLTOALL = ("bench", "alltoall", *SMALL, "--nodes", "2", "--tokens", "2", "--experts", "4", "--top-k", "2",
            "--hidden", "8")
RING = ("bench", "ring", "--seconds", "0.001", "--repeat", "1", "--producers", "1")
INFO = ("info", "--fabric", "loopback")
# Quick forms of all commands that print something themselves.
PRINTING = (("--help",), ("--version",), ("bench", "--help"), ("run", "--help"), ("unique-id",), ("moe", "--plan"),
            ("nvshmem-env",), INFO, RING, PUT_SIGNAL, ALLTOALL)
# Those that write files, with the option.
WRITING = ((INFO, "--json"), (RING, "--json"), (PUT_SIGNAL, "--json"), (ALLTOALL, "--json"), (("moe", "--plan"), "--json"),
           (("moe", "--plan"), "--trace"), (("nvshmem-profile",), "--out"))


def run_to(path, words):
    with open(path, "w", encoding="utf-8") as full:
        return subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
                              timeout=100, check=False)


class OutputTest(ProgramTest):
    def test_standard_output_that_is_full(self):
        for words in PRINTING:
            with self.subTest(words=words):
                done = run_to("/dev/full", words)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("cannot write standard output: No space left on device", done.stderr)

    def test_a_limit_of_file_sizes(self):
        """The kernel's signal, which would end the program, becomes an error that names the file."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            for words in (["info", "--fabric", "loopback", "--json", path],):
                done = subprocess.run(["sh", "-c", 'ulimit -f 1; exec "$0" "$@"', PROGRAM, *words], text=True,
                                      capture_output=True, env=ENVIRONMENT, timeout=100, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("File too large", done.stderr)
                self.assertIn(path, done.stderr)

    def test_wrong_usage_stays_wrong_usage(self):
        self.assertEqual(run_to("/dev/full", ["info", "--nonsense"]).returncode, 2)

    def test_standard_output_that_was_closed(self):
        for words, code in (("run -n 1 -- true", 0), ("unique-id", 1)):
            done = subprocess.run(["sh", "-c", f'"$0" {words} >&-', PROGRAM], stderr=subprocess.PIPE, text=True,
                                  env=ENVIRONMENT, timeout=100, check=False)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_files_are_tried_first(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, option in WRITING:
                with self.subTest(words=words, option=option):
                    mark = os.path.join(folder, "has-run")
                    program = ("--", "touch", mark) if words[0] == "nvshmem-profile" else ()
                    path = os.path.join(folder, "missing", "out")
                    done = self.fails(1, *words, option, path, *program)
                    self.assertIn(f"cannot write {option} {path}", done.stderr)
                    self.assertIn("No such file or directory", done.stderr)
                    self.assertEqual(done.stdout, "", "it measured first")
                    self.assertFalse(os.path.exists(mark), "it ran the program first")

    def test_one_file_for_two_outputs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            done = self.fails(1, "moe", "--json", path, "--trace", f"{folder}/./out")
            self.assertIn("--json and --trace both name", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_a_file_that_gets_full_fails_the_command_and_keeps_the_table(self):
        for words in (INFO, RING, PUT_SIGNAL, ALLTOALL):
            with self.subTest(words=words):
                done = self.fails(1, *words, "--json", "/dev/full")
                self.assertIn("cannot write --json /dev/full: No space left on device", done.stderr)
                self.assertGreater(len(done.stdout.splitlines()), 3)

    def test_what_was_in_the_file_stays_when_nothing_was_measured(self):
        with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as file:
            file.write("kept")
            file.flush()
            run("info", "--fabric", "nonsense", "--json", file.name)
            file.seek(0)
            self.assertEqual(file.read(), "kept")


if __name__ == "__main__":
    unittest.main()
