# SPDX-License-Identifier: Apache-2.0
"""Programs that measure themselves: what they print, what a plan says of them, and executor/bench/run.py."""

import csv
import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from dataclasses import replace
from pathlib import Path

from lib import plans, tools
from lib.measure import REPOSITORY, Failed
from lib.scenario import told

RUN = REPOSITORY / "loadtest" / "run.py"
BENCH_RUN = REPOSITORY / "executor" / "bench" / "run.py"
PLAN = """# Ours is faster.
question = "Is it?"
minutes = 1
rounds = 3
seconds = 1
baseline = "theirs"
variants = [
  { name = "ours", program = "executor/bench/fake", flags = "2.0 --mine", ours = true },
  { name = "theirs", program = "executor/bench/fake", flags = "4.0" },
  { name = "absent", program = "executor/bench/nobody", needs = "-DNOBODY_DIR=<folder>" },
]
cells = [
  { name = "n{value}", tool = "program", arguments = "n {value}", value = [1, 2, 30], axis = "entries" },
  { name = "w{value}", tool = "program", arguments = "w {value}", value = [1, 5000], axis = "workers" },
]
targets = [{ metric = "op_ns", variant = "ours", versus = "theirs", limit = 0.6, cells = "n1" }]
"""
# Prints two repetitions: its first argument is the nanoseconds of an operation.
FAKE = """#!/bin/sh
echo '{"op_ns": '$1', "op_cpu_ns": 3, "answer": ANSWER, "peak_rss_kib": 1000}'
echo '{"op_ns": '$1', "op_cpu_ns": 5, "answer": ANSWER, "peak_rss_kib": 1000}'
"""


def parse(text: str):
    return plans.parse("executor/bench/questions/some.toml", text, (0, 1))


class Output(unittest.TestCase):
    LINES = ('{"op_ns": 3, "answer": 7, "op_cpu_ns": 1, "wall": 1}\n{"op_ns": 1, "answer": 7, "op_cpu_ns": 5}\n'
             '{"op_ns": 2, "answer": 7, "op_cpu_ns": 3}\n')  # fmt: skip

    def test_the_median_of_repetitions_or_the_fastest_one(self):
        self.assertEqual(tools.parse_program(self.LINES, False), {"op_ns": 2, "answer": "7", "op_cpu_ns": 3})
        self.assertEqual(tools.parse_program(self.LINES, True), {"op_ns": 1, "answer": "7", "op_cpu_ns": 5})
        self.assertEqual(tools.parse_program('{"op_ns": 3}', False), {"op_ns": 3})

    def test_percentiles_count_and_what_is_no_metric_does_not(self):
        line = '{"op_ns": 3, "p50_us": 1, "p99_us": 9, "late_p99_us": 2, "slow_p99_us": 4, "left_out": 5}'
        metrics = {"op_ns": 3, "p50_us": 1, "p99_us": 9, "late_p99_us": 2, "slow_p99_us": 4}
        self.assertEqual(tools.parse_program(line, False), metrics)

    def test_repetitions_come_to_one_answer(self):
        with self.assertRaisesRegex(Failed, "it came to 7 and to 8"):
            tools.parse_program('{"op_ns": 3, "answer": 7}\n{"op_ns": 3, "answer": 8}\n', False)

    def test_of_google_benchmark_repetitions_and_no_aggregates(self):
        runs = [{"run_type": "iteration", "op_ns": each, "real_time": 9} for each in (5, 6, 70)]
        text = json.dumps({"context": {}, "benchmarks": [*runs, {"run_type": "aggregate", "op_ns": 999}]})
        self.assertEqual(tools.parse_program(text, False), {"op_ns": 6})

    def test_what_is_no_result_is_told(self):
        for text, said in (("", "no result"), ("[]", "no result"), ("{}", "no result"), ('{"answer": 1}', "no result"), ("seg", "no result.*seg"),
                           ('{"benchmarks": [{"error_occurred": true, "error_message": "lost one"}]}', "lost one")):  # fmt: skip
            with self.subTest(text), self.assertRaisesRegex(Failed, said):
                tools.parse_program(text, False)


class Plans(unittest.TestCase):
    def test_a_value_stands_in_the_arguments(self):
        cells = {each.name: each for each in parse(PLAN).cells}
        self.assertEqual(list(cells), ["n1", "n2", "n30", "w1", "w5000"])
        self.assertEqual(told(replace(cells["n30"], value=1_000_000)), ["n", "1000000"])
        self.assertEqual(told(replace(cells["n30"], value=0.5)), ["n", "0.5"])
        self.assertEqual((told(cells["n30"]), cells["n30"].axis, cells["n30"].connections), (["n", "30"], "entries", 0))

    def test_what_is_wrong_is_named(self):
        for old, new, said in (
            (', axis = "entries"', "", "value and axis go together"),
            ('"executor/bench/fake", flags = "4.0"', '"epoll_floor"', "'n1' of program does not go with .* epoll_floor"),
            ('tool = "program", arguments = "n {value}"', "connections = 3", "value is nothing to wrk, only to program"),
            ('axis = "entries"', 'axis = "entries", connections = 3', "connections is nothing to program"),
            ('"executor/bench/nobody"', '"bench/nobody"', "program = 'bench/nobody': it must be one of"),
        ):
            with self.subTest(new), self.assertRaisesRegex(Failed, said):
                self.assertIn(old, PLAN)
                parse(PLAN.replace(old, new, 1))

    def test_the_questions_are_right(self):
        found = sorted((REPOSITORY / "executor" / "bench" / "questions").glob("*.toml"))
        self.assertTrue(found)
        for path in found:
            with self.subTest(path.name):
                scenario = plans.load(path, (0, 1))
                self.assertTrue(any(each.ours for each in scenario.variants))
                self.assertTrue(all(each.tool == "program" for each in scenario.cells))


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "build" / "executor" / "bench").mkdir(parents=True)
        self.program(FAKE.replace("ANSWER", "7"))
        (self.folder / "plan.toml").write_text(PLAN)
        self.out = self.folder / "out"

    def program(self, text: str) -> None:
        path = self.folder / "build" / "executor" / "bench" / "fake"
        path.write_text(text)
        path.chmod(0o755)

    def run_plan(self, *more: str) -> tuple[int, str]:
        command = [sys.executable, RUN, "--build-dir", self.folder / "build", "--out", self.out, self.folder / "plan.toml"]
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=100)
        return done.returncode, done.stdout + done.stderr

    def rows(self) -> list[dict]:
        with (self.out / "runs.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def test_sides_are_measured_in_rounds_and_compared(self):
        code, said = self.run_plan()
        self.assertEqual(code, 0, said)
        self.assertEqual(len(self.rows()), 3 * 2 * 4)
        one = self.rows()[0]
        self.assertEqual((one["op_cpu_ns"], one["peak_rss_kib"], one["answer"], one["failed"]), ("4", "1000", "7", ""))
        commands = json.loads((self.out / "machine.json").read_text())["commands"]
        self.assertEqual(commands["ours"][1:], ["2.0", "--mine"])
        self.assertEqual(one["others_cpus"], "", "it was too short for that")
        self.assertIn("absent: ", said)
        self.assertIn("executor/bench/nobody is not there: build the target nobody, which needs -DNOBODY_DIR=<folder>", said)
        self.assertIn("w5000: 5000 workers need as many CPUs", said)
        report = (self.out / "report.txt").read_text()
        self.assertRegex(report, r"op_ns ours / theirs, n1 +0.500 +\[0.500, 0.500\] +0.600 +3 +met")
        self.assertRegex(report, r"theirs +3 +4.00 ")
        self.assertIn("n30 (n 30); median", report)

    def test_a_program_is_told_the_round(self):
        self.program("#!/bin/sh\nfor last; do :; done\necho '{\"op_ns\": 1, \"op_cpu_ns\": '$last'}'\n")
        (self.folder / "plan.toml").write_text(PLAN.replace(' {value}"', ' {value} {round}"'))
        code, said = self.run_plan()
        self.assertEqual(code, 0, said)
        self.assertTrue(all(row["op_cpu_ns"] == row["round"] for row in self.rows()), self.rows())

    def test_the_page_can_be_left_out(self):
        code, said = self.run_plan("--rounds", "1", "--no-page")
        self.assertEqual(code, 0, said)
        self.assertIn("n30 (n 30); median", said)
        self.assertFalse((self.out / "report.html").exists())

    def test_sides_that_come_to_other_answers_have_no_figure(self):
        self.program(FAKE.replace("ANSWER", "'$([ \"$1\" = 2.0 ] && echo 7 || echo 8)'"))
        code, said = self.run_plan("--rounds", "1")
        self.assertEqual(code, 1, said)
        self.assertEqual(sum("another one to" in row["failed"] for row in self.rows()), 4, said)

    def test_a_program_that_fails_says_why(self):
        self.program("#!/bin/sh\necho no memory >&2\nexit 9\n")
        code, said = self.run_plan("--rounds", "1")
        self.assertEqual(code, 1)
        self.assertTrue(all("it ended with 9: no memory" in row["failed"] for row in self.rows()), said)


class Questions(unittest.TestCase):
    def ask(self, *words: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, BENCH_RUN, *words], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_bad_flags_are_named(self):
        for words, said in (
            (["nothing"], "'nothing' is no question; there are "),
            (["--out", "x"], "--out is of one question's run: name one question"),
            (["--resume", "x", "post"], "--resume goes on as the run was begun"),
            (["--resume", "x", "--quick"], "--resume goes on as the run was begun"),
            (["--resume", "x", "--no-build"], "--resume goes on as the run was begun"),
            (["post", "--quick", "--out", "x"], "--quick keeps nothing"),
            (["--quick", "--rounds", "3"], "--quick is one round"),
            (["--rounds", "x"], "--rounds x: it must be a whole number of 1 or more"),
            (["--only", "nobody"], "--only nobody: no question has such a side; "),
        ):
            with self.subTest(words):
                code, text = self.ask(*words)
                self.assertEqual(code, 2, text)
                self.assertIn(said, text)

    def test_what_is_to_be_built_and_is_not_is_an_error(self):
        with tempfile.TemporaryDirectory() as nothing:
            code, text = self.ask("wheel", "--quick", "--no-build", "--build-dir", nothing)
        self.assertEqual(code, 1, text)
        self.assertIn("error: not built: executor/bench/wheel_bench", text)

    def test_help_lists_the_questions(self):
        code, text = self.ask("--help")
        self.assertEqual(code, 0)
        for path in (REPOSITORY / "executor" / "bench" / "questions").glob("*.toml"):
            self.assertIn(path.stem, text)

    def test_a_loaded_machine_is_refused(self):
        spec = importlib.util.spec_from_file_location("bench_run", BENCH_RUN)
        run = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(run)
        with unittest.mock.patch("os.getloadavg", return_value=(1000.0, 0, 0)):
            self.assertIn("a load of 1000.0", run.loaded())
        with unittest.mock.patch("os.getloadavg", return_value=(0.1, 0, 0)):
            self.assertIsNone(run.loaded())
