"""Tables of counts from files: the metadata of nccom-test and the traffic matrix of nccl-tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from busbw.errors import UsageError
from busbw.model.counts import BYTES, SEGMENT_ALIGNMENT_BYTES, CountTable
from busbw.plan.json_file import LARGEST_COUNT, read_entries, read_text, shown, whole_numbers

KEYS: Final = ("metadata", "alltoallv_metadata")
_FIELDS: Final = ("send_counts", "send_displs", "recv_counts", "recv_displs")
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Entry:
    """One entry's four arrays as they stand in the file; ``place`` names it in messages."""

    place: str
    send_counts: tuple[int, ...]
    send_displs: tuple[int, ...]
    recv_counts: tuple[int, ...]
    recv_displs: tuple[int, ...]


def read_metadata(path: str, collective: str, ranks: int) -> CountTable:
    """The table of a metadata file for a group of ``ranks``: one entry for all or one per rank.

    Receive arrays may be empty; what they say must be what the senders send. Raises UsageError naming the
    entry.
    """
    gathered = collective == "all_gatherv"
    lists = read_entries(path, "--counts", KEYS)
    if len(lists) not in (1, ranks):
        raise UsageError(
            f"--counts {path} has {len(lists)} entries for {ranks} ranks",
            hint="give one entry for all ranks, or one for every rank of a group",
        )
    targets = 1 if gathered else ranks
    entries = [
        _entry(value, f"--counts {path}: entry {number}", targets, ranks)
        for number, value in enumerate(lists)
    ]
    send_offsets, recv_offsets = (_all_or_none(entries, name) for name in ("send_displs", "recv_displs"))
    whole, extent = _measure(entries if len(entries) == ranks else entries * ranks, gathered=gathered)
    if whole == 0:
        raise UsageError(f"--counts {path} moves nothing: all counts are 0")
    if extent > LARGEST_COUNT:
        raise UsageError(f"--counts {path} reaches element {extent}", hint="use smaller displacements")
    return CountTable(
        origin=f"--counts {path}",
        ranks=ranks,
        send=tuple(entry.send_counts for entry in entries),
        whole=whole,
        send_offsets=send_offsets,
        recv_offsets=recv_offsets,
        extent=extent,
        collective=collective,
    )


def _measure(everyone: Sequence[_Entry], *, gathered: bool) -> tuple[int, int]:
    """The size, and the furthest end of any segment, from the entry of every rank. Raises UsageError for what
    a rank cannot receive.
    """
    most = extent = 0
    received: tuple[int, ...] = ()
    for rank, entry in enumerate(everyone):
        received = tuple(other.send_counts[0 if gathered else rank] for other in everyone)
        _require_received(entry, rank, received)
        most = max(most, sum(entry.send_counts), sum(received))
        extent = max(extent, _end(entry.send_displs, entry.send_counts), _end(entry.recv_displs, received))
    return (sum(received) if gathered else most), extent


def _end(offsets: Sequence[int], counts: Sequence[int]) -> int:
    return max(start + count for start, count in zip(offsets, counts, strict=True)) if offsets else 0


def read_matrix(path: str, scale: float, ranks: int) -> CountTable:
    """The table of nccl-tests' matrix file: cell [i][j] is what rank i sends to rank j in bytes, times
    ``scale``, cut to a multiple of 16. The matrix is square and at least ``ranks`` wide; what lies beyond is
    not used. Raises UsageError naming the cell.
    """
    if not (math.isfinite(scale) and scale >= 0):
        raise UsageError(f"--matrix-scale {scale} is no factor", hint="give a number from 0 up")
    lines = [line.split() for line in read_text(path, "--matrix").splitlines() if line.strip()]
    rows = [[_cell(word, f"--matrix {path}: row {i}, column {j}") for j, word in enumerate(line)]
            for i, line in enumerate(lines)]  # fmt: skip
    if not rows or any(len(row) != len(rows) for row in rows):
        widths = ", ".join(map(str, sorted({len(row) for row in rows}))) or "no"
        raise UsageError(
            f"--matrix {path} is not square: {len(rows)} rows of {widths} cells",
            hint="give as many rows as columns, bytes separated by spaces",
        )
    if len(rows) < ranks:
        raise UsageError(f"--matrix {path} is for {len(rows)} ranks, these are {ranks}")
    cells = [[row[target] * scale for target in range(ranks)] for row in rows[:ranks]]
    if max(map(max, cells)) > LARGEST_COUNT:
        hint = "lower it, or --matrix-scale"
        raise UsageError(f"--matrix {path} has a cell beyond 2^48 bytes", hint=hint)
    step = SEGMENT_ALIGNMENT_BYTES
    send = tuple(tuple(int(cell) // step * step for cell in row) for row in cells)
    whole = max(*map(sum, send), *map(sum, zip(*send, strict=True)))  # of the busiest rank
    if whole == 0:
        raise UsageError(
            f"--matrix {path} moves nothing: all cells are below 16 bytes",
            hint="raise them, or --matrix-scale",
        )
    return CountTable(
        origin=f"--matrix {path}",
        ranks=ranks,
        send=send,
        whole=whole,
        unit=BYTES,
        align_bytes=SEGMENT_ALIGNMENT_BYTES,
        collective="alltoallv",
        file_ranks=len(rows),
    )


def _cell(word: str, place: str) -> float:
    try:
        value = float(word)
    except ValueError as error:
        raise UsageError(f"{place} is {shown(word)}, not a number of bytes") from error
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{place} is {shown(word)}, not a number of bytes from 0 up")
    return value


def _entry(value: Any, place: str, targets: int, ranks: int) -> _Entry:  # noqa: ANN401 (JSON)
    if not isinstance(value, dict):
        raise UsageError(f"{place} is {shown(value)}, not an object", hint=f"give {', '.join(_FIELDS)}")
    if unknown := sorted(set(value) - set(_FIELDS)):
        raise UsageError(
            f"{place} has the unknown key {shown(unknown[0])}", hint=f"give {', '.join(_FIELDS)}"
        )
    if "send_counts" not in value:
        raise UsageError(f"{place} has no send_counts", hint="give one count for every target")
    arrays = {name: whole_numbers(value.get(name, []), f"{place}, {name}") for name in _FIELDS}
    for name, needed in zip(_FIELDS, (targets, targets, ranks, ranks), strict=True):
        if len(arrays[name]) != needed and (name == "send_counts" or arrays[name]):
            raise UsageError(
                f"{place}: {name} has {len(arrays[name])} numbers, but {ranks} ranks need {needed}",
                hint="all_gatherv sends one segment, alltoallv one to every rank of the group",
            )
    return _Entry(place, **arrays)


def _require_received(entry: _Entry, rank: int, received: Sequence[int]) -> None:
    """What a rank expects must be what the others send, and no two of them may write the same element."""
    for source, (expected, sent) in enumerate(zip(entry.recv_counts, received, strict=False)):
        if sent != expected:
            raise UsageError(
                f"{entry.place}: rank {rank} expects {expected} elements from rank {source}, which sends"
                f" {sent}",
                hint="correct recv_counts, or leave it empty",
            )
    segments = sorted((start, n) for start, n in zip(entry.recv_displs, received, strict=False) if n)
    for (start, count), (following, _) in pairwise(segments):
        if start + count > following:
            raise UsageError(
                f"{entry.place}: rank {rank} receives two segments into element {following}",
                hint="correct recv_displs, or leave it empty",
            )


def _all_or_none(entries: Sequence[_Entry], name: str) -> Rows:
    """An array of all entries; empty where none has it. Raises UsageError where only some do."""
    rows: Rows = tuple(getattr(entry, name) for entry in entries)
    if not any(rows):
        return ()
    for entry, row in zip(entries, rows, strict=True):
        if not row:
            raise UsageError(f"{entry.place} has no {name}, other entries do", hint="give it in all, or none")
    return rows
