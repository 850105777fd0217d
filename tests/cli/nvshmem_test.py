# SPDX-License-Identifier: Apache-2.0
"""perseus nvshmem-env, nvshmem-install, nvshmem-profile; the NVSHMEM under them is the harness or an empty shell."""
import json
import os
import subprocess
import tempfile
import unittest

from program import ENVIRONMENT, PROGRAM, ProgramTest

HARNESS = os.environ["PERSEUS_HARNESS"]
PLUGINS = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), "lib", "nvshmem")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Installation(tempfile.TemporaryDirectory):
    """A folder that looks like an NVSHMEM of some interface."""

    def __init__(self, major):
        super().__init__()
        self.files = [os.path.join(self.name, name) for name in
                      ("libnvshmem_host.so.3", f"nvshmem_transport_libfabric.so.{major}",
                       f"nvshmem_transport_ibrc.so.{major}", f"nvshmem_transport_ucx.so.{major}")]
        for path in self.files:
            with open(path, "w", encoding="utf-8") as file:
                file.write("stock " + os.path.basename(path))


class EnvTest(ProgramTest):
    def lines_in_a_shell(self, *words, preload=""):
        """What a shell has after eval "$(perseus nvshmem-env ...)"."""
        script = 'eval "$("$0" nvshmem-env "$@")"; printf "%s\\n" "$LD_PRELOAD" "$NVSHMEM_REMOTE_TRANSPORT" ' \
                 '"$NVSHMEM_HEAP_KIND" "$PERSEUS_PROVIDER" "$PERSEUS_ORDERING"'
        env = {**os.environ, "LD_PRELOAD": preload}
        done = subprocess.run(["sh", "-c", script, PROGRAM, *words], capture_output=True, text=True, env=env,
                              check=True)
        return done.stdout.split("\n")

    def test_lines(self):
        preload, transport, heap, provider, ordering = self.lines_in_a_shell(
            "--transport", "ibrc", "--heap", "system", "--provider", "tcp", "--ordering", "drain")[:5]
        self.assertEqual(preload.split(":"), [os.path.join(PLUGINS, f"nvshmem_transport_ibrc.so.{n}") for n in (3, 4, 5, 6, 7)])
        self.assertEqual((transport, heap, provider, ordering), ("ibrc", "SYSMEM", "tcp", "drain"))

    def test_every_preloaded_file_has_its_name_as_soname(self):
        for path in self.lines_in_a_shell()[0].split(":"):
            out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
            self.assertIn(f"soname: [{os.path.basename(path)}]", out)
            symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
            self.assertEqual([line.split()[-1] for line in symbols.stdout.splitlines()], ["nvshmemt_init"])

    def test_the_installed_interface_decides(self):
        for major in (3, 4, 5, 6, 7):
            with Installation(major) as folder:
                preload = self.lines_in_a_shell("--nvshmem", folder)[0]
                self.assertEqual(preload, os.path.join(PLUGINS, f"nvshmem_transport_libfabric.so.{major}"))
        with Installation(8) as folder:
            done = self.fails(1, "nvshmem-env", "--nvshmem", folder)
            self.assertEqual(done.stdout, "")
            for word in ("interface 8", "3 (NVSHMEM 3.3 and 3.4)", "7 (NVSHMEM 3.8)"):
                self.assertIn(word, done.stderr)

    def test_the_interface_of_nvshmem_home_is_checked(self):
        with tempfile.TemporaryDirectory() as home, Installation(8) as folder:
            os.symlink(folder, os.path.join(home, "lib"))
            done = self.fails(1, "nvshmem-env", env={"NVSHMEM_HOME": home})
            self.assertEqual(done.stdout, "")
            self.assertIn("interface 8", done.stderr)
            self.ok("nvshmem-env", env={"NVSHMEM_HOME": "/nonexistent"})

    def test_any_folder_that_leads_to_the_library_will_do(self):
        with tempfile.TemporaryDirectory() as root, Installation(6) as folder:
            for below in ("lib", "lib64", "nvidia/nvshmem/lib"):
                home = os.path.join(root, below.replace("/", "-"))
                os.makedirs(os.path.dirname(os.path.join(home, below)))
                os.symlink(folder, os.path.join(home, below))
                self.assertTrue(self.lines_in_a_shell("--nvshmem", home)[0].endswith("libfabric.so.6"), below)
            wheel = os.path.join(root, "nvidia-nvshmem-lib", "nvidia", "nvshmem")
            self.assertTrue(self.lines_in_a_shell("--nvshmem", wheel)[0].endswith("libfabric.so.6"))
            self.ok("nvshmem-install", wheel)
            self.assertTrue(os.path.islink(os.path.join(folder, "nvshmem_transport_libfabric.so.6")))
            self.ok("nvshmem-install", "--undo", wheel)
            done = self.fails(1, "nvshmem-env", "--nvshmem", root)
            self.assertIn("prefix, or its wheel's root", done.stderr)

    def test_the_program_needs_the_c_library_alone(self):
        """These commands run on nodes that have NVSHMEM and libfabric, and nothing that other commands need."""
        out = subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
        needed = {line.split("[")[1].rstrip("]") for line in out.splitlines() if "(NEEDED)" in line}
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"})

    def test_mistakes(self):
        self.fails(2, "nvshmem-env", "--transport", "ucx")
        self.fails(2, "nvshmem-env", "--heap", "attic")
        self.fails(1, "nvshmem-env", "--plugins", "/nonexistent")
        self.fails(1, "nvshmem-env", "--nvshmem", "/nonexistent")


class InstallTest(ProgramTest):
    def test_installs_and_restores(self):
        with Installation(3) as folder:
            for _ in range(2):  # twice is once
                self.ok("nvshmem-install", folder)
                for name in ("libfabric", "ibrc"):
                    file = f"nvshmem_transport_{name}.so.3"
                    self.assertEqual(os.readlink(os.path.join(folder, file)), os.path.join(PLUGINS, file))
                self.assertEqual(read(os.path.join(folder, "nvshmem_transport_ucx.so.3")),
                                 "stock nvshmem_transport_ucx.so.3")
                self.assertFalse(os.path.lexists(os.path.join(folder, "nvshmem_transport_libfabric.so.4")))
            for _ in range(2):
                self.ok("nvshmem-install", "--undo", folder)
                for name in ("libfabric", "ibrc", "ucx"):
                    file = f"nvshmem_transport_{name}.so.3"
                    self.assertEqual(read(os.path.join(folder, file)), "stock " + file)
            self.assertEqual(len(os.listdir(folder)), 4)

    def test_where_there_was_none(self):
        with Installation(4) as folder:
            os.unlink(os.path.join(folder, "nvshmem_transport_ibrc.so.4"))
            self.ok("nvshmem-install", folder)
            self.assertTrue(os.path.islink(os.path.join(folder, "nvshmem_transport_ibrc.so.4")))
            self.ok("nvshmem-install", "--undo", folder)
            self.assertFalse(os.path.lexists(os.path.join(folder, "nvshmem_transport_ibrc.so.4")))

    def test_refuses(self):
        with Installation(8) as folder:
            done = self.fails(1, "nvshmem-install", folder)
            self.assertIn("interface 8", done.stderr)
            self.assertEqual(len(os.listdir(folder)), 4)
        with tempfile.TemporaryDirectory() as folder:
            self.fails(1, "nvshmem-install", folder)
        self.fails(2, "nvshmem-install")
        if os.geteuid() != 0:
            with Installation(3) as folder:
                os.chmod(folder, 0o500)
                self.fails(1, "nvshmem-install", folder)
                os.chmod(folder, 0o700)


class ProfileTest(ProgramTest):
    def profile(self, folder, *words):
        env = {"PERSEUS_HARNESS_PRELOADED": "1"}
        return self.ok("nvshmem-profile", "--transport", "perseus", "--out", os.path.join(folder, "run"), *words, "--",
                       HARNESS, "tcp-drain", "1", "storm", env=env)

    def test_report_json_and_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.profile(folder)
            for words in ("expected speed-up", "lost in fences", "in flight when one came", "to PE", " KiB in "):
                self.assertIn(words, done.stdout)
            document = json.loads(read(os.path.join(folder, "run.json")))
            self.assertEqual(document["command"], "nvshmem-profile")
            self.assertEqual([pe["pe"] for pe in document["pes"]], [0, 1, 2])
            for pe in document["pes"]:
                self.assertTrue(pe["transport"].startswith(PLUGINS))
                self.assertGreater(pe["calls"]["quiet"]["calls"], 0)
                self.assertGreater(pe["busy_us"], 0)
                self.assertGreaterEqual(pe["expected_speedup"]["without_waiting"], 1)
                self.assertEqual(len(pe["peers"]), 3)
                sizes = pe["peers"][(pe["pe"] + 1) % 3]["puts_from_bytes"]
                self.assertTrue(all(size["calls"] > 0 and size["us"] > 0 for size in sizes.values()) and sizes)
                self.assertGreater(pe["fences"]["requests"], 0)
                self.assertGreater(pe["fences"]["in_flight_mean"], 0)
                self.assertEqual(sum(peer["calls"].get("amo", {"calls": 0})["calls"] for peer in pe["peers"]),
                                 pe["calls"]["amo"]["calls"])
            trace = json.loads(read(os.path.join(folder, "run.trace.json")))["traceEvents"]
            calls = [event for event in trace if event["ph"] == "X"]
            self.assertEqual({event["pid"] for event in calls}, {0, 1, 2})
            total = sum(count["calls"] for pe in document["pes"] for count in pe["calls"].values())
            self.assertEqual(len(calls) + sum(pe["events_lost"] for pe in document["pes"]), total)

    def test_records_of_several_hosts(self):
        with tempfile.TemporaryDirectory() as folder:
            shims = [os.path.join(PLUGINS, "profile", "nvshmem_transport_" + name)
                     for name in ("libfabric.so.3", "ibrc.so.4")]  # the two that this lane uses, one after the other
            env = {**ENVIRONMENT, "PERSEUS_PROFILE_DIR": folder, "PERSEUS_PROFILE_INNER": PLUGINS,
                   "PERSEUS_HARNESS_PRELOADED": "1", "LD_PRELOAD": ":".join(shims)}
            subprocess.run([HARNESS, "tcp-drain", "1", "storm"], env=env, check=True, capture_output=True)
            for _ in range(2):  # they stay where they are
                self.assertIn("PE 2 of 3, interface 4.0", self.ok("nvshmem-profile", "--records", folder).stdout)
            self.fails(2, "nvshmem-profile", "--records", folder, "--", "true")
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("holds no records", self.fails(1, "nvshmem-profile", "--records", folder).stderr)

    def test_without_an_nvshmem_program(self):
        done = self.fails(1, "nvshmem-profile", "--", "true")
        self.assertIn("no PE used a remote transport", done.stderr)
        self.assertEqual(subprocess.run([PROGRAM, "nvshmem-profile", "--", "sh", "-c", "exit 7"], env=ENVIRONMENT,
                                        capture_output=True, check=False).returncode, 7)
        self.fails(2, "nvshmem-profile")
        self.fails(127, "nvshmem-profile", "--", "/nonexistent/program")


if __name__ == "__main__":
    unittest.main()
