"""Which references say anything about a run, and what is taken on trust if they do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.judge import compare_arms
from busbw.judge.compare_arms import Arm, CaseKey
from busbw.judge.measured_with import otherwise_tuned, products_of, tuning_of
from busbw.judge.network import is_other, network_of, over_sockets
from busbw.judge.pattern import EVENLY, joined
from busbw.judge.references.reference import Reference
from busbw.judge.rotation import BEYOND_CACHES, rotated_bytes
from busbw.model.record import NOT_STATED, RunRecord

PLAIN: Final = "back to back, one GPU a process"
# More than launching, a wait or a barrier add to a call on any machine seen so far: 8 to 25 us on H200.
LAUNCH_PATH_NS: Final = 50_000.0
_LOOPS: Final = ("throughput", "max", "loop")  # of busbw: the mean over a loop of calls
_METHOD_WORDS: Final = {"graph": "CUDA graph"}
_BARRIER: Final = "a barrier between calls"
_EACH: Final = frozenset(("p99", "cv", "cv%"))  # of nccl-tests: printed under -I alone
_NCCL_TESTS: Final = "mean over the timed calls of one loop"


def how_timed(record: RunRecord) -> tuple[str, ...]:
    """Words for what is not ``PLAIN``; empty where everything is, or the log does not say it."""
    definition = compare_arms.definition(record)
    words = _defined(definition)
    if record.source is not None:  # what the header of nccl-tests' log says, and its list of ranks
        header, options = record.source.header, record.plan.options
        is_test = definition.startswith(_NCCL_TESTS)
        ranks = record.world.ranks if record.world is not None else ()
        pids = Counter((rank.host, rank.pid) for rank in ranks if rank.pid)
        told = str(header.get("gpus", ""))
        gpus = int(told) if re.fullmatch(r"\d+", told) else max(pids.values(), default=1)
        said = {
            "blocking": header.get("blocking") not in (None, "", 0),
            "CUDA graph": options.graph,
            f"{options.aggregate} in a group": options.aggregate > 1,
            "an event around each call": is_test
            and any(_EACH & result.stats.keys() for result in record.results),
            f"{gpus} GPUs of one process": gpus > 1,
        }
        words += [word for word, holds in said.items() if holds]
    return tuple(sorted(set(words)))


def otherwise(kind: MadeWith, reference: Reference) -> str:
    """How the two were timed, where that is not alike; empty where it is."""
    ours, theirs = list(kind.timed), sorted(_defined(reference.definition))
    if reference.timed:
        theirs = reference.timed.split("; ")
    if ours == theirs:
        return ""
    told = (", ".join(words) or PLAIN for words in (ours, theirs))
    return f"timed otherwise: the run {next(told)}; {reference.name} {next(told)}"


def other_buffers(ours: str, reference: Reference) -> str:
    """How the two's buffers lay, where both say it and it is not alike; else empty."""
    if not reference.buffers or ours in (NOT_STATED, reference.buffers):
        return ""
    return f"other buffers: the run {ours}; {reference.name} {reference.buffers}"


def _defined(definition: str) -> list[str]:
    """What a definition of time says; see ``compare_arms.definition``."""
    if definition.startswith("busbw "):
        words = definition.removeprefix("busbw ").split(", ")
        return [_METHOD_WORDS.get(word, word) for word in words if word not in _LOOPS]
    return [_BARRIER] if _BARRIER in definition else []


_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
# The library that is named first, its number, and what is said of it: "NCCL 2.20.3-1 (not stated for ...)".
_LIBRARY: Final = re.compile(r"\s*(?:([A-Za-z][^\d,(]*?)\s+)?v?(\d+(?:\.\d+)+)[^\s,(]*\s*(\([^)]*\))?")
# Words of NVML's names for cards: "NVIDIA H100 PCIe" and "NVIDIA H200 NVL" are other devices than the modules
# on boards of eight, whose names have SXM or nothing ("NVIDIA H100 80GB HBM3", "NVIDIA H200").
_CARDS: Final = frozenset(("PCIE", "NVL"))
THIS_LOG: Final = "it is this very log"


@dataclass(frozen=True)
class MadeWith:
    """What a run was made with, so far as its record says it: launches with equal ``machine`` and
    ``settings`` are repetitions of one measurement. ``network`` is as ``judge.network`` has it, ``product``
    the firmware's name of the nodes, ``timed`` says how calls were issued where that is not ``PLAIN``.
    Numbers are 0, texts empty and ``tuning`` None where they are not known.
    """

    device: str
    network: str
    product: str
    ranks: int
    nodes: int
    version: str
    tuning: Mapping[str, str] | None
    timed: tuple[str, ...]
    definition: str
    buffers: str
    rotated_bytes: int

    @property
    def machine(self) -> dict[str, str | int]:
        """What kind of machine it was on; equal ones have one history."""
        names = ("device", "network", "product", "ranks", "nodes")
        return {name: getattr(self, name) for name in names}

    @property
    def settings(self) -> dict[str, str | int]:
        """What changes a measurement, beside the machine and the case."""
        tuning = "" if self.tuning is None else ", ".join(map("=".join, self.tuning.items()))
        return {
            "version": self.version,
            "settings": "no tuning variable" if self.tuning == {} else tuning,
            "way of timing": "; ".join(self.timed) or PLAIN,
            "time": self.definition,
            "buffers": self.buffers,
            "bytes of the buffers": min(self.rotated_bytes, BEYOND_CACHES),
        }


def made_with(record: RunRecord) -> MadeWith:
    """What the record says."""
    return MadeWith(
        device=compare_arms.device(record),
        network=network_of(record),
        product=products_of(record),
        ranks=compare_arms.ranks(record),
        nodes=compare_arms.nodes(record),
        version=compare_arms.version(record),
        tuning=tuning_of(record),
        timed=how_timed(record),
        definition=compare_arms.definition(record),
        buffers=compare_arms.buffers(record),
        rotated_bytes=rotated_bytes((record,)),
    )


def differences(before: RunRecord, after: RunRecord) -> list[str]:
    """Why two launches are not of one measurement, as ``ranks: 2 and 4``."""
    one, other = ({**each.machine, **each.settings} for each in map(made_with, (before, after)))
    return [
        f"{name}: {value or NOT_STATED} and {other[name] or NOT_STATED}"
        for name, value in one.items()
        if value != other[name]
    ]


@dataclass(frozen=True)
class Matched:
    """References that fit a run, and why the others do not, by name; ``near`` are the reasons of those that
    are of its operation, ranks, nodes and device, or were made of it.
    """

    fitting: tuple[Reference, ...]
    reasons: Mapping[str, str]
    near: Mapping[str, str]


def match(
    records: Sequence[RunRecord],
    arm: Arm,
    kind: MadeWith,
    references: Sequence[Reference],
    *,
    named: bool,
    same_version: bool,
) -> Matched:
    """Hold every reference against a run; see ``expectation.expect``."""
    logs = {record.source.sha256 for record in records if record.source is not None} - {""}
    runs = {record.run_id for record in records if record.source is None}
    fitting, reasons, near = [], {}, {}
    for each in references:
        # A run is no reference for itself: a log by its content, a run of busbw by its name.
        own = "" if logs.isdisjoint(each.sha256.split()) else THIS_LOG
        if each.kind == "saved" and not runs.isdisjoint(each.source.split(", ")):
            own = "it is this very run"
        apart = _apart(arm, kind, each, named=named)
        cases = [other_case(key, arm.where, each) for key in arm.cases if key.collective == each.operation]
        why = (
            own
            or apart
            or (", or ".join(dict.fromkeys(cases)) if all(cases) else "")
            or ("" if named else _other_machine(kind, each) or _tuned_otherwise(kind, each))
            or (other_version(kind.version, each) if same_version else "")
        )
        if not why:
            fitting.append(each)
            continue
        reasons[each.name] = why
        # Of a log that names no device, or one that NVML does not know, its own reference is apart too.
        if not apart or (own == THIS_LOG and not each.left_out):
            near[each.name] = why
    return Matched(tuple(fitting), reasons, near)


def _tuned_otherwise(kind: MadeWith, reference: Reference) -> str:
    """How a saved reference was tuned otherwise; others state some of their settings only, if any."""
    return otherwise_tuned(reference.environment, kind.tuning) if reference.kind == "saved" else ""


def _other_machine(kind: MadeWith, reference: Reference) -> str:
    """How the nodes, or the network between them, are known to be others. Sockets name no network: NCCL falls
    back to them on any machine, and a run over them is to be held against what its machine can do.
    """
    if kind.product and reference.product and kind.product != reference.product:
        return f"it is of {reference.product}, the run of {kind.product}"
    if reference.nodes != 1 and not over_sockets(kind.network) and is_other(kind.network, reference.network):
        return f"its network is {reference.network}, the run's {kind.network}"
    return ""


def other_case(key: CaseKey, place: str, reference: Reference) -> str:
    """Why a reference says nothing about a case whatever its size; empty where it does. ``place`` is the
    arm's ``where``.
    """
    if reference.operation != key.collective:
        return f"it is of {reference.operation or 'no stated operation'}"
    if reference.root not in (None, key.root):
        return f"it is of root {reference.root}, the run of {key.root}"
    if reference.dtype not in ("", key.dtype):
        return f"it is of {reference.dtype}, the run of {key.dtype}"
    if reference.op not in ("", key.op):
        return f"it is of {reference.op}, the run of {key.op or 'no reduction'}"
    pattern = joined(key.pattern, place)
    if reference.pattern != pattern:
        return f"it is {reference.pattern or EVENLY}; the run is {pattern or EVENLY}"
    return ""


def _apart(arm: Arm, kind: MadeWith, reference: Reference, *, named: bool) -> str:
    """How a reference is of another operation or world, or never used; empty where it is not."""
    if reference.left_out:
        return reference.left_out
    if reference.operation not in {key.collective for key in arm.cases}:
        return f"it is of {reference.operation or 'no stated operation'}"
    if reference.ranks != arm.ranks:
        return f"it has {reference.ranks} ranks, the run {arm.ranks or 'does not say'}"
    unknown = not kind.nodes or not reference.nodes
    if (unknown and not named) or (not unknown and kind.nodes != reference.nodes):
        return f"it has {reference.nodes or 'unknown'} nodes, the run {kind.nodes or 'does not say'}"
    family, words = ({word.upper() for word in _WORDS.findall(each.device)} for each in (reference, kind))
    is_told = bool(words) and "GRAPHICS" not in words  # what NVML calls a GPU that it does not know
    if reference.kind == "saved":
        same = kind.device == reference.device or (named and not (is_told and reference.device))
    else:
        same = bool(family & words) and words & _CARDS <= family if is_told else named
    return "" if same else f"it is of {reference.device}, the run of {kind.device or 'an unnamed device'}"


def other_version(versions: str, reference: Reference) -> str:
    """Why the communication library is not known to be the same; empty where it is."""
    ours, theirs = _library(versions), _library(reference.versions_text)
    if ours is not None and theirs is not None:
        is_same_name = "" in (ours[0], theirs[0]) or ours[0] == theirs[0]
        if is_same_name and ours[1] == theirs[1]:
            return ""
    return f"it is of {reference.versions_text}, the run of {versions or 'unknown versions'}"


def _library(versions: str) -> tuple[str, str] | None:
    """Name (empty where only a number is there) and number of the library that is named first: the one that
    communicates; 2.22.3-1 counts as 2.22.3. None where it is not known, or only supposed.
    """
    found = _LIBRARY.match(versions)
    if found is None or "not stated" in (found[3] or ""):
        return None
    return (found[1] or "").casefold(), found[2]


def notes(kind: MadeWith, used: Sequence[Reference]) -> list[str]:
    """What was taken on trust, and both sides' versions where they are not known to be the same."""
    found = []
    for reference in used:
        missing = [
            f"device {reference.device}" if not kind.device and reference.device else "",
            f"{reference.nodes} nodes" if not kind.nodes and reference.nodes else "",
        ]
        words = " and ".join(word for word in missing if word)
        if words:
            found.append(f"the run does not say {words}: taken from {reference.name}, as you named it")
        if words := _other_machine(kind, reference):
            found.append(f"{reference.name} is of another machine, and you named it: {words}")
        if reference.network and not kind.network and not kind.product and kind.nodes != 1:
            found.append(f"the run does not say its network; that of {reference.name} is {reference.network}")
        if words := _tuned_otherwise(kind, reference):
            found.append(f"{reference.name} was tuned otherwise, and you named it: {words}")
        if other_version(kind.version, reference):
            version = kind.version or NOT_STATED
            found.append(f"versions: the run {version}; {reference.name} {reference.versions_text}")
    return found
