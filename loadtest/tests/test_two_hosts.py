# SPDX-License-Identifier: Apache-2.0
"""run.py with its servers on another host: a network namespace with an ssh server in it. Needs root."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from lib import hosts
from lib.servers import missing_program

RUN = Path(__file__).resolve().parents[1] / "run.py"
BUILD = Path(os.environ.get("BWOS_BUILD_DIR", "build/release")).resolve()
DROPBEAR = shutil.which("dropbear", path=os.environ.get("PATH", "") + ":/usr/sbin")  # an ssh server, and no service
PLAN = """# It goes on whatever happens to its server.
question = "Does it?"
minutes = 1
rounds = 3
rounds_max = 3
seconds = 1
variants = [
  {{ name = "ours", program = "{program}" }},
  {{ name = "floor", program = "epoll_floor" }},
]
cells = [
  {{ name = "c4", connections = 4 }},
  {{ name = "load", tool = "bwos-load", rate = 500, classes = [{{ name = "a", path = "/plaintext", connections = 4 }}] }},
]
"""
ALL = {(number, cell, name) for number in "123" for cell in ("c4", "load") for name in ("ours", "floor")}


def ip(*words: str, check: bool = True) -> str:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check).stdout


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "network namespaces are for root"
    missing = [name for name in ("ip", "ss", "ssh", "ssh-keygen", "wrk") if not shutil.which(name)]
    missing += [] if DROPBEAR else ["dropbear"]
    if missing:
        return f"not installed: {', '.join(missing)}"
    try:
        ip("netns", "add", "bwos-try")
        ip("netns", "del", "bwos-try")
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr}"
    return missing_program(hosts.Host("here"), BUILD, "epoll_floor")


@unittest.skipIf(why_not(), why_not())
class TwoHosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"
        self.server, self.client = (f"two-hosts-{os.getpid()}-{role}" for role in ("server", "client"))
        for name in (self.server, self.client):
            ip("netns", "add", name)
            self.addCleanup(ip, "netns", "del", name, check=False)
        ip("link", "add", "wire", "netns", self.server, "type", "veth", "peer", "name", "wire", "netns", self.client)
        for name, address in ((self.server, "198.18.0.1/30"), (self.client, "198.18.0.2/30")):
            ip("-n", name, "address", "add", address, "dev", "wire")
            self.wire("up", name)
            ip("-n", name, "link", "set", "lo", "up")
        self.start_sshd()
        (self.folder / "plan.toml").write_text(PLAN.format(program="bwos-server"))

    def wire(self, state: str, name: str = "") -> None:
        ip("-n", name or self.server, "link", "set", "wire", state)

    def start_sshd(self) -> None:
        home = self.folder / "home"  # root's, there
        (home / ".ssh").mkdir(parents=True)
        home.chmod(0o700)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "user"], check=True)
        shutil.copy(self.folder / "user.pub", home / ".ssh" / "authorized_keys")
        made = subprocess.run(["dropbearkey", "-t", "ed25519", "-f", self.folder / "host"],
                              check=True, capture_output=True, text=True)  # fmt: skip
        host_key = next(line for line in made.stdout.splitlines() if line.startswith("ssh-ed25519"))
        (self.folder / "known").write_text(f"198.18.0.1 {host_key}\n198.18.0.2 {host_key}\n")
        (self.folder / "config").write_text(
            f"IdentityFile {self.folder}/user\nUserKnownHostsFile {self.folder}/known\nIdentitiesOnly yes\n"
        )
        for name in (self.server, self.client):
            # A namespace has mounts of its own.
            script = f"mount --bind {home} /root && exec {DROPBEAR} -F -E -s -m -K 2 -p 22 -P '' -r {self.folder}/host"
            with (self.folder / f"{name}.log").open("wb") as log:
                sshd = subprocess.Popen(["ip", "netns", "exec", name, "sh", "-c", script], stderr=log,
                                        stdin=subprocess.DEVNULL)  # fmt: skip
            self.addCleanup(sshd.wait)
            self.addCleanup(sshd.terminate)
            for _ in range(100):
                if "22" in ip("netns", "exec", name, "ss", "-Hltn"):
                    break
                time.sleep(0.1)
            else:
                self.fail((self.folder / f"{name}.log").read_text())

    def command(self, role: str = "--server") -> list[str]:
        """From the one namespace, with the other's host in this role."""
        here, there = (self.client, "198.18.0.1") if role == "--server" else (self.server, "198.18.0.2")
        return ["ip", "netns", "exec", here, sys.executable, str(RUN), "--build-dir", str(BUILD), role, f"root@{there}",
                "--ssh", f"ssh -F {self.folder}/config", "--out", str(self.out), str(self.folder / "plan.toml")]  # fmt: skip

    def run_until(self, child: subprocess.Popen, words: str) -> str:
        said = ""
        for line in child.stdout:
            said += line
            if words in line:
                return said
        self.fail(f"it ended without {words!r}: {said}")

    def begin(self) -> subprocess.Popen:
        child = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def rows(self) -> list[dict]:
        with (self.out / "runs.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def on_server(self, name: str = "") -> dict[int, str]:
        """Processes there, apart from the ssh server's own."""
        found = {}
        for pid in ip("netns", "pids", name or self.server).split():
            try:
                command = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            if command != "dropbear":
                found[int(pid)] = command
        return found

    def assert_nothing_left(self, name: str = "") -> None:
        end = time.monotonic() + 40  # the agent waits for 20 s for somebody to speak
        while left := self.on_server(name):
            if time.monotonic() > end:
                self.fail(f"left on {name or self.server}: {left}")
            time.sleep(0.2)

    def assert_all_measured(self, failed: int) -> None:
        rows = self.rows()
        self.assertEqual({(row["round"], row["cell"], row["variant"]) for row in rows}, ALL)
        self.assertEqual(len(rows), len(ALL), "measured twice")
        bad = [row for row in rows if row["failed"] or row["errors"] != "0"]
        self.assertEqual(len(bad), failed, bad)
        for row in rows:
            if row not in bad:
                self.assertGreater(float(row["server_cpu_us"]), 0, row)
                self.assertGreater(float(row["server_rss_kib"]), 0, row)

    def test_a_sweep_from_here_with_its_servers_there(self):
        done = subprocess.run(self.command(), capture_output=True, text=True, timeout=150, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_all_measured(failed=0)
        self.assert_nothing_left()
        facts = json.loads((self.out / "machine.json").read_text())
        self.assertEqual(facts["hosts"],
                         {"server": "root@198.18.0.1", "client": "this machine", "address": "198.18.0.1"})  # fmt: skip
        self.assertIn("198.18.0.1:0", facts["commands"]["ours"])
        with (self.out / "cores.csv").open(newline="") as file:
            cores = list(csv.DictReader(file))
        self.assertEqual(len(cores), len(ALL) * os.cpu_count())
        self.assertTrue(any(float(row["user"]) > 0 for row in cores))

    def test_a_sweep_with_its_tools_there(self):
        done = subprocess.run(self.command("--client"), capture_output=True, text=True, timeout=150, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_all_measured(failed=0)
        self.assert_nothing_left(self.client)
        hosts_there = json.loads((self.out / "machine.json").read_text())["hosts"]
        self.assertEqual(hosts_there, {"server": "this machine", "client": "root@198.18.0.2", "address": "198.18.0.1"})

    def test_a_killed_server_and_a_dead_link_cost_one_measurement_each(self):
        child = self.begin()
        said = self.run_until(child, "[2/12")
        killed = [pid for pid, name in self.on_server().items() if name == "bwos-server"]
        self.assertEqual(len(killed), 1)
        os.kill(killed[0], signal.SIGKILL)  # of its next measurement, which may be under way, there is no figure
        said += self.run_until(child, "[5/12")
        self.wire("down")
        said += self.run_until(child, "waiting for root@198.18.0.1")
        self.wire("up")
        said += child.communicate(timeout=200)[0]
        marked = [row for row in self.rows() if row["failed"] or row["errors"] != "0"]
        # One each, or none for what comes between two measurements: the server is started again for the next.
        self.assertLessEqual(len(marked), 2, said)
        self.assertEqual(child.returncode, int(any(row["failed"] for row in marked)), said)
        self.assert_all_measured(failed=len(marked))
        self.assert_nothing_left()

    def test_whoever_is_killed_leaves_nothing_there_and_a_run_that_goes_on(self):
        child = self.begin()
        self.run_until(child, "[1/12")
        self.assertIn("bwos-server", self.on_server().values())
        for pid in ip("netns", "pids", self.client).split():
            if int(pid) == child.pid:
                os.kill(child.pid, signal.SIGKILL)
        self.assertEqual(child.wait(10), -signal.SIGKILL)
        self.assert_nothing_left()
        done = subprocess.run(["ip", "netns", "exec", self.client, sys.executable, str(RUN), "--build-dir", str(BUILD),
                               "--resume", str(self.out)], capture_output=True, text=True, timeout=150, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_all_measured(failed=0)
        self.assert_nothing_left()

    def test_a_host_that_cannot_be_reached_is_named(self):
        (self.folder / "known").write_text("")
        done = subprocess.run(self.command(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "^error: the link to root@198.18.0.1 is lost: .*Host key verification failed")
        self.assertFalse(self.out.exists())

    def test_two_namespaces_come_and_go_with_the_run(self):
        def run(*more: str) -> tuple[int, str]:
            with subprocess.Popen([sys.executable, str(RUN), "--build-dir", str(BUILD), "--netns", "--rounds", "1", *more,
                                   str(self.folder / "plan.toml")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:  # fmt: skip
                said = child.communicate(timeout=100)[0]
            self.assertNotIn(f"bwos-{child.pid}-", ip("netns", "list"))
            return child.returncode, said

        code, said = run("--out", str(self.out))
        self.assertEqual(code, 0, said)
        self.assertEqual({(row["cell"], row["variant"], row["failed"]) for row in self.rows()},
                         {(cell, name, "") for _, cell, name in ALL})  # fmt: skip
        facts = json.loads((self.out / "machine.json").read_text())
        self.assertEqual(facts["hosts"]["address"], "198.18.0.1")
        self.assertEqual((facts["limits"]["somaxconn"], facts["limits"]["syn_backlog"]), ("4096", "4096"))
        self.assertIn(facts["congestion_control"], ("cubic", "reno"))
        code, said = run("--delay", "20", "--out", str(self.folder / "delayed"))
        if code:  # not a word of it in the results, then
            self.assertIn("--delay: this kernel has no netem", said)
            self.assertFalse((self.folder / "delayed").exists())
        else:
            self.out = self.folder / "delayed"
            self.assertGreater(min(float(row["p50_us"]) for row in self.rows()), 40_000)

    def test_places_that_do_not_go_together_are_refused(self):
        for words, said in (
            (("--netns", "--server", "a@b"), "--server and --client have no place beside it"),
            (("--delay", "1"), "--delay is of the wire that --netns makes"),
            (("--netns", "--delay", "x"), "'x' is not a number of milliseconds from 0 to 10000"),
            (("--server-address", "1.2.3.4"), "with --server or --client"),
            (("--ssh", "ssh -p 1"), "--ssh is of the way to another host"),
            (("--ssh", "'", "--server", "a@b"), "\"'\" is not a command: No closing quotation"),
        ):
            done = subprocess.run([sys.executable, str(RUN), *words, str(self.folder / "plan.toml")],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
