"""Hunts between eight hosts that were recorded with all their rounds (``benchmarks/isolate/campaign.py``)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from busbw.model.hunt import METRICS, RESENT, PairTest, Round, RoundResult, Rules, Stage

_FOLDER: Final = Path(__file__).parents[3] / "benchmarks/isolate/results"
# By the seeds of their campaigns.
RECORDED: Final = tuple(_FOLDER / f"2026-11-26-8-hosts-rounds-{seed}.jsonl" for seed in (1212, 1313))
HOSTS: Final = 8


@dataclass(frozen=True)
class Recorded:
    """``place`` is the host that has the ``fault``, empty where none has. ``decided`` and ``named`` are what
    was concluded on that day.
    """

    fault: str
    place: str
    decided: str
    named: tuple[str, ...]
    load: float
    rules: Rules
    rounds: tuple[RoundResult, ...]


def recorded() -> list[Recorded]:
    """All of them, in the order in which they were run."""
    return [_read(json.loads(line)) for path in RECORDED for line in path.read_text().splitlines()]


def _read(fields: dict[str, Any]) -> Recorded:
    rounds = tuple(
        RoundResult(
            Round(number, Stage(stage), tuple((one, other) for one, other, _ in tests)),
            tuple(PairTest(one, other, _times(times)) for one, other, times in tests),
            stalled=stalled,
        )
        for number, (stage, stalled, tests) in enumerate(fields["rounds"])
    )
    rules = Rules(metrics=(*METRICS, RESENT), seed=fields["seed"])
    told = (fields["fault"], fields["place"], fields["decided"], tuple(fields["named"]), fields["load"])
    return Recorded(*told, rules, rounds)


def _times(times: dict[str, list[list[float]]]) -> dict[str, Any]:
    return {metric: tuple(map(tuple, ways)) for metric, ways in times.items()}
