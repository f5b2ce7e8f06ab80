# SPDX-License-Identifier: Apache-2.0
"""Whether a run may go on: what has changed meanwhile is named."""

import json
import tempfile
import unittest
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

import run

from lib import resume
from lib.measure import Failed
from lib.scenario import Cell, Scenario
from lib.servers import Variant

SCENARIO = Scenario("s", "?", (Variant("ours", "bwos-server"), Variant("floor", "epoll_floor")),
                    (Cell("a", "wrk"), Cell("b", "bwos-load")), None)  # fmt: skip
FACTS = {"cpu": "a fast one", "kernel": "6.1", "versions": {"python": "3.11.2", "wrk": "4.1", "ghz": "0.121"}}


class GoingOn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.plan = self.folder / "s.toml"
        self.plan.write_text("# It is.")
        self.programs = [self.folder / name for name in ("server/bwos-server", "loadtest/bwos-load",
                                                         "loadtest/peers/epoll_floor")]  # fmt: skip
        for path in self.programs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"ELF")
        self.begun = {"scenario": json.loads(json.dumps(asdict(SCENARIO))), "same": self.fingerprint()}

    def fingerprint(self, scenario: Scenario = SCENARIO, facts: dict = FACTS) -> dict:
        return resume.fingerprint(scenario, self.plan, self.folder, mock.Mock(), facts)

    def refused(self, scenario: Scenario = SCENARIO, facts: dict = FACTS) -> str:
        with self.assertRaises(Failed) as caught:
            resume.check(self.folder, self.begun, scenario, self.fingerprint(scenario, facts))
        return str(caught.exception).partition(": ")[2]

    def test_nothing_has_changed(self):
        resume.check(self.folder, self.begun, SCENARIO, self.fingerprint())

    def test_a_tool_that_is_not_used_may_change(self):
        facts = FACTS | {"versions": FACTS["versions"] | {"ghz": "0.130", "python": "3.12"}}
        resume.check(self.folder, self.begun, SCENARIO, self.fingerprint(facts=facts))

    def test_each_program_and_the_plan(self):
        for path in (*self.programs, self.plan):
            before = path.read_bytes()
            path.write_bytes(before + b".")
            what = "the plan" if path == self.plan else f"the program {path.name}"
            self.assertEqual(self.refused(), f"{what}: not as when the run began; begin another one")
            path.write_bytes(before)

    def test_tools_and_machine(self):
        for facts, what in (
            (FACTS | {"cpu": "another"}, "the CPU"),
            (FACTS | {"kernel": "6.2"}, "the kernel"),
            (FACTS | {"versions": {"wrk": "4.2"}}, "the tool wrk"),
            (FACTS | {"client_machine": FACTS}, "the client's CPU, the client's kernel"),
        ):
            self.assertEqual(self.refused(facts=facts), f"{what}: not as when the run began; begin another one")

    def test_what_can_be_measured(self):
        fewer = replace(SCENARIO, variants=SCENARIO.variants[:1])
        self.assertIn("the program epoll_floor, the scenario's variants: not as", self.refused(fewer))
        self.assertIn("the scenario's cells: not as", self.refused(replace(SCENARIO, cells=SCENARIO.cells[::-1])))
        some = tuple(replace(cell, variants=("ours",)) for cell in SCENARIO.cells)
        self.assertIn("the scenario's cells: not as", self.refused(replace(SCENARIO, cells=some)))

    def test_a_run_whose_cells_name_variants_goes_on(self):
        some = replace(SCENARIO, cells=tuple(replace(cell, variants=("ours",)) for cell in SCENARIO.cells))
        facts = {"scenario": json.loads(json.dumps(asdict(some))), "same": self.fingerprint(some)}
        resume.check(self.folder, facts, some, self.fingerprint(some))

    def test_cells_none_of_whose_variants_is_measured_are_left_out(self):
        some = tuple(replace(cell, variants=(name,)) for cell, name in zip(SCENARIO.cells, ("ours", "floor")))
        scenario, on = replace(SCENARIO, cells=some), mock.Mock(one_machine=True)
        with mock.patch.multiple(run, missing=mock.Mock(return_value=None), progress=mock.Mock()), \
                mock.patch.multiple(run, missing_variant=mock.Mock(return_value=None)), \
                mock.patch.object(run.hosts, "short_queues", return_value=[]):  # fmt: skip
            found, left_out = run.available(scenario, {"only": ["floor"]}, False, self.folder, on)
            self.assertEqual([cell.name for cell in found.cells], ["b"])
            self.assertEqual(left_out, ["a: none of its servers is measured: ours"])
            self.assertEqual(found.runs(1), 1)
            with self.assertRaisesRegex(Failed, "nothing of it can be measured with these servers"):
                run.available(replace(scenario, cells=some[:1]), {"only": ["floor"]}, False, self.folder, on)

    def test_a_folder_that_is_no_run_or_is_done(self):
        for content, said in ((None, "not the folder of a run: .*No such file"), ("{", "not the folder of a run"),
                              ("{}", "does not say which programs"),
                              ('{"same": {}, "finished": "now"}', "is finished .now.")):  # fmt: skip
            if content:
                (self.folder / "machine.json").write_text(content)
            with self.assertRaisesRegex(Failed, said):
                resume.facts_of(self.folder)


if __name__ == "__main__":
    unittest.main()
