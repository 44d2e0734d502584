"""What rank 0 keeps of a soak: windows as digests, slow calls, changes of level, wrong elements, and which
loss would have been seen. However long a soak is, what is kept is bounded.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from busbw.errors import ExitCode
from busbw.model.finding import Finding, Severity
from busbw.model.plan import Plan
from busbw.model.record import RankInfo
from busbw.model.result import CaseResult, Status, StopReason, WrongData
from busbw.model.sample import MAX_OVER_RANKS
from busbw.model.soak import SOAK_CHECK, LevelChange, SlowCall, Window, WrongElement, kept
from busbw.rank.summarize import bandwidths, interval
from busbw.stats.interval import estimate
from busbw.stats.levels import BLIND, Change, LevelWatch
from busbw.units import counted, first_of, format_gb_per_s, format_share

if TYPE_CHECKING:
    from busbw.rank.retain import Kept

# A slow call takes this much more than its window's median, and at least twice as long.
SLOW_NS: Final = 100e6
MOST_SLOW: Final = 50  # kept of each soak: the slowest
MOST_WRONG: Final = 50
MOST_CHANGES: Final = 200
# A rank that had no core for this part of what a call took too long is named.
_OWN_SHARE: Final = 0.5
LOSSES: Final = (0.05, 0.1, 0.2, 0.5)  # the first that would have been seen is what a soak says
PROBABILITY: Final = 0.95
_SHOWN: Final = 3
# Windows that show how long one usually lasts with its checks, and how many are needed for that.
_LASTED: Final = 64
_LEAST_LASTED: Final = 3
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class State:
    """What a soak has come to; ``fields`` is ``RunRecord.soak``."""

    results: tuple[CaseResult, ...]
    fields: dict[str, Any]
    findings: tuple[Finding, ...]
    code: ExitCode


@dataclass
class _Series:
    """Of one case."""

    windows: tuple[Window, ...] = ()
    watch: LevelWatch = field(default_factory=LevelWatch)
    # The beginnings of windows by number, from the first that a change can begin in.
    begins: dict[int, float] = field(default_factory=dict)
    count: int = 0
    calls: int = 0
    changes: dict[int, LevelChange] = field(default_factory=dict)  # by the window that they begin in
    last: CaseResult | None = None
    lasted_s: deque[float] = field(default_factory=lambda: deque(maxlen=_LASTED))  # of the last windows


class SoakLog:
    """Takes the windows of a soak in order. ``began`` is the clock's time at its start."""

    def __init__(self, plan: Plan, ranks: tuple[RankInfo, ...], began: float) -> None:
        self._plan, self._ranks, self._began = plan, ranks, began
        self._series: dict[int, _Series] = defaultdict(_Series)
        self._slow: list[SlowCall] = []
        self._slow_count = self._checks = self._wrong_windows = self._changes = 0
        self._wrong: list[WrongElement] = []
        self._elapsed_s = 0.0

    def take(
        self, result: CaseResult, kept_rows: Kept, files: dict[str, bytes], elapsed_s: float, checks: int
    ) -> tuple[str, ...]:
        """Take one window more, which ended ``elapsed_s`` after the start: so many ``checks`` were made in it
        where any was, and ``files`` are what failed ones have left. What it has shown, for people.
        """
        series = self._series[result.case]
        series.last = result
        notes: list[str] = []
        if result.time_ns:
            slow = list(self._slow_calls(series, result, kept_rows))
            known_s = sum(each.excess_s for each in slow)
            slow += self._long_window(series, result, kept_rows, elapsed_s, known_s)
            self._slow_count += len(slow)
            self._slow = sorted((*self._slow, *slow), key=lambda each: -each.excess_s)[:MOST_SLOW]
            if slow:
                worst = max(slow, key=lambda each: each.excess_s)
                notes.append(f"{counted(len(slow), 'slow call')} in this window: {slow_words(worst)}")
            notes += self._took_window(series, result, kept_rows, elapsed_s)
        if result.wrong is not None:
            self._checks += checks
        if result.status is Status.WRONG:
            notes += self._took_wrong(result, files, elapsed_s)
        self._elapsed_s = elapsed_s
        return tuple(notes)

    def state(self) -> State:
        """What the windows so far come to."""
        results = tuple(self._result(case, each) for case, each in sorted(self._series.items()))
        return State(results, self._fields(self._elapsed_s), tuple(self._findings()), self._code())

    # ---- one window ---------------------------------------------------------------------------------

    def _took_window(
        self, series: _Series, result: CaseResult, kept_rows: Kept, elapsed_s: float
    ) -> list[str]:
        rows = _worst(kept_rows)
        times = rows["elapsed_ns"] / rows["k"]
        calls = int(rows["k"].sum())
        assert result.time_ns is not None
        begin_s = max(0.0, elapsed_s - float(rows["elapsed_ns"].sum()) / 1e9)
        when = (round(begin_s, 3), round(elapsed_s - begin_s, 3))
        of_calls = (result.time_ns, float(times.min()), float(times.max()))
        window = Window(result.case, *when, calls, *of_calls, int(result.status is Status.WRONG))
        series.windows = kept(series.windows, window)
        series.begins[series.count] = begin_s
        series.begins.pop(series.count - 2 * len(series.windows), None)
        series.count += 1
        series.calls += calls
        change = series.watch.add(math.log(result.time_ns))
        return [] if change is None else [self._changed(series, result.case, change, elapsed_s)]

    def _changed(self, series: _Series, case: int, change: Change, elapsed_s: float) -> str:
        began = series.begins.get(change.first, 0.0)
        ended = "" if change.last is None else self._at(series.begins.get(change.last + 1, elapsed_s))
        before, after = math.exp(change.before), math.exp(change.after)
        found = LevelChange(case, self._at(began), ended, before, after, change.share)
        self._changes += change.first not in series.changes
        if len(series.changes) < MOST_CHANGES or change.first in series.changes:
            series.changes[change.first] = found
        return self._change_words(found)

    def _long_window(
        self, series: _Series, result: CaseResult, kept_rows: Kept, elapsed_s: float, known_s: float
    ) -> list[SlowCall]:
        """Where the window lasted much longer than others, in its checks or in all of its calls alike: beyond
        ``known_s``, which its slow calls took longer.
        """
        lasted_s = elapsed_s - self._elapsed_s - known_s
        usual_s = float(np.median(series.lasted_s)) if len(series.lasted_s) >= _LEAST_LASTED else lasted_s
        excess_s = lasted_s - usual_s
        series.lasted_s.append(lasted_s)
        if excess_s < SLOW_NS / 1e9 or excess_s < usual_s:
            return []
        slow = self._slow_call(result, self._at(self._elapsed_s), series.calls, excess_s, kept_rows)
        return [replace(slow, timed=False)]

    def _slow_call(
        self, result: CaseResult, at: str, call: int, excess_s: float, kept_rows: Kept
    ) -> SlowCall:
        rank = _without_core(kept_rows, excess_s)
        host = "" if rank is None else self._ranks[rank].host
        return SlowCall(result.case, at, call, round(excess_s, 4), rank, host)

    def _slow_calls(self, series: _Series, result: CaseResult, kept_rows: Kept) -> Iterator[SlowCall]:
        """Of the samples of a window, those that are slow."""
        rows = _worst(kept_rows)
        taken_ns = rows["elapsed_ns"].astype(float)
        excess = taken_ns - rows["k"] * (result.time_ns or 0.0)
        places = np.flatnonzero((excess >= SLOW_NS) & (excess >= taken_ns / 2))
        after_s = (taken_ns.sum() - np.cumsum(taken_ns)) / 1e9
        calls = series.calls + np.cumsum(rows["k"])
        for place in places.tolist():
            at, excess_s = _utc(kept_rows.ended_s - float(after_s[place])), float(excess[place]) / 1e9
            yield self._slow_call(result, at, int(calls[place]), excess_s, kept_rows)

    def _took_wrong(self, result: CaseResult, files: dict[str, bytes], elapsed_s: float) -> list[str]:
        self._wrong_windows += 1
        found = []
        for place in result.wrong_at:
            own = (content for name, content in files.items() if name.endswith(f"-rank-{place.rank}.npz"))
            values = _first_element(next(own, b""))
            where = (place.rank, place.host, self._ranks[place.rank].device, place.first_offset)
            at = self._at(elapsed_s)
            found.append(WrongElement(result.case, at, *where, place.wrong, *values, place.fault))
        self._wrong = [*self._wrong, *found][:MOST_WRONG]
        return [wrong_words(each) for each in found]

    # ---- the whole soak -----------------------------------------------------------------------------

    def _result(self, case: int, series: _Series) -> CaseResult:
        """As of a run whose samples are the windows."""
        assert series.last is not None
        if not series.windows:
            return series.last
        medians = np.array([window.median_ns for window in series.windows])
        found = estimate(medians, _CONFIDENCE)
        wrong = sum(window.wrong for window in series.windows) > 0
        elements = [each for each in self._wrong if each.case == case]
        first = {each.rank: each for each in reversed(elements)}
        wrong_at = tuple(
            WrongData(each.rank, each.host, each.wrong, each.offset, each.fault)
            for _, each in sorted(first.items())
        )
        algbw, busbw = series.last.algbw_gb_per_s, series.last.busbw_gb_per_s
        if not series.last.groups:
            time_ns = None if wrong else found.median
            algbw, busbw = bandwidths(self._plan.cases[case], len(self._ranks), time_ns)
        return replace(
            series.last,
            status=Status.WRONG if wrong else Status.GOOD,
            **interval(found),
            tau=found.tau,
            algbw_gb_per_s=algbw,
            busbw_gb_per_s=busbw,
            samples=len(medians),
            calls_per_sample=max(1, series.calls // max(1, series.count)),
            stop=StopReason.CASE_TIME,
            stats={},
            marks=(),
            evidence={},
            wrong_at=wrong_at or series.last.wrong_at,
            wrong=sum(each.wrong for each in elements) if series.last.wrong is not None else None,
            pass_samples=(len(medians),),
        )

    def _fields(self, elapsed_s: float) -> dict[str, Any]:
        """``RunRecord.soak``."""
        return {
            "seconds": round(elapsed_s, 3),
            "windows": sum(series.count for series in self._series.values()),
            "calls": sum(series.calls for series in self._series.values()),
            "checks": self._checks,
            "wrong_windows": self._wrong_windows,
            "slow_calls": self._slow_count,
            "level_changes": self._changes,
            "kept": [asdict(window) for series in self._series.values() for window in series.windows],
            "slow": [asdict(each) for each in self._slow],
            "changes": [asdict(each) for each in self._level_changes()],
            "wrong": [asdict(each) for each in self._wrong],
            "power": self._powers(elapsed_s),
        }

    def _level_changes(self) -> list[LevelChange]:
        every = [change for series in self._series.values() for change in series.changes.values()]
        return sorted(every, key=lambda each: each.began)

    def _powers(self, elapsed_s: float) -> list[dict[str, Any]]:
        """What would have been seen of each case that was timed, by the formula of ``LevelWatch.power``: with
        ``probability`` a loss of ``loss`` (None: of none in LOSSES) that begins after ``blind_s`` and lasts
        ``seconds``. It moves the median of a window that it covers by more than half: as many as it is
        windows long.
        """
        found = []
        for case, series in sorted(self._series.items()):
            period_s = elapsed_s / max(1, series.count)
            seen = (
                (loss, windows)
                for loss in LOSSES
                if (windows := series.watch.shortest(loss, PROBABILITY)) is not None
            )
            loss, windows = next(seen, (None, 0))
            if series.windows:
                seconds = None if loss is None else windows * period_s
                seen_of = {"case": case, "loss": loss, "seconds": seconds, "blind_s": BLIND * period_s}
                found.append({**seen_of, "probability": PROBABILITY})
        return found

    def _findings(self) -> list[Finding]:
        found = []
        if self._wrong:
            claims = first_of((wrong_words(each) for each in self._wrong), _SHOWN, "; ")
            windows = counted(self._wrong_windows, "window")
            hint = "take the host of the wrong element out of work"
            found.append(
                Finding(Severity.ERROR, f"wrong data in {windows}: {claims}", hint=hint, check=SOAK_CHECK)
            )
        for each in self._level_changes():
            worse = each.after_ns > each.before_ns
            severity = Severity.WARNING if worse else Severity.INFO
            found.append(Finding(severity, self._change_words(each), check=SOAK_CHECK))
        if self._slow:
            words = first_of((slow_words(each) for each in self._slow), _SHOWN, "; ")
            claim = f"{counted(self._slow_count, 'slow call')}, the slowest: {words}"
            found.append(Finding(Severity.WARNING, claim, check=SOAK_CHECK))
        return found

    def _code(self) -> ExitCode:
        worse = any(each.after_ns > each.before_ns for each in self._level_changes())
        return ExitCode.BAD_VERDICT if self._wrong or worse else ExitCode.OK

    def _change_words(self, change: LevelChange) -> str:
        case = self._plan.cases[change.case]
        rates = (bandwidths(case, len(self._ranks), time)[1] for time in (change.before_ns, change.after_ns))
        values = " to ".join(format_gb_per_s(rate) for rate in rates if rate is not None)
        until = f"until {clock(change.ended)}" if change.ended else "and lasts"
        level = f", {values} GB/s" if values else ""
        share = format_share(change.share, "+")
        return f"{case.short}: level {share}{level}, from {clock(change.began)} {until}"

    def _at(self, elapsed_s: float) -> str:
        return _utc(self._began + elapsed_s)


def slow_words(slow: SlowCall) -> str:
    """When, how long, and who."""
    who = "" if slow.rank is None else f"; rank {slow.rank} on {slow.host} had no core"
    if not slow.timed:
        return f"{clock(slow.at)} the window after call {slow.call} took {slow.excess_s:.2f} s longer{who}"
    return f"{clock(slow.at)} call {slow.call} took {slow.excess_s:.2f} s longer{who}"


def wrong_words(wrong: WrongElement) -> str:
    """Where, and what."""
    on = f" ({wrong.device})" if wrong.device else ""
    where = f"rank {wrong.rank} on {wrong.host}{on}"
    what = f"element {wrong.offset}" if wrong.offset >= 0 else "no element of the result"
    values = f": expected {wrong.expected}, found {wrong.found}" if wrong.expected else ""
    fault = f"; {wrong.fault}" if wrong.fault else ""
    return f"{clock(wrong.at)} {where}: {counted(wrong.wrong, 'wrong element')}, first {what}{values}{fault}"


def clock(at: str) -> str:
    """The time of day of an ISO time: 10:02:13.2Z."""
    return f"{at[11:21]}Z"


def _worst(kept_rows: Kept) -> np.ndarray[Any, np.dtype[np.void]]:
    rows = kept_rows.samples
    found: np.ndarray[Any, np.dtype[np.void]] = rows[rows["rank"] == MAX_OVER_RANKS]
    return found


def _without_core(kept_rows: Kept, excess_s: float) -> int | None:
    """The rank that had no core for most of that time, in the window."""
    digests = kept_rows.digests
    if not len(digests):
        return None
    most = int(digests["run_delay_ns"].argmax())
    lost_s = float(digests["run_delay_ns"][most]) / 1e9
    return int(digests["rank"][most]) if lost_s >= _OWN_SHARE * excess_s else None


def _first_element(content: bytes) -> tuple[str, str]:
    """Expected and found value of a file's first wrong element, as bits; empty where there is none."""
    if not content:
        return "", ""
    with np.load(io.BytesIO(content)) as archive:
        place = int(archive["first_wrong"]) - int(archive["start"])
        expected, received = archive["expected"], archive["received"]
        if not 0 <= place < len(received):
            return "", ""
        digits = 2 * received.dtype.itemsize
        return f"0x{int(expected[place]):0{digits}x}", f"0x{int(received[place]):0{digits}x}"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
