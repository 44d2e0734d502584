"""Hunts that were recorded with all their rounds: real noise, and real faults. Rules of version 0.1 chose the
rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from busbw.model.hunt import METRICS, RESENT, PairTest, Round, RoundResult, Rules, Stage

_FOLDER: Final = Path(__file__).parents[3] / "benchmarks/isolate/results"
# Between eight hosts in network namespaces, one of which may have a fault; between 4 x H100 (NCCL 2.28.9), of
# which one may have been slowed by a program that copied in its memory.
_HOSTS: Final = _FOLDER / "2026-11-26-8-hosts-rounds-1212.jsonl"
_GPUS: Final = _FOLDER / "2026-11-26-4-gpus-rounds.jsonl"


@dataclass(frozen=True)
class Recorded:
    """``place`` is the part that has the ``fault``, None where none has."""

    fault: str
    place: int | None
    parts: int
    rules: Rules
    rounds: tuple[RoundResult, ...]


def of_hosts() -> Iterator[Recorded]:
    """In the order in which they were run."""
    for line in _HOSTS.read_text().splitlines():
        fields = json.loads(line)
        rounds = tuple(
            _round(number, stage, tests, stalled)
            for number, (stage, stalled, tests) in enumerate(fields["rounds"])
        )
        place = int(fields["place"].removeprefix("h")) - 1 if fields["place"] else None
        yield Recorded(fields["fault"], place, 8, Rules(metrics=(*METRICS, RESENT)), rounds)


def of_gpus() -> Iterator[Recorded]:
    """In the order in which they were run."""
    for line in _GPUS.read_text().splitlines():
        fields = json.loads(line)
        rounds = tuple(_round(each["number"], each["stage"], each["tests"]) for each in fields["rounds"])
        fault = "none" if fields["slowed"] is None else "busy"
        yield Recorded(fault, fields["slowed"], 4, Rules(metrics=METRICS), rounds)


def _round(number: int, stage: str, tests: list[Any], stalled: float = 0.0) -> RoundResult:
    turn = Round(number, Stage(stage), tuple((one, other) for one, other, _ in tests))
    found = tuple(PairTest(one, other, _times(times)) for one, other, times in tests)
    return RoundResult(turn, found, stalled=stalled)


def _times(times: dict[str, list[list[float]]]) -> dict[str, Any]:
    return {metric: tuple(map(tuple, ways)) for metric, ways in times.items()}
