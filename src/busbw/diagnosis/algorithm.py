"""Which algorithm ran, by what the library was seen to say; and whether settings took the choice from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from busbw.diagnosis import profiled
from busbw.diagnosis.subject import Subject
from busbw.model.choice import Choice
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.units import format_size

_QUESTION = Question.ALGORITHM
# What takes a choice or a path from NCCL, and what that does; a row each.
_FORCING: Final[Mapping[str, str]] = {
    "NCCL_ALGO": "restricts the algorithms",
    "NCCL_PROTO": "restricts the protocols",
    "NCCL_P2P_DISABLE": "sends data between GPUs through host memory, not over NVLink or PCIe",
    "NCCL_P2P_LEVEL": "restricts which GPUs reach each other directly",
    "NCCL_SHM_DISABLE": "sends data between ranks of a host through the network",
    "NCCL_NVLS_ENABLE": "switches reduction in the NVSwitch on or off",
    "NCCL_IB_DISABLE": "sends data over TCP instead of InfiniBand or RoCE",
    "NCCL_COLLNET_ENABLE": "switches reduction in the network on or off",
    "NCCL_MIN_NCHANNELS": "sets the channels",
    "NCCL_MAX_NCHANNELS": "sets the channels",
    "NCCL_MIN_CTAS": "sets the channels",
    "NCCL_MAX_CTAS": "sets the channels",
    "NCCL_TUNER_PLUGIN": "lets a plugin choose",
    "NCCL_SYM_KERNEL": "forces a symmetric kernel",
}
# Values that leave things as they would be.
_NEUTRAL: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(("0", "")) for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")
}
_SETTING: Final = re.compile(r"(NCCL_\w+) (.+)")
_TUNED: Final = re.compile(r"(\w+) (\d+) (\S+) (\S+)")


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnosis.engine.Rule``."""
    yield from _of_run(subject)
    yield from profiled.algorithm(subject)


def _of_run(subject: Subject) -> Iterator[Conclusion]:
    yield from _observed(subject)
    if subject.record.plan.backend == "mpi":
        return  # the variables are NCCL's
    forced = {name: value for name, value in _settings(subject).items() if _forces(name, value)}
    if forced:
        yield Conclusion(
            Severity.WARNING,
            "the library did not choose freely: "
            + ", ".join(f"{name}={value}" for name, value in forced.items()),
            evidence="; ".join(f"{name} {_FORCING[name]}" for name in forced),
            hint=f"measure without: env {' '.join(f'-u {name}' for name in forced)} busbw run ...",
            check="algorithm.forced",
            question=_QUESTION,
            answer=Answer.NO,
            facts=tuple(Fact(name, value, source=_FORCING[name]) for name, value in forced.items()),
        )


def _forces(name: str, value: str) -> bool:
    return name in _FORCING and value not in _NEUTRAL.get(name, frozenset(("",)))


def _settings(subject: Subject) -> dict[str, str]:
    """Of rank 0's environment and NCCL's own files, the environment last because it wins; of a log, those
    that NCCL told.
    """
    record = subject.record
    found: dict[str, str] = {}
    for file in reversed(record.environment.get("nccl_config", ())):
        found |= dict(file["settings"])
    found |= record.environment.get("variables", {})
    if record.source is not None:
        told = record.source.evidence.get("setting", ())
        found |= {match[1]: match[2] for text in told if (match := _SETTING.fullmatch(text))}
    return found


def _observed(subject: Subject) -> Iterator[Conclusion]:
    choices = [result.choice for _, result in subject.timed if result.choice is not None]
    seen = [(case.collective, case.size_bytes, result.algorithm) for case, result in subject.timed
            if result.algorithm]  # fmt: skip
    source = f"NCCL's {choices[0].source} of one untimed call" if choices else "the record"
    if not seen and subject.record.source is not None:
        source = "lines of NCCL in the log"
        seen = list(_from_log(subject.record.source.evidence.get("algorithm", ())))
    if not seen:
        yield Conclusion(
            Severity.INFO,
            "which algorithm ran was not observed, and nothing is inferred",
            hint="measure with --evidence algorithm (NCCL 2.23 and newer); MPI libraries do not tell"
            if not subject.imported
            else "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING and import that log",
            check="algorithm.observed",
            question=_QUESTION,
        )
        return
    if differing := [choice for choice in choices if choice.other_ranks]:
        yield _differing(differing, len(choices))
    for operation, rows in groupby(sorted(seen), key=lambda row: row[0]):
        ranges = list(_ranges([(size, word) for _, size, word in rows]))
        yield Conclusion(
            Severity.INFO,
            f"{operation}: " + "; ".join(_range_words(*each) for each in ranges),
            check="algorithm.observed",
            question=_QUESTION,
            answer=Answer.YES,
            facts=tuple(
                Fact(f"{operation} {format_size(low)} to {format_size(high)}", word, source=source)
                for low, high, word in ranges
            ),
        )


def _differing(choices: Sequence[Choice], cases: int) -> Conclusion:
    """Ranks that did not do the same: NCCL's own agreement is broken, or one rank's settings are others."""
    return Conclusion(
        Severity.WARNING,
        f"in {len(choices)} of {cases} cases ranks told another algorithm, protocol or number of channels",
        evidence=f"up to {max(choice.other_ranks for choice in choices)} ranks differ from rank 0",
        hint="compare the ranks' variables and libraries: `busbw preflight`",
        check="algorithm.ranks",
        question=_QUESTION,
        answer=Answer.NO,
        facts=(Fact("cases", len(choices), f"of {cases}"),),
    )


def _from_log(lines: tuple[str, ...]) -> Iterator[tuple[str, int, str]]:
    """``AllReduce 26214400 TREE LL``, as ``importers.evidence`` keeps them."""
    for line in lines:
        if match := _TUNED.fullmatch(line):
            yield match[1], int(match[2]), f"{match[3]} {match[4]}"


def _ranges(sizes: list[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    """Neighbouring sizes of one algorithm as (first, last, algorithm)."""
    for word, group in groupby(sorted(set(sizes)), key=lambda pair: pair[1]):
        members = [size for size, _ in group]
        yield members[0], members[-1], word


def _range_words(low: int, high: int, word: str) -> str:
    return f"{word} at {format_size(low)}" + (f" to {format_size(high)}" if high > low else "")
