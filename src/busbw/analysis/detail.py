"""One case in full: everything that is stored about it, and what its samples add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from busbw.analysis.distribution import Times, case_times
from busbw.model.case import Case
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.stats.percentile import least_samples, percentile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PERCENTS: Final = (50.0, 90.0, 95.0, 99.0, 99.9)
NOT_KNOWN: Final = "n/a"


@dataclass(frozen=True)
class Fact:
    """A name as in the record, with its unit, and the value as text."""

    name: str
    value: str


@dataclass(frozen=True)
class Detail:
    """``stored`` is what run.json has about a case, ``sampled`` what follows from its samples."""

    case: int
    stored: tuple[Fact, ...]
    sampled: tuple[Fact, ...]


def detail(record: RunRecord, case: int, samples: npt.NDArray[np.void]) -> Detail:
    """Describe one case of the plan, measured or not. Empty fields are left out; None is n/a."""
    stored = list(_stored(record.plan.cases[case]))
    for result in record.results:
        if result.case == case:
            stored += _stored(result)
    parts = case_times(case, record.plan.timing.time, samples)
    return Detail(case, tuple(stored), tuple(fact for part in parts for fact in _sampled(part)))


def _stored(value: Case | CaseResult) -> Iterator[Fact]:
    for field in fields(value):
        if field.name not in {"index", "case"}:
            yield from _facts(field.name, getattr(value, field.name))


def _facts(name: str, value: object) -> Iterator[Fact]:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _facts(f"{name}.{key}", inner)
    elif value is None:
        yield Fact(name, NOT_KNOWN)
    elif value not in ("", ()):
        yield Fact(name, _text(value))


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, tuple | list):
        return ", ".join(_text(item) for item in value)
    return str(value)


def _sampled(times: Times) -> Iterator[Fact]:
    values, prefix = times.call_ns, "single_call." if times.single_calls else ""
    yield Fact(f"{prefix}min_ns", _text(float(values.min())))
    for percent in PERCENTS:
        value, needed = percentile(values, percent), least_samples(percent)
        few = f"{NOT_KNOWN} (needs {needed} samples, has {len(values)})"
        yield Fact(f"{prefix}p{percent:g}_ns", few if value is None else _text(value))
    yield Fact(f"{prefix}max_ns", _text(float(values.max())))
