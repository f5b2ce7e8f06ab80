# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side, made up so that what differs is known."""

import math
import random
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

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
            pairs = [[list(of[key].values()) for of in (of_a, of_b)] for key in of_a]
            least = min(least, *(stats.mann_whitney(*pair) for pair in pairs))
        self.assertLess(least, 0.05, "without the correction, something would differ")
        self.assertRegex(compare.text(a, b), r"\nCell by cell, 0 of 24 medians differ beyond noise")

    def test_a_slower_machine_changes_no_ratio(self):
        a = self.run_of("a", made_up.records(seed=1, rounds=12))
        b = self.run_of("b", made_up.records(seed=2, rounds=12, slower=1.3))
        of = self.verdicts(a, b)
        self.assertEqual({of[key] for key in of if "/" not in key[2]}, {"differs"})
        self.assertEqual({of[key] for key in of if "/" in key[2]}, {"within noise"})

    def test_a_cell_that_one_run_measured_with_fewer_servers_is_compared_by_those(self):
        cells = (replace(made_up.SCENARIO.cells[0], variants=("floor",)), made_up.SCENARIO.cells[1])
        some = replace(made_up.SCENARIO, cells=cells, targets=made_up.SCENARIO.targets[1:])
        made = [each for each in made_up.records(seed=2) if each["variant"] == "floor" or each["cell"] == "64"]
        a, b = self.run_of("a", made_up.records(seed=1)), self.run_of("b", made, some)
        self.assertEqual({key[:2] for key in self.verdicts(a, b)}, {("c64", "floor"), ("64", "ours"), ("64", "floor")})
        self.assertEqual(compare.differences(a.facts, b.facts), ["  scenario.cells.c64.variants: none | floor"])

    def test_a_run_that_knows_no_variants_of_cells_differs_in_nothing(self):
        a, b = self.run_of("a", made_up.records(seed=1)), self.run_of("b", made_up.records(seed=2))
        for cell in a.facts["scenario"]["cells"]:
            del cell["variants"]
        del a.facts["scenario"]["tolerance"]
        self.assertEqual(compare.differences(a.facts, b.facts), [])
        b.facts["scenario"]["tolerance"] = 0.03
        self.assertEqual(compare.differences(a.facts, b.facts), [], "as with the targets")

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
        self.assertIn("24 of them have too few rounds to tell: 7 in each run are needed", compare.text(a, b))

    def test_one_metric_alone_needs_fewer_rounds(self):
        a = self.run_of("a", made_up.records(seed=1, rounds=6))
        b = self.run_of("b", made_up.records(seed=2, rounds=6, slower=9))
        self.assertIn("\nCell by cell, 4 of 6 medians differ", compare.text(a, b, metrics=("server_cpu_us",)))

    def test_one_cell_or_server_alone_needs_fewer_rounds(self):
        a = self.run_of("a", made_up.records(seed=1, rounds=6))
        b = self.run_of("b", made_up.records(seed=2, rounds=6, slower=9))
        self.assertIn("Cell by cell, 0 of 24 medians", compare.text(a, b))
        self.assertIn("Cell by cell, 8 of 12 medians", compare.text(a, b, cells=["64"]))
        self.assertIn("Cell by cell, 8 of 8 medians", compare.text(a, b, variants=["floor"]))

    def test_the_rounds_said_to_be_needed_are_just_enough(self):
        for tests, cells in ((1, 1), (12, 1), (24, 1), (12, 3), (1904, 1)):
            least = lambda rounds: 2 / math.comb(2 * rounds, rounds) ** cells * tests  # noqa: B023, E731
            enough = compare.needed(tests, cells)
            self.assertLess(least(enough), compare.LEVEL)
            self.assertTrue(enough == 2 or least(enough - 1) >= compare.LEVEL)
        for rounds, verdict in ((6, "too few rounds to tell"), (7, "differs")):
            a, b = (self.run_of(f"{rounds} {times}", made_up.records(rounds=rounds, slower=times)) for times in (1, 9))
            self.assertEqual(self.verdicts(a, b)["64", "ours", "server_cpu_us"], verdict)

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
        for flag, valid in (("--cell", "c64, 64"), ("--variant", "ours, floor")):
            done = subprocess.run([*command, str(self.folder / "a"), flag, "c65"], capture_output=True, text=True,
                                  timeout=60, check=False)  # fmt: skip
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"compare.py: {flag} c65: not in both runs; they have {valid}\n")
        done = subprocess.run([*command, str(self.folder)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^compare.py: \S+ is no run: it has no machine.json\n$")


class Overall(unittest.TestCase):
    """Runs of 4 rounds, with which no cell's median can differ."""

    CELLS = tuple(replace(made_up.SCENARIO.cells[0], name=f"c{n}") for n in range(8))
    SCENARIO = replace(made_up.SCENARIO, cells=CELLS, targets=())

    def samples(self, made: list[dict], metrics=compare.METRICS, scenario=SCENARIO, **asked) -> compare.Samples:
        with tempfile.TemporaryDirectory() as folder:
            return compare.samples(kept.load(made_up.write(Path(folder), made, scenario)), metrics, **asked)

    def verdicts(self, of_a: compare.Samples, of_b: compare.Samples) -> dict[tuple[str, ...], str]:
        return {tuple(row[:2]): row[-1] for row in compare.overall(of_a, of_b)[1:]}

    def test_half_the_speed_of_one_server_is_found_in_its_rows_alone(self):
        made = made_up.records(self.SCENARIO, rounds=4, seed=2)
        for entry in made:
            if entry["variant"] == "ours":
                entry |= {"requests_per_s": entry["requests_per_s"] / 2, "server_cpu_us": entry["server_cpu_us"] * 2,
                          "p99_us": entry["p99_us"] / 10}  # fmt: skip
        of_a, of_b = self.samples(made_up.records(self.SCENARIO, rounds=4, seed=1)), self.samples(made)
        found = self.verdicts(of_a, of_b)
        for metric, verdict in (("requests_per_s", "slower"), ("server_cpu_us", "dearer"), ("p99_us", "faster")):
            self.assertEqual(found.pop(("ours", metric)), verdict)
            self.assertEqual(found.pop(("ours", f"{metric} / floor")), verdict)
        self.assertEqual(set(found.values()), {"no difference beyond noise"})
        self.assertNotIn("differs", compare.rows(of_a, of_b, True)[1])
        row = next(row for row in compare.overall(of_a, of_b) if row[1] == "server_cpu_us / floor")
        self.assertEqual(row[2:4], ["8", "4 4"])
        least, middle, most = (float(row[n]) for n in (5, 4, 6))
        self.assertTrue(1.9 < least < middle < most < 2.1, row)

    def test_noise_is_called_a_difference_no_more_often_than_promised(self):
        only = ("server_cpu_us", "p99_us")
        for own in (0, 0.2):  # the rounds' luck, which all cells share, and beside it each measurement's
            runs = []
            for seed in range(400):
                source, made = random.Random(seed), made_up.records(self.SCENARIO, rounds=4, seed=seed)
                for entry in made:
                    for metric in only:
                        entry[metric] *= source.uniform(1 - own, 1 + own)
                runs.append(self.samples(made, only))

            def erred() -> int:
                pairs = zip(runs[::2], runs[1::2])  # noqa: B023
                return sum(set(self.verdicts(a, b).values()) != {"no difference beyond noise"} for a, b in pairs)

            self.assertLessEqual(erred(), 200 * compare.LEVEL)
            with mock.patch.object(stats, "by_whole_rounds", return_value=0.0):
                self.assertGreater(erred(), 200 * compare.LEVEL, "cells that share a round's luck are no new evidence")

    def test_a_run_does_not_differ_from_itself(self):
        of = self.samples(made_up.records(self.SCENARIO, rounds=4))
        table = compare.overall(of, of)[1:]
        self.assertEqual({tuple(row[4:]) for row in table},
                         {("1.000", "1.000", "1.000", "1", "no difference beyond noise")})  # fmt: skip

    def test_of_one_cell_alone_it_is_that_cells_rank_test(self):
        made = (made_up.records(self.SCENARIO, rounds=4, seed=1, slower=times) for times in (1, 2))
        asked = {"cells": ["c3"], "variants": ["floor"]}
        of_a, of_b = (self.samples(each, ("server_cpu_us",), **asked) for each in made)
        (row,) = compare.overall(of_a, of_b)[1:]
        self.assertEqual((row[2], row[-2], row[-1]), ("1", "0.029", "dearer"))
        of_b["c3", "floor", "server_cpu_us"][2] *= 1000
        self.assertEqual(compare.overall(of_a, of_b)[1][-2:], ["0.029", "dearer"], "an outlier decides a t-test")
        asked["variants"] = None
        of_a, of_b = (self.samples(made_up.records(self.SCENARIO, rounds=4, slower=times), ("server_cpu_us",), **asked)
                      for times in (1, 2))  # fmt: skip
        self.assertEqual(set(self.verdicts(of_a, of_b).values()), {"too few rounds, 5 needed"})

    def test_one_round_is_too_few_however_many_cells(self):
        of = [self.samples(made_up.records(self.SCENARIO, rounds=1, slower=times), ("p99_us",)) for times in (1, 9)]
        self.assertLess(stats.van_elteren([([1], [2])] * 8)[1] * 3, compare.LEVEL, "by the cells there are enough")
        self.assertEqual(set(self.verdicts(*of).values()), {"too few rounds, 2 needed"})

    def test_cells_with_fewer_rounds_count_too(self):
        few = lambda made: [e for e in made if e["cell"] in ("c0", "c1") or e["round"] == 1]  # noqa: E731
        made = (few(made_up.records(self.SCENARIO, rounds=4, seed=seed, slower=seed)) for seed in (1, 2))
        of_a, of_b = map(self.samples, made)
        self.assertEqual(self.verdicts(of_a, of_b)["floor", "server_cpu_us"], "dearer")
        two = [{key: each for key, each in of.items() if key[0] in ("c0", "c1")} for of in (of_a, of_b)]
        self.assertEqual(compare.overall(of_a, of_b)[1][2], "8")
        self.assertEqual(compare.overall(*two)[1][2], "2")


if __name__ == "__main__":
    unittest.main()
