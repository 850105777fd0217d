# SPDX-License-Identifier: Apache-2.0
"""PEs on two hosts: network namespaces, joined by a cable. Needs root and ip; skipped elsewhere."""
import os
import shutil
import subprocess
import unittest

from program import ENVIRONMENT, PROGRAM, ProgramTest

EXAMPLE = os.environ["PERSEUS_EXAMPLE"]
HOSTS = [f"perseus{os.getpid()}{letter}" for letter in "ab"]
MOUNT = "/run/netns"
SUBNET = "10.99.0.0/24"


def is_mounted():
    with open("/proc/self/mounts", encoding="ascii", errors="replace") as mounts:
        return any(line.split()[1] == MOUNT for line in mounts)


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False).returncode == 0


def build():
    first, second = HOSTS
    return (ip("netns", "add", first) and ip("netns", "add", second) and
            add_cable("cable0") and add_cable("cable6", "index", "66") and
            all(ip("-n", host, "addr", "add", f"10.99.0.{i + 1}/24", "dev", "cable0") and
                ip("-n", host, "link", "set", "cable0", "up") and ip("-n", host, "link", "set", "lo", "up")
                for i, host in enumerate(HOSTS)))


def add_cable(name, *options):
    """The options are those of the first host's end: with a number of its own, zones differ as they do in life."""
    return ip("link", "add", name, "netns", HOSTS[0], *options, "type", "veth", "peer", "name", name, "netns", HOSTS[1])


def address_by_link():
    """cable6 has link-local addresses only. Without nodad they could not be bound for a second or two."""
    return all(ip("-n", host, "link", "set", "cable6", "addrgenmode", "none") and
               ip("-n", host, "link", "set", "cable6", "up") and
               ip("-n", host, "addr", "add", f"fe80::6:{i + 1}/64", "dev", "cable6", "nodad")
               for i, host in enumerate(HOSTS))


def start(host, rank, unique_id, bind, provider):
    env = {**ENVIRONMENT, "PERSEUS_UNIQUE_ID": unique_id, "PERSEUS_RANK": str(rank), "PERSEUS_SIZE": "2",
           "PERSEUS_BIND": bind, "PERSEUS_PROVIDER": provider, "PERSEUS_TIMEOUT_MS": "20000",
           "PERSEUS_PES_PER_NODE": "1"}
    return subprocess.Popen(["ip", "netns", "exec", host, EXAMPLE], env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


class HostsTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        if shutil.which("ip") is None:
            raise unittest.SkipTest("no ip here (Debian: iproute2)")
        # ip mounts a folder for the namespaces, and leaves it so.
        cls.had_mount = is_mounted()
        if not build():
            cls.tearDownClass()
            raise unittest.SkipTest("this user may not make network namespaces")

    @classmethod
    def tearDownClass(cls):
        for host in HOSTS:
            ip("netns", "del", host)
        if not cls.had_mount and is_mounted():
            subprocess.run(["umount", MOUNT], check=False, stderr=subprocess.DEVNULL)

    def job(self, bind, provider="tcp", id_bind=SUBNET):
        """bind: of all hosts, or of each."""
        binds = bind if isinstance(bind, tuple) else (bind, bind)
        made = subprocess.run(["ip", "netns", "exec", HOSTS[0], PROGRAM, "unique-id", "--bind", id_bind],
                              capture_output=True, text=True, check=True)
        pes = [start(host, rank, made.stdout.strip(), binds[rank], provider) for rank, host in enumerate(HOSTS)]
        return [(pe.returncode, out, err) for pe, (out, err) in ((pe, pe.communicate(timeout=100)) for pe in pes)]

    def test_a_subnet_or_an_interface_joins_them(self):
        for bind in (SUBNET, "cable0"):
            for provider, said in (("tcp", r""), ("sockets", r"PE \d: provider 'sockets' stands still .*\n")):
                with self.subTest(bind=bind, provider=provider):
                    for code, out, err in self.job(bind, provider):
                        self.assertEqual(code, 0, out + err)
                        self.assertRegex(err, rf"\A(?:{said})?\Z" if said else r"\A\Z")

    def test_link_local_addresses_join_them(self):
        if not address_by_link():
            self.skipTest("no IPv6 here")
        for bind in (("fe80::6:1%cable6", "fe80::6:2%cable6"), "cable6", "fe80::6:0/112"):
            for provider, said in (("tcp", r""), ("sockets", r"PE \d: provider 'sockets' stands still .*\n")):
                with self.subTest(bind=bind, provider=provider):
                    for code, out, err in self.job(bind, provider, id_bind="fe80::6:1%cable6"):
                        self.assertEqual(code, 0, out + err)
                        self.assertRegex(err, rf"\A(?:{said})?\Z" if said else r"\A\Z")

    def test_loopback_addresses_are_not_taken_for_ones_own(self):
        for code, _, err in self.job("127.0.0.1"):
            self.assertEqual(code, 1)
            self.assertIn("PERSEUS_BIND", err)
            self.assertNotIn("TIMEOUT", err)

    def test_what_is_not_there_is_said_with_what_is(self):
        for code, _, err in self.job("eth7"):
            self.assertEqual(code, 1)
            self.assertIn("eth7", err)
            self.assertIn("cable0 10.99.0.", err)


if __name__ == "__main__":
    unittest.main()
