# SPDX-License-Identifier: Apache-2.0
"""Which cells of a run are the points of one curve."""

import itertools
from types import SimpleNamespace


def _apart(cells: list[SimpleNamespace]) -> list[list[SimpleNamespace]]:
    """The same load on other servers belongs to another curve: such a cell goes to the next group that lacks its load.
    One with servers of its own and a load that nobody else has stays, as a point that not all curves reach."""
    groups: list[list[SimpleNamespace]] = []
    for cell in cells:
        others = lambda group: any(  # noqa: E731
            (each.connections, each.rate, each.value) == (cell.connections, cell.rate, cell.value)
            and each.variants != cell.variants
            for each in group
        )
        fitting = next((group for group in groups if not others(group)), None)
        groups.append([cell]) if fitting is None else fitting.append(cell)
    return groups


def sweeps(cells: list[SimpleNamespace]) -> tuple[list[list[SimpleNamespace]], list[SimpleNamespace]]:
    """Groups of three cells or more that differ in one load alone, in its rising order; and the other cells. How long
    and how often each was measured is no matter, and which servers it was only where the load is the same."""
    changing = {"name", "connections", "rate", "value", "busy", "of_peak", "threads", "client_cpu"}
    changing |= {"rounds", "seconds", "warmup", "timeout", "variants"}
    groups: dict[str, list[SimpleNamespace]] = {}
    for cell in cells:
        same = {key: value for key, value in vars(cell).items() if key not in changing | {"classes"}}
        classes = [{**vars(each), "connections": 0} for each in cell.classes]
        groups.setdefault(repr((sorted(same.items()), classes)), []).append(cell)
    rising, others = [], []
    for group in itertools.chain.from_iterable(map(_apart, groups.values())):
        key = next(
            (key for key in ("connections", "rate", "value") if len({getattr(c, key) for c in group}) == len(group)), None
        )
        if key and len(group) > 2:
            rising.append(sorted(group, key=lambda cell: getattr(cell, key)))
        else:
            others += group
    return rising, others
