# SPDX-License-Identifier: Apache-2.0
"""Plans: what a file becomes, what is said of a wrong one, and that every kept one is right."""

import re
import unittest
from pathlib import Path

from lib import plans
from lib.measure import Failed
from lib.scenario import Target, running

CPUS = (3, 5)
GOOD = """# It is fast.
question = "Is it?"
minutes = 2
rounds = 4
rounds_max = 8
baseline = "floor"
calibrate_with = "floor"
variants = [
  { name = "ours", flags = "--workers 1 --pin", cpu = "server", holds = "[io_uring]" },
  { name = "floor", program = "epoll_floor", flags = "--threads 1" },
]
cells = [
  { name = "c{connections}", connections = [64, 256], cpu = "client" },
  { name = "e{body}", connections = 9, path = "/echo", body = [16, 1024], rounds = 3, seconds = 7, timeout = 30 },
  { name = "deep", connections = 9, pipeline = 16, warmup = 2 },
  { name = "busy{busy}", tool = "bwos-load", busy = [0.3, 0.57], classes = [
    { name = "fast", path = "/plaintext", connections = 58 }, { name = "slow", path = "/work?us=200", connections = 6 } ] },
  { name = "peak", tool = "bwos-load", connections = 7, of_peak = 0.7, classes = [{ name = "all", path = "/plaintext" }] },
]
targets = [
  { metric = "server_cpu_us", variant = "ours", versus = "floor", limit = 1.1 },
  { metric = "p99_us", variant = ["ours", "floor"], limit = 900, cells = "c64" },
]
"""
CALLS = """# They are fast.
question = "Are they?"
minutes = 2
variants = [{ name = "ours", grpc = true }]
cells = [
  { name = "{connections}x{streams}", tool = "ghz", connections = [10, 50], streams = [1, 20] },
  { name = "closed", tool = "bwos-load", connections = 10, streams = 100, classes = [{ call = "SayHello" }] },
  { name = "skew", tool = "bwos-load", connections = 50, rate = 1000, classes = [
    { call = "SayHello" }, { call = "Burn", us = 200, share = 0.1, over = "hello" } ] },
  { name = "idle", tool = "idle", connections = 5, classes = [{ call = "SayHello" }] },
]
"""


def parse(text: str):
    return plans.parse("loadtest/plans/some.toml", text, CPUS)


class Right(unittest.TestCase):
    def test_what_a_plan_says(self):
        scenario = parse(GOOD)
        self.assertEqual((scenario.name, scenario.question, scenario.hypothesis), ("some", "Is it?", "It is fast."))
        self.assertEqual((scenario.minutes, scenario.rounds, scenario.rounds_max, scenario.seconds), (2, 4, 8, 3))
        ours, floor = scenario.variants
        self.assertEqual((ours.program, ours.flags), ("bwos-server", ("--workers", "1", "--pin")))
        self.assertEqual((ours.cpu, ours.holds, ours.needs_grpc), (3, "[io_uring]", False))
        self.assertEqual((floor.program, floor.cpu), ("epoll_floor", None))

    def test_a_list_becomes_a_cell_for_each_value(self):
        cells = {cell.name: cell for cell in parse(GOOD).cells}
        self.assertEqual(list(cells), ["c64", "c256", "e16", "e1024", "deep", "busy30", "busy57", "peak"])
        self.assertEqual([cells[name].connections for name in ("c64", "c256", "e16", "busy57", "peak")], [64, 256, 9, 64, 7])
        self.assertEqual((cells["c64"].client_cpu, cells["e16"].client_cpu), (5, None))
        self.assertEqual((cells["e1024"].body, cells["e1024"].path), (1024, "/echo"))
        self.assertEqual((cells["e16"].rounds, cells["e16"].seconds, cells["e16"].timeout), (3, 7, 30))
        self.assertEqual((cells["deep"].pipeline, cells["deep"].warmup, cells["c64"].warmup), (16, 2, 0))
        self.assertEqual((cells["busy57"].busy, cells["busy57"].warmup), (0.57, 0.5))
        self.assertEqual([each.connections for each in cells["peak"].classes], [7], "those of its cell")

    def test_targets_are_about_all_cells_unless_they_name_some(self):
        scenario = parse(GOOD)
        names = tuple(cell.name for cell in scenario.cells)
        self.assertEqual(
            scenario.targets,
            (
                Target("server_cpu_us", "ours", "floor", 1.1, names),
                Target("p99_us", "ours", None, 900, ("c64",)),
                Target("p99_us", "floor", None, 900, ("c64",)),
            ),
        )

    def test_calls(self):
        scenario = parse(CALLS)
        cells = {cell.name: cell for cell in scenario.cells}
        self.assertEqual(list(cells)[:4], ["10x1", "10x20", "50x1", "50x20"])
        hello, burn = cells["skew"].classes
        self.assertEqual((hello.name, hello.connections, hello.message), ("hello", 50, "0a0462776f73"))
        self.assertEqual((burn.name, burn.connections, burn.over, burn.share), ("burn", 0, "hello", 0.1))
        self.assertEqual((burn.path, burn.message, burn.reply), ("/bwos.Work/Burn", "08c801", "08c801"))
        self.assertEqual((cells["closed"].rate, cells["skew"].rate), (0, 1000))

    def test_cells_may_take_part_in_fewer_rounds(self):
        scenario = parse(GOOD)
        # Two variants; of eight cells, two take part in 3 rounds at most.
        self.assertEqual([scenario.runs(rounds) for rounds in (1, 3, 4, 8)], [16, 48, 2 * (6 * 4 + 6), 2 * (6 * 8 + 6)])
        # 3 s each, but 7 s in two cells; 2 s before `deep`, half a second before the three of bwos-load.
        self.assertAlmostEqual(scenario.loaded_s(1), 2 * (6 * 3 + 2 * 7 + 2 + 3 * 0.5))

    def test_cells_may_run_some_of_the_variants(self):
        text = GOOD.replace("seconds = 7", 'seconds = 7, variants = "floor"')
        scenario = parse(text.replace("limit = 1.1", 'limit = 1.1, cells = "deep"'))
        cells = {cell.name: cell for cell in scenario.cells}
        self.assertEqual([cells[name].variants for name in ("c64", "e16", "e1024")], [(), ("floor",), ("floor",)])
        self.assertEqual([each.name for each in running(scenario.variants, cells["e16"])], ["floor"])
        self.assertEqual([each.name for each in running(scenario.variants, cells["c64"])], ["ours", "floor"])
        # Six cells with two variants and two with one, those of 7 s, in 3 rounds at most.
        self.assertEqual([scenario.runs(rounds) for rounds in (1, 4)], [6 * 2 + 2, 6 * 2 * 4 + 2 * 3])
        self.assertAlmostEqual(scenario.loaded_s(1), 2 * (6 * 3 + 2 + 3 * 0.5) + 2 * 7)

    def test_a_variant_without_grpc_may_stand_beside_cells_that_do_not_run_it(self):
        text = CALLS.replace("[{ name", '[{ name = "plain" }, { name').replace("tool =", 'variants = "ours", tool =')
        self.assertEqual({cell.variants for cell in parse(text).cells}, {("ours",)})
        with self.assertRaisesRegex(Failed, "the cell 'idle' calls, the variant 'plain' has no grpc"):
            parse(text.replace('"idle", variants = "ours"', '"idle"'))

    def test_a_plan_may_tolerate_a_little(self):
        self.assertEqual(parse(GOOD).tolerance, 0)
        self.assertEqual(parse(GOOD.replace("minutes = 2", "minutes = 2\ntolerance = 0.03")).tolerance, 0.03)


class Wrong(unittest.TestCase):
    # What is replaced by what, and a part of what must be said.
    CASES = (
        ("# It is fast.", "", "the first line must be its hypothesis"),
        ("# It is fast.", "#", "the first line must be its hypothesis"),
        ("minutes = 2\n", "", "minutes is missing; it is a number from 0.1 to 1440"),
        ("minutes = 2", "minutes = ", r"Invalid value \(at line 3"),
        ("minutes = 2", "minuets = 2", "unknown key 'minuets'; there are question, minutes, rounds"),
        ("rounds = 4", "rounds = 0", "rounds = 0: it must be a whole number from 1 to 1000"),
        ("rounds = 4", "rounds = true", "rounds = True: it must be a whole number"),
        ("rounds = 4", "rounds = 2.5", "rounds = 2.5: it must be a whole number"),
        ("rounds = 4", "rounds = 9", "rounds_max = 8: it must be at least rounds = 9"),
        ('baseline = "floor"', 'baseline = "flor"', "baseline = 'flor': there is none; there are ours, floor"),
        ('calibrate_with = "floor"', "", "calibrate_with is missing: the cell 'busy30' has busy; it is one of ours, floor"),
        ('"epoll_floor"', '"epol"', r"variants\[2\] 'floor': program = 'epol': it must be one of bwos-server, asio_coro"),
        ('cpu = "server"', "cpu = 0", r"variants\[1\] 'ours': cpu = 0: it must be one of server, client"),
        ('name = "ours", flags', 'name = "a/b", flags', r"variants\[1\] 'a/b': name = 'a/b': it must be a name of letters"),
        ('name = "ours", flags', "flags", r"variants\[1\]: name is missing"),
        ('"floor", program', '"ours", program', "variants: two are named 'ours'"),
        ('"--workers 1 --pin"', '["--pin"]', r"flags = \['--pin'\]: it must be a text, its words parted by spaces"),
        ('"e{body}"', '"e{bdy}"', r"cells\[2\] 'e\{bdy\}': name = 'e\{bdy\}': it must be a name"),
        ('"e{body}"', '"e"', "cells: two are named 'e'"),
        ("[64, 256]", "[]", r"connections = \[\]: it must be a whole number from 1 to 1000000, or a list of such"),
        ("[64, 256]", '[64, "256"]', "or a list of such"),
        ("connections = [64, 256], ", "", r"cells\[1\] .*: connections is missing"),
        ("warmup = 2", "warmup = 2.5", "warmup = 2.5: wrk takes whole seconds"),
        ("[16, 1024]", "[0, 1024]", r"body = \[0, 1024\]: it must be a whole number from 1 to 1073741824, or a list"),
        ("of_peak = 0.7", "rate = inf", r"rate = inf: it must be a number from 0.001 to 1e\+07"),
        ("warmup = 2", "body = 16", "body and pipeline: wrk is told to do one of them"),
        ("warmup = 2", "streams = 16", "streams is nothing to wrk, only to ghz, h2load, bwos-load"),
        ("warmup = 2", 'tool = "idle"', "pipeline is nothing to idle"),
        ("warmup = 2", 'tool = "wrk2"', "tool = 'wrk2': it must be one of wrk, ghz"),
        ("of_peak = 0.7", "of_peak = 70", "of_peak = 70: it must be a share above 0 and below 1"),
        ("of_peak = 0.7, ", "", "one of rate, busy and of_peak says how much is sent"),
        ("of_peak = 0.7", "of_peak = 0.7, rate = 9", "one of rate, busy and of_peak says how much is sent"),
        ('classes = [{ name = "all", path = "/plaintext" }]', "rounds = 2", "classes is missing"),
        ('"all", path = "/plaintext"', '"all"', r"cells\[5\] 'peak': classes\[1\] 'all': either path .* or call"),
        ('"all", path = "/plaintext"', '"all", path = "x"', "path = 'x': it must be a path such as /plaintext"),
        ('"all", path = "/plaintext"', '"all", call = "Burn"', "us is the microseconds of the call Burn"),
        ('"all", path = "/plaintext"', '"all", path = "/p", over = "all"', "over is for calls"),
        ('"all", path = "/plaintext"', '"all", path = "/p", share = 0.5', "must leave something of the rate"),
        ('name = "all", path', "path", r"classes\[1\]: name is missing"),
        (", connections = 6", "", r"cells\[4\] .*: classes: where there are several, each has its own connections"),
        ('"slow", path', '"fast", path', "classes: fast, fast: each needs a name of its own"),
        ('path = "/work?us=200"', 'call = "SayHello"', "a cell has either"),
        ("connections = 7, ", "", "'peak': connections is missing"),
        ('tool = "bwos-load", busy', 'connections = 3, tool = "bwos-load", busy', "connections stand in the classes already"),
        ('"all", path = "/plaintext"', '"all", call = "SayHello"', "the cell 'peak' calls, the variant 'ours' has no grpc"),
        ('metric = "p99_us"', 'metric = "p98_us"', r"targets\[2\]: metric = 'p98_us': it must be one of requests, requests_per_s"),
        ('versus = "floor"', 'versus = "tokio"', r"targets\[1\]: versus = 'tokio': there is none; there are ours, floor"),
        ('["ours", "floor"]', '["ours", "flor"]', "variant = 'flor': there is none; there are ours, floor"),
        ('cells = "c64"', 'cells = ["c65"]', "cells = 'c65': there is none; there are c64, c256"),
        ("seconds = 7", 'variants = ["ours", "flor"]', r"cells\[2\] 'e\{body\}': variants = 'flor': there is none; there are ours, floor"),
        ("seconds = 7", "variants = []", r"variants = \[\]: it must be a text, or a list of such"),
        ("seconds = 7", 'variants = ["ours"]', r"targets\[1\]: versus = 'floor' does not run in the cell 'e16': ours do"),
        ("seconds = 7", 'variants = "floor"', r"targets\[1\]: variant = 'ours' does not run in the cell 'e16': floor do"),
        ("minutes = 2", "minutes = 2\ntolerance = 3", "tolerance = 3: it must be a number from 0 to 1"),
        ('cells = "c64"', "less = true", "less is the difference to `versus`, which is missing"),
        ("limit = 900", 'limit = "900"', "limit = '900': it must be a number"),
    )  # fmt: skip

    def test_what_is_wrong_is_named(self):
        parse(GOOD)
        for old, new, said in self.CASES:
            with self.subTest(f"{old} -> {new}"):
                self.assertIn(old, GOOD)
                with self.assertRaisesRegex(Failed, "^loadtest/plans/some.toml: .*" + said):
                    parse(GOOD.replace(old, new, 1))

    def test_a_file_that_is_not_there(self):
        with self.assertRaisesRegex(Failed, "no.toml: .*No such file"):
            plans.load(Path("no.toml"), CPUS)


class Kept(unittest.TestCase):
    def test_every_one_is_right_and_no_longer_than_it_says(self):
        files = sorted(plans.FOLDER.glob("*.toml"))
        self.assertLessEqual({"http", "pipelined", "grpc", "skew", "idle", "quick"}, {path.stem for path in files})
        for path in files:
            with self.subTest(path.name):
                scenario = plans.load(path, CPUS)
                self.assertLessEqual(scenario.minutes, 90)
                self.assertLess(scenario.loaded_s(scenario.rounds_max) / 60, scenario.minutes)

    def test_http_has_the_loads_that_it_is_for(self):
        cells = plans.load(plans.FOLDER / "http.toml", CPUS).cells
        loads = {100, 200, 500, 1000, 2000, 5000, 10_000}
        for body in (0, 16, 1024, 65536):
            self.assertEqual({cell.connections for cell in cells if cell.body == body}, loads)

    def test_cells_with_a_target_of_http_and_skew_have_ten_rounds(self):
        for name in ("http", "skew"):
            scenario = plans.load(plans.FOLDER / f"{name}.toml", CPUS)
            asked = {cell for target in scenario.targets for cell in target.cells}
            for cell in scenario.cells:
                rounds = scenario.rounds_of(cell, scenario.rounds)
                self.assertTrue(rounds == 10 if cell.name in asked else rounds <= 3, f"{cell.name}: {rounds}")

    def test_the_readme_names_every_key(self):
        text = (plans.FOLDER.parent / "README.md").read_text()
        for keys in (plans.PLAN, plans.VARIANT, plans.CELL, plans.CLASS, plans.TARGET):
            for key in keys:
                self.assertTrue(re.search(rf"`{re.escape(key)}`", text), f"{key} is not explained")


if __name__ == "__main__":
    unittest.main()
