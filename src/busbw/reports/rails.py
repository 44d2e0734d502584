"""Rings by rail and by host: what each rank received, host by rail.

A ring is several rounds, in each of which a rank sends or receives and not both: what it received is the time
of one step alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from busbw.model.hunt import BANDWIDTH, Stage
from busbw.units import decimals, gb_per_s

_LEAST_DECIMALS: Final = 2

WHAT: Final = {
    Stage.RAILS: "from the host above it (the first from the last), all rails at once",
    Stage.NODES: "from the rank left of it (the first from the last), all hosts at once",
}


def rails_lines(rounds: Sequence[Mapping[str, Any]], hosts: Sequence[str], size_bytes: int) -> list[str]:
    """A table a stage: a row a host, a column a rail (the place of a rank on its host). ``hosts`` has one
    name a rank.
    """
    lines: list[str] = []
    for stage, rates in received(rounds, size_bytes).items():
        lines += ["#", f"# GB/s that each rank received {WHAT[stage]}", *_table(rates, hosts)]
    return lines


def received(rounds: Sequence[Mapping[str, Any]], size_bytes: int) -> dict[Stage, dict[int, float]]:
    """GB/s of each rank that received, by stage."""
    found: dict[Stage, dict[int, float]] = {}
    for tested in rounds:
        rates = found.setdefault(Stage(tested["round"]["stage"]), {})
        for test in tested["tests"]:
            rates[int(test["other"])] = gb_per_s(size_bytes, test["times_ns"][BANDWIDTH][0][0])
    return found


def _table(rates: Mapping[int, float], hosts: Sequence[str]) -> list[str]:
    rows = {
        host: [rates.get(rank) for rank, other in enumerate(hosts) if other == host]
        for host in dict.fromkeys(hosts)
    }
    width = max(map(len, (*rows, "median")))
    digits = decimals(median(rates.values()), _LEAST_DECIMALS)
    most = max(map(len, rows.values()))
    columns = [[row[rail] for row in rows.values() if rail < len(row)] for rail in range(most)]
    head = "".join(f"{f'rail {rail}':>9}" for rail in range(most))
    body = [f"{host:<{width}}{_cells(row, digits)}{_middle(row, digits):>9}" for host, row in rows.items()]
    foot = "".join(f"{_middle(column, digits):>9}" for column in columns)
    return [f"{'':<{width}}{head}{'median':>9}", *body, f"{'median':<{width}}{foot}"]


def _cells(row: Sequence[float | None], digits: int) -> str:
    return "".join(f"{'-' if rate is None else f'{rate:.{digits}f}':>9}" for rate in row)


def _middle(rates: Sequence[float | None], digits: int) -> str:
    known = [rate for rate in rates if rate is not None]
    return f"{median(known):.{digits}f}" if known else "-"
