"""Did settings take the choice from NCCL: the user's, or those of a preset that the run was made with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from busbw.analysis.ways import settings_of
from busbw.diagnosis.subject import Subject
from busbw.errors import UsageError
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.settings.preset import Preset, read_preset
from busbw.settings.preset_file import ENGINE_SECTIONS

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
# Values that leave things as they would be: NCCL's defaults (its documentation of variables), and empty ones.
_NEUTRAL: Final[Mapping[str, str]] = {
    "NCCL_P2P_DISABLE": "0",
    "NCCL_SHM_DISABLE": "0",
    "NCCL_IB_DISABLE": "0",
    "NCCL_COLLNET_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "2",
    "NCCL_TUNER_PLUGIN": "none",
}


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """A warning for what the user set, and a word on what the run's presets did."""
    if subject.record.plan.backend == "mpi":
        return  # the variables are NCCL's
    found = {name: value for name, value in settings_of(subject.record).items() if _forces(name, value)}
    by_preset = _by_preset(subject, found)
    forced = {name: value for name, value in found.items() if name not in by_preset}
    if by_preset:
        yield Conclusion(
            Severity.INFO,
            "as its preset asks: "
            + ", ".join(f"{name}={found[name]} ({preset})" for name, preset in by_preset.items()),
            evidence="; ".join(f"{name} {_FORCING[name]}" for name in by_preset),
            check="algorithm.preset",
            question=_QUESTION,
            answer=Answer.NOT_OBSERVABLE,  # it neither shows an algorithm nor spoils the choice
            facts=tuple(Fact(name, found[name], source=preset) for name, preset in by_preset.items()),
        )
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
    return name in _FORCING and value not in ("", _NEUTRAL.get(name, ""))


def _by_preset(subject: Subject, found: Mapping[str, str]) -> dict[str, str]:
    """Of these settings, those with the value of a preset of the run (on any engine), and which it is."""
    who: dict[str, str] = {}
    for used in subject.record.settings.get("presets_used") or ():
        preset = _preset(str(used), subject.preset_files)
        if preset is None:
            continue
        environs = [preset.environ(engine) for engine in ("", *ENGINE_SECTIONS)]
        for name, value in found.items():
            if any(environ.get(name) == value for environ in environs):
                who[name] = f"preset {used}"
    return who


def _preset(used: str, files: Sequence[Path]) -> Preset | None:
    """NAME@DATE as the record has it: of the newest values the date is no version; None where it is a user's
    file that is not here. ``files`` are the users' own.
    """
    for name in (used, used.partition("@")[0]):
        try:
            preset = read_preset(name, files)
        except UsageError:
            continue
        if preset.date == used.partition("@")[2]:
            return preset
    return None
