# SPDX-License-Identifier: Apache-2.0
"""run.py against the peers that this build made: that it works, not how fast they are."""

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from lib import tools
from lib.scenarios import all_scenarios

RUN = Path(__file__).resolve().parents[1] / "run.py"
BUILD = os.environ.get("BWOS_BUILD_DIR", "build/release")


class Run(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.out = Path(self._folder.name)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(RUN), "--build-dir", BUILD, "--out", str(self.out), *arguments]

    def run_it(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=110, check=False)

    def rows(self) -> list[dict]:
        (folder,) = self.out.iterdir()
        with (folder / "runs.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @unittest.skipUnless(tools.find("wrk"), "wrk is not installed")
    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one CPU")
    def test_wrk_against_both_peers(self):
        done = self.run_it("--scenario", "echo", "--quick", "--only", "floor", "--only", "asio_coro")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows()
        self.assertEqual(sorted((row["round"], row["variant"]) for row in rows),
                         [("1", "asio_coro"), ("1", "floor"), ("2", "asio_coro"), ("2", "floor")])  # fmt: skip
        for row in rows:
            self.assertGreater(int(row["requests"]), 0)
            self.assertGreater(float(row["server_cpu_us"]), 0)
            self.assertEqual((row["errors"], row["failed"]), ("0", ""))
        (folder,) = self.out.iterdir()
        self.assertIn("CPU / floor", (folder / "report.txt").read_text())
        self.assertIn("kernel", json.loads((folder / "machine.json").read_text()))
        self.assertEqual(len(list((folder / "raw").glob("0*.txt"))), 4)

    def test_the_open_loop_client_at_given_rates(self):
        done = self.run_it("--scenario", "skew", "--quick", "--only", "asio_coro", "--rates", "300,400",
                           "--realtime", "0")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows()
        self.assertEqual({row["rate_asked"] for row in rows}, {"300", "400"})
        for row in rows:
            self.assertGreater(float(row["slow_p99_us"]), 200)
            self.assertNotEqual(row["late_p99_us"], "")

    def test_an_interrupt_keeps_what_was_measured_and_leaves_no_server(self):
        child = subprocess.Popen(self.command("--scenario", "skew", "--only", "asio_coro", "--rates", "300,400",
                                              "--seconds", "1", "--realtime", "0"),
                                 stdout=subprocess.PIPE, text=True)  # fmt: skip
        for line in child.stdout:
            if line.startswith("[1/"):
                break
        servers = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=False)
        self.assertNotEqual(servers.stdout.split(), [])
        child.send_signal(signal.SIGINT)
        rest = child.communicate(timeout=60)[0]
        self.assertEqual(child.returncode, 130, rest)
        self.assertIn("what was measured is kept", rest)
        self.assertGreaterEqual(len(self.rows()), 1)
        for pid in servers.stdout.split():
            self.assertFalse(Path(f"/proc/{pid}").exists(), f"process {pid} is left")

    def test_what_is_missing_is_left_out_by_name(self):
        empty = self.out / "empty"
        empty.mkdir()
        done = subprocess.run([sys.executable, str(RUN), "--build-dir", str(empty), "--out", str(self.out / "results"),
                               "--scenario", "memory"], capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        for variant in all_scenarios((0, 1))["memory"].variants:
            self.assertIn(f"left out: {variant.name}: ", done.stdout)
        self.assertFalse((self.out / "results").exists())


if __name__ == "__main__":
    unittest.main()
