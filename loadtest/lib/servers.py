# SPDX-License-Identifier: Apache-2.0
"""The servers that are compared: how each is started, and that it runs as its name says."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lib import measure
from lib.measure import REPOSITORY, Failed

READY = re.compile(r"listening(?: http=127\.0\.0\.1:(\d+))?(?: grpc=127\.0\.0\.1:(\d+))?")

# Where the build puts our own programs; a peer <name> is loadtest/peers/<name>, by the target peer_<name>.
OURS = {
    "bwos-server": "server/bwos-server",
    "bwos-load": "loadtest/bwos-load",
}
NEEDS_CARGO = ("tokio", "hyper", "tonic")


def program(build_dir: Path, name: str) -> Path:
    """Below the repository where it lies there, so that kept results name no machine's folders."""
    path = build_dir / OURS.get(name, f"loadtest/peers/{name}")
    return path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path


def missing_program(build_dir: Path, name: str) -> str | None:
    path = program(build_dir, name)
    if os.access(REPOSITORY / path, os.X_OK):
        return None
    why = f"{path} is not there: build the target {name if name in OURS else 'peer_' + name}"
    if name in NEEDS_CARGO:
        why += ", which needs cargo 1.85 or newer (https://rustup.rs) when CMake configures, and crates.io"
    return why


def missing_flag(build_dir: Path, variant: "Variant") -> str | None:
    if not variant.needs_flag:
        return None
    path = program(build_dir, variant.program)
    told = subprocess.run([REPOSITORY / path, "--help"], capture_output=True, text=True, check=False)
    if re.search(re.escape(variant.needs_flag) + r"(?![\w-])", told.stdout + told.stderr):
        return None
    return f"{path} has no flag {variant.needs_flag}"


@dataclass(frozen=True)
class Variant:
    """One server with its flags, under the name that the tables use."""

    name: str
    program: str
    flags: tuple[str, ...] = ()
    cpu: int | None = None  # the only one it may run on
    holds: str = ""  # a descriptor of this kind must be open, or it fell back to something else
    needs_grpc: bool = False
    needs_flag: str = ""  # it is left out where the program's --help does not name this one

    def command(self, build_dir: Path) -> list[str]:
        path = program(build_dir, self.program)
        command = [str(path) if path.is_absolute() else f"./{path}"]
        if self.program == "bwos-server":
            grpc = "127.0.0.1:0" if self.needs_grpc else ""
            command += ["--http-listen", "127.0.0.1:0", "--grpc-listen", grpc]
        else:
            command += ["--port", "0"]
        pinned = [] if self.cpu is None else ["taskset", "-c", str(self.cpu)]
        return pinned + command + list(self.flags)


class Server:
    """A running variant. Use it as a context, so that it ends whatever happens."""

    def __init__(self, variant: Variant, build_dir: Path, log: Path):
        self.variant = variant
        self._log = log.open("wb")
        try:
            self._child = measure.start(
                variant.command(build_dir), stdout=subprocess.PIPE, stderr=self._log, bufsize=0
            )
        except OSError as error:
            self._log.close()
            raise Failed(f"{variant.name} did not start: {error}") from error
        line = measure.read_line(self._child, timeout_s=20)
        found = READY.match(line)
        if not found or not found[2 if variant.needs_grpc else 1]:
            self.stop()
            complaint = log.read_text(errors="replace").strip()
            raise Failed(f"{variant.name} did not become ready; it said {line!r} {complaint[-500:]}")
        self.http_port = int(found[1] or 0)
        self.grpc_port = int(found[2] or 0)
        if variant.holds and not self._holds(variant.holds):
            self.stop()
            raise Failed(f"{variant.name} runs without {variant.holds}: its log in raw/ says why")

    @property
    def pid(self) -> int:
        return self._child.pid

    def _holds(self, kind: str) -> bool:
        links = []
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                links.append(os.readlink(descriptor))
            except OSError:
                continue  # closed meanwhile
        return any(kind in link for link in links)

    def stop(self) -> None:
        measure.stop(self._child)
        self._log.close()
