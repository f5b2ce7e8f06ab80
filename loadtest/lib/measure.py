# SPDX-License-Identifier: Apache-2.0
"""Where the repository is, how a measurement fails, and children of this process that end with it."""

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

_children: list[subprocess.Popen] = []


class Failed(Exception):
    """A run or a server that gave no figure; the text says why."""


def start(command: list[str], **files) -> subprocess.Popen:
    """A session of its own, so that a terminal's Ctrl-C reaches only us and we end it in order."""
    child = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, start_new_session=True, **files)
    _children.append(child)
    return child


def stop(child: subprocess.Popen, patience_s: float = 5) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    if child in _children:
        _children.remove(child)


def stop_all() -> None:
    for child in list(_children):
        stop(child)
