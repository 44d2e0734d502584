"""A series of setups as text: how far each came, verdicts, what each gains and costs, and which to take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from busbw.analysis.compare import Comparison, Verdict
from busbw.analysis.compare_arms import kind_words
from busbw.analysis.compare_setups import Choice, Effect, Reach
from busbw.planning.setups import Setup, flags_typed
from busbw.reports import compare as plain
from busbw.units import format_size


def table(
    setups: Sequence[Setup],
    told: Sequence[Reach],
    comparisons: Sequence[tuple[int, Comparison]],
    effects: Sequence[tuple[int, Effect]],
    choices: Sequence[tuple[int, Choice]],
) -> Iterator[str]:
    """Lines for people; ``comparisons``, ``effects`` and ``choices`` come with their number of nodes, 0 for
    this host.
    """
    for setup in setups:
        yield f"# setup    {setup.name}: {changes(setup)}"
    for each in told:
        yield f"# reached  {reach(each)}"
        yield from (f"#          | {line}" for line in each.words)
    for nodes, comparison in comparisons:
        if nodes:
            yield f"# nodes    {nodes}"
        yield from plain.table(comparison)
    for nodes, gain in effects:
        yield f"# {verb(gain):<8} {on(nodes)}{effect(gain)}"
    for nodes, best in choices:
        yield f"# take     {on(nodes)}{choice(best)}"


def on(nodes: int) -> str:
    """The number of nodes, where there are any."""
    return f"{nodes} nodes: " if nodes else ""


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


def verb(told: Effect) -> str:
    """What an effect is: gain, cost, failed."""
    return {Verdict.FASTER: "gain", Verdict.SLOWER: "cost"}.get(told.verdict, "failed")


def _range(first_bytes: int, last_bytes: int) -> str:
    first = format_size(first_bytes)
    return first if first_bytes == last_bytes else f"{first} to {format_size(last_bytes)}"


def _speeds(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return ""
    return f"x{least:.2f}" if f"{least:.2f}" == f"{most:.2f}" else f"x{least:.2f} to x{most:.2f}"


def effect(told: Effect) -> str:
    """Where a setup gains or costs, and how much."""
    kind = kind_words(told.operation, told.dtype, told.op, told.root, told.placement)
    speeds = _speeds(told.least_speedup, told.most_speedup)
    return f"{told.setup}: {kind} {_range(told.first_bytes, told.last_bytes)} {speeds}".rstrip()


def choice(told: Choice) -> str:
    """Where a setup is to be taken."""
    kind = kind_words(told.operation, told.dtype, told.op, told.root, told.placement)
    speeds = "" if told.most_speedup == 1.0 else f" ({_speeds(told.least_speedup, told.most_speedup)})"
    return f"{told.setup} for {kind} {_range(told.first_bytes, told.last_bytes)}{speeds}"


def fields(
    setups: Sequence[Setup],
    told: Sequence[Reach],
    comparisons: Sequence[tuple[int, Comparison]],
    effects: Sequence[tuple[int, Effect]],
    choices: Sequence[tuple[int, Choice]],
) -> dict[str, Any]:
    """Everything, as plain values."""
    return {
        "setups": [asdict(setup) for setup in setups],
        "reached": [asdict(each) for each in told],
        "comparisons": [
            {"nodes": nodes or None, **plain.comparison_fields(comparison)}
            for nodes, comparison in comparisons
        ],
        "effects": [{"nodes": nodes or None, **asdict(gain)} for nodes, gain in effects],
        "choices": [{"nodes": nodes or None, **asdict(best)} for nodes, best in choices],
    }


def json_text(
    setups: Sequence[Setup],
    told: Sequence[Reach],
    comparisons: Sequence[tuple[int, Comparison]],
    effects: Sequence[tuple[int, Effect]],
    choices: Sequence[tuple[int, Choice]],
    series: Mapping[str, Any],
) -> str:
    """As JSON, with what is to be known of the whole ``series``."""
    body = {"series": dict(series), **fields(setups, told, comparisons, effects, choices)}
    return json.dumps(body, indent=1, default=str) + "\n"
