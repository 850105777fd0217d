# SPDX-License-Identifier: Apache-2.0
"""What goes wrong ends with one exit code, a message that says what to do, and nothing left behind."""
import os
import signal
import subprocess
import time
import unittest

from program import ENVIRONMENT, PROGRAM, ProgramTest

BENCH = ("bench", "put-signal", "--transfers", "4", "--peers", "2", "--bytes", "4K")


def children_of(pid):
    """All descendants that are processes of their own."""
    found, left = [], [pid]
    while left:
        task = left.pop()
        try:
            with open(f"/proc/{task}/task/{task}/children", encoding="ascii") as file:
                more = [int(word) for word in file.read().split()]
        except OSError:
            continue
        found += more
        left += more
    return found


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class FailureTest(ProgramTest):
    def start(self, *words):
        """A benchmark that runs long, with the PIDs of its jobs once all are there."""
        process = subprocess.Popen([PROGRAM, *BENCH, "--repeat", "1000000", *words], text=True,
                                   env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        # Two jobs: leader and three PEs each.
        deadline = time.monotonic() + 60
        while len(children_of(process.pid)) < 8:
            self.assertLess(time.monotonic(), deadline, "the jobs did not start")
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        time.sleep(0.5)  # into the measurement
        return process, children_of(process.pid)

    def gone(self, pids):
        deadline = time.monotonic() + 30
        while any(is_alive(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline, "processes are left")
            time.sleep(0.05)

    def test_unknown_provider(self):
        done = self.fails(1, *BENCH, "--provider", "nonesuch")
        self.assertIn("nonesuch", done.stderr)
        self.assertIn("tcp", done.stderr)  # what there is instead

    def test_unknown_fabric(self):
        for words in ((*BENCH,), ("info",)):
            done = self.fails(1, *words, "--fabric", "nonesuch")
            self.assertIn("nonesuch", done.stderr)
            self.assertIn("loopback", done.stderr)

    def test_no_mode_left(self):
        done = self.fails(1, *BENCH, "--provider", "tcp", "--orderings", "nic-fence")
        self.assertIn("FI_FENCE", done.stderr)
        self.assertIn("perseus info", done.stderr)

    def test_json_path(self):
        began = time.monotonic()
        done = self.fails(1, *BENCH, "--repeat", 1000000, "--json", "/nonesuch/out.json")
        self.assertIn("/nonesuch/out.json", done.stderr)
        self.assertLess(time.monotonic() - began, 60, "measured before it looked")

    def test_bad_link(self):
        self.assertIn("latncy", self.fails(1, *BENCH, "--link", "latncy=5us").stderr)

    def test_operation_fails(self):
        """The fabric fails an operation in the middle: every PE ends, and the command says so."""
        done = self.fails(1, *BENCH, "--orderings", "fifo", env={"PERSEUS_ADVERSARY": "fail_nth=40"})
        self.assertIn("perseus:", done.stderr)

    def test_pe_dies(self):
        for orderings in ("drain,fifo", "fifo,counted"):
            with self.subTest(orderings=orderings):
                process, pids = self.start("--orderings", orderings)
                leader = next(pid for pid in pids if children_of(pid))
                os.kill(children_of(leader)[-1], signal.SIGKILL)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1, errors)
                self.assertRegex(errors, r"PE \d.*signal 9")
                self.gone(pids)

    def test_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                shared = set(os.listdir("/dev/shm"))
                process, pids = self.start("--orderings", "drain,fifo", "--provider", "shm")
                process.send_signal(number)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, -number, errors)
                self.gone(pids)
                left = [name for name in set(os.listdir("/dev/shm")) - shared
                        if any(str(pid) in name for pid in pids)]
                self.assertEqual(left, [])

    def test_driver_killed(self):
        """Nobody can clean up, but nobody stays behind either."""
        process, pids = self.start("--orderings", "drain,fifo")
        process.kill()
        process.communicate(timeout=60)
        self.gone(pids)


if __name__ == "__main__":
    unittest.main()
