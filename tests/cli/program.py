# SPDX-License-Identifier: Apache-2.0
"""How the tests run the program: build/<preset>/bin/perseus is in PERSEUS_PROGRAM."""
import json
import os
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["PERSEUS_PROGRAM"]
SOURCE = os.environ["PERSEUS_SOURCE"]
# Many PEs on a machine that is busy with other tests: let idle proxies give way soon.
ENVIRONMENT = {**os.environ, "PERSEUS_PROXY_SPIN": "20", "PERSEUS_PROXY_YIELD": "5"}


def run(*words, env=None, timeout=200, cwd=None):
    """The finished process, with text in stdout and stderr. A hang fails the test."""
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                          env={**ENVIRONMENT, **(env or {})}, cwd=cwd, check=False)


class ProgramTest(unittest.TestCase):
    maxDiff = None

    def ok(self, *words, **how):
        done = run(*words, **how)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def fails(self, code, *words, **how):
        done = run(*words, **how)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        self.assertNotEqual(done.stderr.strip(), "", f"{words}: failed without a word")
        return done

    def json_of(self, *words, **how):
        """What the command writes with --json; it must end well."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            done = self.ok(*words, "--json", path, **how)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done
