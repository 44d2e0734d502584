"""nccl-tests and rccl-tests, text: every layout since 2.0, by the words of its heading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np

from busbw.importers.average import without_false_damage
from busbw.importers.body import Body, Timing
from busbw.importers.columns import BoolArray, Columns
from busbw.importers.devices import Devices
from busbw.importers.headings import NCCL_TESTS, RCCL_TESTS
from busbw.importers.operations import operation
from busbw.importers.own import Outcome, remarked
from busbw.importers.printed import FloatArray, Printed, one_printed
from busbw.importers.raw import RawTable
from busbw.importers.table import Table
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.model.result import Status
from busbw.units import NS_PER_US

TIME: Final = (
    "mean over the timed calls of one loop, then the mean over ranks (nccl-tests' -a 1, its default; the log"
    " does not say -a)"
)
_PLACEMENTS: Final = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
_NO_COLUMN: Final = "none: the table has no such column"
_US: Final = {"us": 1.0, "ms": 1e3, "s": 1e6}


def body_key(raw: RawTable) -> Hashable:
    """What ``body`` takes from beside the columns."""
    return raw.time_unit, _is_in_place_only(raw), raw.footer.get("out_of_bounds") == 0


def body(raw: RawTable, columns: Columns) -> Body:
    """The rows of a table of nccl-tests, or of several that have the same key."""
    rows = len(columns)
    return Body(
        lines=columns.lines,
        widths=columns.widths,
        sizes=columns.whole["size"],
        counts=columns.whole["count"],
        types=columns.words["type"] if "type" in columns.words else [""] * rows,
        redops=columns.words["redop"] if "redop" in columns.words else ["none"] * rows,
        roots=columns.whole["root"] if "root" in columns.whole else np.full(rows, -1, np.int64),
        timings=tuple(_timings(raw, columns)),
        algorithms=(),
    )


def interpret(raw: RawTable, body: Body) -> Table:
    """What a table of nccl-tests says."""
    job, names = raw.job, raw.layout.names
    header, devices = raw.facts.header, Devices(raw.facts.devices)
    name = operation(str(header.get("program", "")))
    named_by = "header" if name else ""
    if not name:
        name = operation(str(job.get("command_program", "")))
        named_by = "command" if name else ""
    average = one_printed(str(raw.footer.get("average", "")))
    findings = without_false_damage(raw.findings, average, body.timings, raw.earlier)
    return Table(
        tool=RCCL_TESTS if _is_rccl(header, devices) else NCCL_TESTS,
        stream=raw.stream,
        body=body,
        time=TIME,
        operation=name,
        operation_from=named_by,
        trusted_time="cputime" not in names,
        old_formulas="error" in names,
        heading_width=raw.layout.width,
        first_line=raw.heading_line,
        last_line=raw.last_line,
        rank_labels=_rank_labels(header, job),
        ranks=devices,
        header={**header, **raw.footer},
        failures=tuple(raw.failures),
        average=average,
        out_of_bounds=raw.footer.get("out_of_bounds"),
        ended="average" in raw.footer,
        findings=(*findings, *_no_end(raw)),
        outcomes=_outcomes(raw, body) if raw.remarks else {},
        words_from=_words_from(names),
    )


@lru_cache(64)
def _words_from(names: frozenset[str]) -> dict[str, str]:
    return {
        name: "rows" if column in names else _NO_COLUMN
        for name, column in (("op", "redop"), ("root", "root"))
    }


def _is_rccl(header: dict[str, Any], devices: Devices) -> bool:
    said = header.get("tests")
    return said == "rccl" or (not said and devices.is_amd)


def _rank_labels(header: dict[str, Any], job: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """How many ranks there are by the command line."""
    if "command_ranks" not in job:
        return ()
    per_process = int(header.get("threads", 1)) * int(header.get("gpus", 1))
    return (("command", int(job["command_ranks"]) * per_process),)


def _outcomes(raw: RawTable, body: Body) -> dict[tuple[int, Placement], Outcome]:
    """What the lines below a table of our own say of its ``nan``: of a time, or of the bandwidth of a row
    that is wrong, and does not say in how many elements.
    """
    sizes, lines, kinds = body.sizes.tolist(), body.lines.tolist(), _kinds(body)
    wrong = [remark for remark in raw.remarks if remark.outcome.status is Status.WRONG]
    found = {}
    for timing in body.timings:
        untimed = np.isnan(timing.time_us.value)
        for row in np.flatnonzero(untimed | _uncounted(timing)).tolist():
            said = remarked(
                raw.remarks if untimed[row] else wrong, timing.placement.value, sizes[row], kinds[row]
            )
            if said is not None:
                found[lines[row], timing.placement] = said
    return found


def _uncounted(timing: Timing) -> BoolArray:
    """Rows without a bandwidth and without a count of wrong elements."""
    if timing.algbw is None or timing.wrong is None:
        return np.zeros(len(timing.time_us.value), bool)
    return np.isnan(timing.algbw.value) & np.isnan(timing.wrong)


def _kinds(body: Body) -> list[dict[str, str | int]]:
    """Type, op, root and cycle of each row of a table of our own, which has all columns."""
    lists = (body.sizes.tolist(), body.counts.tolist(), body.types, body.redops, body.roots.tolist())
    seen: Counter[tuple[Any, ...]] = Counter()
    found = []
    for row in zip(*lists, strict=True):
        _, _, dtype, op, root = row
        found.append({"type": dtype, "op": op, "root": root, "cycle": seen[row]})
        seen[row] += 1
    return found


def _is_in_place_only(raw: RawTable) -> bool:
    """Without its out-of-place columns, rccl-tests prints the others alone, below their name."""
    if not raw.placements.startswith("in-place"):
        return False
    return not any(column.placement for column in raw.layout.columns)


def _timings(raw: RawTable, columns: Columns) -> Iterator[Timing]:
    unit = _US[raw.time_unit or "us"]
    for index, placement in enumerate(_PLACEMENTS[1:] if _is_in_place_only(raw) else _PLACEMENTS):
        time = columns.measures.get(("time", index)) or columns.measures.get(("cputime", index))
        if time is None:
            continue
        yield Timing(
            placement,
            time if unit == 1.0 else Printed(time.value * unit, time.half * unit),
            columns.measures.get(("algbw", index)),
            columns.measures.get(("busbw", index)),
            _wrong(columns, index, raw.footer.get("out_of_bounds")),
            _stats(columns, index),
            columns.measures.get(("error", index)),
        )


def _wrong(columns: Columns, index: int, out_of_bounds: int | None) -> FloatArray | None:
    """Wrong elements a row. The old column ``error`` is the largest deviation, not a count: a row is wrong
    where it has a mark for that, and all others are right where the line below the table says so.
    """
    counted = columns.measures.get(("wrong", index))
    if counted is not None:
        return counted.value
    deviation = columns.measures.get(("error", index))
    if deviation is None:
        return None
    unmarked = np.nan if out_of_bounds != 0 else 0.0
    marked = np.where(np.isinf(deviation.value), np.inf, unmarked)
    return np.where(np.isnan(deviation.value), np.nan, marked)


def _stats(columns: Columns, index: int) -> dict[str, FloatArray]:
    if ("min", index) not in columns.measures:
        return {}
    stats = {
        name: columns.measures[name, index].value * NS_PER_US
        for name in ("min", "max", "p99")
        if (name, index) in columns.measures
    }
    if ("cv%", index) in columns.measures:
        stats["cv"] = columns.measures["cv%", index].value / 100
    return stats


def _no_end(raw: RawTable) -> list[ImportFinding]:
    if "average" in raw.footer or raw.goes_on or any(finding.kind == "cut" for finding in raw.findings):
        return []
    text = "the line with the average is missing: the log was cut here, or is an excerpt"
    return [ImportFinding("no-end", text, raw.last_line)]
