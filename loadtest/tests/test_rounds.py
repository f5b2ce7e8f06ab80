# SPDX-License-Identifier: Apache-2.0
"""The rule for adding rounds, on figures that are made up; and what a process is seen to use."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

from lib import measure, rounds
from lib.rounds import Measurement, Settings
from lib.scenario import Cell, Scenario, Target
from lib.servers import Variant


def scenario(metric: str, **more) -> Scenario:
    return Scenario(
        "s", "?", (Variant("a", "epoll_floor"), Variant("b", "epoll_floor")), (Cell("c"),), "b",
        (Target(metric, "a", "b", 1.1, ("c",)),), **more,
    )  # fmt: skip


class Figures(Measurement):
    """Measures nothing: variant a's figure in round n is `figure(n)`, that of b is 1."""

    def __init__(self, folder: str, metric: str, figure):
        super().__init__(scenario(metric), Settings(Path(".")), Path(folder))
        self._figure = figure

    def _round(self, number: int) -> None:
        for name, value in (("a", self._figure(number)), ("b", 1.0)):
            self.records.append({"round": number, "cell": "c", "variant": name,
                                 self.scenario.targets[0].metric: value})  # fmt: skip


class AddingRounds(unittest.TestCase):
    def rounds_of(self, metric: str, figure) -> int:
        with tempfile.TemporaryDirectory() as folder:
            measured = Figures(folder, metric, figure)
            measured.run()
            measured.close()
            return len(measured.records) // 2

    def test_steady_figures_need_no_more(self):
        self.assertEqual(self.rounds_of("server_cpu_us", lambda n: 1.05 + 0.001 * (n % 3)), 10)

    def test_unsteady_figures_end_at_the_maximum(self):
        self.assertEqual(self.rounds_of("server_cpu_us", lambda n: 1.0 + 0.5 * (n % 2)), 30)

    def test_p99_may_vary_more_than_cpu(self):
        figure = lambda n: 1.0 + 0.2 * (n % 2)  # noqa: E731
        self.assertEqual(self.rounds_of("p99_us", figure), 10)
        self.assertEqual(self.rounds_of("server_cpu_us", figure), 30)

    def test_rounds_stop_as_soon_as_the_interval_is_narrow(self):
        # Noisy at first, steady afterwards.
        found = self.rounds_of("server_cpu_us", lambda n: 1.3 if n in (2, 4, 6, 8) else 1.0)
        self.assertGreater(found, 10)
        self.assertLess(found, 30)


class Rates(unittest.TestCase):
    def test_a_share_of_the_peak_is_that_of_the_slowest(self):
        cells = (Cell("c", "bwos-load", 2, of_peak=0.7), Cell("given", "bwos-load", 2, rate=5.0))
        peaks = {"a": 50_000, "b": 30_000}

        def server(variant, *_):
            return mock.Mock(variant=variant)

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(rounds, "Server", server):
            measured = Measurement(replace(scenario("p99_us"), cells=cells), Settings(Path(".")), Path(folder))
            keeps_up = lambda which, cell, rate: rate <= peaks[which.variant.name]  # noqa: E731
            with mock.patch.object(measured, "_keeps_up", keeps_up):
                rates = measured.calibrate()
            measured.close()
        self.assertEqual(rates["given"], 5.0)
        self.assertLessEqual(rates["c"], 0.7 * 30_000)
        self.assertGreater(rates["c"], 0.7 * 30_000 * 0.95)
        self.assertEqual(measured.scenario.cells[0].rate, rates["c"])


class Order(unittest.TestCase):
    def test_every_variant_takes_every_place(self):
        places = Counter()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(rounds, "Server"):
            measured = Measurement(scenario("p99_us"), Settings(Path(".")), Path(folder))
            seen = lambda number, place, cell, name, server: places.update([(name, place)])  # noqa: E731
            with mock.patch.object(measured, "_one", seen):
                for number in range(1, 41):
                    measured._round(number)
            measured.close()
        self.assertEqual(set(places), {("a", 1), ("a", 2), ("b", 1), ("b", 2)})
        self.assertGreater(min(places.values()), 8)


class Usage(unittest.TestCase):
    def test_another_process_is_seen_to_burn_what_it_burns(self):
        burn = (
            "import time\n"
            "end = time.process_time() + 0.3\n"
            "while time.process_time() < end: pass\n"
            "print(1, flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            used = measure.usage(child.pid)
            child.communicate(b"\n")
        self.assertGreaterEqual(used.cpu_s, 0.3)
        self.assertLess(used.cpu_s, 5)
        self.assertAlmostEqual(used.user_s + used.system_s, used.cpu_s, delta=0.05)

    def test_time_of_threads_that_ended_is_kept(self):
        burn = (
            "import threading, time\n"
            "def work():\n"
            "  end = time.thread_time() + 0.2\n"
            "  while time.thread_time() < end: pass\n"
            "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
            "print(1, flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            self.assertGreaterEqual(measure.process_cpu_s(child.pid), 0.2)
            child.communicate(b"\n")

    def test_a_process_that_is_gone_is_a_failure(self):
        child = subprocess.Popen(["true"])
        child.wait()
        with self.assertRaises(measure.Failed):
            measure.usage(child.pid)

    def test_a_tool_that_hangs_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            with self.assertRaisesRegex(measure.Failed, "did not end"):
                measure.run_tool(["sleep", "60"], os.getpid(), Path(folder) / "raw.txt", timeout_s=0.2)
            self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(measure._children, [])


if __name__ == "__main__":
    unittest.main()
