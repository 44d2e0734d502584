"""The text table of nccl-tests, in the layout of 2.19.6 (its src/util.cu): widths, digits, header and footer.

Where nccl-tests would print a number and the record has none, there is ``nan``, as printf writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from busbw.exporters.options import bus_id, device_number, group, options, options_notes
from busbw.exporters.remarks import described_ranks, notes, one_line, remarks
from busbw.exporters.rows import Row, Table, average_busbw_gb_per_s
from busbw.model.record import RankInfo, RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

LAYOUT: Final = "nccl-tests 2.19.6"
NO_NUMBER: Final = "nan"
NOT_CHECKED: Final = "N/A"
NO_OPERATION: Final = "none"
_TIME_WIDTH: Final = 7
_BANDWIDTH_WIDTH: Final = 6

# Titles and units of a row: five words of the case, then four of each placement.
_CASE: Final = (
    ("size", "(B)", 10),
    ("count", "(elements)", 12),
    ("type", "", 8),
    ("redop", "", 6),
    ("root", "", 6),
)
_SIDE: Final = (("time", "(us)", 7), ("algbw", "(GB/s)", 6), ("busbw", "(GB/s)", 6), ("#wrong", "", 6))


def program(collective: str) -> str:
    """The test of a collective. nccl-tests has none for barrier and permute; theirs are named alike."""
    return f"{collective}_perf"


def nccl_version_code(rank: RankInfo | None) -> int | None:
    """NCCL_VERSION of the NCCL that a rank measured (22707 for 2.27.7); None where it was another library."""
    parts = rank.library_version.split(".") if rank is not None and rank.library == "NCCL" else []
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    major, minor, patch = map(int, parts)
    # X*1000 + Y*100 + Z before 2.9, X*10000 + Y*100 + Z since (NCCL's nccl.h).
    return major * (1000 if (major, minor) < (2, 9) else 10000) + minor * 100 + patch


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One log a collective, below each other, as several tests of a job leave them."""
    lines = [line for table in tables for line in _log(record, table)]
    return ("\n".join(lines) + "\n").encode()


def _log(record: RunRecord, table: Table) -> list[str]:
    name = program(table.collective)
    return [
        *(f"# busbw: {note}" for note in (*notes(record, LAYOUT), *options_notes(options(record, table)))),
        f"# busbw: {NO_NUMBER} = no number, {NOT_CHECKED} = not checked; why is said below the rows",
        f"# Collective test starting: {name}",
        _options_line(record, table),
        "#",
        "# Using devices",
        *_devices(record),
        "#",
        *_heading(),
        *_rows(table),
        *(f"# busbw: {remark}" for remark in remarks(table.rows)),
        *_footer(table),
        "#",
        f"# Collective test concluded: {name}",
        "#",
        f"# error: {one_line(record.error)}" if record.error else "",
    ]


def _options_line(record: RunRecord, table: Table) -> str:
    asked = options(record, table)
    return (
        f"# nThread 1 nGpus 1 minBytes {asked.min_bytes} maxBytes {asked.max_bytes}"
        f" step: {asked.step}({asked.step_kind}) warmup iters: {asked.warmup_iters} iters: {asked.iters}"
        f" agg iters: {asked.agg_iters} validation: {asked.validation} graph: {asked.graph}"
        f" unalign: {asked.unalign}"
    )


def _devices(record: RunRecord) -> list[str]:
    return [
        f"#  Rank {info.rank:2d} Group {group(record, info):2d} Pid {info.pid:6d} on {info.host:>10}"
        f" device {device_number(info):2d} [{bus_id(info)}] {one_line(info.device)}"
        for info in described_ranks(record)
    ]


def _heading() -> list[str]:
    columns = (*_CASE, *_SIDE, *_SIDE)
    # The first column is two shorter than its cells, for "# " before it.
    blank = "  ".join(f"{'':>{width}}" for _, _, width in _CASE)
    return [
        f"# {blank}           out-of-place                       in-place          ",
        "# " + "  ".join(f"{title:>{width}}" for title, _, width in columns) + " ",
        "# " + "  ".join(f"{unit:>{width}}" for _, unit, width in columns) + " ",
    ]


def _rows(table: Table) -> list[str]:
    """The rows, of equal length. nccl-tests writes N/A five wide and a count six, and checks a placement at
    every size or at none. Where a record has both, N/A is as wide as a count.
    """
    checked = [
        any(side is not None and side.wrong is not None for side in sides)
        for sides in zip(*((row.out_of_place, row.in_place) for row in table.rows), strict=True)
    ]
    return [row_line(row, [6 if some else 5 for some in checked]) for row in table.rows]


def row_line(row: Row, unchecked_widths: Sequence[int]) -> str:
    """One size: the case, then out-of-place and in-place; the widths of N/A in each."""
    case = row.case
    op = case.op or NO_OPERATION
    left = f"{case.size_bytes:12d}  {case.count:12d}  {case.dtype:>8}  {op:>6}  {case.root:6d}"
    sides = zip(row.sides, unchecked_widths, strict=True)
    return left + "".join(_side(result, width) for (_, result), width in sides)


def _side(result: CaseResult | None, unchecked_width: int) -> str:
    time = format_float(_us(result), _TIME_WIDTH)
    algbw = format_float(result.algbw_gb_per_s if result else None, _BANDWIDTH_WIDTH)
    busbw = format_float(result.busbw_gb_per_s if result else None, _BANDWIDTH_WIDTH)
    if result is None or result.wrong is None:
        wrong = f"{NOT_CHECKED:>{unchecked_width}}"
    else:
        wrong = f"{float(result.wrong):6g}"
    return f"  {time}  {algbw}  {busbw}  {wrong}"


def _us(result: CaseResult | None) -> float | None:
    return None if result is None or result.time_ns is None else result.time_ns / NS_PER_US


def format_float(value: float | None, width: int) -> str:
    """As many decimals of two as fit ``width``, else an exponent (getFloatStr in nccl-tests' util.cu)."""
    if value is None:
        return f"{NO_NUMBER:>{width}}"
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def wrong_cases(table: Table) -> int:
    """The number behind "Out of bounds values": how many cases had wrong data."""
    return sum(result.status is Status.WRONG or bool(result.wrong) for result in table.results)


def _footer(table: Table) -> list[str]:
    wrong = wrong_cases(table)
    average, counted = average_busbw_gb_per_s(table.results)
    return [
        f"# busbw: the average is over {counted} of {len(table.results)} cases; other sizes, other average",
        f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# {'Avg bus bandwidth':<20} : {NO_NUMBER if average is None else f'{average:g}'} ",
    ]
