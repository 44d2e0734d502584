"""Rings by rail and by host: what each rank received, host by rail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from busbw.model.hunt import BANDWIDTH, Stage
from busbw.units import gb_per_s

WHAT: Final = {
    Stage.RAILS: "a ring over the hosts in each rail, all rails at once",
    Stage.NODES: "a ring within each host, all hosts at once",
}


def rails_lines(rounds: Sequence[Mapping[str, Any]], hosts: Sequence[str], size_bytes: int) -> list[str]:
    """A table a round: a row a host, a column a rail (the place of a rank on its host). ``hosts`` has one
    name a rank.
    """
    lines: list[str] = []
    for tested in rounds:
        rates = {
            int(test["other"]): gb_per_s(size_bytes, test["times_ns"][BANDWIDTH][0][0])
            for test in tested["tests"]
        }
        lines += ["#", f"# GB/s that each rank received: {WHAT[Stage(tested['round']['stage'])]}"]
        lines += _table(rates, hosts)
    return lines


def _table(rates: Mapping[int, float], hosts: Sequence[str]) -> list[str]:
    rows = {
        host: [rates.get(rank) for rank, other in enumerate(hosts) if other == host]
        for host in dict.fromkeys(hosts)
    }
    width = max(map(len, (*rows, "median")))
    most = max(map(len, rows.values()))
    columns = [[row[rail] for row in rows.values() if rail < len(row)] for rail in range(most)]
    head = "".join(f"{f'rail {rail}':>9}" for rail in range(most))
    body = [f"{host:<{width}}{_cells(row)}{_middle(row):>9}" for host, row in rows.items()]
    foot = "".join(f"{_middle(column):>9}" for column in columns)
    return [f"{'':<{width}}{head}{'median':>9}", *body, f"{'median':<{width}}{foot}"]


def _cells(row: Sequence[float | None]) -> str:
    return "".join(f"{'-' if rate is None else f'{rate:.2f}':>9}" for rate in row)


def _middle(rates: Sequence[float | None]) -> str:
    known = [rate for rate in rates if rate is not None]
    return f"{median(known):.2f}" if known else "-"
