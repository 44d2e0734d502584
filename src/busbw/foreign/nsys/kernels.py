"""Kernels of NCCL in an export, with the message sizes of the calls that launched them.

A kernel belongs to the innermost range in which its launch lies: the launch (CUPTI_ACTIVITY_KIND_RUNTIME)
has the kernel's correlationId and says thread and time, and ranges (NVTX_EVENTS) nest within a thread. Ranges
that count are busbw's own, and NCCL's, whose payload has the message size.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.foreign.nsys.tables import PROCESS_MASK, Export, json_object
from busbw.model.profile import Join, KernelName, Kernels
from busbw.model.ranges import CallRange

# NVTX_EVENTS.eventType: ranges that a thread pushed and popped, and those that were started and ended.
_RANGES: Final = (59, 60)
_SIZE: Final = "Message size [bytes]"
_RANK, _RANKS = "Rank", "No. of ranks"
# Of these NCCL's size is one rank's part.
_OF_PARTS: Final = frozenset(("AllGather", "ReduceScatter"))
_RANK_IN_NAME: Final = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class _Range:
    thread: int
    start_ns: int
    end_ns: int
    size_bytes: int
    placement: str
    is_own: bool


@dataclass(frozen=True)
class _Kernel:
    process: int
    start_ns: int
    duration_ns: int
    name: KernelName
    launch: int | None


@dataclass(frozen=True)
class _Place:
    """What NCCL said of a process when it made its communicator."""

    rank: int | None = None
    ranks: int | None = None


def read_kernels(export: Export) -> tuple[tuple[Kernels, ...], Join, tuple[str, ...]]:
    """Kernels by rank, name and size, how they got their sizes, and what is missing."""
    kernels = sorted(_kernels(export), key=lambda kernel: kernel.start_ns)
    if not kernels:
        return (), Join.NONE, (_no_kernels(export),)
    ranges, places = _ranges(export)
    found = _by_launch(kernels, ranges, _launches(export))
    join = Join.LAUNCH if any(each is not None for each in found) else Join.NONE
    notes = () if join is not Join.NONE else (_no_sizes(export, ranges),)
    own = _RANK_IN_NAME.search(export.path.name)
    fallback = _Place(int(own[1])) if own and len({kernel.process for kernel in kernels}) == 1 else _Place()
    return _grouped(zip(kernels, found, strict=True), places, fallback), join, notes


def _kernels(export: Export) -> Iterator[_Kernel]:
    wanted = ("start", "end", "globalPid", "correlationId", "shortName", "demangledName")
    names: dict[tuple[object, object], KernelName | None] = {}
    for start, end, process, launch, short, demangled in export.rows("CUPTI_ACTIVITY_KIND_KERNEL", wanted):
        key = (short, demangled)
        if key not in names:
            names[key] = KernelName.read(export.string(short)) or KernelName.read(export.string(demangled))
        name = names[key]
        if name is not None:
            yield _Kernel(int(process or 0), int(start), int(end) - int(start), name, launch)


def _launches(export: Export) -> dict[tuple[int, int], tuple[int, int]]:
    """Thread and time of each launch, by process and correlationId, which counts in each process."""
    rows = export.rows("CUPTI_ACTIVITY_KIND_RUNTIME", ("globalTid", "correlationId", "start"))
    return {
        (int(thread) & PROCESS_MASK, int(launch)): (int(thread), int(start))
        for thread, launch, start in rows
        if thread is not None and launch is not None
    }


def _ranges(export: Export) -> tuple[list[_Range], dict[int, _Place]]:
    """Ranges that have a size, and each process's place in its communicator."""
    wanted = ("start", "end", "eventType", "globalTid", "text", "textId", "jsonText", "jsonTextId")
    ranges: list[_Range] = []
    places: dict[int, _Place] = {}
    for start, end, kind, thread_id, text, text_id, payload, payload_id in export.rows("NVTX_EVENTS", wanted):
        thread = int(thread_id or 0)
        said = json_object(payload or export.string(payload_id))
        if _RANK in said:
            ranks = said.get(_RANKS)
            places[thread & PROCESS_MASK] = _Place(int(said[_RANK]), None if ranks is None else int(ranks))
        if kind not in _RANGES or end is None:
            continue
        own = CallRange.read(str(text or export.string(text_id)))
        if own is not None:
            ranges.append(_Range(thread, int(start), int(end), own.size_bytes, own.placement.value, True))
        elif _SIZE in said:
            ranges.append(_Range(thread, int(start), int(end), int(said[_SIZE]), "", False))
    return ranges, places


def _by_launch(
    kernels: Sequence[_Kernel], ranges: Sequence[_Range], launches: Mapping[tuple[int, int], tuple[int, int]]
) -> list[_Range | None]:
    """For each kernel the range of its launch: busbw's where there is one, which knows the placement too."""
    by_thread: dict[int, list[_Range]] = defaultdict(list)
    for each in ranges:
        by_thread[each.thread].append(each)
    asked: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        if kernel.launch is not None and (launch := launches.get((kernel.process, int(kernel.launch)))):
            asked[launch[0]].append((launch[1], number))
    found: list[_Range | None] = [None] * len(kernels)
    for thread, times in asked.items():
        waiting = sorted(by_thread[thread], key=lambda each: (each.start_ns, -each.end_ns), reverse=True)
        around: list[_Range] = []  # those that have begun, the innermost last
        for time_ns, number in sorted(times):
            while waiting and waiting[-1].start_ns <= time_ns:
                around.append(waiting.pop())
            around = [each for each in around if each.end_ns >= time_ns]
            own = next((each for each in reversed(around) if each.is_own), None)
            found[number] = own or (around[-1] if around else None)
    return found


def _grouped(
    joined: Iterable[tuple[_Kernel, _Range | None]], places: Mapping[int, _Place], fallback: _Place
) -> tuple[Kernels, ...]:
    durations: dict[tuple[int | None, KernelName, int | None, str, bool], list[int]] = defaultdict(list)
    for kernel, around in joined:
        place = places.get(kernel.process, fallback)
        size, placement, is_part = None, "", False
        if around is not None:
            size, placement = around.size_bytes, around.placement
            if not around.is_own and kernel.name.collective in _OF_PARTS:
                is_part = place.ranks is None
                size *= place.ranks or 1
        durations[place.rank, kernel.name, size, placement, is_part].append(kernel.duration_ns)
    return tuple(
        Kernels(rank, name, tuple(times), size, placement, is_part)
        for (rank, name, size, placement, is_part), times in durations.items()
    )


def _no_kernels(export: Export) -> str:
    if "CUPTI_ACTIVITY_KIND_KERNEL" not in export.tables:
        return "no kernels were traced: profile with --trace cuda,nvtx, on GPUs"
    return "none of the kernels is NCCL's: profile the ranks, while they communicate"


def _no_sizes(export: Export, ranges: Sequence[_Range]) -> str:
    if ranges:
        return "no kernel was launched inside a range: profile with --trace cuda,nvtx"
    if "NVTX_EVENTS" not in export.tables:
        return "no ranges were traced: profile with --trace cuda,nvtx"
    return "no range has a message size: export with --include-blobs true (NCCL 2.19 and newer write it)"
