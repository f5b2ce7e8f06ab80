# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side, made up so that what differs is known."""

import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import made_up

import compare
from lib import kept, stats
from lib.measure import Failed

LOADTEST = Path(__file__).resolve().parent.parent


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_of(self, name: str, made: list[dict], *more, **facts) -> kept.Run:
        return kept.load(made_up.write(self.folder / name, made, *more, **facts))

    def verdicts(self, a: kept.Run, b: kept.Run) -> dict[tuple[str, ...], str]:
        table, _ = compare.rows(compare.samples(a), compare.samples(b), True)
        return {tuple(row[:3]): row[-1] for row in table[1:]}

    def test_what_is_noise_is_called_noise(self):
        least = 1
        for seed in range(0, 12, 2):
            a, b = (self.run_of(str(n), made_up.records(seed=n, rounds=12)) for n in (seed, seed + 1))
            self.assertEqual(set(self.verdicts(a, b).values()), {"within noise"})
            of_a, of_b = compare.samples(a), compare.samples(b)
            least = min(least, *(stats.mann_whitney(of_a[key], of_b[key]) for key in of_a))
        self.assertLess(least, 0.05, "without the correction, something would differ")
        self.assertRegex(compare.text(a, b), r"\n0 of 24 medians differ beyond noise")

    def test_a_slower_machine_changes_no_ratio(self):
        a = self.run_of("a", made_up.records(seed=1, rounds=12))
        b = self.run_of("b", made_up.records(seed=2, rounds=12, slower=1.3))
        of = self.verdicts(a, b)
        self.assertEqual({of[key] for key in of if "/" not in key[2]}, {"differs"})
        self.assertEqual({of[key] for key in of if "/" in key[2]}, {"within noise"})

    def test_a_dearer_server_shows_in_its_rows_alone(self):
        made = made_up.records(seed=2, rounds=12)
        for entry in made:
            entry["server_cpu_us"] *= 1.05 if entry["variant"] == "ours" and entry["cell"] == "c64" else 1
        of = self.verdicts(self.run_of("a", made_up.records(seed=1, rounds=12)), self.run_of("b", made))
        self.assertEqual(of["c64", "ours", "server_cpu_us / floor"], "differs")
        self.assertEqual({of[key] for key in of if key[0] == "64" or key[1] == "floor"}, {"within noise"})

    def test_too_few_rounds_cannot_tell_and_that_is_said(self):
        a = self.run_of("a", made_up.records(seed=1, rounds=3))
        b = self.run_of("b", made_up.records(seed=2, rounds=3, slower=9))
        self.assertEqual(set(self.verdicts(a, b).values()), {"too few rounds to tell"})
        self.assertIn("24 of them have too few rounds to tell", compare.text(a, b))

    def test_one_metric_alone_needs_fewer_rounds(self):
        a = self.run_of("a", made_up.records(seed=1, rounds=6))
        b = self.run_of("b", made_up.records(seed=2, rounds=6, slower=9))
        self.assertIn("\n4 of 6 medians differ", compare.text(a, b, metrics=("server_cpu_us",)))

    def test_runs_with_errors_count_nowhere(self):
        bad = [entry | {"errors": 1} for entry in made_up.records(rounds=3, slower=50)]
        good = made_up.records(seed=1)
        a, b = self.run_of("a", good), self.run_of("b", good + [e | {"round": e["round"] + 90} for e in bad])
        self.assertEqual(compare.samples(a), compare.samples(b))

    def test_what_else_differs_is_named_and_when_it_was_is_not(self):
        a = self.run_of("a", made_up.records(), build={"CMAKE_BUILD_TYPE": "Release"}, load_before=[1])
        b = self.run_of("b", made_up.records(), utc="later", load_before=[2], commit=["fedc"], kernel="6.2",
                        build={"CMAKE_BUILD_TYPE": "Debug"}, mitigations={"spectre_v2": "Vulnerable"},
                        commands={"ours": ["./bwos-server", "-x"], "floor": ["./epoll_floor", "--x"]})  # fmt: skip
        self.assertEqual(compare.differences(a.facts, b.facts), [
            "  commit: 0123456789ab | fedc", "  kernel: 6.1 | 6.2",
            "  commands.ours: ./bwos-server --x | ./bwos-server -x",
            "  build.CMAKE_BUILD_TYPE: Release | Debug",
            "  mitigations.spectre_v2: not recorded | Vulnerable"])  # fmt: skip
        self.assertIn("differ in nothing recorded", compare.text(a, a))
        newer = a.facts | {"scenario": a.facts["scenario"] | {"new": None, "newer": "", "newest": 0}}
        self.assertEqual(
            compare.differences(a.facts, newer), [], "what an older run could not say and a newer leaves unset"
        )

    def test_what_an_open_loop_was_asked_for_is_no_result(self):
        paced = replace(made_up.SCENARIO, cells=(replace(made_up.SCENARIO.cells[0], rate=100.0),), targets=())
        run = self.run_of("a", made_up.records(paced), paced)
        self.assertEqual({key[2].split()[0] for key in compare.samples(run)}, {"server_cpu_us", "p50_us", "p99_us"})

    def test_servers_that_one_run_lacks_are_named(self):
        less = replace(made_up.SCENARIO, variants=made_up.SCENARIO.variants[:1], baseline=None, targets=())
        a, b = self.run_of("a", made_up.records()), self.run_of("b", made_up.records(less), less)
        self.assertIn("only in A: 64 floor, c64 floor", compare.text(a, b))

    def test_runs_with_nothing_in_common_are_refused(self):
        a = self.run_of("a", made_up.records())
        b = self.run_of("b", [entry | {"variant": "x" + entry["variant"]} for entry in made_up.records()])
        with self.assertRaisesRegex(Failed, "no cell, variant and metric in common"):
            compare.text(a, b)

    def test_the_command(self):
        self.run_of("a", made_up.records())
        command = [sys.executable, "-B", str(LOADTEST / "compare.py"), str(self.folder / "a")]
        done = subprocess.run(
            [*command, str(self.folder / "a"), "--all"], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("within noise"), 24)
        done = subprocess.run([*command, str(self.folder)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^compare.py: \S+ is no run: it has no machine.json\n$")


if __name__ == "__main__":
    unittest.main()
