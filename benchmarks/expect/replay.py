"""Does ``busbw expect`` call good launches expected, and find a loss? On kept and simulated launches.

Each launch is judged in turn. Its reference is made of other launches, and what is known of the scatter comes
from launches that are in neither. A loss is planted by making every time of the judged launch longer.

    python benchmarks/expect/replay.py                # launches behind the curves that come with busbw
    python benchmarks/expect/replay.py RUN_FOLDER...  # launches of your own, of one machine
    python benchmarks/expect/replay.py --simulated
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from busbw_testing.compared import record_of

from busbw.judge.expectation import Judgement, expect
from busbw.judge.launch_history import launch_of, on_device, prior_of
from busbw.judge.own_reference import launches_of, reference_of
from busbw.judge.references.load import built_in
from busbw.judge.references.reference import Reference
from busbw.judge.scatter import Prior, SizeClass, size_class
from busbw.model.record import RunRecord
from busbw.record.read import read_record

LOSSES = (0.0, 0.05, 0.10, 0.20, 0.50)
OF_REFERENCE = 3  # launches
SIZES = tuple(2**power for power in range(20, 31))
TRIALS = 200


@dataclass(frozen=True)
class Trial:
    """A launch, its reference, and launches that are in neither."""

    judged: RunRecord
    reference: Sequence[RunRecord]
    history: Sequence[RunRecord]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path, help="run folders of one machine")
    parser.add_argument("--simulated", action="store_true")
    given = parser.parse_args()
    losses = " | ".join(f"{loss:.0%} lost: found" for loss in LOSSES[1:])
    print(f"| launches | sizes | rows | good: expected / below / undecided | {losses} | loss unseen |")
    print("|---|---|---|---|" + "---|" * len(LOSSES))
    if given.simulated:
        for name, trials in simulated():
            show(name, trials)
    elif given.runs:
        show("given", of_runs([read_record(folder) for folder in given.runs]))
    else:
        for reference in built_in():
            if reference.kind == "own" and reference.launches > OF_REFERENCE + 1 and not reference.left_out:
                show(reference.name, in_turn(launches_of_curve(reference)))


def of_runs(records: Sequence[RunRecord]) -> Iterator[Trial]:
    """Few launches: all others are the reference, and nothing is known but the defaults."""
    if len(records) > OF_REFERENCE + 1:
        yield from in_turn(records)
        return
    for number, record in enumerate(records):
        yield Trial(record, [*records[:number], *records[number + 1 :]], ())


def in_turn(records: Sequence[RunRecord]) -> Iterator[Trial]:
    """Each launch against the next few, with the rest as history."""
    for number, record in enumerate(records):
        others = [*records[number + 1 :], *records[:number]]
        yield Trial(record, others[:OF_REFERENCE], others[OF_REFERENCE:])


def launches_of_curve(reference: Reference) -> list[RunRecord]:
    """The launches behind a curve that comes with busbw, out of place, as runs on GPUs."""
    points = [point for point in reference.points if point.placement == "out-of-place"]
    operation = reference.operation
    return [
        on_gpus(
            record_of(
                {point.size_bytes: point.times_us[number] for point in points},
                operation=operation, ranks=reference.ranks, name=f"launch-{number}", within=0.0,
            )
        )
        for number in range(reference.launches)
    ]  # fmt: skip


def on_gpus(record: RunRecord) -> RunRecord:
    return replace(record, plan=replace(record.plan, backend="nccl"))


def simulated() -> Iterator[tuple[str, Iterable[Trial]]]:
    """Launches whose sizes scatter independently, with the scatter known from 12 launches, or by default."""
    draw = random.Random(27)
    for scatter in (0.01, 0.03, 0.15):
        for known in (12, 0):
            for reference in (1, 3, 10):
                name = f"{scatter:.0%} scatter, {known or 'no'} launches known, reference of {reference}"
                yield name, [_simulated(draw, scatter, reference, known) for _ in range(TRIALS)]


def _simulated(draw: random.Random, scatter: float, reference: int, known: int) -> Trial:
    def launch(number: int) -> RunRecord:
        times = {size: 100.0 * math.exp(draw.gauss(0, scatter)) for size in SIZES}
        return on_gpus(record_of(times, name=f"launch-{number}", within=0.0))

    made = [launch(number) for number in range(1 + reference + known)]
    return Trial(made[0], made[1 : 1 + reference], made[1 + reference :])


def show(name: str, trials: Iterable[Trial]) -> None:
    """One line of the table a class of sizes."""
    answers: dict[tuple[SizeClass, float], Counter[Judgement]] = defaultdict(Counter)
    unseen: dict[SizeClass, list[float]] = defaultdict(list)
    for trial in trials:
        (reference,) = reference_of("others", trial.reference[0], launches_of(trial.reference))
        prior = known_of(trial)
        for loss in LOSSES:
            for case in expect([slower(trial.judged, loss)], [reference], named=True, prior=prior).cases:
                if case.reference:
                    sizes = size_class(case.key.size_bytes)
                    answers[sizes, loss][case.answer] += 1
                    unseen[sizes].append(case.loss_unseen or 0.0)
    for sizes, losses in unseen.items():
        good = answers[sizes, 0.0]
        shares = [
            f"{good[each] / good.total():.1%}"
            for each in (Judgement.EXPECTED, Judgement.BELOW, Judgement.UNDECIDED)
        ]
        found = [f"{answers[sizes, loss][Judgement.BELOW] / good.total():.1%}" for loss in LOSSES[1:]]
        cells = (name, sizes.value, good.total(), " / ".join(shares), *found, f"{median(losses):.1%}")
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def known_of(trial: Trial) -> Prior:
    """By launches that are neither judged nor in the reference."""
    kept = [launch_of(record, f"history/{number}") for number, record in enumerate(trial.history)]
    found = prior_of([launch for launch in kept if launch is not None], trial.judged)
    return replace(found, on_device=on_device(trial.judged))


def slower(record: RunRecord, loss: float) -> RunRecord:
    """The run with a share of its bandwidth lost."""
    factor = 1 / (1 - loss)

    def longer(time_ns: float | None) -> float | None:
        return None if time_ns is None else time_ns * factor

    results = tuple(
        replace(
            result,
            time_ns=longer(result.time_ns),
            low_ns=longer(result.low_ns),
            high_ns=longer(result.high_ns),
            busbw_gb_per_s=None if result.busbw_gb_per_s is None else result.busbw_gb_per_s / factor,
            algbw_gb_per_s=None if result.algbw_gb_per_s is None else result.algbw_gb_per_s / factor,
        )
        for result in record.results
    )
    return replace(record, results=results)


if __name__ == "__main__":
    main()
