# SPDX-License-Identifier: Apache-2.0
"""The rule for adding rounds, on figures that are made up, and how rounds go on."""

import csv
import tarfile
import tempfile
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

from lib import agent, rounds
from lib.hosts import LinkLost
from lib.measure import Failed
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
        super().__init__(scenario(metric), Settings(Path("."), mock.Mock()), Path(folder))
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
            measured = Measurement(replace(scenario("p99_us"), cells=cells), Settings(Path("."), mock.Mock()), Path(folder))
            keeps_up = lambda which, cell, rate: rate <= peaks[which.variant.name]  # noqa: E731
            with mock.patch.object(measured, "_keeps_up", keeps_up):
                rates = measured.calibrate()
            measured.close()
        self.assertEqual(rates["given"], 5.0)
        self.assertLessEqual(rates["c"], 0.7 * 30_000)
        self.assertGreater(rates["c"], 0.7 * 30_000 * 0.95)
        self.assertEqual(measured.scenario.cells[0].rate, rates["c"])

    def test_the_peak_is_that_of_those_that_the_cell_runs(self):
        cells = (Cell("c", "bwos-load", 2, of_peak=0.5, variants=("a",)),)
        asked = set()

        def keeps_up(which, cell, rate):
            asked.add(which.variant.name)
            return rate <= 50_000

        started = lambda variant, log: mock.Mock(variant=variant)  # noqa: E731
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(rounds, "progress"):
            some = replace(scenario("p99_us"), cells=cells)
            measured = Measurement(some, Settings(Path("."), mock.Mock()), Path(folder))
            with mock.patch.multiple(measured, _keeps_up=keeps_up, _started=started):
                measured.calibrate()
            measured.close()
        self.assertEqual(asked, {"a"})


class Order(unittest.TestCase):
    def test_every_variant_takes_every_place(self):
        places = Counter()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(rounds, "Server"):
            measured = Measurement(scenario("p99_us"), Settings(Path("."), mock.Mock()), Path(folder))
            seen = lambda number, place, cell, name, server: places.update([(name, place)])  # noqa: E731
            with mock.patch.object(measured, "_one", seen):
                for number in range(1, 41):
                    measured._round(number)
            measured.close()
        self.assertEqual(set(places), {("a", 1), ("a", 2), ("b", 1), ("b", 2)})
        self.assertGreater(min(places.values()), 8)


class Faked(Measurement):
    """Its servers and tools do nothing; `runs` are those that it measured: (round, cell, variant)."""

    def __init__(self, scenario: Scenario, folder: str, stop_at: int | None = None):
        super().__init__(scenario, Settings(Path("."), mock.Mock()), Path(folder))
        self.runs, self.started, self._stop_at = [], [], stop_at

    def _measure(self, number, cell, name, server):
        if len(self.runs) == self._stop_at:
            self._new_raw(f"{number:02}-{cell.name}-{name}").write_text("cut off")
            raise KeyboardInterrupt
        self.runs.append((number, cell.name, name))
        self._new_raw(f"{number:02}-{cell.name}-{name}").write_text("whole")
        return {"requests": 10, "requests_per_s": 1.5, "server_cpu_us": 2.0, "p99_us": 3.0 + number, "errors": 0}

    def measured(self) -> "Faked":
        def server(variant, hosts, build_dir, log):
            self.started.append(log.name)
            log.write_text(variant.name)
            return mock.Mock(variant=variant)

        with mock.patch.object(rounds, "Server", server), mock.patch.object(rounds, "progress"):
            try:
                self.run()
            except KeyboardInterrupt:
                pass
        self.close()
        return self


class GoingOn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.scenario = scenario("p99_us", rounds=3, rounds_max=3)
        self.all = {(number, "c", name) for number in (1, 2, 3) for name in ("a", "b")}

    def test_what_is_missing_is_measured_and_nothing_twice(self):
        for stop_at in range(6):
            with self.subTest(stop_at), tempfile.TemporaryDirectory() as folder:
                before = Faked(self.scenario, folder, stop_at).measured()
                lines = (Path(folder) / "runs.csv").read_text()
                after = Faked(self.scenario, folder).measured()
                self.assertEqual(len(before.runs), stop_at)
                self.assertEqual(Counter(before.runs + after.runs), Counter(self.all))
                self.assertTrue((Path(folder) / "runs.csv").read_text().startswith(lines))
                raw = sorted(path.read_text() for path in (Path(folder) / "raw").glob("*-c-*.txt"))
                self.assertEqual(raw, ["cut off"] + 6 * ["whole"], "and what was cut off is kept")

    def test_the_order_is_that_of_a_run_that_was_not_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = Faked(self.scenario, folder).measured().runs
        before = Faked(self.scenario, self.folder, 3).measured()
        self.assertEqual(before.runs + Faked(self.scenario, self.folder).measured().runs, whole)

    def test_the_records_are_those_of_a_run_that_was_not_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = Faked(self.scenario, folder).measured().records
        Faked(self.scenario, self.folder, 3).measured()
        after = Faked(self.scenario, self.folder).measured().records
        self.assertEqual(len(after), 6)
        for one, other in zip(whole, after):
            self.assertEqual({key: one[key] for key in one if one[key] is not None},
                             {key: other[key] for key in other if other[key] is not None})  # fmt: skip

    def cut(self, content: bytes) -> Path:
        path = Path(self.folder) / "cut.csv"
        path.write_bytes(content)
        return path

    def test_a_line_that_was_cut_off_is_measured_again(self):
        Faked(self.scenario, self.folder, 4).measured()
        path = Path(self.folder) / "runs.csv"
        whole = path.read_bytes()
        self.assertEqual(rounds.read_runs(self.cut(whole[:20])), [], "not even its first line is whole")
        path.write_bytes(whole[:-9])
        after = Faked(self.scenario, self.folder).measured()
        self.assertEqual(len(after.runs), 3)
        self.assertEqual(len(after.records), 6)
        self.assertEqual(len(rounds.read_runs(path)), 6)

    def test_two_do_not_write_at_once(self):
        first = Faked(self.scenario, self.folder)
        with self.assertRaisesRegex(Failed, "runs.csv: another run.py writes it"):
            Faked(self.scenario, self.folder)
        first.close()
        Faked(self.scenario, self.folder).close()

    def test_only_servers_that_have_something_left_to_answer_are_started(self):
        Faked(self.scenario, self.folder, 5).measured()
        after = Faked(self.scenario, self.folder).measured()
        self.assertEqual(len(after.started), 1)
        self.assertTrue(after.started[0].endswith("-2.log"), "another log than before")

    def test_a_cell_with_rounds_of_its_own_takes_part_in_the_first(self):
        cells = (Cell("c"), Cell("few", rounds=2))
        measured = Faked(replace(self.scenario, cells=cells), self.folder).measured()
        self.assertEqual(Counter(cell for _, cell, _ in measured.runs), {"c": 6, "few": 4})
        self.assertNotIn((3, "few", "a"), measured.runs)

    def test_a_cell_runs_the_variants_that_it_names_and_goes_on_with_them(self):
        cells = (Cell("c"), Cell("some", variants=("b",)), Cell("few", rounds=1, variants=("a",)))
        some = replace(self.scenario, cells=cells, targets=(Target("p99_us", "a", "b", 1.1, ("c",)),))
        expected = {**dict.fromkeys(self.all, 1), (1, "few", "a"): 1} | {(n, "some", "b"): 1 for n in (1, 2, 3)}
        self.assertEqual(some.runs(3), len(expected))
        for stop_at in range(len(expected)):
            with self.subTest(stop_at), tempfile.TemporaryDirectory() as folder:
                before = Faked(some, folder, stop_at).measured()
                after = Faked(some, folder).measured()
                self.assertEqual(Counter(before.runs + after.runs), Counter(expected))
                self.assertEqual({each["order"] for each in after.records if each["cell"] != "c"}, {1})

    def test_a_server_that_no_cell_runs_is_not_started(self):
        measured = Faked(replace(self.scenario, cells=(Cell("some", variants=("b",)),)), self.folder).measured()
        self.assertEqual(measured.started, ["01-b.log", "02-b.log", "03-b.log"])

    def test_a_cell_that_takes_no_more_part_adds_no_rounds(self):
        cells = (Cell("c", rounds=3), Cell("d"))
        measured = Figures(self.folder, "server_cpu_us", lambda number: 1.0 + 0.5 * (number % 2))
        measured.scenario = replace(measured.scenario, cells=cells)
        measured.run()
        measured.close()
        self.assertEqual(len(measured.records) // 2, 10)

    def test_a_server_whose_link_was_lost_as_it_started_is_started_again(self):
        class Started(Faked):
            tries = 0

            def _started(self, variant, log):
                if variant.name == "b":
                    raise Failed("it does not start")
                self.tries += 1
                if self.tries == 1:
                    raise LinkLost("the link to there is lost")
                return mock.Mock(variant=variant)

        cells = (Cell("c"), Cell("d"))
        measured = Started(replace(self.scenario, cells=cells, rounds=1, rounds_max=1), self.folder)
        with mock.patch.object(rounds, "progress"):
            measured.run()
        measured.close()
        failed = [(each["cell"], each["variant"]) for each in measured.records if each.get("failed")]
        self.assertEqual(sorted(failed), [("c", "b"), ("d", "b")])
        self.assertEqual(measured.tries, 2)

    def test_the_cpus_of_a_measurement_that_is_not_kept_are_not_either(self):
        def cores() -> list[list[str]]:
            with (Path(self.folder) / "cores.csv").open(newline="") as file:
                return list(csv.reader(file))[1:]

        used = {"0": dict.fromkeys(agent.KINDS, 0.25)}
        run = rounds.Run("", 1.0, {}, 1.0, used, {})
        measured = Faked(self.scenario, self.folder, stop_at=2)
        keep = measured._keep_cores
        with mock.patch.object(measured, "_report", lambda record, _: keep(record["round"], Cell("c"), record["variant"], run)):
            measured.measured()
        self.assertEqual(len(cores()), 2)
        with (Path(self.folder) / "cores.csv").open("a") as file:
            file.write("3,c,a,server,0" + ",0.25" * len(agent.KINDS) + "\n3,c,b,serv")
        Faked(self.scenario, self.folder, stop_at=0).measured()
        self.assertEqual([row[0] for row in cores()], ["1", "1"])

    def test_raw_outputs_are_packed_when_all_is_done(self):
        measured = Faked(self.scenario, self.folder).measured()
        measured.pack()
        with tarfile.open(Path(self.folder) / "raw.tar.gz") as packed:
            names = packed.getnames()
            self.assertEqual(packed.extractfile("raw/01-c-a.txt").read(), b"whole")
            self.assertEqual({(each.uid, each.uname) for each in packed.getmembers()}, {(0, "")})
        self.assertEqual(set(names), {"raw"} | {f"raw/{path.name}" for path in (Path(self.folder) / "raw").iterdir()})


class TimeLeft(unittest.TestCase):
    def test_it_is_that_of_the_loads_to_come_at_the_pace_of_this_session(self):
        cells = (Cell("c"), Cell("long", seconds=12))
        record = {"round": 1, "cell": "c", "variant": "a", "failed": "why"}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(rounds, "progress") as said:
            measured = Measurement(replace(scenario("p99_us", rounds=2), cells=cells), Settings(Path("."), mock.Mock()), Path(folder))
            measured.records = [record]
            measured._report(record, took_s=6.0)  # twice its 3 s; of 60 s of load 57 are to come
            self.assertTrue(said.call_args.args[0].startswith("[1/8, 1.9 min left] round 1 c a: FAILED"), said.call_args)
            measured.scenario = replace(measured.scenario, cells=(cells[0], replace(cells[1], variants=("b",))))
            measured._spent_s = measured._spent_on_s = 0
            measured._report(record, took_s=3.0)  # of 12 s and 24 s of load 33 are to come
            self.assertTrue(said.call_args.args[0].startswith("[1/6, 0.6 min left]"), said.call_args)
            measured.scenario = replace(measured.scenario, cells=cells)
            measured._spent_s = measured._spent_on_s = 0  # as if another session went on
            measured.records = [record, record | {"cell": "long"}]
            measured._report(measured.records[-1], took_s=12.0)
            self.assertTrue(said.call_args.args[0].startswith("[2/8, 0.8 min left]"), said.call_args)
            measured.close()


class Warmup(unittest.TestCase):
    def commands(self, cell: Cell, took: str = "2.02s") -> list[list[str]]:
        output = (Path(__file__).parent / "recorded" / "wrk_plaintext.txt").read_text().replace("2.02s", took)
        used = dict.fromkeys(("cpu_s", "user_s", "system_s", "voluntary", "involuntary", "rss_kib"), 1)
        run = rounds.Run(output, 1.0, used, 1.0, {}, {})
        with tempfile.TemporaryDirectory() as folder:
            measured = Measurement(scenario("p99_us"), Settings(Path("."), mock.Mock()), Path(folder))
            with mock.patch.object(measured, "_run", return_value=run) as runs:
                measured._measure(1, cell, "a", mock.Mock(http="127.0.0.1:81", variant=Variant("a", "x")))
            measured.close()
        return [call.args[0] for call in runs.call_args_list]

    def test_wrk_runs_twice(self):
        self.assertEqual([command[3] for command in self.commands(Cell("c", warmup=2))], ["-d2s", "-d3s"])
        self.assertEqual([command[3] for command in self.commands(Cell("c", seconds=7))], ["-d7s"])

    def test_wrk_that_ends_late_gave_no_figure(self):
        self.commands(Cell("c", seconds=2), took="2.99s")
        late = "its connections came late, or it came late to a CPU; give it longer"
        with self.assertRaisesRegex(Failed, f"wrk took 3.1 s instead of 2: {late}"):
            self.commands(Cell("c", seconds=2), took="3.06s")


if __name__ == "__main__":
    unittest.main()
