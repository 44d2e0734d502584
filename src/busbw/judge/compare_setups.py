"""Setups that were launched in turn: arms, how far each came, and which one to take where."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from busbw.judge.compare import ComparedCase, Comparison, Verdict
from busbw.judge.compare_arms import Arm, CaseKey, Failure, Observed, cases_of, make_arm, of_launches
from busbw.model.record import RunRecord
from busbw.model.result import Status
from busbw.plan.setups import Setup


@dataclass(frozen=True)
class LaunchOutcome:
    """One launch of a setup. ``nodes`` is 0 for ranks of this host; ``error`` is empty where it ended well,
    ``words`` are its last lines where it did not. ``skipped``: not tried, since the setup had failed before.
    """

    setup: str
    block: int
    nodes: int
    folder: str
    seconds: float
    error: str = ""
    words: tuple[str, ...] = ()
    skipped: bool = False


@dataclass(frozen=True)
class Reach:
    """How far a setup came. ``largest_nodes`` is the largest number of nodes on which every launch completed
    (0 for none); ``first_failed_nodes`` the smallest on which one did not (None for none), ``error`` and
    ``words`` how. ``failed`` of ``launches`` failed; ``wrong`` came to their end with wrong data.
    """

    setup: str
    launches: int
    failed: int
    largest_nodes: int
    first_failed_nodes: int | None
    error: str = ""
    words: tuple[str, ...] = ()
    wrong: int = 0


@dataclass(frozen=True)
class Recommendation:
    """The setup to take for an operation and range of sizes: the default where nothing is known to be
    faster.
    """

    operation: str
    dtype: str
    op: str
    root: int
    placement: str
    first_bytes: int
    last_bytes: int
    setup: str
    least_speedup: float
    most_speedup: float


@dataclass(frozen=True)
class ComparedSeries:
    """Setups that were measured in turn, and what they came to; comparisons and choices with their number of
    nodes, 0 for this host.
    """

    setups: tuple[Setup, ...]
    reached: tuple[Reach, ...]
    comparisons: tuple[tuple[int, Comparison], ...]
    choices: tuple[tuple[int, Recommendation], ...]


def compared_series(
    setups: Sequence[Setup],
    outcomes: Sequence[LaunchOutcome],
    records: Mapping[str, RunRecord],
    comparisons: Iterable[tuple[int, Comparison]],
) -> ComparedSeries:
    """With how far each setup came and which one to take; ``records`` by folder."""
    made = tuple(comparisons)
    reached = reaches([setup.name for setup in setups], outcomes, records)
    best = tuple((nodes, choice) for nodes, comparison in made for choice in choices(comparison))
    return ComparedSeries(tuple(setups), reached, made, best)


def setup_arms(
    series: str,
    names: Sequence[str],
    outcomes: Sequence[LaunchOutcome],
    records: Mapping[str, RunRecord],
    nodes: int,
) -> tuple[Arm, ...]:
    """One arm a setup, in the order of ``names``, from launches on ``nodes`` nodes; ``records`` by folder.

    Setups without any record have an arm without cases: it failed as a whole, or was not launched.
    """
    arms = [
        _arm(series, name, [each for each in outcomes if each.setup == name and each.nodes == nodes], records)
        for name in names
    ]
    # One without a record is of the same thing as the others; only its numbers are missing.
    like = next((arm for arm in arms if arm.definition), Arm("", 0, nodes, "", "not stated", {}, {}))
    return tuple(
        arm if arm.definition else replace(arm, nodes=nodes, definition=like.definition, buffers=like.buffers)
        for arm in arms
    )


def _arm(series: str, name: str, own: Sequence[LaunchOutcome], records: Mapping[str, RunRecord]) -> Arm:
    """Of the launches of one setup; without a definition where none left a record."""
    told = [(outcome, records[outcome.folder]) for outcome in own if outcome.folder in records]
    failed = next((outcome.error for outcome in own if outcome.error), "")
    # Launches that came to their end, and somebody has removed what they measured.
    ended = [outcome for outcome in own if outcome.folder and not outcome.error and not outcome.skipped]
    gone = [outcome.folder for outcome in ended if outcome.folder not in records]
    words = f"the records of {len(gone)} of {len(ended)} completed launches are gone, the first is"
    lacking = (f"{words} {gone[0]}",) if gone else ()
    if not told:
        # Without a failure it was not launched: the series was cut short.
        failures = {"all": Failure(failed)} if failed else {}
        return Arm(name, 0, 0, "", "", {}, {}, series, failures, lacking=lacking)
    unheard = sum(bool(outcome.error) and outcome.folder not in records for outcome in own)
    parts: dict[CaseKey, list[Observed]] = defaultdict(list)
    for outcome, record in told:
        for key, seen in cases_of(record).items():
            parts[key].append(replace(seen, blocks=(outcome.block,) if seen.times_ns else ()))
    return replace(
        make_arm(name, [told[0][1]]),
        cases={key: of_launches(found, unheard) for key, found in sorted(parts.items())},
        series=series,
        failures={"a launch": Failure(failed)} if failed else {},
        lacking=lacking,
    )


def reaches(
    names: Sequence[str], outcomes: Sequence[LaunchOutcome], records: Mapping[str, RunRecord]
) -> tuple[Reach, ...]:
    """Per setup how far it came; ``records`` by folder."""
    wrong = {
        folder
        for folder, record in records.items()
        if any(result.status is Status.WRONG for result in record.results)
    }
    found = []
    for name in names:
        own = [outcome for outcome in outcomes if outcome.setup == name]
        tried = [outcome for outcome in own if not outcome.skipped]
        bad = sorted((outcome for outcome in tried if outcome.error), key=lambda outcome: outcome.nodes)
        bad_nodes = {each.nodes for each in own if each.error or each.skipped or each.folder in wrong}
        good_nodes = {outcome.nodes for outcome in tried} - bad_nodes
        wrong_count = sum(outcome.folder in wrong for outcome in tried)
        reach = Reach(name, len(tried), len(bad), max(good_nodes, default=0), None, wrong=wrong_count)
        if bad:
            first = bad[0]
            reach = replace(reach, first_failed_nodes=first.nodes, error=first.error, words=first.words)
        found.append(reach)
    return tuple(found)


def choices(comparison: Comparison) -> tuple[Recommendation, ...]:
    """The setup to take for every operation and size, neighbouring sizes with one winner together.

    A setup wins where it is FASTER and no other FASTER one has the shorter time. One whose data were wrong
    anywhere or that did not complete every launch wins nowhere. So the default; where it would be taken then,
    there is nobody to take.
    """
    by_case: dict[CaseKey, list[ComparedCase]] = defaultdict(list)
    for row in comparison.rows:
        by_case[row.key].append(row)
    made = [_choice(comparison, key, rows) for key, rows in sorted(by_case.items())]
    # A range ends where there is nobody to take, too.
    curve = attrgetter("operation", "dtype", "op", "root", "placement", "setup")
    ranges = [
        [each for each in alike if each is not None]
        for _, alike in groupby(made, key=lambda each: each and curve(each))
    ]
    return tuple(
        replace(
            own[0],
            last_bytes=own[-1].last_bytes,
            least_speedup=min(each.least_speedup for each in own),
            most_speedup=max(each.most_speedup for each in own),
        )
        for own in ranges
        if own
    )


def _choice(comparison: Comparison, key: CaseKey, rows: Sequence[ComparedCase]) -> Recommendation | None:
    """The setup to take for one case; None where there is nobody to take."""
    baseline = comparison.baseline
    out = {arm.name for arm in (baseline, *comparison.candidates) if arm.wrong or arm.failures}
    faster = [
        row
        for row in rows
        if row.verdict is Verdict.FASTER and row.time_ns is not None and row.arm not in out
    ]
    winner = min(faster, key=lambda row: row.time_ns or 0.0, default=None)
    default = baseline.cases.get(key)
    if winner is None and (baseline.name in out or default is None or not default.times_ns):
        return None
    name = winner.arm if winner is not None else baseline.name
    speedup = (winner.speedup if winner is not None else None) or 1.0
    kind = (key.collective, key.dtype, key.op, key.root, key.placement)
    return Recommendation(*kind, key.size_bytes, key.size_bytes, name, speedup, speedup)


@dataclass(frozen=True)
class Winner:
    """The setup to take everywhere, and why: its rows by verdict over all numbers of nodes."""

    setup: str
    why: str


def winner(comparisons: Sequence[Comparison]) -> Winner:
    """The setup that is FASTER most often over all numbers of nodes, of those that are SLOWER or FAILED
    nowhere and completed every launch; else the default.
    """
    best, found = "", Counter[Verdict]()
    for name in dict.fromkeys(arm.name for each in comparisons for arm in each.candidates):
        own = Counter(row.verdict for each in comparisons for row in each.rows if row.arm == name)
        failed = any(arm.failures for each in comparisons for arm in each.candidates if arm.name == name)
        bad = failed or own[Verdict.SLOWER] or own[Verdict.FAILED] or own[Verdict.MISSING]
        if own[Verdict.FASTER] > found[Verdict.FASTER] and not bad:
            best, found = name, own
    if not best:
        why = "no other setup is faster anywhere without also being slower, failing or missing a launch"
        return Winner(comparisons[0].baseline.name, why)
    told = ", ".join(f"{verdict} in {count}" for verdict, count in found.items())
    return Winner(best, f"of {found.total()} cases {told}; SLOWER in none, and every launch completed")


def wrong_data(comparisons: Sequence[Comparison], name: str) -> str:
    """What was wrong with the data of a setup, on any number of nodes; empty where nothing was."""
    arms = (arm for each in comparisons for arm in (each.baseline, *each.candidates) if arm.name == name)
    return next((arm.wrong for arm in arms if arm.wrong), "")
