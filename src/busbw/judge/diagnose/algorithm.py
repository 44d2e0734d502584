"""Which algorithm ran, by what the library was seen to say; and whether settings took the choice from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from busbw.errors import UsageError
from busbw.judge.diagnose.subject import Subject, concluded, hint_of_tool
from busbw.judge.traffic import settings_of
from busbw.model.collective import COLLECTIVES
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.tuning_line import tuning_lines
from busbw.plan.presets.preset import ENGINE_SECTIONS, read_preset
from busbw.units import format_size

# What takes a choice or a path within a host from NCCL, and what that does; a row each. What
# chooses the network is no algorithm's (``expected``).
_FORCING: Final[Mapping[str, str]] = {
    "NCCL_ALGO": "restricts the algorithms",
    "NCCL_PROTO": "restricts the protocols",
    "NCCL_P2P_DISABLE": "sends data between GPUs through host memory, not over NVLink or PCIe",
    "NCCL_P2P_LEVEL": "restricts which GPUs reach each other directly",
    "NCCL_SHM_DISABLE": "sends data between ranks of a host through the network",
    "NCCL_NVLS_ENABLE": "switches reduction in the NVSwitch on or off",
    "NCCL_COLLNET_ENABLE": "switches reduction in the network on or off",
    "NCCL_MIN_NCHANNELS": "sets the channels",
    "NCCL_MAX_NCHANNELS": "sets the channels",
    "NCCL_MIN_CTAS": "sets the channels",
    "NCCL_MAX_CTAS": "sets the channels",
    "NCCL_TUNER_PLUGIN": "lets a plugin choose",
    "NCCL_SYM_KERNEL": "forces a symmetric kernel",
}
# Values that leave things as they would be: NCCL's defaults (its documentation of variables), and empty ones.
_NEUTRAL: Final[Mapping[str, str]] = {
    "NCCL_P2P_DISABLE": "0",
    "NCCL_SHM_DISABLE": "0",
    "NCCL_COLLNET_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "2",
    "NCCL_TUNER_PLUGIN": "none",
}


def _settings(subject: Subject) -> Iterator[Conclusion]:
    """A warning for what the user set, and a word on what the run's presets did."""
    if subject.record.plan.backend == "mpi":
        return  # the variables are NCCL's
    found = {
        name: value
        for name, value in settings_of(subject.record).items()
        if name in _FORCING and value not in ("", _NEUTRAL.get(name, ""))
    }
    by_preset = _by_preset(subject, found)
    forced = {name: value for name, value in found.items() if name not in by_preset}
    if by_preset:
        yield concluded(
            "as its preset asks: "
            + ", ".join(f"{name}={found[name]} ({preset})" for name, preset in by_preset.items()),
            evidence="; ".join(f"{name} {_FORCING[name]}" for name in by_preset),
            check="algorithm.preset",
            answer=Answer.NOT_OBSERVABLE,  # it neither shows an algorithm nor spoils the choice
            facts=tuple(Fact(name, found[name], source=preset) for name, preset in by_preset.items()),
        )
    if forced:
        yield concluded(
            "the library did not choose freely: "
            + ", ".join(f"{name}={value}" for name, value in forced.items()),
            evidence="; ".join(f"{name} {_FORCING[name]}" for name in forced),
            hint=f"measure without: env {' '.join(f'-u {name}' for name in forced)} busbw run ...",
            check="algorithm.forced",
            answer=Answer.NO,
            facts=tuple(Fact(name, value, source=_FORCING[name]) for name, value in forced.items()),
        )


def _by_preset(subject: Subject, found: Mapping[str, str]) -> dict[str, str]:
    """Of these settings, those with the value of a preset of the run (on any engine), and which it is."""
    who: dict[str, str] = {}
    for used in map(str, subject.record.settings.get("presets_used") or ()):
        plain, _, date = used.partition("@")  # of the newest values the date is no version
        environs: list[Mapping[str, str]] = []
        for name in (used, plain):
            with contextlib.suppress(UsageError):  # a user's file that is not here
                preset = read_preset(name, subject.preset_files)
                if preset.date == date and not environs:
                    environs = [preset.environ(engine) for engine in ("", *ENGINE_SECTIONS)]
        for name, value in found.items():
            if any(environ.get(name) == value for environ in environs):
                who[name] = f"preset {used}"
    return who


class _Seen(NamedTuple):
    """What was seen of one case; ``channels`` is 0 where it is not known."""

    operation: str
    size: int
    words: str
    channels: int = 0


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnose.engine.Rule``."""
    yield from _observed(subject)
    yield from _settings(subject)


def _hint(subject: Subject) -> str:
    record = subject.record
    if record.source is not None:
        return hint_of_tool(record.source.tool, Question.ALGORITHM)
    if record.plan.backend != "nccl":
        return "MPI does not report its algorithm; check its tuning variables"
    if "algorithm" in record.plan.evidence:
        return "NCCL reported nothing: use NCCL 2.23 or newer, or its log (NCCL_DEBUG=INFO)"
    return "measure with --evidence algorithm (NCCL 2.23 and newer)"


def _observed(subject: Subject) -> Iterator[Conclusion]:
    choices = [result.choice for _, result in subject.record.timed if result.choice is not None]
    seen = []
    for case, result in subject.record.timed:
        words, channels, choice = result.algorithm, 0, result.choice
        if choice is not None:
            # Sends and receives have no algorithm, and are shown by their names.
            pairs = " and ".join(choice.functions) if set(choice.functions) <= {"Send", "Recv"} else ""
            words, channels = words or pairs, choice.channels or 0
        if words:
            seen.append(_Seen(case.collective, case.size_bytes, words, channels))
    source = f"NCCL's {choices[0].source} of one untimed call" if choices else "the record"
    if lines := _from_log(subject):
        source, seen = "lines of NCCL in the log", lines
    if not seen:
        yield concluded(
            "the algorithm was not observed, and busbw does not guess it",
            hint=_hint(subject),
            check="algorithm.observed",
        )
        return
    # NCCL's own agreement is broken, or one rank's settings are others.
    if differing := [choice.other_ranks for choice in choices if choice.other_ranks]:
        many, of = len(differing), len(choices)
        yield concluded(
            f"in {many} of {of} cases ranks differ in algorithm, protocol or number of channels",
            evidence=f"up to {max(differing)} ranks differ from rank 0",
            hint="compare the ranks' variables and libraries: `busbw preflight`",
            check="algorithm.ranks",
            answer=Answer.NO,
            facts=(Fact("cases", many, f"of {of}"),),
        )
    for operation, rows in groupby(sorted(set(seen)), key=lambda row: row.operation):
        yield _ranges(operation, rows, source)


def _ranges(operation: str, rows: Iterable[_Seen], source: str) -> Conclusion:
    """Neighbouring sizes of one algorithm are one range."""
    said, facts = [], []
    for _, alike in groupby(rows, key=lambda row: row.words):
        own = list(alike)
        low, high, how = format_size(own[0].size), format_size(own[-1].size), _how(own)
        said.append(f"{how} at {low}" + (f" to {high}" if high != low else ""))
        facts.append(Fact(f"{operation} {low} to {high}", how, source=source))
    claim = f"{operation}: {'; '.join(said)}"
    return concluded(claim, check="algorithm.observed", answer=Answer.YES, facts=tuple(facts))


# NCCL's names of functions without capitals, and ours.
_OURS: Final = {row.name.replace("_", ""): row.name for row in COLLECTIVES}


def _from_log(subject: Subject) -> list[_Seen]:
    """What lines of NCCL in a log say of all calls, also of those that are no case of the table. Those
    without a function are of the log's operation.
    """
    source = subject.record.source
    told = source.evidence.get("algorithm", ()) if source is not None else ()
    own = subject.record.plan.cases[0].collective if subject.record.plan.cases else ""
    seen = []
    for line in tuning_lines("\n".join(told)):
        size = line.size_bytes(subject.together)
        name = _OURS.get(line.function.lower(), line.function) or own
        seen.append(
            _Seen(
                name if size is not None else f"{name} (one rank's part)",
                line.told_bytes if size is None else size,
                line.choice.words,
                line.choice.channels or 0,
            )
        )
    return seen


def _how(seen: list[_Seen]) -> str:
    counts = [each.channels for each in seen if each.channels]
    if not counts:
        return seen[0].words
    low, high = min(counts), max(counts)
    many = f"{low} to {high}" if low < high else f"{high}"
    return f"{seen[0].words}, {many} channel{'s' if high > 1 else ''}"
