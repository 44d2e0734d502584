"""A series of setups as text: verdicts, which setup to take, and how far each came."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from busbw.judge.compare_arms import kind_words
from busbw.judge.compare_setups import ComparedSeries, Reach, Recommendation
from busbw.plan.setups import Setup, flags_typed
from busbw.report import compare as plain
from busbw.report.fields import UNBOUND, fact, facts, sizes


def table(series: ComparedSeries, *, every_row: bool = False, columns: int = UNBOUND) -> Iterator[str]:
    """Lines for people."""
    for nodes, comparison in series.comparisons:
        if nodes:
            yield fact("nodes", str(nodes))
        yield from plain.answers(comparison, every_row=every_row, columns=columns)
    yield from facts(("take", line) for line in taken(series.choices))
    yield from facts(("setup", f"{setup.name}: {changes(setup)}") for setup in series.setups)
    for each in series.reached:
        yield fact("reached", reach(each))
        yield from facts(("", f"| {line}") for line in each.words)
    for nodes, comparison in series.comparisons:
        if nodes:
            yield fact("nodes", str(nodes))
        yield from facts(plain.evidence(comparison, every_row=every_row))


def changes(setup: Setup) -> str:
    """What a setup sets, as words."""
    words = [f"{name}={value}" for name, value in setup.environ.items()]
    words += [f"{name}={value}:..." for name, value in setup.prepend.items()]
    words += [f"-{name}" for name in setup.unset]
    words += flags_typed(setup)
    return " ".join(words) or "nothing set"


def reach(told: Reach) -> str:
    """How far a setup came."""
    text = f"{told.setup}: {told.launches - told.failed} of {told.launches} launches completed"
    if told.wrong:
        text += f"; WRONG DATA in {told.wrong} of them"
    if told.largest_nodes:
        text += f", all on up to {told.largest_nodes} nodes"
    if told.failed:
        where = f" on {told.first_failed_nodes} nodes" if told.first_failed_nodes else ""
        text += f"; first failure{where}: {told.error}"
    return text


def taken(choices: Sequence[tuple[int, Recommendation]]) -> Iterator[str]:
    """Which setup is to be taken where; placements of which the same is true together."""
    alike: dict[tuple[int, Recommendation], list[Recommendation]] = defaultdict(list)
    for nodes, told in choices:
        alike[nodes, replace(told, placement="", least_speedup=1.0, most_speedup=1.0)].append(told)
    for (nodes, told), own in alike.items():
        placements = " and ".join(sorted((each.placement for each in own), reverse=True))
        kind = kind_words(told.operation, told.dtype, told.op, told.root, placements)
        least, most = min(each.least_speedup for each in own), max(each.most_speedup for each in own)
        ends = " to ".join(dict.fromkeys((f"x{least:.2f}", f"x{most:.2f}")))
        speeds = "" if most == 1.0 else f" ({ends})"
        where = f"{nodes} nodes: " if nodes else ""
        yield f"{where}{told.setup} for {kind} {sizes(told.first_bytes, told.last_bytes)}{speeds}"


def json_text(series: ComparedSeries, about: Mapping[str, Any]) -> str:
    """As JSON, with what is to be known ``about`` the whole series."""
    body = {
        "series": dict(about),
        "setups": [asdict(setup) for setup in series.setups],
        "reached": [asdict(each) for each in series.reached],
        "comparisons": [
            {"nodes": nodes or None, **plain.comparison_fields(comparison)}
            for nodes, comparison in series.comparisons
        ],
        "choices": [{"nodes": nodes or None, **asdict(best)} for nodes, best in series.choices],
    }
    return json.dumps(body, indent=1, default=str) + "\n"
