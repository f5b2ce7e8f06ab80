# SPDX-License-Identifier: Apache-2.0
"""report.html, ratios.csv and the figures of a run that is made up."""

import contextlib
import csv
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import made_up

from lib import figures, kept, page, report
from lib.measure import Failed
from lib.scenario import Cell, RequestClass, Scenario
from lib.servers import Variant

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
LOADTEST = Path(__file__).resolve().parent.parent
# HTML's and what matplotlib's SVG consists of. Not script, img, link, iframe, object.
TAGS = set("html head meta title style body h1 h2 h3 p ul li code table tr th td div figure figcaption details summary "
           "svg g path defs use clippath rect".split())  # fmt: skip


class Reader(HTMLParser):
    """What a browser would make of it: tags, what they refer to, and the text."""

    def __init__(self, page_text: str):
        super().__init__()
        self.tags, self.references, self.text = set(), [], ""
        self.feed(page_text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.references += [
            value for name, value in attributes if name.split(":")[-1] in ("src", "href", "data", "action")
        ]

    def handle_data(self, data):
        self.text += data


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "run"

    def run_of(self, scenario=made_up.SCENARIO, **more) -> kept.Run:
        return kept.load(made_up.write(self.folder, made_up.records(scenario, **more), scenario))

    def write(self, **more) -> str:
        with contextlib.redirect_stderr(io.StringIO()):
            page.write(self.folder, **more)
        return (self.folder / "report.html").read_text()


class Kept(Folder):
    def test_what_was_measured_is_read_back(self):
        made = made_up.records()
        run = kept.load(made_up.write(self.folder, made))
        self.assertEqual(len(run.records), len(made))
        for text, number in (
            (run.records[0]["cell"], "c64"),
            (run.records[2]["cell"], "64"),
            (run.records[0]["round"], 1),
        ):
            self.assertEqual((text, type(text)), (number, type(number)))
        self.assertEqual(report.text(run.scenario, run.records), report.text(made_up.SCENARIO, made))

    def test_a_line_cut_off_is_left_out(self):
        made_up.write(self.folder, made_up.records(rounds=2))
        path = self.folder / "runs.csv"
        path.write_text(path.read_text()[:-1].rpartition("\n")[0] + "\ns,2,")
        self.assertEqual(len(kept.load(self.folder).records), 7)

    def test_a_run_that_says_little_of_itself_is_still_read(self):
        made_up.write(self.folder, made_up.records())
        (self.folder / "machine.json").write_text("{}")
        run = kept.load(self.folder)
        self.assertEqual([each.name for each in run.scenario.variants], ["ours", "floor"])
        self.assertEqual([each.name for each in run.scenario.cells], ["c64", "64"])
        self.assertIn("<h3>c64", self.write())

    def test_keys_of_newer_runs_are_tolerated(self):
        made_up.write(self.folder, made_up.records(), scenario=made_up.SCENARIO, hosts={"server": {"cpus": [0]}})
        text = (self.folder / "machine.json").read_text()
        (self.folder / "machine.json").write_text(text.replace('"streams": 1', '"streams": 1, "body_bytes": 16'))
        self.assertIn("hosts", self.write())

    def test_folders_that_are_no_runs_are_told_apart(self):
        with self.assertRaisesRegex(Failed, "is no run: it has no machine.json"):
            kept.load(self.folder)
        made_up.write(self.folder, [])
        with self.assertRaisesRegex(Failed, "holds no measurement"):
            kept.load(self.folder)
        (self.folder / "runs.csv").write_text("a,b\n1,2\n")
        with self.assertRaisesRegex(Failed, "runs.csv has no column cell, round, variant"):
            kept.load(self.folder)
        made_up.write(self.folder, made_up.records(rounds=1))
        (self.folder / "machine.json").write_text('{"scenario": ')
        with self.assertRaisesRegex(Failed, "is no run that can be read"):
            kept.load(self.folder)

    def test_what_held_the_server_back(self):
        def limit(cell=Cell("c64", threads=2), variant=Variant("ours", "bwos-server"), facts=None, **more):
            scenario = replace(made_up.SCENARIO, cells=(cell,), variants=(variant, made_up.SCENARIO.variants[1]))
            run = kept.load(made_up.write(self.folder, [made_up.record(1, "c64", "ours", 5.0, **more)], scenario))
            run.facts |= facts or {}
            return run.limit(run.scenario.cells[0], run.scenario.variants[0])

        # 100,000 requests a second of 5 us: half a CPU of the server's. The machine has four.
        self.assertEqual(limit(client_cpu_us=18.9), "")
        self.assertEqual(limit(client_cpu_us=19.1), "client full")
        self.assertEqual(limit(client_cpu_us=19.1, requests_per_s=""), "")
        self.assertEqual(limit(Cell("c64", "ghz"), client_cpu_us=30), "")
        self.assertEqual(limit(Cell("c64", "ghz"), client_cpu_us=32), "CPUs full")
        self.assertEqual(limit(Cell("c64", "h2load"), client_cpu_us=9.6), "client full")
        pinned = Variant("ours", "bwos-server", cpu=0)
        alone = Cell("c64", "bwos-load", client_cpu=1)
        self.assertEqual(limit(alone, pinned, client_cpu_us=10, server_busy=0.96), "")
        self.assertEqual(limit(alone, pinned, client_cpu_us=10, server_busy=0.94), "client full")
        self.assertEqual(limit(alone, pinned, client_cpu_us=5, server_busy=0.94), "server not full")
        # On two hosts: the client's has eight CPUs, and of the server's a server of one thread uses one.
        apart = {"client_machine": {"cpus": list(range(8))}}
        busy = Variant("ours", "bwos-server", ("--workers", "1"))
        self.assertEqual(limit(Cell("c64", threads=8), facts=apart, client_cpu_us=75), "server not full")
        self.assertEqual(limit(Cell("c64", threads=8), facts=apart, client_cpu_us=77), "client full")
        self.assertEqual(limit(Cell("c64", threads=8), busy, apart, client_cpu_us=50), "server not full")
        self.assertEqual(limit(Cell("c64", threads=8), busy, apart, client_cpu_us=50, requests_per_s=200_000), "client full")
        self.assertEqual(limit(Cell("c64", threads=8), busy, apart, client_cpu_us=30, requests_per_s=200_000), "")
        self.assertEqual(limit(Cell("c64", "ghz"), facts=apart, client_cpu_us=70), "server not full")
        self.assertEqual(limit(facts={"places": {"netns": True, "delay": 1.0}}, client_cpu_us=5), "server not full")
        paced = Cell("c64", "bwos-load", rate=1000)
        self.assertEqual(limit(paced, client_cpu_us=10, p99_us=100, late_p99_us=49), "")
        self.assertEqual(limit(paced, client_cpu_us=10, p99_us=100, late_p99_us=51), "client late")


class Page(Folder):
    def test_ratios_are_those_of_each_round(self):
        # Twice as slow in the second round: no ratio sees it.
        made = [
            made_up.record(n, "c64", name, cpu * n) for n in (1, 2, 3) for name, cpu in (("ours", 5.5), ("floor", 5.0))
        ]
        made_up.write(self.folder, made)
        self.write()
        with (self.folder / "ratios.csv").open() as file:
            rows = {row["metric"]: row for row in csv.DictReader(file)}
        self.assertEqual(rows["server_cpu_us"], {
            "cell": "c64", "variant": "ours", "baseline": "floor", "metric": "server_cpu_us", "rounds": "3",
            "median": "1.1", "low95": "1.1", "high95": "1.1", "of_each_round": "1.1 1.1 1.1"})  # fmt: skip
        self.assertEqual(rows["requests_per_s"]["median"], "0.909091")

    def test_another_baseline_can_be_chosen(self):
        made_up.write(self.folder, made_up.records())
        self.write(baseline="ours")
        with (self.folder / "ratios.csv").open() as file:
            self.assertEqual({(row["variant"], row["baseline"]) for row in csv.DictReader(file)}, {("floor", "ours")})
        with self.assertRaisesRegex(Failed, "'theirs' is none of the run's servers: ours, floor"):
            self.write(baseline="theirs")

    def test_verdicts_are_those_of_the_runs_targets(self):
        self.run_of()
        text = self.write()
        self.assertIn("Targets: 1 of 2 met, 0 undecided", text)
        self.assertRegex(text, r"ours / floor, c64</td>.*<td class=\"good\">met</td>")
        self.assertRegex(text, r"ours / floor, 64</td>.*<td class=\"bad\">MISSED</td>")

    def test_a_page_of_cells_that_run_some_of_the_servers(self):
        cells = (replace(made_up.SCENARIO.cells[0], variants=("floor",)), made_up.SCENARIO.cells[1])
        scenario = replace(made_up.SCENARIO, cells=cells, targets=made_up.SCENARIO.targets[1:])
        made = [e for e in made_up.records(scenario) if e["variant"] == "floor" or e["cell"] == "64"]
        made_up.write(self.folder, made, scenario)
        text = self.write()
        sections = (text.partition(f"<h3>{name}:")[2] for name in ("c64", "64"))
        of_c64, of_64 = (each.partition("<h3>")[0].partition("<details>")[0] for each in sections)
        self.assertEqual((of_c64.count("<td>ours</td>"), of_64.count("<td>ours</td>")), (0, 1))
        self.assertRegex(of_c64, r"<td>floor</td><td>8</td><td>0\.\d\d</td>", "the CPUs of its own client")
        self.assertIn("Targets: 0 of 1 met", text)
        with (self.folder / "ratios.csv").open() as file:
            self.assertEqual({row["cell"] for row in csv.DictReader(file)}, {"64"})
        head, row = page.losses(kept.load(self.folder))
        self.assertRegex(row[head.index("CPU per request")], r"^64 1\.1\d$")

    def test_a_loss_to_a_peer_is_said_plainly(self):
        run = self.run_of()
        head, row = page.losses(run)
        self.assertEqual(row[0], "ours / floor")
        self.assertRegex(row[head.index("CPU per request")], r"^c64 1\.1\d, 64 1\.1\d$")
        self.assertRegex(row[head.index("throughput")], r"^c64 0\.\d\d, 64 0\.\d\d$")
        swapped = [entry | {"variant": {"ours": "floor", "floor": "ours"}[entry["variant"]]} for entry in run.records]
        self.assertEqual(len(page.losses(replace_records(run, swapped))), 1, "a win is no loss")

    def test_a_loss_in_too_few_rounds_to_judge_is_said_to_be_that(self):
        made = [r for r in made_up.records() if r["round"] < 3 or r["cell"] == "c64"]
        one = [r for r in made if r["round"] < 2 or r["cell"] == "c64"]
        for of, said in ((made, "not judged (2 rounds)"), (one, "not judged (1 round)")):
            made_up.write(self.folder, of)
            head, judged, row = page.losses(kept.load(self.folder))
            self.assertEqual(row[0], f"ours / floor, {said}")
            for each, cell in ((judged, "c64"), (row, "64")):
                self.assertRegex(each[head.index("CPU per request")], rf"^{cell} 1\.[01]\d$")
            self.assertIn(said, self.write())
        either_way = [r | ({"server_cpu_us": 9.0} if (r["round"], r["variant"]) == (1, "floor") else {}) for r in made]
        head, _, row = page.losses(replace_records(kept.load(self.folder), either_way))
        self.assertRegex(row[head.index("CPU per request")], "^-$", "it lost one of two rounds")

    def test_a_ratio_of_two_rounds_has_no_interval(self):
        self.run_of(rounds=2)
        self.assertRegex(self.write(), r"<td>1\.[01]\d\d</td><td>\(1\.\d+ to 1\.\d+\)</td><td>2</td>")
        with (self.folder / "ratios.csv").open() as file:
            row = next(csv.DictReader(file))
        self.assertEqual((row["rounds"], row["low95"], row["high95"]), ("2", "", ""))
        self.assertEqual(len(row["of_each_round"].split()), 2)

    def test_nothing_outside_is_referred_to(self):
        self.run_of()
        text = self.write()
        found = Reader(text)
        self.assertLessEqual(found.tags, TAGS)
        self.assertEqual([each for each in found.references if not each.startswith("#")], [])
        for word in ("@import", "url(http", "url(//", "javascript:"):
            self.assertNotIn(word, text)

    def test_all_text_is_escaped(self):
        evil = "<script>alert('1')</script><img src=x onerror=y>&\"'"
        scenario = replace(
            made_up.SCENARIO, name=evil, question=evil, variants=(Variant(evil, "bwos-server"), Variant("floor", evil)),
            cells=(Cell(evil, tool=evil, path=evil, classes=(RequestClass(evil, 1, evil),)),), targets=(),
        )  # fmt: skip
        made = made_up.records(scenario) + [made_up.record(9, evil, evil, 5, failed=evil)]
        made_up.write(self.folder, made, scenario, command=["run.py", evil], cpu=evil, versions={evil: evil},
                      commands={evil: [evil]}, utc=evil, kernel=evil, commit=[evil], governor={evil: evil})  # fmt: skip
        found = Reader(self.write())
        self.assertLessEqual(found.tags, TAGS)
        self.assertGreater(found.text.count(evil), 12)

    def test_what_is_not_recorded_is_said(self):
        self.run_of()
        self.assertRegex(self.write(), r"mitigations</td><td>not recorded")
        self.assertIn("python3 loadtest/run.py --scenario s", self.write())

    def test_a_missing_matplotlib_is_told_and_costs_figures_alone(self):
        self.run_of()
        told = io.StringIO()
        with mock.patch.dict(sys.modules, {"matplotlib": None}), contextlib.redirect_stderr(told):
            self.assertIn("report.html: 0 figures", page.write_after_run(self.folder))
        self.assertRegex(told.getvalue(), r"^no figures: \S+ has no matplotlib .*apt-get install python3-matplotlib")
        self.assertEqual(len(told.getvalue().splitlines()), 1)
        text = (self.folder / "report.html").read_text()
        self.assertIn("apt-get install python3-matplotlib", text)
        self.assertNotIn(str(self.folder), text, "a kept page names no machine's folders")
        self.assertTrue((self.folder / "ratios.csv").exists())

    def test_a_fault_in_the_page_costs_no_run(self):
        self.run_of()
        with mock.patch.object(page, "render", side_effect=ZeroDivisionError("x")):
            self.assertRegex(page.write_after_run(self.folder), r"no report.html \(ZeroDivisionError: x\); again: ")

    def test_the_command_makes_it_again_or_says_why_not(self):
        self.run_of()
        command = [sys.executable, "-B", str(LOADTEST / "report.py"), str(self.folder.parent), str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is no run: it has no machine.json", done.stderr)
        self.assertIn("report.html: ", done.stdout)


def replace_records(run: kept.Run, records: list[dict]) -> kept.Run:
    return kept.Run(run.folder, run.facts, run.scenario, records)


def sweep(variants: int = 4, paths: str = "ab") -> Scenario:
    """Connections that rise over two paths, in no order, beside a cell of its own; more servers than colours."""
    cells = [
        Cell(f"{path}{n}", connections=n, path=path, threads=n % 3 + 1, seconds=n % 4, timeout=n % 3)
        for path in paths
        for n in (500, 10, 50, 1000, 90)
    ]
    return replace(made_up.SCENARIO, variants=tuple(Variant(f"v{n}", "bwos-server") for n in range(variants)),
                   cells=(Cell("own", "ghz", 3, streams=7), *cells), baseline="v1", targets=())  # fmt: skip


class Groups(Folder):
    def test_cells_of_a_rising_load_are_found_and_ordered(self):
        rising, others = figures.sweeps(self.run_of(sweep()).scenario.cells)
        self.assertEqual([[cell.name for cell in group] for group in rising],
                         [[f"{path}{n}" for n in (10, 50, 90, 500, 1000)] for path in "ab"])  # fmt: skip
        self.assertEqual([cell.name for cell in others], ["own"])

    def test_two_cells_are_no_curve_nor_are_equal_loads(self):
        for cells in ((Cell("a"), Cell("b", connections=2)), (Cell("a"), Cell("b"), Cell("c"))):
            rising, others = figures.sweeps(self.run_of(replace(made_up.SCENARIO, cells=cells)).scenario.cells)
            self.assertEqual((rising, len(others)), ([], len(cells)))

    def test_a_rising_rate_is_a_load_too(self):
        cells = tuple(Cell(f"r{n}", "bwos-load", busy=n / 100, rate=1000 * n) for n in (90, 30, 60))
        run = self.run_of(replace(made_up.SCENARIO, cells=cells))
        rising, _ = figures.sweeps(run.scenario.cells)
        self.assertEqual([cell.name for cell in rising[0]], ["r30", "r60", "r90"])
        self.assertEqual(
            figures.load_axis(rising[0]), ("requests/s asked for (% of the CPUs busy)", [30_000, 60_000, 90_000])
        )
        self.assertEqual(figures.load_texts(rising[0]), ["30%", "60%", "90%"])

    def test_the_same_loads_on_other_servers_are_curves_of_their_own(self):
        cells = [Cell(f"c{n}", connections=n, variants=("ours",)) for n in (1, 2, 3)] + [Cell("c4", connections=4)]
        cells += [Cell(f"o{n}", connections=n, variants=("floor",)) for n in (1, 2, 3)]
        scenario = replace(made_up.SCENARIO, cells=tuple(cells), targets=())
        rising, others = figures.sweeps(self.run_of(scenario).scenario.cells)
        names = [[cell.name for cell in group] for group in rising]
        self.assertEqual(names, [["c1", "c2", "c3", "c4"], ["o1", "o2", "o3"]])
        self.assertEqual(others, [])

    def test_loads_that_are_not_calibrated_are_named_by_what_they_are(self):
        cells = [Cell(f"r{n}", "bwos-load", rate=1000 * n) for n in (3, 60)]
        self.assertEqual(figures.load_axis(cells)[0], "requests/s asked for")
        self.assertEqual(figures.load_texts(cells), ["3,000", "60k"])

    def test_times_have_the_unit_they_are_read_in(self):
        self.assertEqual(
            [figures.time_text(us) for us in (0.5, 999, 1000, 2_500_000)], ["0.5 µs", "999 µs", "1 ms", "2.5 s"]
        )
        self.assertEqual(
            [figures.count_text(value) for value in (0.95, 1000, 15000, 2e6)], ["0.95", "1,000", "15k", "2M"]
        )


@unittest.skipUnless(HAS_MATPLOTLIB, "this python3 has no matplotlib (python3-matplotlib)")
class Figures(Folder):
    def draw(self, run: kept.Run, name: str = "figures") -> list[figures.Picture]:
        (run.folder / name).mkdir()
        return figures.draw(run, run.folder / name)

    def test_each_picture_comes_twice_and_the_same_each_time(self):
        run = self.run_of(sweep(2, "a"))
        stems = [each.stem for each in self.draw(run)]
        self.assertEqual(stems, ["curves-wrk-a", "by-load-wrk-a", "costs-own", "latency-own", "ratios-own"])
        self.draw(run, "again")
        for stem in stems:
            for kind in ("svg", "png"):
                once, again = ((run.folder / name / f"{stem}.{kind}").read_bytes() for name in ("figures", "again"))
                self.assertEqual(once, again, stem)

    def drawn(self, run: kept.Run) -> dict:
        """The figures before they are saved, by the first word of their file's name."""
        found = {}
        self.addCleanup(lambda: sys.modules["matplotlib.pyplot"].close("all"))
        keep = lambda _, figure, stem, __: found.update({stem.split()[0]: figure})  # noqa: E731
        with mock.patch.object(figures._Artist, "save", keep):
            figures.draw(run, run.folder)
        return found

    def test_each_picture_says_of_which_run_and_curves_of_which_cells_they_are(self):
        of = self.drawn(self.run_of(sweep(2, "a")))
        self.assertEqual(of["curves"].legends[0].get_title().get_text(), "wrk a, run")
        self.assertEqual(of["by-load"]._suptitle.get_text(), "wrk a, run")
        self.assertEqual({of[stem]._suptitle.get_text() for stem in ("costs", "latency", "ratios")}, {"run"})

    def test_hollow_points_are_explained_where_there_are_any(self):
        for cost, hollow in ((1.0, False), (40.0, True)):  # of the client: then its threads are full
            of = self.drawn(self.run_of(sweep(2, "a"), client_cpu_us=cost))
            self.assertEqual("hollow" in " ".join(t.get_text() for t in of["curves"].legends[0].texts), hollow)

    def test_labels_of_points_lie_on_top_with_the_pages_colour_behind_them(self):
        of = self.drawn(self.run_of(sweep(2, "a")))
        ax = of["curves"].axes[0]
        self.assertEqual([text.get_text() for text in ax.texts], ["10", "50", "90", "500", "1,000"])
        for text in ax.texts:
            self.assertTrue(text.get_path_effects())
            self.assertGreater(text.zorder, max(line.zorder for line in ax.lines))
        self.run_of(sweep(2, "a"))
        self.assertIn("stroke: Canvas", self.write())

    def test_labels_of_points_hide_no_other_point_where_a_side_is_free(self):
        cells = tuple(Cell(f"c{n}", connections=n) for n in (1, 2, 3))
        scenario, sides = replace(made_up.SCENARIO, cells=cells, baseline=None, targets=()), {}
        for aside in (-4000, 4000):  # of the floor's points
            made = [
                made_up.record(1, cell.name, name, 5, requests_per_s=30_000 * cell.connections + off, p50_us=us)
                for cell, us in zip(cells, (100, 300, 900))
                for name, off in (("ours", 0), ("floor", aside))
            ]
            of = self.drawn(kept.load(made_up.write(self.folder, made, scenario)))
            sides[aside] = {text.get_ha() for text in of["curves"].axes[0].texts}
        self.assertEqual(sides, {-4000: {"left"}, 4000: {"right"}})

    def test_points_of_a_calibrated_rate_are_named_by_how_busy_it_keeps_the_cpus(self):
        cells = tuple(Cell(f"r{n}", "bwos-load", busy=n / 100, rate=1000 * n) for n in (30, 60, 90))
        of = self.drawn(self.run_of(replace(made_up.SCENARIO, cells=cells, targets=())))
        self.assertEqual([text.get_text() for text in of["curves"].axes[0].texts], ["30%", "60%", "90%"])
        ticks = of["by-load"].axes[0].get_xticklabels()
        self.assertEqual([tick.get_text() for tick in ticks], ["30k\n30%", "60k\n60%", "90k\n90%"])

    def test_latency_is_of_the_percentiles_that_were_measured(self):
        for more, named in (({}, "● 50 %, ♦ 90 %, ■ 99 %"), ({"p999_us": 9e3}, "● 50 %, ♦ 90 %, ■ 99 %, ▲ 99.9 %")):
            of = self.drawn(self.run_of(**more))
            self.assertEqual(of["latency"].axes[-1].get_xlabel(), f"latency\n{named}")

    def test_fewer_than_three_rounds_are_drawn_without_an_interval(self):
        for rounds, intervals in ((2, False), (3, True)):
            of = self.drawn(self.run_of(sweep(2, "a"), rounds=rounds))
            wide = [line for line in of["ratios"].axes[0].lines if line.get_linewidth() == 2]
            self.assertEqual(bool(wide), intervals)
            bars = [bar for ax in of["by-load"].axes[1:] for lines in ax.collections for bar in lines.get_segments()]
            self.assertEqual(any(low[1] != high[1] for low, high in bars), intervals)

    def test_no_figure_lies_outside_its_axes(self):
        seen = []

        def check(_, figure, stem, __):
            figure.draw_without_rendering()
            for ax in figure.axes:
                for (low, high), data in ((ax.get_xlim(), ax.dataLim.intervalx), (ax.get_ylim(), ax.dataLim.intervaly)):
                    low, high = sorted((low, high))
                    seen.append(stem)
                    self.assertTrue(low <= data[0] and data[1] <= high, f"{stem}: {data} not in {low} to {high}")

        with mock.patch.object(figures._Artist, "save", check):
            figures.draw(self.run_of(sweep(9)), self.folder)
            cells = (Cell("slow"), Cell("fast", connections=2))
            made = made_up.records(replace(made_up.SCENARIO, cells=cells))
            for entry in made:  # the last row's values are a tenth of the first one's
                for metric in ("requests_per_s", "server_cpu_us", "p50_us", "p99_us"):
                    entry[metric] *= 10 if entry["cell"] == "slow" and entry["variant"] == "ours" else 1
            figures.draw(
                kept.load(made_up.write(self.folder, made, replace(made_up.SCENARIO, cells=cells))), self.folder
            )
        self.assertEqual(len(set(seen)), 10)

    def test_a_server_keeps_its_look_in_all_pictures_and_no_two_share_one(self):
        looks = list(figures._Artist(self.run_of(sweep(20)), self.folder).look.values())
        self.assertEqual(len(set(looks)), len(looks))
        for of in zip(*looks[:10]):
            self.assertEqual(len(set(of)), 10, "colours, then markers")

    def test_runs_with_gaps_are_drawn(self):
        scenario = sweep(4, "a")
        made = [
            e for e in made_up.records(scenario) if e["variant"] != "v3" and (e["cell"], e["variant"]) != ("a50", "v0")
        ]
        made = [e | ({"p99_us": "", "p90_us": "", "p50_us": ""} if e["cell"] == "own" else {}) for e in made]
        self.assertEqual(len(self.draw(kept.load(made_up.write(self.folder, made, scenario)))), 4)

    def test_servers_stand_where_they_run(self):
        cells = tuple(Cell(f"c{n}", connections=n, variants=("ours",)) for n in (1, 2, 3))
        cells += (Cell("c4", connections=4), Cell("own", "ghz", 3), Cell("alone", "ghz", 4, variants=("ours",)))
        scenario = replace(made_up.SCENARIO, cells=cells, targets=())
        made = [e for e in made_up.records(scenario) if e["variant"] == "ours" or e["cell"] in ("c4", "own")]
        run, seen = kept.load(made_up.write(self.folder, made, scenario)), {}
        self.addCleanup(lambda: sys.modules["matplotlib.pyplot"].close("all"))
        with mock.patch.object(figures._Artist, "save", lambda _, figure, stem, __: seen.update({stem: figure})):
            figures.draw(run, run.folder)
        names = lambda stem: [tick.get_text() for tick in seen[stem].axes[0].get_yticklabels()]  # noqa: E731
        self.assertEqual((names("costs own"), names("costs alone")), (["ours", "floor"], ["ours"]))
        legend = [text.get_text() for text in seen["curves wrk /plaintext"].legends[0].texts]
        self.assertEqual(legend[:2], ["ours", "floor"], "the one with a single point too")

    def test_a_run_that_failed_altogether_has_a_page(self):
        made = [entry | {"failed": "it died"} for entry in made_up.records()]
        made_up.write(self.folder, made)
        self.assertIn("left out: c64 ours, round 1, 2, 3, 4, 5, 6, 7, 8: it died", self.write())

    def test_old_figures_of_the_folder_are_replaced(self):
        self.run_of()
        (self.folder / "figures").mkdir()
        (self.folder / "figures" / "old.svg").write_text("")
        self.write()
        self.assertNotIn("old.svg", os.listdir(self.folder / "figures"))


if __name__ == "__main__":
    unittest.main()
