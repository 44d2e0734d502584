"""Plots over several runs: their curves in one, how they compare, how they scale. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from busbw.judge.compare import Comparison
from busbw.judge.compare_arms import CaseKey, key_of
from busbw.model.collective import Placement
from busbw.model.result import CaseResult
from busbw.report import plots_of_comparison
from busbw.report.curves import BANDWIDTH, Series, curves, points
from busbw.report.plots import Plot, Table
from busbw.report.reported import Kind, Reported
from busbw.report.sizes import Pair
from busbw.units import format_gb_per_s, format_size

_SCALED: Final = 4  # sizes


def plots(runs: Sequence[Reported], comparisons: Sequence[Comparison]) -> Iterator[Plot]:
    """Of every kind of case that more than one run has; maps of the ``comparisons`` of those that are."""
    kinds = dict.fromkeys(kind for run in runs for kind in run.kinds)
    for kind in kinds:
        sharing = [run for run in runs if kind in run.kinds]
        if len(sharing) > 1:
            yield from _of_kind(kind, sharing)
    for comparison in comparisons:
        several = comparison.baseline.name if len(comparisons) > 1 else ""
        yield from plots_of_comparison.plots(several, comparison)


def _of_kind(kind: Kind, runs: Sequence[Reported]) -> Iterator[Plot]:
    """Of the first placement that all runs have."""
    placement, series = _of_one_placement({run.name: list(run.every_of_kind(kind)) for run in runs})
    word, of = " ".join(filter(None, (*kind, placement))), ("", *kind)
    # Times under a profiler are shown, and held against nothing.
    held = [run for run in runs if not run.record.profiled]
    yield from curves(of, word, series)
    if (scaling := _scaling(of, f"Scaling of {word}", held, kind)) is not None:
        yield scaling


def _of_one_placement(every: Mapping[str, Sequence[Pair]]) -> tuple[str, Series]:
    """Without a placement all that there is, where the runs share none."""
    for placement in (Placement.OUT_OF_PLACE, Placement.IN_PLACE):
        series = {
            name: points(pair for pair in own if pair[0].placement is placement)
            for name, own in every.items()
        }
        if all(series.values()):
            return placement.value, series
    return "", {name: points(own) for name, own in every.items()}


def _by_key(run: Reported, kind: Kind) -> dict[CaseKey, CaseResult]:
    return {key_of(case, run.record): result for case, result in run.of_kind(kind)}


def _scaling(of: tuple[str, ...], title: str, runs: Sequence[Reported], kind: Kind) -> Plot | None:
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
            text = f"{label}, {ranks} ranks ({point.name}): {format_gb_per_s(busbw)} GB/s"
            rows.append({"series": label, "kind": "measured", "x": ranks, "y": busbw, "low": None,
                         "high": None, "text": text})  # fmt: skip
            cells.append((label, str(ranks), f"{format_gb_per_s(busbw)}", point.name))
    if not rows:
        return None
    note = (
        "Bus bandwidth of the same size on more ranks; flat is perfect. Runs of one backend, device, library,"
        " time definition and grouping."
    )
    return Plot(
        "curve", of, "scaling", title, note, tuple(rows),
        Table(("size", "ranks", "busbw GB/s", "run"), tuple(cells), keys=2),
        {"x": "ranks", "y": BANDWIDTH},
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


def _points(runs: Sequence[Reported], kind: Kind, most: int) -> Iterator[tuple[int, Reported, float]]:
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
