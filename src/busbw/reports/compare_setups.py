"""A series of setups as text: how far each came, verdicts, what each gains and costs, and which to take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from busbw.analysis.compare import Comparison, Verdict
from busbw.analysis.compare_setups import Choice, Effect, Reach
from busbw.planning.setups import Setup
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
        yield f"# setup    {setup.name}: {_changes(setup)}"
    for reach in told:
        yield f"# reached  {_reach(reach)}"
        yield from (f"#          | {line}" for line in reach.words)
    for nodes, comparison in comparisons:
        if nodes:
            yield f"# nodes    {nodes}"
        yield from plain.table(comparison)
    for nodes, effect in effects:
        yield f"# {_verb(effect):<8} {_on(nodes)}{_effect(effect)}"
    for nodes, choice in choices:
        yield f"# take     {_on(nodes)}{_choice(choice)}"


def _on(nodes: int) -> str:
    return f"{nodes} nodes: " if nodes else ""


def _changes(setup: Setup) -> str:
    words = [f"{name}={value}" for name, value in setup.environ.items()]
    words += [f"{name}={value}:..." for name, value in setup.prepend.items()]
    words += [f"-{name}" for name in setup.unset]
    words += [f"--{name.replace('_', '-')} {value}" for name, value in setup.flags.items()]
    return " ".join(words) or "nothing set"


def _reach(reach: Reach) -> str:
    text = f"{reach.setup}: {reach.launches - reach.failed} of {reach.launches} launches completed"
    if reach.largest_nodes:
        text += f", all on up to {reach.largest_nodes} nodes"
    if reach.failed:
        where = f" on {reach.first_failed_nodes} nodes" if reach.first_failed_nodes else ""
        text += f"; first failure{where}: {reach.error}"
    return text


def _verb(effect: Effect) -> str:
    return {Verdict.FASTER: "gain", Verdict.SLOWER: "cost"}.get(effect.verdict, "failed")


def _range(first_bytes: int, last_bytes: int) -> str:
    first = format_size(first_bytes)
    return first if first_bytes == last_bytes else f"{first} to {format_size(last_bytes)}"


def _speeds(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return ""
    return f"x{least:.2f}" if f"{least:.2f}" == f"{most:.2f}" else f"x{least:.2f} to x{most:.2f}"


def _effect(effect: Effect) -> str:
    kind = " ".join(filter(None, (effect.operation, effect.dtype, effect.op, effect.placement)))
    speeds = _speeds(effect.least_speedup, effect.most_speedup)
    return f"{effect.setup}: {kind} {_range(effect.first_bytes, effect.last_bytes)} {speeds}".rstrip()


def _choice(choice: Choice) -> str:
    kind = " ".join(filter(None, (choice.operation, choice.dtype, choice.op, choice.placement)))
    speeds = "" if choice.most_speedup == 1.0 else f" ({_speeds(choice.least_speedup, choice.most_speedup)})"
    return f"{choice.setup} for {kind} {_range(choice.first_bytes, choice.last_bytes)}{speeds}"


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
        "reached": [asdict(reach) for reach in told],
        "comparisons": [
            {"nodes": nodes or None, **plain.comparison_fields(comparison)}
            for nodes, comparison in comparisons
        ],
        "effects": [{"nodes": nodes or None, **asdict(effect)} for nodes, effect in effects],
        "choices": [{"nodes": nodes or None, **asdict(choice)} for nodes, choice in choices],
    }


def json_text(
    setups: Sequence[Setup],
    told: Sequence[Reach],
    comparisons: Sequence[tuple[int, Comparison]],
    effects: Sequence[tuple[int, Effect]],
    choices: Sequence[tuple[int, Choice]],
) -> str:
    """As JSON."""
    return json.dumps(fields(setups, told, comparisons, effects, choices), indent=1, default=str) + "\n"
