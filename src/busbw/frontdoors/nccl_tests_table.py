"""The text of nccl-tests 2.19.6: header, table and footer with its widths, digits and words (src/util.cu)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from busbw.exporters.nccl_tests import NO_NUMBER, NOT_CHECKED, format_float
from busbw.frontdoors.nccl_tests_figures import Figures
from busbw.frontdoors.nccl_tests_flags import VERSION, Line, Options
from busbw.model.case import Case

STAMP_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_STAMP_WIDTH: Final = 19
_MEMORY: Final = (
    ("Initialization", ("communicator",)),
    ("User-Allocated", ("buffers", "registration")),
    ("Collective", ("calls",)),
)
_BLOCKING: Final = {
    1: "# Blocking Enabled: wait and barrier after each inner iteration (-m) ",
    2: "# Blocking Enabled: wait after each inner iteration (-m), no barrier ",
    3: "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier ",
}


def header(line: Line, library_version: int) -> list[str]:
    """Everything above the list of devices. ``library_version`` is NCCL's code, 0 where none is measured."""
    o = line.options
    step, kind = (o.stepfactor, "factor") if o.stepfactor > 1 else (o.stepbytes, "bytes")
    asked = (
        f"# nThread {o.nthreads} nGpus {o.ngpus} minBytes {o.minbytes} maxBytes {o.maxbytes}"
        f" step: {step}({kind}) warmup iters: {o.warmup_iters} iters: {o.iters} agg iters: {o.agg_iters}"
        f" validation: {o.check} graph: {o.cudagraph} unalign: {o.unalign}"
    )
    lines = [
        f"# nccl-tests version {VERSION} nccl-headers={library_version} nccl-library={library_version}",
        f"# Collective test starting: {line.program}",
        asked,
    ]
    if o.blocking in _BLOCKING:
        lines.append(_BLOCKING[o.blocking])
    if o.per_iter_timing:
        skip = f"; summary skips first {o.per_iter_skip} iterations" if o.per_iter_skip else ""
        lines.append(f"# Per-Iteration Report: CUDA event timing; i_* uses max over process rows{skip} ")
    if o.parallel_init:
        lines.append("# Parallel Init Enabled: threads call into NcclInitRank concurrently ")
    return [*lines, "#", "# Using devices"]


def device_line(rank: Mapping[str, object]) -> str:
    """One rank, under the names of the JSON file."""
    return (
        f"#  Rank {rank['rank']:2d} Group {rank['group']:2d} Pid {rank['pid']:6d} on {rank['hostname']:>10}"
        f" device {rank['device']:2d} [{rank['device_hex']}] {rank['device_info']}"
    )


def lowered(maxbytes: int) -> tuple[str, str]:
    """Below the devices, where -e does not fit."""
    return "#", f"# Reducing maxBytes to {maxbytes} due to memory limitation"


_CASE: Final = (("size", 10), ("count", 12), ("type", 8), ("redop", 6), ("root", 6))
_CASE_UNITS: Final = ("(B)", "(elements)", "", "", "")
_SIDE_WIDTHS: Final = (7, 6, 6, 6)
_SIDE_UNITS: Final = ("(us)", "(GB/s)", "(GB/s)", "")
_ITERATIONS: Final = (("i_min", "(us)"), ("i_max", "(us)"), ("i_p99", "(us)"), ("i_cv%", "(%)"))
_ITERATION_WIDTH: Final = 7
_PLACEMENTS: Final = "           out-of-place                       in-place          "
_WITH_ITERATIONS: Final = (
    "              out-of-place (+ per-iteration)                                in-place (+ per-iteration)"
)


def heading(options: Options) -> list[str]:
    """The three lines above the rows."""
    time = "cputime" if options.report_cputime else "time"
    widths, titles, units = [*_SIDE_WIDTHS], [time, "algbw", "busbw", "#wrong"], [*_SIDE_UNITS]
    if options.per_iter_timing:
        widths += [_ITERATION_WIDTH] * len(_ITERATIONS)
        titles += [title for title, _ in _ITERATIONS]
        units += [unit for _, unit in _ITERATIONS]
    case_widths = tuple(width for _, width in _CASE)
    all_widths = (*case_widths, *widths, *widths)
    stamp, form = ("timestamp", STAMP_FORMAT) if options.report_timestamps else ("", "")
    pad = _STAMP_WIDTH if options.report_timestamps else 0
    placements = _WITH_ITERATIONS if options.per_iter_timing else _PLACEMENTS
    return [
        "#",
        f"# {_padded([''] * len(_CASE), case_widths)}{placements}",
        f"# {_padded([*(title for title, _ in _CASE), *titles, *titles], all_widths)} {stamp:>{pad}}",
        f"# {_padded([*_CASE_UNITS, *units, *units], all_widths)} {form:>{pad}}",
    ]


def _padded(words: Sequence[str], widths: Iterable[int]) -> str:
    return "  ".join(f"{word:>{width}}" for word, width in zip(words, widths, strict=True))


def row(case: Case, redop: str, sides: Sequence[Figures], options: Options, stamp: str, count: int) -> str:
    """One size, out-of-place and in-place."""
    text = f"{case.size_bytes:12d}  {count:12d}  {case.dtype:>8}  {redop:>6}  {case.root:6d}"
    for side in sides:
        text += _side(side, options)
        if options.per_iter_timing:
            text += _iterations(side)
    return text + (f"{stamp:>21}" if options.report_timestamps else "")


def _side(side: Figures, options: Options) -> str:
    time = format_float(side.cpu_time_us if options.report_cputime else side.time_us, 7)
    algbw, busbw = format_float(side.algbw_gb_per_s, 6), format_float(side.busbw_gb_per_s, 6)
    # N/A is one narrower than a number of wrong elements there, and so it is here.
    wrong = f"{NOT_CHECKED:>5}" if side.wrong is None else f"{float(side.wrong):6g}"
    return f"  {time}  {algbw}  {busbw}  {wrong}"


def _iterations(side: Figures) -> str:
    if side.iterations is None:
        return f"  {NO_NUMBER:>7}" * len(_ITERATIONS)
    found = side.iterations.summary()
    values = (found["min_us"], found["max_us"], found["p99_us"], found["cv_pct"])
    return "".join(f"  {format_float(value, _ITERATION_WIDTH)}" for value in values)


def footer(program: str, wrong: int, average: float | None, minimum: float | None) -> list[str]:
    """The verdict on the data, and the mean of all bandwidths."""
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
    """``-M``: what the rank with the most took, by what for."""
    parts = " | ".join(f"{name} {_used(most_bytes, uses)}" for name, uses in _MEMORY)
    return f"# {'GPU memory usage':<20} : {parts} | Total  {_memory(sum(most_bytes.values()))}"


def _used(most_bytes: Mapping[str, int], uses: Sequence[str]) -> str:
    """N/A where the library cannot be asked, as MPI's."""
    known = [most_bytes[use] for use in uses if use in most_bytes]
    return _memory(sum(known)) if known else NOT_CHECKED


def _memory(amount: float) -> str:
    """Three significant digits or so, and a unit of 1024."""
    unit = "B"
    for larger in ("KB", "MB", "GB"):
        if abs(amount) < 1024:
            break
        amount, unit = amount / 1024, larger
    digits = 2 if abs(amount) < 10 else 1 if abs(amount) < 100 else 0
    return f"{amount:.{digits}f} {unit}"
