"""Plots over several runs, or setups measured in turn: their curves in one, how they scale, and a map of how
they compare. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from busbw.judge.compare import ComparedCase, Comparison, Verdict
from busbw.judge.compare_arms import CaseKey
from busbw.model.collective import Placement
from busbw.report.columns import NOT_APPLICABLE
from busbw.report.curves import BANDWIDTH, Point, Series, curves, points
from busbw.report.plots import Plot, Row, Table
from busbw.report.reported import Kind, Reported
from busbw.units import format_gb_per_s, format_size, format_time

Keyed = TypeVar("Keyed")

_SCALED: Final = 4  # sizes
_COLOURS: Final = {
    Verdict.SLOWER: "high2", Verdict.SAME: "mid", Verdict.FASTER: "low2", Verdict.AMBIGUOUS: "none",
    Verdict.FAILED: "failed",
}  # fmt: skip


def plots(runs: Sequence[Reported], comparisons: Sequence[Comparison]) -> Iterator[Plot]:
    """Of every kind of case that more than one run has; maps of the ``comparisons`` of those that are."""
    for kind in dict.fromkeys(kind for run in runs for kind in run.kinds):
        sharing = [run for run in runs if kind in run.kinds]
        if len(sharing) > 1:
            yield from _of_kind(kind, sharing)
    for comparison in comparisons:
        yield from verdicts(comparison.baseline.name if len(comparisons) > 1 else "", comparison)


def _of_kind(kind: Kind, runs: Sequence[Reported]) -> Iterator[Plot]:
    """Of the first placement that all runs have; all that there is, where they share none."""
    series: Series = {}
    placement: Placement | None = None
    for placement in (Placement.OUT_OF_PLACE, Placement.IN_PLACE, None):
        series = {
            run.name: points(
                pair for pair in run.every_of_kind(kind) if placement in (pair[0].placement, None)
            )
            for run in runs
        }
        if all(series.values()):
            break
    word, of = _words(*kind, placement or ""), ("", *kind)
    yield from curves(of, word, series)
    # Times under a profiler are shown, and held against nothing.
    held = [run for run in runs if not run.record.profiled]
    if (scaling := _scaling(of, f"Scaling of {word}", held, kind)) is not None:
        yield scaling


# ---- how they scale ---------------------------------------------------------------------------------------


def _scaling(of: tuple[str, ...], title: str, runs: Sequence[Reported], kind: Kind) -> Plot | None:
    """Bus bandwidth against the number of ranks, for up to four sizes that all runs of a family have. Only
    runs that differ in their ranks alone are one curve; a family with one number of ranks has none.
    """
    grouped: dict[tuple[str, ...], list[Reported]] = defaultdict(list)
    for run in runs:
        if run.expectation.arm.ranks:
            grouped[_family(run)].append(run)
    families = {
        key: own for key, own in grouped.items() if len({run.expectation.arm.ranks for run in own}) > 1
    }
    # Of each family the words that are not those of all others.
    apart = [at for at, words in enumerate(zip(*families, strict=True)) if len(set(words)) > 1]
    rows, cells = [], []
    for family, own in families.items():
        for size, run, busbw in _shared_sizes(own, kind, max(1, _SCALED // len(families))):
            label, ranks = _words(*(family[at] for at in apart), format_size(size)), run.expectation.arm.ranks
            rate = format_gb_per_s(busbw)
            text = f"{label}, {ranks} ranks ({run.name}): {rate} GB/s"
            rows.append({"series": label, "kind": "measured", "x": ranks, "y": busbw, "low": None,
                         "high": None, "text": text})  # fmt: skip
            cells.append((label, str(ranks), rate, run.name))
    if not rows:
        return None
    note = (
        "Bus bandwidth of the same size on more ranks; flat is perfect. Runs of one backend, device, library,"
        " time definition and grouping."
    )
    table = Table(("size", "ranks", "busbw GB/s", "run"), tuple(cells), keys=2)
    return Plot("curve", of, "scaling", title, note, tuple(rows), table, {"x": "ranks", "y": BANDWIDTH})


def _family(run: Reported) -> tuple[str, ...]:
    """What runs of one curve share: all that changes a bandwidth, but for the number of ranks."""
    arm, plan = run.expectation.arm, run.record.plan
    facts = (arm.facts.get(name, "") for name in ("device", "version"))
    return (plan.backend, *facts, arm.definition, arm.where)


def _shared_sizes(runs: Sequence[Reported], kind: Kind, most: int) -> Iterator[tuple[int, Reported, float]]:
    """Size, run and bus bandwidth of the largest sizes that all have, out-of-place where there is that."""
    found = []
    for run in sorted(runs, key=lambda each: each.expectation.arm.ranks):
        ordered = sorted(run.of_kind(kind), key=lambda pair: pair[0].placement is Placement.OUT_OF_PLACE)
        found.append((run, {case.size_bytes: result for case, result in ordered}))
    for size in sorted(set.intersection(*(set(own) for _, own in found)))[-most:]:
        for run, own in found:
            if (busbw := own[size].busbw_gb_per_s) is not None:
                yield size, run, busbw


# ---- how they compare -------------------------------------------------------------------------------------


def verdicts(of: str, comparison: Comparison, where: str = "") -> Iterator[Plot]:
    """A map for every kind of case, of those that are measured. ``of`` names the comparison in a report of
    several; ``where`` is added to titles.
    """
    for kind in _kinds(comparison):
        rows = [row for row in comparison.rows if _kind(row.key) == kind]
        rows = _by_size([row for row in rows if row.verdict is not Verdict.MISSING], lambda row: row.key)
        if any(row.speedup is not None for row in rows):
            what = _of_one(kind, {row.key.placement for row in rows})
            word = f"{what}{where} against {comparison.baseline.name}"
            arms = [arm.name for arm in comparison.candidates if any(row.arm == arm.name for row in rows)]
            yield _map((of, *kind, where), word, rows, arms)


def _map(of: tuple[str, ...], title: str, rows: Sequence[ComparedCase], arms: Sequence[str]) -> Plot:
    table: dict[str, dict[str, str]] = defaultdict(dict)
    marks: list[Row] = []
    for row in rows:
        size = format_size(row.key.size_bytes)
        speed = "" if row.speedup is None else f"x{row.speedup:.2f}"
        table[size][row.arm] = _words(speed, row.verdict)
        marks.append(
            {"x": row.arm, "y": size, "bin": row.verdict.value, "cell": speed or row.verdict.value,
             "text": f"{row.arm}, {size}: {_measured_words(row)}"}
        )  # fmt: skip
    cells = tuple((size, *(found.get(arm, NOT_APPLICABLE) for arm in arms)) for size, found in table.items())
    used = {row.verdict for row in rows}
    bins = {verdict.value: colour for verdict, colour in _COLOURS.items() if verdict in used}
    note = (
        "Numbers are the baseline's time over the other's: x1.10 is faster. Colours are the verdicts of"
        " `busbw compare`."
    )
    words = {"x": None, "y": None, "bins": bins, "across": arms, "down": list(table)}
    return Plot("heat", of, "compared", title, note, tuple(marks), Table(("size", *arms), cells), words)


def _measured_words(row: ComparedCase) -> str:
    words = [row.verdict.value]
    if row.speedup is not None and row.interval is not None:
        words.append(f"x{row.speedup:.3f} ({row.interval[0]:.3f} to {row.interval[1]:.3f})")
    if row.time_ns is not None:
        words.append(format_time(row.time_ns, 4))
    return ", ".join(filter(None, (*words, row.reasons)))


def curves_of(of: str, comparison: Comparison, where: str = "") -> Iterator[Plot]:
    """Bandwidth and time of the arms: the median launch of every size, with the range over the launches."""
    arms = (comparison.baseline, *comparison.candidates)
    for kind in _kinds(comparison):
        series: dict[str, list[Point]] = defaultdict(list)
        placements = set()
        for arm in arms:
            keys = [key for key in arm.cases if _kind(key) == kind and key.size_bytes]
            for key in _by_size(keys, lambda key: key):
                placements.add(key.placement)
                seen = arm.cases[key]
                ends = (min(seen.times_ns), max(seen.times_ns)) if len(seen.times_ns) > 1 else (None, None)
                if seen.time_ns:
                    point = Point(key.size_bytes, seen.time_ns, seen.busbw_gb_per_s, *ends)
                    series[arm.name].append(point)
        word = f"{_of_one(kind, placements)}{where}, all setups"
        yield from curves((of, *kind, where), word, series, band="range over launches")


def _kind(key: CaseKey) -> Kind:
    return key.collective, key.dtype, key.op


def _kinds(comparison: Comparison) -> Iterable[Kind]:
    return dict.fromkeys(_kind(row.key) for row in comparison.rows)


def _by_size(found: Sequence[Keyed], key: Callable[[Keyed], CaseKey]) -> list[Keyed]:
    """Out-of-place where there is that."""
    chosen = [each for each in found if key(each).placement == Placement.OUT_OF_PLACE] or found
    return sorted(chosen, key=lambda each: key(each).size_bytes)


def _of_one(kind: Kind, placements: set[str]) -> str:
    """What a plot is of; without a placement where its curves have several."""
    return _words(*kind, *(placements if len(placements) == 1 else ()))


def _words(*words: str) -> str:
    return " ".join(filter(None, words))
