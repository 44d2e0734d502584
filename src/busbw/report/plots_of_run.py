"""The plots of one run: curves, ranks, links, histograms; each with its table. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from busbw.judge.beside import judged
from busbw.judge.compare_arms import LAUNCH_TIMES, CaseKey, key_of
from busbw.judge.expectation import Judged, Judgement
from busbw.judge.samples import Distribution, Scale, distributions, nccl_tests_mean_ns
from busbw.judge.traffic import byte_paths, traffic
from busbw.model.case import Case
from busbw.model.conclusion import Answer, Question
from busbw.model.mark import conditions_of
from busbw.model.result import CaseResult, Status
from busbw.report import curves, history
from busbw.report.beside import plot_beside
from busbw.report.columns import NOT_APPLICABLE, without_interval
from busbw.report.header_footer import explanations
from busbw.report.plots import LINEAR, LOG, Plot, Table
from busbw.report.ranks import flagged_words
from busbw.report.reported import Kind, Reported
from busbw.report.rows import marks_of
from busbw.units import (
    NS_PER_US,
    counted,
    format_approximate_size,
    format_duration,
    format_gb_per_s,
    format_share,
    format_share_short,
    format_size,
    format_time,
)

if TYPE_CHECKING:
    import numpy.typing as npt

MARKS: Final = "marks"
Pair = tuple[Case, CaseResult]

_WORDS: Final = {
    Status.WRONG: "WRONG",
    Status.FAILED: "FAILED",
    Status.NOT_RUN: "not run",
    Status.NOT_APPLICABLE: NOT_APPLICABLE,
}
_MOST_ROWS: Final = 48  # of a heat map or of bars: more are grouped or left out, and said
_MOST_HISTOGRAMS: Final = 2
_MOST_COURSES: Final = 4  # of a soak
_UNKNOWN: Final = "noise not known"
_BINS: Final = {
    "much quicker": "low2", "quicker": "low1", "noise or < 1 %": "mid",
    "slower": "high1", "much slower": "high2", _UNKNOWN: "none",
}  # fmt: skip
_STEPS: Final = (
    "Numbers are percent. Quicker and slower: by more than the 95 % interval and 1 %; much: by more than"
    " three times that."
)
_FLOOR: Final = 0.01  # what differs by less is drawn alike, however precisely it is known
_MUCH: Final = 3.0  # times the noise
_FEW: Final = 5  # units of time that an axis has at least
_UNITS: Final = ((3600.0, "hours"), (60.0, "minutes"))
_MANY_US: Final = 1e7  # ns from which times are shown in milliseconds
_DIGITS: Final = range(4, 13)
_LINKS: Final = {"carried traffic": "c1", "carried nothing": "limit"}


def curves_of(run: Reported) -> Iterator[Plot]:
    """Of every kind of case bandwidth and time beside each other, above one table."""
    for kind in run.kinds:
        word, of, series = " ".join(filter(None, kind)), (run.name, *kind), defaultdict[str, list[Pair]](list)
        for case, result in run.every_of_kind(kind):
            cycle = f", cycle {case.cycle + 1}" if case.cycle else ""
            series[case.placement.value + cycle].append((case, result))
        points = {label: curves.points(own) for label, own in series.items()}
        keys = {key_of(case) for own in series.values() for case, _ in own}
        expected = [each for each in run.expectation.cases if each.key.plain in keys]
        yield from curves.curves(of, word, points, sizes_of(run, kind), expected)
        beside = judged(run.record.plan, [result for _, result in run.of_kind(kind)])
        for what, is_load in (("loads", True), ("operations", False)):
            if own := [each for each in beside if bool(each[0].beside.unit) is is_load]:
                yield plot_beside(of, f"Beside {word}: {what}", own)


def evidence_of(run: Reported) -> Iterator[Plot]:
    """In the order of the questions that they answer."""
    for kind in run.kinds:
        every, word, of = list(run.of_kind(kind)), " ".join(filter(None, kind)), (run.name, *kind)
        # Each size once: out-of-place where that was measured, of the first cycle.
        found = [(case, own) for case, own in every if not case.in_place and not case.cycle] or every
        drawn = (
            _launches(of, f"Launches of {word}", found),
            _ranks(run, of, f"Ranks of {word}", found),
            curves.spread(of, f"Spread of {word}", [case for case, _ in found], run.spreads),
        )
        yield from filter(None, drawn)
    yield from _links(run)
    yield from _histograms(run)
    yield from _windows(run)
    for told in run.history:
        yield history.plot((run.name, told.series.case.operation), told)


def _launches(of: tuple[str, ...], title: str, found: Sequence[Pair]) -> Plot | None:
    """Of a run under --launches: how far each launch is from the median one."""
    columns = []
    for case, result in found:
        times = np.array(result.evidence.get(LAUNCH_TIMES, ()))
        if len(times) > 1:
            columns.append((case, times / np.median(times) - 1, result.half_width))
    if not columns:
        return None
    launches = max(len(values) for _, values, _ in columns)
    groups = [(str(number + 1), [number]) for number in range(launches)]
    cells = [(case, values, range(len(values)), noise) for case, values, noise in columns]
    note = "Each launch's time against the median launch's."
    return _deviations((of, "launches"), title, note, "launch", groups, cells)


def _ranks(run: Reported, of: tuple[str, ...], title: str, found: Sequence[Pair]) -> Plot | None:
    """How far each rank's median is from the median rank's. Beyond so many ranks, a column is a group of
    neighbours, and shows the one of them that is furthest away.
    """
    cells = []
    for case, result in found:
        first, end = np.searchsorted(run.digests["case"], (case.index, case.index + 1))
        mine = run.digests[first:end]
        if len(mine) > 1:
            middle = float(np.median(mine["median_ns"]))
            relative = mine["median_ns"] / middle - 1 if middle else np.zeros(len(mine))
            cells.append((case, relative, list(mine["rank"]), result.half_width))
    if not cells:
        return None
    ranks = [int(rank) for rank in cells[0][2]]
    what, groups = _rank_groups(run, ranks)
    most = max(len(members) for _, members in groups)
    note = "Each rank's median time against the median rank's."
    if most > 1:
        each = f"a host, up to {most} ranks," if what == "host" else f"up to {most} neighbouring ranks"
        note += f" {len(ranks)} ranks in {len(groups)} columns: a column is {each} and shows the furthest of"
        note += " them."
    return _deviations((of, "ranks"), title, note, what, groups, cells)


def _deviations(
    name: tuple[tuple[str, ...], str],
    title: str,
    note: str,
    what: str,
    groups: Sequence[tuple[str, list[int]]],
    columns: Sequence[tuple[Case, Any, Sequence[int], float | None]],
) -> Plot:
    """Sizes against members, as relative differences in units of the noise. ``columns`` have for a case the
    differences, whose they are, and the noise; ``groups`` are the members of a row of the picture, by name.
    """
    rows: list[dict[str, Any]] = []
    cells = []
    for case, values, members, noise in columns:
        size = format_size(case.size_bytes)
        known = _UNKNOWN if noise is None else f"noise {format_share(noise)}"
        line = [size]
        for label, own in groups:
            mine = values[np.isin(members, own)]
            worst = float(mine[np.argmax(np.abs(mine))]) if len(mine) else 0.0
            share = format_share(worst, "+")
            line.append(share)
            text = f"{what} {label}, {size}: {share} of the median {what}; {known}"
            rows.append(
                {"x": label, "y": size, "bin": _bin(worst, noise), "text": text,
                 "cell": format_share_short(worst).removesuffix("%")}
            )  # fmt: skip
        cells.append(tuple(line))
    table = Table(("size", *(label for label, _ in groups)), tuple(cells), notes=(_STEPS,))
    used = {row["bin"] for row in rows}
    words = {"x": what, "y": None, "bins": {word: of for word, of in _BINS.items() if word in used}}
    return Plot("heat", name[0], name[1], title, note, tuple(rows), table, words)


def _bin(deviation: float, noise: float | None) -> str:
    if noise is None:
        return _UNKNOWN
    least = max(noise, _FLOOR)
    return list(_BINS)[bisect_left((-_MUCH * least, -least, least, _MUCH * least), deviation)]


def _rank_groups(run: Reported, ranks: Sequence[int]) -> tuple[str, list[tuple[str, list[int]]]]:
    """What a column is, and the ranks of each by its name: one rank; else those of a host; else neighbours,
    as many as it takes.
    """
    hosts = {rank.rank: rank.host for rank in run.record.world.ranks} if run.record.world is not None else {}
    if len(ranks) <= _MOST_ROWS:
        several = len(set(hosts.values())) > 1
        names = ((f"{rank} {hosts.get(rank, '')}".strip() if several else str(rank)) for rank in ranks)
        return "rank", [(name, [rank]) for name, rank in zip(names, ranks, strict=True)]
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
        rows, cells = [], []
        for group, use in shown:
            label, rate = f"{group.host} {use.link.name}", format_gb_per_s(use.gb_per_s)
            state = "carried traffic" if use.carried else "carried nothing"
            share = "" if use.of_rate is None else f", {format_share(use.of_rate, decimals=0)}"
            text = f"{label}: {rate} GB/s{share and f'{share} of its rate'}, {state}"
            rows.append({"y": label, "x": use.gb_per_s, "state": state, "rate": use.link.gb_per_s,
                         "text": text, "cell": f"{rate} GB/s{share}"})  # fmt: skip
            of_rate = NOT_APPLICABLE if use.of_rate is None else format_share(use.of_rate)
            moved = map(format_approximate_size, (use.sent_bytes, use.received_bytes))
            cells.append((group.host, use.link.name, use.link.kind, rate, of_rate, format_share(use.share),
                          *moved))  # fmt: skip
        head = ("host", "link", "kind", "GB/s", "of line rate", "of even share", "sent", "received")
        yield Plot(
            "bars",
            (run.name, case.collective, case.dtype, ""),
            "links",
            f"Links during {case.collective}, {format_size(case.size_bytes)}",
            "Counters before and after an untimed burst, the busier direction; the tick is the line rate."
            + left,
            tuple(rows),
            Table(head, tuple(cells), keys=2),
            {"x": "GB/s", "bins": _LINKS},
        )


def _windows(run: Reported) -> Iterator[Plot]:
    """The course of a soak, in the largest of its cases."""
    for case, result in sorted(run.timed, key=lambda pair: -pair[0].size_bytes)[:_MOST_COURSES]:
        windows = [each for each in run.record.soak.get("kept", ()) if each["case"] == case.index]
        if not (windows and result.busbw_gb_per_s and result.time_ns):
            continue
        bytes_moved = result.busbw_gb_per_s * result.time_ns
        last_s = windows[-1]["start_s"]
        unit_s, unit = next((each for each in _UNITS if last_s >= _FEW * each[0]), (1.0, "seconds"))
        rows, cells = [], []
        for each in windows:
            busbw, since = bytes_moved / each["median_ns"], format_duration(each["start_s"])
            text = f"after {since}: {format_gb_per_s(busbw)} GB/s, {counted(each['calls'], 'call')}"
            rows.append({"x": each["start_s"] / unit_s, "y": busbw, "level": result.busbw_gb_per_s,
                         "part": 0, "text": text})  # fmt: skip
            cells.append((since, format_gb_per_s(busbw), str(each["calls"]), str(each["wrong"])))
        yield Plot(
            "history",
            (run.name, case.collective, case.dtype, case.op),
            f"windows-{format_size(case.size_bytes).replace(' ', '')}-{case.placement.value}",
            f"Windows of {case.short}",
            "The median of each window, since the start of the soak; the line is the median of all.",
            tuple(rows),
            Table(("after", "GB/s", "calls", "wrong"), tuple(cells)),
            {"x": unit, "y": curves.BANDWIDTH},
        )


def _histograms(run: Reported) -> Iterator[Plot]:
    """Samples that vary, of the cases that the conclusions find fault with; else of the largest."""
    pointed = [
        each.case
        for each in run.conclusions
        if each.question is Question.VARIANCE and each.answer is not Answer.YES and each.case is not None
    ]
    largest = [case.index for case, _ in sorted(run.timed, key=lambda pair: -pair[0].size_bytes)[:1]]
    results = {case.index: result for case, result in run.timed}
    sampled = set(np.unique(run.samples["case"]).tolist())
    for index in list(dict.fromkeys(pointed or largest))[:_MOST_HISTOGRAMS]:
        if index in sampled and index in results:
            own = run.samples[run.samples["case"] == index]
            spread = distributions(index, run.record.plan.timing.time, own)[0]
            if spread.edges_ns[-1] > spread.edges_ns[0]:
                mean_ns = run.spreads[index].mean_ns if index in run.spreads else None
                case = run.record.plan.cases[index]
                yield histogram(run.name, case, results[index], spread, run.digests, mean_ns)


def histogram(
    name: str,
    case: Case,
    result: CaseResult | None,
    spread: Distribution,
    digests: npt.NDArray[np.void],
    mean_ns: float | None = None,
) -> Plot:
    """A bar a bin, with the times that are made of the samples; ``name`` is the run's. ``digests`` are those
    of its ranks, ``mean_ns`` the mean of all samples.
    """
    edges = spread.edges_ns
    unit, unit_ns = ("ms", 1000 * NS_PER_US) if edges[-1] >= _MANY_US else ("us", NS_PER_US)
    # As many digits as the edges take to differ.
    texts = [[format_time(edge, digits) for edge in edges] for digits in _DIGITS]
    words = next((each for each in texts if len(set(each)) == len(edges)), texts[0])
    bins = zip(pairwise(edges), pairwise(words), spread.counts, strict=True)
    rows = tuple(
        {"low": low / unit_ns, "high": high / unit_ns, "zero": 0, "count": count,
         "text": f"{first} to {last}: {count} samples"}
        for (low, high), (first, last), count in bins
    )  # fmt: skip
    # What else is made of the case's samples, with its colour.
    made = {
        "median": (result.time_ns if result is not None else None, "c2"),
        "mean of all": (mean_ns, "c3"),
        "mean over ranks (nccl-tests prints it)": (nccl_tests_mean_ns(digests, case.index), "c4"),
    }
    marks = [(name, value, colour) for name, (value, colour) in made.items() if value is not None]
    size = format_size(case.size_bytes)
    return Plot(
        "histogram",
        (name, case.collective, case.dtype, case.op),
        f"histogram-{size.replace(' ', '')}-{case.placement.value}",
        f"Samples of {case.collective} {case.dtype}, {size}, {case.placement.value}",
        _note(spread),
        rows,
        Table(("of the samples", "value"), tuple(_facts(spread, marks))),
        {
            "x": f"time of a call ({unit})",
            "marks": [(name, value / unit_ns, colour) for name, value, colour in marks],
            "scales": (LOG if spread.scale is Scale.LOG else LINEAR,),
        },
    )


def _note(spread: Distribution) -> str:
    calls = "one call" if spread.calls_per_sample == 1 else f"{spread.calls_per_sample} calls"
    note = f"{spread.samples} samples of {calls} each."
    note += " A separate pass, which the run's number does not use." if spread.single_calls else ""
    if spread.flagged:
        left_out = "; they are in the bins but not in the percentiles" if spread.kept < spread.samples else ""
        note += f" Flagged: {flagged_words(spread.flagged)}{left_out}."
    return note


def _facts(spread: Distribution, marks: Sequence[tuple[str, float, str]]) -> Iterator[tuple[str, str]]:
    yield from (("samples", str(spread.samples)), ("calls a sample", str(spread.calls_per_sample)))
    if spread.kept < spread.samples:
        yield "samples of the percentiles", str(spread.kept)
    for each in spread.percentiles:
        needs = f"needs {each.needed} samples"
        yield f"p{each.percent:g}", needs if each.value_ns is None else format_time(each.value_ns, 4)
    yield from ((name, format_time(value, 4)) for name, value, _ in marks)
    for mode in spread.modes:
        yield f"mode near {format_time(mode.centre_ns, 4)}", format_share(mode.share, decimals=0)


# ---- the sizes as one table: out-of-place and in-place side by side, and what to know ---------------------


def sizes_of(run: Reported, kind: Kind) -> Table:
    """Every size that was asked for, with the meaning of its marks below."""
    found = list(run.every_of_kind(kind))
    judged = {each.key.plain: each for each in run.expectation.cases}
    rows: dict[tuple[object, ...], dict[str, Pair]] = defaultdict(dict)
    for case, result in found:
        rows[case.size_bytes, case.cycle, case.root, case.stream][case.placement.value] = (case, result)
    placements = sorted({case.placement.value for case, _ in found}, reverse=True)
    head = ["size"]
    for placement in placements:
        head += [f"{placement}\n{of}" for of in ("GB/s", "time", "of expected")]
    cells = tuple(_cells(pairs, placements, judged) for pairs in rows.values())
    made = Table((*head, "algorithm", MARKS), cells, notes=tuple(_notes(found)))
    return made.without(NOT_APPLICABLE).without("")


def _cells(
    pairs: Mapping[str, Pair], placements: Sequence[str], judged: Mapping[CaseKey, Judged]
) -> tuple[str, ...]:
    case, _ = next(iter(pairs.values()))
    cells = [format_size(case.size_bytes) + (f", cycle {case.cycle + 1}" if case.cycle else "")]
    for placement in placements:
        own = pairs.get(placement)
        cells += [NOT_APPLICABLE] * 3 if own is None else _values(own[1], judged.get(key_of(own[0]).plain))
    results = [pairs[placement][1] for placement in placements if placement in pairs]
    algorithms = dict.fromkeys(result.algorithm for result in results if result.algorithm)
    return (*cells, ", ".join(algorithms) or NOT_APPLICABLE, " ".join(marks_of(results)))


def _values(result: CaseResult, seen: Judged | None) -> list[str]:
    """Bandwidth with half its interval, time, and the share of what is expected."""
    if result.status is not Status.GOOD:
        return [_WORDS.get(result.status, result.status.value), NOT_APPLICABLE, NOT_APPLICABLE]
    time = NOT_APPLICABLE if not result.time_ns else format_time(result.time_ns, 4)
    share = NOT_APPLICABLE
    if seen is not None and seen.ratio is not None:
        share = format_share(seen.ratio, decimals=0)
        share += f" {Judgement.BELOW}" if seen.answer is Judgement.BELOW else ""
    rate = NOT_APPLICABLE
    if result.busbw_gb_per_s is not None:
        rate = format_gb_per_s(result.busbw_gb_per_s)
    elif result.algbw_gb_per_s is not None:  # one rank has no bus bandwidth
        rate = f"{format_gb_per_s(result.algbw_gb_per_s)} algbw"
    if result.half_width is not None:
        rate += f" +-{format_share_short(result.half_width)}"
    elif why := without_interval(result)[0]:
        rate += f" ({why})"
    return [rate, time, share]


def _notes(found: Sequence[Pair]) -> Iterator[str]:
    """What the marks mean, and which cases have no number, and why."""
    for case, result in found:
        if result.status in (Status.WRONG, Status.FAILED):
            why = result.wrong_words if result.status is Status.WRONG else result.error
            yield f"{_WORDS[result.status]} at {format_size(case.size_bytes)} {case.placement.value}: {why}"
    yield from conditions_of(found)
    others = [result for _, result in found if result.status is not Status.FAILED]
    yield from explanations(others, statistics=False)
