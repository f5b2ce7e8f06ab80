# SPDX-License-Identifier: Apache-2.0
"""Whether a run that was stopped may go on here: only with the same plan, programs, tools and machine."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from lib.hosts import Hosts
from lib.measure import REPOSITORY, Failed
from lib.scenario import Scenario
from lib.servers import program


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(scenario: Scenario, plan: Path, build_dir: Path, hosts: Hosts, facts: dict) -> dict[str, str]:
    """What must not change within a run: by its name, a hash or a version. `facts` are report.machine()'s."""
    installed = {variant.program for variant in scenario.variants if variant.installed}

    def program_sha256(name: str) -> str:
        if name in installed:
            return hosts.server.call("sha256", path=hosts.server.find(name))
        return _sha256(REPOSITORY / program(build_dir, name))

    programs = {variant.program for variant in scenario.variants}
    programs |= {cell.tool for cell in scenario.cells if cell.tool == "bwos-load"}
    found = {"the plan": _sha256(plan), "the CPU": facts["cpu"], "the kernel": facts["kernel"]}
    found |= {f"the program {name}": program_sha256(name) for name in sorted(programs)}
    words = {word for variant in scenario.variants for word in variant.flags}
    words |= {word for cell in scenario.cells for word in cell.arguments}
    files = {word for word in words if len(word) < 256 and (REPOSITORY / word).is_file()}
    found |= {f"the file {name}": _sha256(REPOSITORY / name) for name in sorted(files)}
    if "client_machine" in facts:
        found |= {f"the client's {what}": facts["client_machine"][key] for what, key in (("CPU", "cpu"), ("kernel", "kernel"))}
        facts = facts["client_machine"]
    used = {cell.tool for cell in scenario.cells}
    return found | {f"the tool {name}": version for name, version in facts["versions"].items() if name in used}


def facts_of(folder: Path) -> dict:
    """The machine.json of a run that may go on; Failed with the reason when there is none."""
    try:
        facts = json.loads((folder / "machine.json").read_text())
    except (OSError, ValueError) as error:
        raise Failed(f"--resume {folder}: it is not the folder of a run: {error}") from error
    if "same" not in facts:
        raise Failed(f"--resume {folder}: its machine.json does not say which programs it measured")
    if "finished" in facts:
        raise Failed(f"--resume {folder}: that run is finished ({facts['finished']})")
    return facts


def check(folder: Path, facts: dict, scenario: Scenario, same: dict[str, str]) -> None:
    """Failed, naming each thing that is not as it was."""
    before = facts["same"]
    changed = [name for name in sorted(before | same) if before.get(name) != same.get(name)]
    recorded, now = facts["scenario"], json.loads(json.dumps(asdict(scenario)))
    changed += [f"the scenario's {key}" for key in now if recorded.get(key) != now[key]]
    if changed:
        raise Failed(f"--resume {folder}: {', '.join(changed)}: not as when the run began; begin another one")
