"""The text of nccl-tests 2.19.6: header, table and footer with its widths, digits and words (src/util.cu).

The front door prints it row by row as a run goes (``display``), ``write`` from a record at once. Where
a number is missing, the text has ``nan``, as printf writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from busbw.foreign.forms.remarks import notes, one_line, remarks
from busbw.foreign.forms.rows import Row, Table, average_busbw_gb_per_s, ranks
from busbw.foreign.nccl_tests.figures import Figures
from busbw.foreign.nccl_tests.flags import VERSION, Options
from busbw.model.case import Case
from busbw.model.record import NOT_STATED, RankInfo, RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

LAYOUT: Final = f"nccl-tests {VERSION}"
STAMP_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
NO_NUMBER: Final = "nan"
NOT_CHECKED: Final = "N/A"
NO_OPERATION: Final = "none"
PROGRAM: Final = "_perf"  # behind a collective; nccl-tests has no barrier and permute, which are named alike
_BLOCKING: Final = {
    1: "# Blocking Enabled: wait and barrier after each inner iteration (-m) ",
    2: "# Blocking Enabled: wait after each inner iteration (-m), no barrier ",
    3: "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier ",
}
# Titles, units and widths of a row: the case, then each placement.
_CASE: Final = (
    ("size", "(B)", 10),
    ("count", "(elements)", 12),
    ("type", "", 8),
    ("redop", "", 6),
    ("root", "", 6),
)
_SIDE: Final = (("time", "(us)", 7), ("algbw", "(GB/s)", 6), ("busbw", "(GB/s)", 6), ("#wrong", "", 6))
_ITERATIONS: Final = (("i_min", "(us)", 7), ("i_max", "(us)", 7), ("i_p99", "(us)", 7), ("i_cv%", "(%)", 7))
_ITERATION_NAMES: Final = ("min_us", "max_us", "p99_us", "cv_pct")
_PLACEMENTS: Final = "           out-of-place                       in-place          "
_WITH_ITERATIONS: Final = (
    "              out-of-place (+ per-iteration)                                in-place (+ per-iteration)"
)
_MEMORY: Final = {
    "Initialization": ("communicator",),
    "User-Allocated": ("buffers", "registration"),
    "Collective": ("calls",),
}

# A rank and its device, under the names of the JSON file.
Device = Mapping[str, Any]


# ---- the parts of a log -------------------------------------------------------------------------------


def header(program: str, o: Options, devices: Iterable[Device]) -> list[str]:
    """From the name of the test to the list of devices."""
    step, kind = o.step
    options = (
        f"# nThread {o.nthreads} nGpus {o.ngpus} minBytes {o.minbytes} maxBytes {o.maxbytes}"
        f" step: {step}({kind}) warmup iters: {o.warmup_iters} iters: {o.iters}"
        f" agg iters: {o.agg_iters} validation: {o.check} graph: {o.cudagraph} unalign: {o.unalign}"
    )
    lines = [f"# Collective test starting: {program}", options]
    if o.blocking in _BLOCKING:
        lines.append(_BLOCKING[o.blocking])
    if o.per_iter_timing:
        skip = f"; summary skips first {o.per_iter_skip} iterations" if o.per_iter_skip else ""
        lines.append(f"# Per-Iteration Report: CUDA event timing; i_* uses max over process rows{skip} ")
    if o.parallel_init:
        lines.append("# Parallel Init Enabled: threads call into NcclInitRank concurrently ")
    return [*lines, "#", "# Using devices", *map(_device_line, devices)]


def _device_line(one: Device) -> str:
    return (
        f"#  Rank {one['rank']:2d} Group {one['group']:2d} Pid {one['pid']:6d} on {one['hostname']:>10}"
        f" device {one['device']:2d} [{one['device_hex']}] {one_line(one['device_info'])}"
    )


def heading(options: Options) -> list[str]:
    """The lines between devices and rows."""
    side = (*_SIDE, *(_ITERATIONS if options.per_iter_timing else ()))
    columns = (*_CASE, *side, *side)
    stamp, form = ("timestamp", STAMP_FORMAT) if options.report_timestamps else ("", "")
    pad = len("YYYY-mm-dd HH:MM:SS") if options.report_timestamps else 0
    # The first column is two shorter than its cells, for "# " before it.
    blank = "  ".join(f"{'':>{width}}" for _, _, width in _CASE)
    titles = "  ".join(f"{title:>{width}}" for title, _, width in columns)
    units = "  ".join(f"{unit:>{width}}" for _, unit, width in columns)
    return [
        "#",
        f"# {blank}{_WITH_ITERATIONS if options.per_iter_timing else _PLACEMENTS}",
        f"# {titles} {stamp:>{pad}}",
        f"# {units} {form:>{pad}}",
    ]


def row(
    case: Case, redop: str, count: int, sides: Sequence[Figures], options: Options, stamp: str = ""
) -> str:
    """One size: the case, then out-of-place and in-place; with -S the time of day behind them."""
    cells = [f"{case.size_bytes:12d}", f"{count:12d}", f"{case.dtype:>8}", f"{redop:>6}", f"{case.root:6d}"]
    for side in sides:
        cells.append(format_float(side.time_us, 7))
        cells += [format_float(side.algbw_gb_per_s, 6), format_float(side.busbw_gb_per_s, 6)]
        # nccl-tests' own N/A is one narrower: where only some rows are checked, theirs would not be as long.
        cells.append(f"{NOT_CHECKED:>6}" if side.wrong is None else f"{float(side.wrong):6g}")
        if options.per_iter_timing:
            found = side.iterations.summary() if side.iterations is not None else {}
            cells += [format_float(found.get(name), 7) for name in _ITERATION_NAMES]
    return "  ".join(cells) + (f"{stamp:>21}" if options.report_timestamps else "")


def format_float(value: float | None, width: int) -> str:
    """As many decimals of two as fit ``width``, else an exponent (getFloatStr in nccl-tests' util.cu)."""
    if value is None:
        return f"{NO_NUMBER:>{width}}"
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def footer(program: str, wrong: int, average: float | None, minimum: float | None = None) -> list[str]:
    """The verdict on the data, and the mean of all bandwidths, which ``minimum`` (GB/s) judges."""
    verdict = "" if minimum is None else "FAILED" if is_below(average, minimum) else "OK"
    return [
        f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# {'Avg bus bandwidth':<20} : {NO_NUMBER if average is None else f'{average:g}'} {verdict}",
        "#",
        f"# Collective test concluded: {program}",
    ]


def is_below(average: float | None, minimum: float) -> bool:
    """Whether NCCL_TESTS_MIN_BW fails: below nine tenths of it. Nothing measured is no failure there."""
    return average is not None and average < minimum * 0.9


def memory_line(most_bytes: Mapping[str, int]) -> str:
    """``-M``: what the rank with the most took, by what for; N/A where the library cannot be asked."""
    known = {name: [most_bytes[use] for use in uses if use in most_bytes] for name, uses in _MEMORY.items()}
    parts = [f"{name} {_memory(sum(found)) if found else NOT_CHECKED}" for name, found in known.items()]
    return f"# {'GPU memory usage':<20} : {' | '.join(parts)} | Total  {_memory(sum(most_bytes.values()))}"


def _memory(amount: float) -> str:
    """Three significant digits or so, and a unit of 1024."""
    unit = "B"
    for larger in ("KB", "MB", "GB"):
        if abs(amount) < 1024:
            break
        amount, unit = amount / 1024, larger
    digits = 2 if abs(amount) < 10 else 1 if abs(amount) < 100 else 0
    return f"{amount:.{digits}f} {unit}"


def nccl_version_code(rank: RankInfo | None) -> int | None:
    """NCCL_VERSION of the NCCL that a rank measured (22707 for 2.27.7); None where it was another library."""
    parts = rank.library_version.split(".") if rank is not None and rank.library == "NCCL" else []
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    major, minor, patch = map(int, parts)
    # X*1000 + Y*100 + Z before 2.9, X*10000 + Y*100 + Z since (NCCL's nccl.h).
    return major * (1000 if (major, minor) < (2, 9) else 10000) + minor * 100 + patch


def device(info: RankInfo, group: int, hostname: str, no_bus_id: str = "") -> Device:
    """A rank's device: its index on the host, and domain, bus and device of a GPU (0000:0f:00). CPU ranks
    have their own number there, and ``no_bus_id``.
    """
    index = info.facts.get("device_index", info.local_rank)
    bus_id = str(info.facts.get("pci_bus_id") or info.facts.get("bus_id") or "").partition(".")[0].lower()
    return {
        "rank": info.rank,
        "group": group,
        "pid": info.pid,
        "hostname": hostname,
        "device": index if isinstance(index, int) else info.local_rank,
        "device_hex": bus_id or no_bus_id,
        "device_info": info.device,
    }


# ---- a record -----------------------------------------------------------------------------------------

# What stands for a number that differs from case to case, or is not known.
VARIES: Final = 0
VARIES_NOTE: Final = "step, iters or warmup iters 0 = differs from case to case, or is not known"


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One log a collective, below each other, as several tests of a job leave them."""
    lines = [line for table in tables for line in _log(record, table)]
    return ("\n".join(lines) + "\n").encode()


def _log(record: RunRecord, table: Table) -> list[str]:
    program, options = table.collective + PROGRAM, options_of(record, table)
    average, counted = average_busbw_gb_per_s(table.results)
    return [
        *(f"# busbw: {note}" for note in (*notes(record, LAYOUT), VARIES_NOTE)),
        f"# busbw: {NO_NUMBER} = no number, {NOT_CHECKED} = not checked; why is said below the rows",
        *header(program, options, devices_of(record)),
        *heading(options),
        *(_row_of(each, options) for each in table.rows),
        *(f"# busbw: {remark}" for remark in remarks(table.rows)),
        f"# busbw: the average is over {counted} of {len(table.results)} cases; other sizes, other average",
        *footer(program, wrong_cases(table), average),
        "#",
        f"# error: {one_line(record.error)}" if record.error else "",
    ]


def _row_of(each: Row, options: Options) -> str:
    case, sides = each.case, list(map(figures_of, each.sides))
    return row(case, case.op or NO_OPERATION, case.count, sides, options)


def figures_of(result: CaseResult | None) -> Figures:
    """The numbers of a result: its headline time, and the bandwidths that belong to it."""
    if result is None:
        return Figures()
    return Figures(
        time_us=None if result.time_ns is None else result.time_ns / NS_PER_US,
        algbw_gb_per_s=result.algbw_gb_per_s,
        busbw_gb_per_s=result.busbw_gb_per_s,
        wrong=result.wrong,
    )


def wrong_cases(table: Table) -> int:
    """The number behind "Out of bounds values": how many cases had wrong data."""
    return sum(result.status is Status.WRONG or bool(result.wrong) for result in table.results)


def devices_of(record: RunRecord) -> list[Device]:
    """The ranks whose hosts the record knows; an imported log may name none of them."""
    infos = record.world.ranks if record.world is not None else ()
    return [device(info, _group(record, info), info.host) for info in infos if info.host != NOT_STATED]


def _group(record: RunRecord, info: RankInfo) -> int:
    """The number of the communicator of a rank: by the run's groups, or by the log that was imported. A rank
    that sat out gets one behind all groups.
    """
    if record.plan.groups:
        role = record.plan.group_of(info.rank, ranks(record) or 0)
        return len(record.plan.groups) if role is None else role.group
    value = info.facts.get("group", 0)
    return value if isinstance(value, int) else 0


def options_of(record: RunRecord, table: Table) -> Options:
    """The line of nccl-tests that would ask for a table's cases. ``iters`` and ``warmup_iters`` are VARIES
    where cases differ, the step is where sizes have no constant one.
    """
    plan = record.plan.of_case(table.rows[0].case)  # a table is of one stream
    sizes = sorted({row.case.requested_bytes for row in table.rows})
    pairs = list(pairwise(sizes))
    timed = [result for result in table.results if result.time_ns is not None]
    group = plan.options.aggregate
    calls = plan.limits.calls or _common(result.samples * result.calls_per_sample for result in timed)
    warmup = plan.limits.warmup_calls
    if warmup is None:
        warmup = _common(result.warmup_calls for result in timed)
    return Options(
        minbytes=sizes[0],
        maxbytes=sizes[-1],
        stepbytes=_common(high - low for low, high in pairs),
        stepfactor=_common(high // low if low and high % low == 0 else VARIES for low, high in pairs),
        warmup_iters=warmup // group,
        iters=calls // group,
        agg_iters=group,
        check=plan.checks,
        cudagraph=plan.options.graph,
        unalign=plan.options.unalign,
    )


def _common(values: Iterable[int]) -> int:
    """The value that all have; VARIES where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else VARIES
