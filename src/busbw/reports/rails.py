"""Rails and hosts as groups, each with a collective of its own; and rings by rail and by host: what each rank
received, host by rail.

A ring is several rounds, in each of which a rank sends or receives and not both: what it received is the time
of one step alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from busbw.hunt.alike_words import COLLECTIVE, bus_gb_per_s
from busbw.model.hunt import BANDWIDTH, GroupTest, Stage
from busbw.units import decimals, gb_per_s

_LEAST_DECIMALS: Final = 2

WHAT: Final = {
    Stage.RAILS: "from the host above it (the first from the last), all rails at once",
    Stage.NODES: "from the rank left of it (the first from the last), all hosts at once",
}


GROUPS: Final = {Stage.EACH_RAIL: "rail", Stage.EACH_HOST: "host"}


def rails_lines(
    rounds: Sequence[Mapping[str, Any]],
    hosts: Sequence[str],
    size_bytes: int,
    fields: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """A table a stage. Of groups a row each, with how they compare, from the ``fields`` of the verdict; of
    rings a row a host, a column a rail (the place of a rank on its host). ``hosts`` has one name a rank.
    """
    lines: list[str] = []
    for stage, rates_of in group_rates(rounds, size_bytes).items():
        kind = GROUPS[stage]
        own = next((field for field in fields if field["kind"] == kind), {})
        words = f"bus bandwidth of {COLLECTIVE} in every {kind}, all {kind}s at once"
        lines += ["#", f"# GB/s: {words}, over rounds", *_group_table(rates_of, own.get("groups", ()))]
    for stage, rates in received(rounds, size_bytes).items():
        lines += ["#", f"# GB/s that each rank received {WHAT[stage]}", *_table(rates, hosts)]
    return lines


def group_rates(
    rounds: Sequence[Mapping[str, Any]], size_bytes: int
) -> dict[Stage, dict[str, tuple[int, list[float]]]]:
    """Of each group, by stage and name: its ranks, and GB/s of bus bandwidth in each round."""
    found: dict[Stage, dict[str, tuple[int, list[float]]]] = {}
    for tested in (each for each in rounds if each.get("groups")):
        for name, fields in zip(tested["names"], tested["groups"], strict=True):
            test = GroupTest(tuple(fields["ranks"]), tuple(fields["times_ns"]))
            of_stage = found.setdefault(Stage(tested["round"]["stage"]), {})
            ranks = len(test.ranks)
            of_stage.setdefault(name, (ranks, []))[1].append(bus_gb_per_s(size_bytes, ranks, test.time_ns))
    return found


def _group_table(
    rates_of: Mapping[str, tuple[int, Sequence[float]]], compared: Sequence[Mapping[str, Any]]
) -> list[str]:
    width = max(map(len, rates_of))
    digits = decimals(median(rate for _, rates in rates_of.values() for rate in rates), _LEAST_DECIMALS)
    losses = {own["name"]: f"{own['loss']:.1%} ({own['low']:.1%} to {own['high']:.1%})" for own in compared}
    lines = [
        f"{'':<{width}}{'ranks':>7}{'median':>9}{'lowest':>9}{'highest':>9}  less than the others (95 %)"
    ]
    for name, (ranks, rates) in rates_of.items():
        cells = "".join(f"{rate:>9.{digits}f}" for rate in (median(rates), min(rates), max(rates)))
        lines.append(f"{name:<{width}}{ranks:>7}{cells}  {losses.get(name, 'not compared')}")
    return lines


def received(rounds: Sequence[Mapping[str, Any]], size_bytes: int) -> dict[Stage, dict[int, float]]:
    """GB/s of each rank that received, by stage."""
    found: dict[Stage, dict[int, float]] = {}
    for tested in (each for each in rounds if each["tests"]):
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
