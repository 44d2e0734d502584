"""The plots of one run: curves, ranks, links, histograms; each with its table. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from busbw.judge.compare_arms import key_of
from busbw.judge.samples import Distribution, Scale, distributions, nccl_tests_mean_ns
from busbw.judge.traffic import Fellows, LinkUse, byte_paths, traffic
from busbw.model.case import Case
from busbw.model.conclusion import Question
from busbw.model.mark import conditions_of
from busbw.model.result import CaseResult, Status
from busbw.report import curves
from busbw.report.columns import NOT_APPLICABLE, format_time_us
from busbw.report.curves import spread
from busbw.report.histogram import left_out
from busbw.report.plots import Plot, Table
from busbw.report.ranks import flagged_words
from busbw.report.reported import Reported
from busbw.report.table import describe_case, explanations
from busbw.units import NS_PER_US, format_share, format_size

_MOST_ROWS: Final = 48  # of a heat map or of bars: more are grouped or left out, and said
_MOST_HISTOGRAMS: Final = 4
_UNKNOWN: Final = "noise not known"
_BINS: Final = {
    "much quicker": "low2", "quicker": "low1", "noise or < 1 %": "mid",
    "slower": "high1", "much slower": "high2", _UNKNOWN: "none",
}  # fmt: skip
_FLOOR: Final = 0.01  # what differs by less is drawn alike, however precisely it is known
_MUCH: Final = 3.0  # times the noise
_LINKS: Final = {"carried traffic": "c1", "carried nothing": "limit"}


def plots(run: Reported) -> Iterator[Plot]:
    """In the order of the questions that they answer."""
    for kind in run.kinds:
        found = list(run.of_kind(kind))
        word = " ".join(filter(None, kind))
        name = f"{run.name}-{'-'.join(filter(None, kind))}"
        judged = {
            each.key.plain: each
            for each in run.expectation.cases
            if each.key.plain in {key_of(case) for case, _ in found}
        }
        series = _by_placement(found)
        notes = tuple(_notes(run, kind))
        for plot in (
            curves.bandwidth(f"{name}-bandwidth", f"Bandwidth of {word}", series, judged, notes),
            curves.time(f"{name}-time", f"Time of {word}", series, notes),
            spread(
                f"{name}-spread",
                f"Spread of {word}",
                [case for case, _ in _first(found)],
                run.spreads,
            ),
            _ranks(run, f"{name}-ranks", f"Ranks of {word}", found),
        ):
            if plot is not None:
                yield plot
    yield from _links(run)
    yield from _histograms(run)


def _notes(run: Reported, kind: tuple[str, str, str]) -> Iterator[str]:
    """Of all cases of a kind: what their marks mean, and which of them have no number, and why."""
    cases = run.record.plan.cases
    results = [
        result
        for result in run.record.results
        if (cases[result.case].collective, cases[result.case].dtype, cases[result.case].op) == kind
    ]
    for result in results:
        if result.status in (Status.WRONG, Status.FAILED):
            count = result.wrong_words if result.status is Status.WRONG else ""
            what = f"{result.status.value.upper()} {describe_case(cases[result.case])}"
            yield f"{what}: {result.error or count}"
    yield from conditions_of((cases[result.case], result) for result in results)
    yield from explanations(results)


def _by_placement(found: Sequence[tuple[Case, CaseResult]]) -> dict[str, list[tuple[Case, CaseResult]]]:
    series: dict[str, list[tuple[Case, CaseResult]]] = defaultdict(list)
    for case, result in found:
        series[case.placement.value + (f", cycle {case.cycle + 1}" if case.cycle else "")].append(
            (case, result)
        )
    return series


def _first(found: Sequence[tuple[Case, CaseResult]]) -> list[tuple[Case, CaseResult]]:
    """Each size once: out-of-place where that was measured, of the first cycle."""
    return [(case, result) for case, result in found if not case.in_place and not case.cycle] or list(found)


def _ranks(run: Reported, name: str, title: str, found: Sequence[tuple[Case, CaseResult]]) -> Plot | None:
    """Ranks against sizes: how far each rank's median is from the median rank's, in units of the noise.
    Beyond so many ranks, a row is a group of neighbours, and shows the one of them that is furthest away.
    """
    columns = [(case, result, *_deviations(run, case, result)) for case, result in _first(found)]
    columns = [column for column in columns if len(column[2]) > 1]
    if not columns:
        return None
    ranks = columns[0][3]
    what, groups = _rank_groups(run, [int(rank) for rank in ranks])
    rows: list[dict[str, Any]] = []
    cells = []
    for label, members in groups:
        line = [label]
        for case, _, deviations, own, noise in columns:
            mine = deviations[np.isin(own, members)]
            worst = float(mine[np.argmax(np.abs(mine))]) if len(mine) else 0.0
            size = format_size(case.size_bytes)
            line.append(format_share(worst, "+"))
            known = _UNKNOWN if noise is None else f"noise {format_share(noise)}"
            text = f"{label}, {size}: {format_share(worst, '+')} of the median rank; {known}"
            rows.append({"x": size, "y": label, "bin": _bin(worst, noise), "text": text})
        cells.append(tuple(line))
    most = max(len(members) for _, members in groups)
    note = (
        "Each rank's median against the median rank's. Faster and slower: by more than the 95 % interval"
        " and 1 %; much: by more than three times that."
    )
    if most > 1:
        each = f"a host, up to {most} ranks," if what == "host" else f"up to {most} neighbouring ranks"
        note += f" {len(ranks)} ranks in {len(groups)} rows: a row is {each} and shows the furthest of them."
    head = (what, *(format_size(case.size_bytes) for case, *_ in columns))
    return Plot(
        "heat",
        name,
        title,
        note,
        tuple(rows),
        Table(head, tuple(cells)),
        {"x": "size", "y": what, "bins": _BINS},
    )


def _deviations(run: Reported, case: Case, result: CaseResult) -> tuple[Any, Any, float | None]:
    """Of every rank's median from the median rank's, relative; the ranks; the relative noise, None without an
    interval.
    """
    first, end = np.searchsorted(run.digests["case"], (case.index, case.index + 1))
    mine = run.digests[first:end]
    middle = float(np.median(mine["median_ns"])) if len(mine) else 0.0
    deviations = mine["median_ns"] / middle - 1 if middle else np.zeros(len(mine))
    return deviations, mine["rank"], result.half_width


def _bin(deviation: float, noise: float | None) -> str:
    if noise is None:
        return _UNKNOWN
    least = max(noise, _FLOOR)
    words = list(_BINS)
    level = (
        (deviation > least)
        + (deviation > _MUCH * least)
        - (deviation < -least)
        - (deviation < -_MUCH * least)
    )
    return words[2 + level]


def _rank_groups(run: Reported, ranks: Sequence[int]) -> tuple[str, list[tuple[str, list[int]]]]:
    """What a row is, and the ranks of each by its name: one rank; else those of a host; else neighbours, as
    many as it takes.
    """
    hosts = {rank.rank: rank.host for rank in run.record.world.ranks} if run.record.world is not None else {}
    if len(ranks) <= _MOST_ROWS:
        return "rank", [(f"{rank} {hosts.get(rank, '')}".strip(), [rank]) for rank in ranks]
    by_host = [
        (host, list(members)) for host, members in groupby(ranks, key=lambda rank: hosts.get(rank, ""))
    ]
    if len(by_host) > _MOST_ROWS or len(by_host) == 1:
        parts = np.array_split(np.array(ranks), _MOST_ROWS)
        return "ranks", [(f"{part[0]} to {part[-1]}", [int(rank) for rank in part]) for part in parts]
    return "host", by_host


def _links(run: Reported) -> Iterator[Plot]:
    """Every link's rate during the burst; where there are many, those that carried least."""
    results = {result.case: result for result in run.record.results}
    for burst in run.record.bursts:
        case = run.record.plan.cases[burst.case]
        result = results.get(burst.case)
        ranks = run.expectation.arm.ranks
        algorithm = result.algorithm if result is not None else ""
        groups = traffic(burst, case.collective, algorithm, case.size_bytes, ranks, byte_paths(run.record))
        every = [(group, use) for group in groups for use in group.links]
        if not any(group.used for group in groups):
            continue
        shown = sorted(every, key=lambda pair: pair[1].share)[:_MOST_ROWS]
        shown = [pair for pair in every if pair in shown]
        left = f" The {_MOST_ROWS} that carried least of {len(every)}." if len(shown) < len(every) else ""
        yield Plot(
            "bars",
            f"{run.name}-{case.collective}-{case.dtype}-links",
            f"Links during {case.collective}, {format_size(case.size_bytes)}",
            "Counters before and after an untimed burst, the busier direction; the tick is the line rate."
            + left,
            tuple(_link_row(group, use) for group, use in shown),
            Table(
                ("host", "link", "kind", "GB/s", "of line rate", "of even share", "sent", "received"),
                tuple(_link_cells(group, use) for group, use in shown),
                keys=2,
            ),
            {"x": "GB/s", "bins": _LINKS},
        )


def _state(use: LinkUse) -> str:
    return "carried traffic" if use.carried else "carried nothing"


def _link_row(group: Fellows, use: LinkUse) -> dict[str, Any]:
    label = f"{group.host} {use.link.name}"
    rate = "" if use.of_rate is None else f", {format_share(use.of_rate, decimals=0)} of its rate"
    return {
        "y": label, "x": use.gb_per_s, "state": _state(use), "rate": use.link.gb_per_s,
        "text": f"{label}: {use.gb_per_s:.4g} GB/s{rate}, {_state(use)}",
    }  # fmt: skip


def _link_cells(group: Fellows, use: LinkUse) -> tuple[str, ...]:
    of_rate = NOT_APPLICABLE if use.of_rate is None else format_share(use.of_rate)
    return (
        group.host, use.link.name, use.link.kind, f"{use.gb_per_s:.4g}", of_rate, format_share(use.share),
        f"{use.sent_bytes:.4g} B", f"{use.received_bytes:.4g} B",
    )  # fmt: skip


def _histograms(run: Reported) -> Iterator[Plot]:
    """Samples of the cases that the conclusions point at, then of the largest sizes."""
    pointed = [
        each.case for each in run.conclusions if each.question is Question.VARIANCE and each.case is not None
    ]
    largest = sorted(run.timed, key=lambda pair: -pair[0].size_bytes)
    cases = list(dict.fromkeys([*pointed, *(case.index for case, _ in largest)]))[:_MOST_HISTOGRAMS]
    results = {case.index: result for case, result in run.timed}
    sampled = set(np.unique(run.samples["case"]).tolist())
    for index in cases:
        if index in sampled and index in results:
            own = run.samples[run.samples["case"] == index]
            spread = distributions(index, run.record.plan.timing.time, own)[0]
            if spread.samples > 1:
                yield _histogram(run, run.record.plan.cases[index], results[index], spread)


def _histogram(run: Reported, case: Case, result: CaseResult, spread: Distribution) -> Plot:
    edges = [edge / NS_PER_US for edge in spread.edges_ns]
    rows = [
        {
            "low": low,
            "high": high,
            "zero": 0,
            "count": count,
            "text": f"{low:.4g} to {high:.4g} us: {count} samples",
        }
        for low, high, count in zip(edges, edges[1:], spread.counts, strict=False)
    ]
    marks = [("median", (result.time_ns or 0.0) / NS_PER_US, "c2")]
    if result.mean_ns is not None:
        marks.append(("mean of all", result.mean_ns / NS_PER_US, "c3"))
    if (mean_ns := nccl_tests_mean_ns(run.digests, case.index)) is not None:
        marks.append(("mean over ranks (nccl-tests prints it)", mean_ns / NS_PER_US, "c4"))
    percentiles = [
        (
            f"p{each.percent:g}, us",
            _NEEDS.format(each.needed) if each.value_ns is None else format_time_us(each.value_ns),
        )
        for each in spread.percentiles
    ]
    facts = [("samples", str(spread.samples)), ("calls a sample", str(spread.calls_per_sample))]
    if spread.kept < spread.samples:
        facts.append(("samples of the percentiles", str(spread.kept)))
    facts += percentiles
    facts += [(f"{name}, us", format_time_us(value * NS_PER_US)) for name, value, _ in marks]
    facts += [
        (f"mode near {format_time_us(mode.centre_ns)} us", format_share(mode.share, decimals=0))
        for mode in spread.modes
    ]
    size = format_size(case.size_bytes)
    calls = "one call" if spread.calls_per_sample == 1 else f"{spread.calls_per_sample} calls"
    return Plot(
        "histogram",
        f"{run.name}-case-{case.index}-histogram",
        f"Samples of {case.collective} {case.dtype}, {size}, {case.placement.value}",
        f"{spread.samples} samples of {calls} each, all that are kept; us a call.{_flagged(spread)}",
        tuple(rows),
        Table(("of the samples", "value"), tuple(facts)),
        {"x": "time of a call (us)", "marks": marks, "log": spread.scale is Scale.LOG},
    )


def _flagged(spread: Distribution) -> str:
    return f" Flagged: {flagged_words(spread.flagged)}{left_out(spread)}." if spread.flagged else ""


_NEEDS: Final = "needs {} samples"
