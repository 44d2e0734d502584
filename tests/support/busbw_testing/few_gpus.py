"""GPUs of one host in simulation: their small messages take what recorded ones took.

Recorded are 15 hunts of 4 x H100 (NCCL 2.28.9, 26 November 2026), in 8 of which a program copied in one GPU's
memory. They were run by earlier rules, whose conclusions are kept beside.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, PairTest, Round, RoundResult

RECORDED: Final = Path(__file__).parents[3] / "benchmarks/isolate/results/2026-11-26-4-gpus-rounds.jsonl"
METRICS: Final = (BANDWIDTH, LATENCY, QUICKEST)
_WIDE_NS: Final = 2.6e5  # 64 MiB between idle GPUs
_KEPT: Final = 0.45  # of its bandwidth, by a GPU whose memory is busy
_LOST_BESIDE: Final = (0.01, 0.03, 0.05, 0.08)  # one way, by the GPUs beside a busy one
_LATE_NS: Final = (14500, 16000)  # the mean of messages with a busy GPU
_QUICK_NS: Final = (6400, 7100)  # and the quickest: its clock is up


def recorded() -> list[dict[str, Any]]:
    """The hunts: ``slowed`` is the busy GPU or None, ``decided`` what was concluded, and the ``rounds``."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def small_messages() -> list[list[tuple[float, float]]]:
    """By round of the hunts in which no GPU was busy, the mean and the quickest of each test, in ns."""
    return [
        [(each[2][LATENCY][0][0], each[2][QUICKEST][0][0]) for each in turn["tests"]]
        for hunt in recorded()
        if hunt["slowed"] is None
        for turn in hunt["rounds"]
    ]


def gpus(
    busy: int | None, generator: random.Random, small: list[list[tuple[float, float]]]
) -> Callable[[Round], RoundResult]:
    """What rounds take, among GPUs of which one may be ``busy``; ``small`` is that of ``small_messages``."""

    def test_of(pair: tuple[int, int], messages: tuple[float, float]) -> PairTest:
        late, quick = (each * generator.lognormvariate(0, 0.03) for each in messages)
        there, back = (_WIDE_NS * generator.lognormvariate(0, 0.005) for _ in range(2))
        if busy in pair:
            there, back = (each / _KEPT * generator.lognormvariate(0, 0.05) for each in (there, back))
            late, quick = generator.uniform(*_LATE_NS), generator.uniform(*_QUICK_NS)
        elif busy is not None:
            back /= 1 - generator.choice(_LOST_BESIDE)
        times = {BANDWIDTH: ((there,), (back,)), LATENCY: ((late,), (late,)), QUICKEST: ((quick,), (quick,))}
        return PairTest(*pair, times)

    def run(turn: Round) -> RoundResult:
        messages = itertools.cycle(generator.choice(small))
        return RoundResult(turn, tuple(map(test_of, turn.pairs, messages)))

    return run
