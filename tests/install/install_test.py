# SPDX-License-Identifier: Apache-2.0
"""Installs into an empty folder, moves the folder, and builds and runs the examples from there."""
import os
import shutil
import subprocess
import tempfile
import unittest

BUILD, SOURCE, CC = (os.environ[f"PERSEUS_{name}"] for name in ("BUILD", "SOURCE", "CC"))
EXAMPLES = {"put_signal": "put_signal.c", "signal_group": "signal_group.c", "moe_layer": "moe/moe_layer.c"}
FILES = ("bin/perseus", "include/perseus/perseus.h", "include/perseus/status.h", "include/perseus/moe.h",
         "include/perseus/nvshmem_group.cuh",
         "share/man/man1/perseus.1", "share/doc/perseus/LICENSE", "share/doc/perseus/NOTICE")


def done(*words, env=None):
    """Standard output of a command that must end well."""
    result = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False,
                            env={**os.environ, **(env or {})})
    if result.returncode != 0:
        raise AssertionError(f"{words}: {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def find(root, name):
    found = [os.path.join(folder, name) for folder, _, files in os.walk(root) if name in files]
    if len(found) != 1:
        raise AssertionError(f"{name} under {root}: {found}")
    return found[0]


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="perseus-install-")
        cls.first, cls.root = os.path.join(cls.folder, "first"), os.path.join(cls.folder, "moved")
        done("cmake", "--install", BUILD, "--prefix", cls.first)
        shutil.move(cls.first, cls.root)
        cls.libraries = os.path.dirname(find(cls.root, "libperseus.so"))
        cls.environment = {"LD_LIBRARY_PATH": cls.libraries,
                           "PKG_CONFIG_PATH": os.path.dirname(find(cls.root, "perseus.pc"))}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_as_pes(self, program):
        done(os.path.join(self.root, "bin/perseus"), "run", "-n", "2", "--timeout", "60", "--", program,
             env=self.environment)

    def test_files(self):
        for name in FILES:
            self.assertTrue(os.path.isfile(os.path.join(self.root, name)), name)

    def test_nothing_names_where_it_was_built_or_installed(self):
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    content = file.read()
                is_text = b"\0" not in content
                for place in (self.first, "/usr/local", *([BUILD, SOURCE] if is_text else [])):
                    self.assertFalse(place.encode() in content, f"{path} names {place}")

    def test_the_program_starts(self):
        program = os.path.join(self.root, "bin/perseus")
        self.assertRegex(done(program, "--version"), "^perseus ")
        for command in ("info", "moe", "bench ring", "nvshmem-env"):  # of every module
            self.assertIn(f"usage: perseus {command}", done(program, *command.split(), "--help"))

    def test_the_manual_can_be_read(self):
        if shutil.which("man") is None:
            self.skipTest("no man here")
        self.assertIn("PERSEUS", done("man", "-l", os.path.join(self.root, "share/man/man1/perseus.1")))

    def test_examples_with_pkg_config(self):
        for name, source in EXAMPLES.items():
            with self.subTest(example=name):
                package = "perseus_moe" if name == "moe_layer" else "perseus"
                flags = done("pkg-config", "--cflags", "--libs", package, env=self.environment).split()
                program = os.path.join(self.folder, f"pc-{name}")
                done(CC, os.path.join(SOURCE, "examples", source), "-o", program, *flags, "-pthread", "-lm")
                self.run_as_pes(program)

    def test_examples_with_pkg_config_and_the_static_library(self):
        flags = done("pkg-config", "--static", "--cflags", "--libs", "perseus", env=self.environment).split()
        flags = ["-l:libperseus.a" if flag == "-lperseus" else flag for flag in flags]
        program = os.path.join(self.folder, "static")
        done(CC, os.path.join(SOURCE, "examples/put_signal.c"), "-o", program, *flags)
        self.run_as_pes(program)

    def test_examples_with_cmake(self):
        build = os.path.join(self.folder, "user")
        done("cmake", "-S", os.path.join(os.path.dirname(os.path.abspath(__file__)), "package"), "-B", build,
             f"-DCMAKE_PREFIX_PATH={self.root}", f"-DEXAMPLES={SOURCE}/examples", f"-DCMAKE_C_COMPILER={CC}")
        done("cmake", "--build", build)
        for name in EXAMPLES:
            with self.subTest(example=name):
                self.run_as_pes(os.path.join(build, name))


if __name__ == "__main__":
    unittest.main()
