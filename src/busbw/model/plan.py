"""A plan: everything the ranks need to know before they measure, as one plain value."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from busbw.model.case import Case
from busbw.model.collective import Placement

PLAN_VERSION = 1


@dataclass(frozen=True)
class Limits:
    """When to stop, and what is not counted.

    ``calls`` fixes the number of timed calls (then nothing is adaptive); None samples until the interval of
    the median is narrower than +-``precision`` (``small_precision`` below ``small_ns``), or a cap is reached.
    """

    calls: int | None = None
    warmup_calls: int | None = None
    precision: float = 0.01
    small_precision: float = 0.025
    small_ns: float = 50_000.0
    max_samples: int = 1000
    case_seconds: float = 0.5


@dataclass(frozen=True)
class Plan:
    """What to measure, in order, and how.

    ``buffer_bytes`` is the size of each of the two buffers of a rank (send, receive): the largest size of
    the sweep, as in nccl-tests, so that smaller sizes rotate through it.
    """

    backend: str
    cases: tuple[Case, ...]
    buffer_bytes: int
    limits: Limits
    checks: int
    seed: int
    rotate: bool = True
    nccl_path: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({"version": PLAN_VERSION, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """The inverse of to_json; ranks have no pydantic, so the nesting is spelled out."""
        fields = json.loads(text)
        if fields.pop("version") != PLAN_VERSION:
            raise ValueError("the plan was made by another version of busbw")
        cases = tuple(
            Case(**{**case, "placement": Placement(case["placement"])}) for case in fields.pop("cases")
        )
        return cls(cases=cases, limits=Limits(**fields.pop("limits")), **fields)
