# SPDX-License-Identifier: Apache-2.0
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from lib import hosts, report
from lib.scenario import Cell, Scenario, Target
from lib.servers import Variant

SCENARIO = Scenario(
    "s",
    "Is it?",
    (Variant("ours", "bwos-server"), Variant("floor", "epoll_floor")),
    (Cell("c64"),),
    "floor",
    (Target("server_cpu_us", "ours", "floor", 1.10, ("c64",)), Target("server_cpu_us", "ours", None, 5, ("c64",))),
)


def record(number, variant, cpu, **more):
    return {"round": number, "cell": "c64", "variant": variant, "server_cpu_us": cpu, "p99_us": 100.0 * cpu} | more


class Tables(unittest.TestCase):
    def test_columns_are_aligned(self):
        self.assertEqual(report.as_columns([["a", "n"], ["bcd", "10"]]), "a     n\nbcd  10")

    def test_a_cell_shows_medians_and_ratios_of_rounds(self):
        # The machine is twice as slow in the second round: the ratio does not see it.
        records = [record(1, "ours", 5.5), record(1, "floor", 5.0), record(2, "ours", 11.0), record(2, "floor", 10.0)]
        heading, ours, floor = report.cell_table(SCENARIO, records, "c64").splitlines()
        self.assertIn("CPU / floor", heading)
        self.assertRegex(ours, r"^ours +2 +8\.25 ±\d+\.\d% .* 1\.100 \(1\.100 to 1\.100\) ")
        self.assertRegex(floor, r"^floor +2 +7\.50 .* 1\.000 \(1\.000 to 1\.000\)")
        self.assertIn("of fewer than 3 rounds (their range)", report.text(SCENARIO, records))
        self.assertNotIn("req/s", heading, "a metric nobody measured has no column")

    def test_a_server_that_its_client_did_not_keep_busy_is_marked(self):
        records = [record(n, "ours", 5.0, server_busy=0.99) for n in (1, 2, 3)]
        records += [record(n, "floor", 5.0, server_busy=0.94) for n in (1, 2, 3)]
        text = report.text(SCENARIO, records)
        self.assertRegex(text, r"(?m)^ours +3 .* 99% ")
        self.assertRegex(text, r"(?m)^floor \* +3 .* 94% ")
        self.assertIn("* the server kept its CPU less than 95% busy", text)
        self.assertNotIn("less than 95%", report.text(SCENARIO, records[:3]))

    def verdict(self, *ratios: float) -> str:
        records = [record(n, "ours", 5 * ratio) for n, ratio in enumerate(ratios)]
        records += [record(n, "floor", 5.0) for n, _ in enumerate(ratios)]
        _, ratio, absolute = report.target_table(SCENARIO, records).splitlines()
        self.assertTrue(absolute.endswith("MISSED") or len(ratios) < 3)
        return ratio.partition("c64")[2].strip()

    def test_targets_are_met_or_missed_by_the_whole_interval(self):
        self.assertRegex(self.verdict(1.08, 1.08, 1.095), r"^1\.080 +\[1\.080, 1\.095\] +1\.100 +3 +met$")
        self.assertRegex(self.verdict(1.08, 1.08, 1.12), r"^1\.080 +\[1\.080, 1\.120\] +1\.100 +3 +undecided$")
        self.assertRegex(self.verdict(1.08, 1.12, 1.12), r"^1\.120 +\[1\.080, 1\.120\] +1\.100 +3 +undecided$")
        self.assertRegex(self.verdict(1.11, 1.12, 1.12), r"^1\.120 +\[1\.110, 1\.120\] +1\.100 +3 +MISSED$")

    def test_a_tolerance_is_added_to_the_limit_of_a_ratio(self):
        for ratios, verdict in (
            ((1.10, 1.12, 1.125), "met"), ((1.12, 1.12, 1.135), "undecided"), ((1.11, 1.14, 1.15), "undecided"),
            ((1.135, 1.14, 1.15), "MISSED"), ((1.0, 1.0), "undecided"),
        ):  # fmt: skip
            records = [record(n, "ours", 5 * ratio) for n, ratio in enumerate(ratios)]
            records += [record(n, "floor", 5.0) for n, _ in enumerate(ratios)]
            _, ratio, absolute = report.target_table(replace(SCENARIO, tolerance=0.03), records).splitlines()
            self.assertRegex(ratio, rf" 1\.100 \+ 0\.03 +{len(ratios)} +{verdict}$")
            self.assertRegex(absolute, r" 5 +\d +", "the limit of a figure that is no ratio is what it is")

    def test_a_cell_has_rows_of_those_that_it_runs(self):
        cells = (Cell("c64", variants=("floor",)), Cell("c256"))
        scenario = replace(SCENARIO, cells=cells, targets=(replace(SCENARIO.targets[0], cells=("c256",)),))
        records = [record(1, "floor", 5.0)]
        records += [record(n, name, 5.0) | {"cell": "c256"} for n in (1, 2, 3) for name in ("ours", "floor")]
        first = lambda cell: [row[0] for row in report.cell_rows(scenario, records, cell)]  # noqa: E731
        self.assertEqual((first("c64"), first("c256")), (["variant", "floor"], ["variant", "ours", "floor"]))
        self.assertRegex(report.text(scenario, records), r"c256 +1\.000 +\[1\.000, 1\.000\] +1\.100 +3 +met")

    def test_a_cell_that_lacks_the_baseline_has_no_ratios(self):
        scenario = replace(SCENARIO, cells=(Cell("c64", variants=("ours",)),), targets=())
        rows = report.cell_rows(scenario, [record(1, "ours", 5.0)], "c64")
        self.assertEqual([row[-2:] for row in rows], [["CPU / floor", "p99 / floor"], ["-", "-"]])

    def test_two_rounds_decide_no_target(self):
        self.assertRegex(self.verdict(1.07, 1.08), r"\(1\.070 to 1\.080\) +1\.100 +2 +undecided$")
        self.assertRegex(self.verdict(1.2), r"\(1\.200 to 1\.200\) +1\.100 +1 +undecided$")

    def test_a_target_may_be_a_difference(self):
        scenario = replace(SCENARIO, targets=(replace(SCENARIO.targets[0], limit=1000, less=True),))
        records = [record(n, "ours", cpu) for n, cpu in ((1, 7000.0), (2, 8000.0), (3, 8100.0))]
        records += [record(n, "floor", cpu) for n, cpu in ((1, 5000.0), (2, 6999.0), (3, 7100.0))]
        _, line = report.target_table(scenario, records).splitlines()
        self.assertRegex(line, r"^server_cpu_us ours - floor, c64 +1,001 +\[1,000, 2,000\] +1,000 +3 +undecided$")

    def test_a_target_without_figures_is_not_measured(self):
        self.assertEqual(report.target_table(SCENARIO, []).count("not measured"), 2)

    def test_what_built_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(folder) / "cc"
            tool.write_text("#!/bin/sh\necho cc 12.3\necho more\n")
            tool.chmod(0o755)
            (Path(folder) / "CMakeCache.txt").write_text(
                f"CMAKE_CXX_COMPILER:FILEPATH={tool}\nGO:FILEPATH=GO-NOTFOUND\nCMAKE_BUILD_TYPE:STRING=Release\n"
            )
            with hosts.local() as on:
                facts = report.machine(Path(folder), on)
        self.assertEqual({name: facts["built_with"][name] for name in ("compiler", "rustc", "go")},
                         {"compiler": "cc 12.3", "rustc": "", "go": ""})  # fmt: skip
        self.assertEqual(facts["build"]["CMAKE_BUILD_TYPE"], "Release")

    def test_runs_left_out_are_named(self):
        records = [record(1, "ours", 5.0, errors=7), record(1, "floor", 5.0)]
        for number in (2, 3):
            records.append({"round": number, "cell": "c64", "variant": "floor", "failed": "it died"})
        text = report.text(SCENARIO, records)
        self.assertIn("left out: c64 ours, round 1: 7 errors", text)
        self.assertIn("left out: c64 floor, round 2, 3: it died", text)


if __name__ == "__main__":
    unittest.main()
