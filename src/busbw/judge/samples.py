"""The samples of a case: how they spread, what of them is missing, and what
they add to what is stored of the case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.model.sample import EXCLUDING, HEADLINE, MAX_OVER_RANKS, MIN_OVER_RANKS, SampleFlag
from busbw.stats.interval import Float64Array
from busbw.stats.modes import Modes, find_modes
from busbw.stats.outliers import count_outliers, exclude
from busbw.stats.percentile import least_samples, percentile

PERCENTS: Final = (50.0, 95.0, 99.0)
# From this ratio of largest to least on, equal widths would put nearly everything into the first bin.
_LOG_RATIO: Final = 10.0
_TIMES_OF_THE_SHORTEST: Final = ("min", "last")
_MOST_BINS: Final = 24
_FEWEST_BINS: Final = 5


class Scale(StrEnum):
    """How bins divide the range."""

    LINEAR = "linear"  # equal widths
    LOG = "log"  # equal ratios


@dataclass(frozen=True)
class Percentile:
    """``value_ns`` is None below ``needed`` samples."""

    percent: float
    value_ns: float | None
    needed: int


@dataclass(frozen=True)
class ModeShare:
    """One of two groups of samples: its median, and its share of all samples."""

    centre_ns: float
    share: float


@dataclass(frozen=True)
class Distribution:
    """The samples of one case, per call, all that the record has; ``flagged`` is how many have evidence
    against them, and ``kept`` how many percentiles are of, which leave out what the table's numbers leave
    out. ``single_calls``: those of the pass with one call a sample.

    ``counts[i]`` samples lie in [edges_ns[i], edges_ns[i + 1]); the last bin has its upper edge too.
    ``modes`` is empty where the samples are one group, else has two (``stats.modes``). With
    ``calls_per_sample`` above 1 a sample is the mean of that many calls: single slow calls are thinned out.
    """

    case: int
    single_calls: bool
    samples: int
    kept: int
    flagged: int
    calls_per_sample: int
    scale: Scale
    edges_ns: tuple[float, ...]
    counts: tuple[int, ...]
    percentiles: tuple[Percentile, ...]
    modes: tuple[ModeShare, ...]


@dataclass(frozen=True)
class Times:
    """Samples of a case over all ranks, per call, in the order taken; ``kept_ns`` without those that outside
    evidence speaks against (``stats.outliers.exclude``).
    """

    call_ns: Float64Array
    flagged: int
    calls_per_sample: int
    single_calls: bool = False
    kept_ns: Float64Array = field(default_factory=lambda: np.empty(0))


def case_times(case: int, time: str, samples: npt.NDArray[np.void]) -> tuple[Times, ...]:
    """The samples of one case, then those of its pass of single calls, if it has one.

    ``time`` is the plan's ``timing.time``: how a sample comes from those of the ranks. Empty where the record
    has no samples of the case.
    """
    mine = samples[samples["case"] == case]
    single = (mine["flags"] & SampleFlag.SINGLE_CALL) != 0
    found = []
    for rows, is_single in ((mine[~single], False), (mine[single], True)):
        if not (rows["rank"] == MAX_OVER_RANKS).any():
            continue
        # Of the rows over all ranks, those that the case's number is made from: HEADLINE where it differs.
        made_from = MIN_OVER_RANKS if time in _TIMES_OF_THE_SHORTEST else MAX_OVER_RANKS
        own = rows[rows["rank"] == (HEADLINE if (rows["rank"] == HEADLINE).any() else made_from)]
        flagged = int(np.count_nonzero(own["flags"] & ~SampleFlag.SINGLE_CALL))
        times = own["elapsed_ns"] / own["k"]
        kept = times[exclude(own["flags"], EXCLUDING).kept]
        found.append(Times(times, flagged, int(own["k"][0]), is_single, kept))
    return tuple(found)


def distributions(case: int, time: str, samples: npt.NDArray[np.void]) -> tuple[Distribution, ...]:
    """How the samples of one case spread, each part of ``case_times``. Raises UsageError without any."""
    parts = case_times(case, time, samples)
    if not parts:
        raise UsageError(
            f"the record has no samples of case {case}",
            hint="`busbw show` shows what is stored of it; imported logs have no samples",
        )
    return tuple(_distribution(case, part) for part in parts)


def _distribution(case: int, times: Times) -> Distribution:
    values = times.call_ns
    low, high = float(values.min()), float(values.max())
    scale = Scale.LOG if low > 0 and high >= _LOG_RATIO * low else Scale.LINEAR
    bins = min(_MOST_BINS, max(_FEWEST_BINS, math.ceil(math.sqrt(len(values)))))
    # Both give the ends exactly, so the least and the largest value are inside.
    spaced = np.geomspace if scale is Scale.LOG else np.linspace
    edges = spaced(low, high, bins + 1) if low < high else np.array([low, high])
    counts, _ = np.histogram(values, edges)
    modes = find_modes(values)
    return Distribution(
        case=case,
        single_calls=times.single_calls,
        samples=len(values),
        kept=len(times.kept_ns),
        flagged=times.flagged,
        calls_per_sample=times.calls_per_sample,
        scale=scale,
        edges_ns=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        percentiles=tuple(Percentile(p, percentile(times.kept_ns, p), least_samples(p)) for p in PERCENTS),
        modes=tuple(ModeShare(mode.centre, mode.weight) for mode in (modes.low, modes.high)) if modes else (),
    )


@dataclass(frozen=True)
class Tail:
    """The pass of single calls beside samples of k calls each, which thin single slow calls out. ``far`` lie
    beyond 14.8 MAD of these single calls; ``p99_ns`` needs 299 of them.
    """

    calls: int
    p99_ns: float | None
    max_ns: float
    far: int


@dataclass(frozen=True)
class Spread:
    """The samples of one case over all ranks, per call: all that the record has, also those that its
    ``result`` leaves out on outside evidence. ``mean_ns`` is the mean of them: where
    a sample is the maximum over ranks it is no less than what nccl-tests prints (``nccl_tests_mean_ns``).

    ``p99_ns`` needs 299 samples. ``far`` lie beyond 14.8 MAD. ``modes`` are two where the samples fall into
    two groups. ``tail`` is of other samples than all these.
    """

    case: Case
    result: CaseResult
    samples: int
    calls_per_sample: int
    mean_ns: float
    deviation_ns: float
    p99_ns: float | None
    max_ns: float
    far: int
    modes: Modes | None
    tail: Tail | None = None

    @property
    def cv(self) -> float:
        """Standard deviation over mean."""
        return self.deviation_ns / self.mean_ns if self.mean_ns else 0.0

    @property
    def headline_ns(self) -> float:
        """The case's time."""
        return self.result.time_ns or 0.0


def nccl_tests_mean_ns(digests: npt.NDArray[np.void], case: int) -> float | None:
    """What nccl-tests would print of a case: the mean over its calls on each rank, then the mean over ranks
    (its -a 1, the default). None where the record has no digests of the ranks.
    """
    own = digests[digests["case"] == case]
    return float(own["mean_ns"].mean()) if len(own) else None


def spreads(record: RunRecord, samples: npt.NDArray[np.void]) -> tuple[Spread, ...]:
    """Of every good case that has samples in the record, in order."""
    found, samples_of = [], _rows_by_case(samples)
    for case, result in record.timed:
        if parts := case_times(case.index, record.plan.timing.time, samples_of(case.index)):
            found.append(_spread(case, result, parts))
    return tuple(found)


def _spread(case: Case, result: CaseResult, parts: Sequence[Times]) -> Spread:
    own, values = parts[0], parts[0].call_ns
    tails = [
        Tail(len(calls), percentile(calls, 99), float(calls.max()), count_outliers(calls))
        for calls in (part.call_ns for part in parts[1:])
    ]
    return Spread(
        case=case,
        result=result,
        samples=len(values),
        calls_per_sample=own.calls_per_sample,
        mean_ns=float(values.mean()),
        deviation_ns=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        p99_ns=percentile(values, 99),
        max_ns=float(values.max()),
        far=count_outliers(values),
        modes=find_modes(values),
        tail=tails[0] if tails else None,
    )


# Samples that a run once had and its file has no more. Pure.
#
# A file that is cut in the middle of a sample shows it by itself; one cut between two samples only lacks what
# the results and the digests count. Half of a case would then pass for all of it.

Rows = npt.NDArray[np.void]


@dataclass(frozen=True)
class MissingSamples:
    """One case: ``found`` of at least ``expected`` rows are there."""

    case: int
    found: int
    expected: int

    def __str__(self) -> str:
        return f"samples of case {self.case} are missing: {self.found} of {self.expected} records are there"


def missing_samples(record: RunRecord, samples: Rows, digests: Rows) -> tuple[MissingSamples, ...]:
    """The finished cases that have fewer samples than were kept of them. ``samples`` are SAMPLE_DTYPE rows,
    ``digests`` DIGEST_DTYPE rows, of the whole run; where its file of samples is not there at all, that is
    what to say (``record.absent``).
    """
    found = []
    samples_of, digests_of = _rows_by_case(samples), _rows_by_case(digests)
    all_kept = record.world is not None and record.world.size <= record.plan.raw_ranks
    for result in record.results:
        rows, own = samples_of(result.case), digests_of(result.case)
        rows = rows[(rows["flags"] & SampleFlag.SINGLE_CALL) == 0]
        # Without digests, those of the headline alone: some may have been left out of it.
        taken = int(own["samples"].max()) if len(own) else result.samples
        series = {MAX_OVER_RANKS, *rows["rank"].tolist(), *(own["rank"].tolist() if all_kept else ())}
        if result.samples and len(rows) < taken * len(series):
            found.append(MissingSamples(result.case, len(rows), taken * len(series)))
    return tuple(found)


def _rows_by_case(rows: Rows) -> Callable[[int], Rows]:
    """The rows of one case: they are sorted once, as there may be thousands of cases."""
    ordered = rows[np.argsort(rows["case"], kind="stable")]
    cases = np.ascontiguousarray(ordered["case"])
    return lambda case: ordered[slice(*np.searchsorted(cases, (case, case + 1)))]


def without_result(record: RunRecord, samples: Rows) -> tuple[int, ...]:
    """The cases of which there are samples and no result: its line was cut off, or a kill came between."""
    known = {result.case for result in record.finished}
    return tuple(case for case in np.unique(samples["case"]).tolist() if case not in known)


DETAIL_PERCENTS: Final = (50.0, 90.0, 95.0, 99.0, 99.9)
NOT_KNOWN: Final = "n/a"


@dataclass(frozen=True)
class StoredValue:
    """A name as in the record, with its unit, and the value as text."""

    name: str
    value: str


@dataclass(frozen=True)
class Detail:
    """``stored`` is what run.json has about a case, ``sampled`` what follows from its samples."""

    case: int
    stored: tuple[StoredValue, ...]
    sampled: tuple[StoredValue, ...]


def case_detail(record: RunRecord, case: int, samples: npt.NDArray[np.void]) -> Detail:
    """Describe one case of the plan, measured or not. Empty fields are left out; None is n/a."""
    told: list[Case | CaseResult] = [record.plan.cases[case]]
    told += [result for result in record.results if result.case == case]
    stored = [
        fact
        for value in told
        for each in fields(value)
        if each.name not in {"index", "case"}
        for fact in _facts(each.name, getattr(value, each.name))
    ]
    parts = case_times(case, record.plan.timing.time, samples)
    return Detail(case, tuple(stored), tuple(fact for part in parts for fact in _sampled(part)))


def _facts(name: str, value: object) -> Iterator[StoredValue]:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _facts(f"{name}.{key}", inner)
    elif name == "neighbours" and isinstance(value, tuple):
        for neighbour in value:
            yield from _facts(f"{name}.{neighbour.what}", neighbour)
    elif value is None:
        yield StoredValue(name, NOT_KNOWN)
    elif value not in ("", ()):
        yield StoredValue(name, _text(value))


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, tuple | list):
        return ", ".join(_text(item) for item in value)
    return str(value)


def _sampled(times: Times) -> Iterator[StoredValue]:
    values, prefix = times.call_ns, "single_call." if times.single_calls else ""
    yield StoredValue(f"{prefix}min_ns", _text(float(values.min())))
    for percent in DETAIL_PERCENTS:
        value, needed = percentile(values, percent), least_samples(percent)
        few = f"{NOT_KNOWN} (needs {needed} samples, has {len(values)})"
        yield StoredValue(f"{prefix}p{percent:g}_ns", few if value is None else _text(value))
    yield StoredValue(f"{prefix}max_ns", _text(float(values.max())))
