"""NVIDIA Nsight Systems: what an SQLite export says of a run, as evidence.

Tables are made only for what was recorded, and columns differ between versions, so each is looked for. Names
and columns are those of the exporter's documentation (SQLite schema reference of the user guide, 2021.5 on).
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from busbw.errors import UsageError
from busbw.model.profile import Join, KernelName, Kernels, NicRate, Profile
from busbw.model.ranges import CallRange
from busbw.units import gb_per_s

_EXPORT: Final = "nsys export --type sqlite --include-blobs true REPORT.nsys-rep"
# One of these has every export of something that we can read.
_OWN_TABLES: Final = frozenset(
    ("META_DATA_EXPORT", "ANALYSIS_DETAILS", "TARGET_INFO_SYSTEM_ENV", "EXPORT_META_DATA")
)
_VERSION: Final = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "EXPORT_VERSION")
_HOST: Final = re.compile(r"host ?name", re.IGNORECASE)


def read_profile(path: Path) -> Profile:
    """What one export contains. Raises UsageError if the file is not an export or cannot be read."""
    with _opened(path) as export:
        names = ("name", "value")
        meta = {str(name): str(value) for name, value in export.rows("META_DATA_EXPORT", names)}
        version = next((meta[name] for name in _VERSION if name in meta), "")
        environment = export.rows("TARGET_INFO_SYSTEM_ENV", names)
        hosts = [str(value) for name, value in environment if _HOST.fullmatch(str(name))]
        host = hosts[0] if hosts else ""
        kernels, join, missing = _read_kernels(export)
        nics, unseen = _read_nics(export, host)
    return Profile(str(path), version, host, join, kernels, nics, (*missing, *unseen))


# ---- an export, table by table -----------------------------------------------------------------------------


class _Export:
    """An open export."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.tables = frozenset(str(name) for (name,) in rows)
        if not self.tables & _OWN_TABLES or "StringIds" not in self.tables:
            raise UsageError(
                f"{path} is not an export of Nsight Systems: it has"
                f" {'no tables' if not self.tables else 'tables such as ' + min(self.tables)}",
                hint=f"export it with: {_EXPORT}",
            )

    @cached_property
    def _strings(self) -> dict[int, str]:
        return {int(key): str(value) for key, value in self.rows("StringIds", ("id", "value"))}

    def rows(self, table: str, wanted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """These columns of every row, None for a column that this version does not have."""
        if table in self.tables:
            there = {row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
            words = ", ".join(f'"{name}"' if name in there else "NULL" for name in wanted)
            yield from self._connection.execute(f'SELECT {words} FROM "{table}"')

    def string(self, number: int | None) -> str:
        """A text by its number in StringIds; empty if there is no such text."""
        return "" if number is None else self._strings.get(int(number), "")


@contextmanager
def _opened(path: Path) -> Iterator[_Export]:
    """The export in a file. Raises UsageError if it is not an export, is damaged or cannot be read, also
    while it is being read.
    """
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            yield _Export(path, connection)
        finally:
            connection.close()
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        raise UsageError(
            f"cannot read {path} as an export of Nsight Systems: {error}", hint=f"export it with: {_EXPORT}"
        ) from error


def _json_object(text: object) -> dict[str, Any]:
    """An object of JSON; empty for anything else."""
    try:
        value = json.loads(text) if isinstance(text, str | bytes) else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


# ---- kernels of NCCL, with the message sizes of the calls that launched them -------------------------------
# A kernel belongs to the innermost range in which its launch lies: the launch (CUPTI_ACTIVITY_KIND_RUNTIME)
# has the kernel's correlationId and says thread and time, and ranges (NVTX_EVENTS) nest within a thread.
# Ranges that count are busbw's own, and NCCL's, whose payload has the message size.

# The lower 24 bits of a thread's number are the thread's, the rest is its process's.
_PROCESS_MASK: Final = ~0xFFFFFF
# NVTX_EVENTS.eventType: ranges that a thread pushed and popped, and those that were started and ended.
_RANGES: Final = (59, 60)
_SIZE: Final = "Message size [bytes]"
_RANK, _RANKS = "Rank", "No. of ranks"
# Of these NCCL's size is one rank's part.
_OF_PARTS: Final = frozenset(("AllGather", "ReduceScatter"))
_RANK_IN_NAME: Final = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)


class _Range(NamedTuple):
    start_ns: int
    end_ns: int
    size_bytes: int
    placement: str
    is_own: bool


class _Kernel(NamedTuple):
    start_ns: int
    process: int
    duration_ns: int
    name: KernelName
    launch: int | None


class _Place(NamedTuple):
    """What NCCL said of a process when it made its communicator."""

    rank: int | None = None
    ranks: int | None = None


def _read_kernels(export: _Export) -> tuple[tuple[Kernels, ...], Join, tuple[str, ...]]:
    """Kernels by rank, name and size, how they got their sizes, and what is missing."""
    kernels = sorted(_kernels(export), key=lambda kernel: kernel.start_ns)
    if not kernels:
        return (), Join.NONE, (_missing(export, kernels, {}),)
    ranges, places = _ranges(export)
    found = _by_launch(export, kernels, ranges)
    own = _RANK_IN_NAME.search(export.path.name)
    fallback = _Place(int(own[1])) if own and len({kernel.process for kernel in kernels}) == 1 else _Place()
    durations: dict[tuple[int | None, KernelName, int | None, str, bool], list[int]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        place, around = places.get(kernel.process, fallback), found.get(number)
        size, placement, is_part = None, "", False
        if around is not None:
            size, placement = around.size_bytes, around.placement
            if not around.is_own and kernel.name.collective in _OF_PARTS:
                is_part = place.ranks is None
                size *= place.ranks or 1
        durations[place.rank, kernel.name, size, placement, is_part].append(kernel.duration_ns)
    grouped = tuple(
        Kernels(rank, name, tuple(times), size, placement, is_part)
        for (rank, name, size, placement, is_part), times in durations.items()
    )
    return (grouped, Join.LAUNCH, ()) if found else (grouped, Join.NONE, (_missing(export, kernels, ranges),))


def _kernels(export: _Export) -> Iterator[_Kernel]:
    wanted = ("start", "end", "globalPid", "correlationId", "shortName", "demangledName")
    names: dict[tuple[object, object], KernelName | None] = {}
    for start, end, process, launch, short, demangled in export.rows("CUPTI_ACTIVITY_KIND_KERNEL", wanted):
        key = (short, demangled)
        if key not in names:
            names[key] = KernelName.read(export.string(short)) or KernelName.read(export.string(demangled))
        name = names[key]
        if name is not None:
            yield _Kernel(int(start), int(process or 0), int(end) - int(start), name, launch)


def _ranges(export: _Export) -> tuple[dict[int, list[_Range]], dict[int, _Place]]:
    """Ranges that have a size by thread, and each process's place in its communicator."""
    wanted = ("start", "end", "eventType", "globalTid", "text", "textId", "jsonText", "jsonTextId")
    ranges: dict[int, list[_Range]] = defaultdict(list)
    places: dict[int, _Place] = {}
    for start, end, kind, thread_id, text, text_id, payload, payload_id in export.rows("NVTX_EVENTS", wanted):
        thread = int(thread_id or 0)
        said = _json_object(payload or export.string(payload_id))
        if _RANK in said:
            ranks = said.get(_RANKS)
            places[thread & _PROCESS_MASK] = _Place(int(said[_RANK]), None if ranks is None else int(ranks))
        if kind not in _RANGES or end is None:
            continue
        own = CallRange.read(str(text or export.string(text_id)))
        if own is not None:
            ranges[thread].append(_Range(int(start), int(end), own.size_bytes, own.placement.value, True))
        elif _SIZE in said:
            ranges[thread].append(_Range(int(start), int(end), int(said[_SIZE]), "", False))
    return ranges, places


def _by_launch(
    export: _Export, kernels: Sequence[_Kernel], ranges: Mapping[int, Sequence[_Range]]
) -> dict[int, _Range]:
    """The range of the launch of each kernel, by the kernel's number: busbw's where there is one, which knows
    the placement too.
    """
    rows = export.rows("CUPTI_ACTIVITY_KIND_RUNTIME", ("globalTid", "correlationId", "start"))
    launches = {  # thread and time by process and correlationId, which counts in each process
        (int(thread) & _PROCESS_MASK, int(launch)): (int(thread), int(start))
        for thread, launch, start in rows
        if thread is not None and launch is not None
    }
    asked: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        if kernel.launch is not None and (launch := launches.get((kernel.process, int(kernel.launch)))):
            asked[launch[0]].append((launch[1], number))
    found: dict[int, _Range] = {}
    for thread, times in asked.items():
        own_ranges = ranges.get(thread, ())
        waiting = sorted(own_ranges, key=lambda each: (each.start_ns, -each.end_ns), reverse=True)
        around: list[_Range] = []  # those that have begun, the innermost last
        for time_ns, number in sorted(times):
            while waiting and waiting[-1].start_ns <= time_ns:
                around.append(waiting.pop())
            around = [each for each in around if each.end_ns >= time_ns]
            if around:
                own = (each for each in reversed(around) if each.is_own)
                found[number] = next(own, around[-1])
    return found


def _missing(export: _Export, kernels: Sequence[_Kernel], ranges: Mapping[int, Sequence[_Range]]) -> str:
    """Why no kernel has a size."""
    if "CUPTI_ACTIVITY_KIND_KERNEL" not in export.tables:
        return "no kernels were traced: profile with --trace cuda,nvtx, on GPUs"
    if not kernels:
        return "none of the kernels is NCCL's: profile the ranks, while they communicate"
    if ranges:
        return "no kernel was launched inside a range: profile with --trace cuda,nvtx"
    if "NVTX_EVENTS" not in export.tables:
        return "no ranges were traced: profile with --trace cuda,nvtx"
    return "no range has a message size: export with --include-blobs true (NCCL 2.19 and newer write it)"


# ---- rates of NICs: InfiniBand from NET_NIC_METRIC, EFA from wherever its counters' names are --------------
# Samples of NET_NIC_METRIC are what was counted between start and end, or a rate where the metric's unit says
# so. The sampler of EFA is a plugin whose rows are not documented: GENERIC_EVENTS with JSON are read where a
# field carries the name of a counter of the EFA driver, and taken as rates or as counts as their unit says.

# Hardware counters of the EFA driver in bytes.
_EFA: Final = re.compile(
    r"(tx_bytes|rx_bytes|send_bytes|recv_bytes|rdma_(?:read|write)(?:_resp|_recv)?_bytes)"
)
_OF_BYTES: Final = re.compile(r"\bbytes (?:sent|received)\b", re.IGNORECASE)
_DEVICE_FIELDS: Final = ("device", "nic", "adapter", "name", "interface")
_UNITS: Final = {"b": 1.0, "bytes": 1.0, "byte": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10,
                 "mib": 2**20, "gib": 2**30}  # fmt: skip

_LEAST_RISES: Final = 4  # of one device: rates that scatter rise so often one time in 120

_Samples = list[tuple[int, int, float]]  # start, end, value


def _read_nics(export: _Export, host: str) -> tuple[tuple[NicRate, ...], tuple[str, ...]]:
    """Every counter of bytes that the export has, and what is missing."""
    found = [*_metrics(export, host), *_generic(export, host)]
    if found:
        return tuple(found), ()
    if not export.tables & {"NET_NIC_METRIC", "GENERIC_EVENTS"}:
        why = "no NIC was sampled: profile with --nic-metrics (InfiniBand), --enable efa_metrics (EFA)"
    else:
        why = "no metric of NICs is one of bytes: sample them with --nic-metrics or --enable efa_metrics"
    return (), (why,)


def _metrics(export: _Export, host: str) -> Iterator[NicRate]:
    wanted = ("metricsListId", "metricsIdx", "name", "unit")
    named = {
        (first, index): (str(name), str(unit or ""))
        for first, index, name, unit in export.rows("TARGET_INFO_NETWORK_METRICS", wanted)
    }
    nics = export.rows("TARGET_INFO_NIC_INFO", ("nicId", "name"))
    devices = {number: str(name) for number, name in nics if name}
    numbers = dict(export.rows("NIC_ID_MAP", ("globalId", "nicId")))
    series: dict[tuple[str, str, str], _Samples] = defaultdict(list)
    wanted_samples = ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx", "value")
    for start, end, one, port, first, index, value in export.rows("NET_NIC_METRIC", wanted_samples):
        name, unit = named.get((first, index), ("", ""))
        if not (_OF_BYTES.search(name) or _EFA.search(name)) or end is None or value is None:
            continue
        device = devices.get(numbers.get(one)) or f"NIC {one}"
        key = (device if port is None else f"{device} port {port}", name, unit)
        series[key].append((int(start), int(end), float(value)))
    for (device, name, unit), rows in series.items():
        rates = _sampled(sorted(rows), unit)
        if rates:
            yield NicRate(host, device, name, rates)


def _sampled(rows: _Samples, unit: str) -> tuple[float, ...]:
    """Each interval's own bytes over its own time, unless the unit is one of rates already."""
    word, slash, _ = unit.strip().partition("/")
    scale = _UNITS.get(word.strip().lower() or "bytes")
    if scale is None:
        return ()
    if slash or word.lower().endswith("ps"):
        return tuple(value * scale / 1e9 for _, _, value in rows)
    return tuple(gb_per_s(value * scale, end - start) for start, end, value in rows if end > start)


def _generic(export: _Export, host: str) -> Iterator[NicRate]:
    texts = {  # what an event type calls itself: its JSON has a name, and newer versions a column
        kind: str(_json_object(data).get("Name") or _json_object(data).get("name") or export.string(name_id))
        for kind, data, name_id in export.rows("GENERIC_EVENT_TYPES", ("typeId", "data", "nameId"))
    }
    counters: dict[str, dict[str, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    said: dict[str, str] = {}
    wanted = ("timestamp", "rawTimestamp", "typeId", "data")
    for time_ns, raw_ns, kind, text in export.rows("GENERIC_EVENTS", wanted):
        body = _json_object(text)
        device = next((str(value) for key, value in body.items() if key.lower() in _DEVICE_FIELDS), "")
        at = int(raw_ns if time_ns is None else time_ns)
        for key, value in body.items():
            match = _EFA.search(key)
            if match is None or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            own = key[: match.start()].strip(" ._:/-") or device or texts.get(kind, "NIC")
            counters[match[1]][own].append((at, float(value)))
            said[match[1]] = key + " " + texts.get(kind, "")
    for counter, devices in counters.items():
        is_rate = _is_rate([sorted(rows) for rows in devices.values()], said[counter])
        for device, rows in devices.items():
            rates = () if is_rate is None else _taken(sorted(rows), is_rate=is_rate)
            if is_rate is None or rates:
                yield NicRate(host, device, counter, rates)


def _is_rate(devices: Sequence[Sequence[tuple[int, float]]], said: str) -> bool | None:
    """Whether the values of a counter are rates in bytes a second: where their description says so, or where
    they fall on some device, as a count never does. They are counts where some device's rise again and again
    and none's fall. None of anything else that is above zero: it is either.
    """
    steps = [[after - before for (_, before), (_, after) in pairwise(rows)] for rows in devices]
    if re.search(r"rate|/s\b|per.second", said, re.IGNORECASE):
        return True
    if any(step < 0 for own in steps for step in own):
        return True
    if max(sum(step > 0 for step in own) for own in steps) >= _LEAST_RISES:
        return False
    return None if any(value for rows in devices for _, value in rows) else True


def _taken(rows: Sequence[tuple[int, float]], *, is_rate: bool) -> tuple[float, ...]:
    if is_rate:
        return tuple(value / 1e9 for _, value in rows)
    steps = ((end - start, after - before) for (start, before), (end, after) in pairwise(rows))
    return tuple(gb_per_s(counted, time) for time, counted in steps if time > 0)
