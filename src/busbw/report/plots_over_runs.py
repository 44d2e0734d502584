"""Plots over several runs: their curves in one, how they compare, how they scale. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from busbw.judge.compare import Verdict, compare
from busbw.judge.compare_arms import CaseKey, key_of
from busbw.judge.launch_history import prior_of
from busbw.model.result import CaseResult
from busbw.record.launch_times import LaunchTimes
from busbw.report import curves
from busbw.report.columns import NOT_APPLICABLE
from busbw.report.plots import Plot, Table
from busbw.report.reported import Reported
from busbw.units import format_size

_CANNOT: Final = "cannot be decided"
_BINS: Final = {"slower": "high2", "same": "mid", "faster": "low2", _CANNOT: "none"}
_WORDS: Final = {Verdict.SLOWER: "slower", Verdict.SAME: "same", Verdict.FASTER: "faster"}
_SCALED: Final = 4  # sizes


def plots(runs: Sequence[Reported], launches: Sequence[LaunchTimes] = ()) -> Iterator[Plot]:
    """Of every kind of case that more than one run has; ``launches`` are those of this home."""
    kinds = dict.fromkeys(kind for run in runs for kind in run.kinds)
    for kind in kinds:
        sharing = [run for run in runs if kind in run.kinds]
        if len(sharing) < 2:
            continue
        word, name = " ".join(filter(None, kind)), "-".join(filter(None, kind))
        series = {run.name: [pair for pair in run.of_kind(kind) if not pair[0].in_place] for run in sharing}
        if not all(series.values()):
            series = {run.name: list(run.of_kind(kind)) for run in sharing}
        # Times under a profiler are shown, and held against nothing.
        held = [run for run in sharing if not run.record.profiled]
        for plot in (
            curves.bandwidth(f"{name}-bandwidth", f"Bandwidth of {word}, all runs", series, {}),
            curves.time(f"{name}-time", f"Time of {word}, all runs", series),
            _compared(f"{name}-compared", word, held, kind, launches),
            _scaling(f"{name}-scaling", f"Scaling of {word}", held, kind),
        ):
            if plot is not None:
                yield plot


def _by_key(run: Reported, kind: tuple[str, str, str]) -> dict[CaseKey, CaseResult]:
    return {key_of(case, run.record): result for case, result in run.of_kind(kind)}


def _compared(
    name: str,
    word: str,
    runs: Sequence[Reported],
    kind: tuple[str, str, str],
    launches: Sequence[LaunchTimes],
) -> Plot | None:
    """Time over the first run's, run against size: of runs with as many ranks. Colours are the verdicts of
    ``busbw compare``.
    """
    if not runs:
        return None
    arms = [replace(run.expectation.arm, name=run.name) for run in runs]
    arms = [arm for arm in arms if arm.ranks == arms[0].ranks]
    if len(arms) < 2:
        return None
    records = [run.record for run in runs]
    prior = prior_of(launches, records[0], records[1:])
    rows: list[dict[str, Any]] = []
    table: dict[str, dict[str, str]] = defaultdict(dict)
    keys = {key for run in runs for key in _by_key(run, kind)}
    for row in compare(arms, prior=prior).rows:
        if row.key not in keys or row.key.placement == "in-place" or row.speedup is None:
            continue
        ratio, size = 1 / row.speedup, format_size(row.key.size_bytes)
        table[row.arm][size] = f"{ratio:.3f}"
        text = f"{row.arm}, {size}: {ratio:.3f} of the time of {arms[0].name}, {row.verdict}"
        text += f": {row.reasons}" if row.reasons else ""
        rows.append({"x": size, "y": row.arm, "bin": _WORDS.get(row.verdict, _CANNOT), "text": text})
    if not rows:
        return None
    sizes = list(dict.fromkeys(str(row["x"]) for row in rows))
    cells = tuple(
        (label, *(found.get(size, NOT_APPLICABLE) for size in sizes)) for label, found in table.items()
    )
    note = "Time over the first run's, of as many ranks. Colours are the verdicts of `busbw compare`."
    return Plot(
        "heat", name, f"{word} against {arms[0].name}", note, tuple(rows), Table(("run", *sizes), cells),
        {"x": "size", "y": None, "bins": _BINS},
    )  # fmt: skip


def _scaling(name: str, title: str, runs: Sequence[Reported], kind: tuple[str, str, str]) -> Plot | None:
    """Bus bandwidth against the number of ranks, for up to four sizes that all runs of a family have. Only
    runs that differ in their ranks alone are one curve; a family with one number of ranks has none.
    """
    grouped: dict[tuple[str, ...], list[Reported]] = defaultdict(list)
    for run in runs:
        if run.expectation.arm.ranks:
            grouped[_family(run)].append(run)
    families = [own for own in grouped.values() if len({run.expectation.arm.ranks for run in own}) > 1]
    if not families:
        return None
    words = _differing([_family(own[0]) for own in families])
    rows, cells = [], []
    for word, own in zip(words, families, strict=True):
        for size, point, busbw in _points(own, kind, max(1, _SCALED // len(families))):
            label, ranks = f"{word} {format_size(size)}".strip(), point.expectation.arm.ranks
            text = f"{label}, {ranks} ranks ({point.name}): {busbw:.4g} GB/s"
            rows.append({"series": label, "kind": "measured", "x": ranks, "y": busbw, "low": None,
                         "high": None, "text": text})  # fmt: skip
            cells.append((label, str(ranks), f"{busbw:.4g}", point.name))
    if not rows:
        return None
    note = (
        "Bus bandwidth of the same size on more ranks; flat is perfect. Runs of one backend, device, library,"
        " time definition and grouping."
    )
    return Plot(
        "curve", name, title, note, tuple(rows),
        Table(("size", "ranks", "busbw GB/s", "run"), tuple(cells), keys=2),
        {"x": "ranks", "y": "bus bandwidth (GB/s)"},
    )  # fmt: skip


def _family(run: Reported) -> tuple[str, ...]:
    """What runs of one curve share: all that changes a bandwidth, but for the number of ranks."""
    arm, plan = run.expectation.arm, run.record.plan
    facts = (arm.facts.get(name, "") for name in ("device", "version"))
    return (plan.backend, *facts, arm.definition, arm.where)


def _differing(families: Sequence[tuple[str, ...]]) -> list[str]:
    """Of each family the words that are not those of all others."""
    apart = [at for at, words in enumerate(zip(*families, strict=True)) if len(set(words)) > 1]
    return [" ".join(filter(None, (family[at] for at in apart))) for family in families]


def _points(
    runs: Sequence[Reported], kind: tuple[str, str, str], most: int
) -> Iterator[tuple[int, Reported, float]]:
    """Size, run and bus bandwidth of the largest sizes that all have, out-of-place where there is that."""
    found = []
    for run in sorted(runs, key=lambda each: each.expectation.arm.ranks):
        own: dict[int, CaseResult] = {}
        for key, result in sorted(
            _by_key(run, kind).items(), key=lambda pair: pair[0].placement == "in-place"
        ):
            own.setdefault(key.size_bytes, result)
        found.append((run, own))
    for size in sorted(set.intersection(*(set(own) for _, own in found)))[-most:]:
        for run, own in found:
            if (busbw := own[size].busbw_gb_per_s) is not None:
                yield size, run, busbw
