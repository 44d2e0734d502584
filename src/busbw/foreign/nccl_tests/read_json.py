"""The JSON file of nccl-tests (-J, since 2.17): numbers with six decimals, per-iteration times under -I."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from busbw.foreign.logs.cases import NO_NUMBERS
from busbw.foreign.logs.json_text import Document, count, is_number, mapping, number, sequence, text_of
from busbw.foreign.logs.operations import operation
from busbw.foreign.logs.own import Outcome, cut, outcome_of
from busbw.foreign.logs.own import numbers as own_numbers
from busbw.foreign.logs.row_words import FloatArray, OnePrinted, Printed
from busbw.foreign.logs.table import RankLine, Table, Timing
from busbw.foreign.nccl_tests.read import NAME, TIME, with_wrong_rows
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.model.result import Status
from busbw.units import NS_PER_US

# jsonDouble prints %lf.
_HALF: Final = 0.5e-6
_SIDES: Final = ((Placement.OUT_OF_PLACE, "out_of_place"), (Placement.IN_PLACE, "in_place"))
_LEFT_OUT: Final = Outcome(Status.NOT_APPLICABLE, {"error": NO_NUMBERS})
_STATS: Final = {"min": "min_us", "max": "max_us", "p50": "p50_us", "p95": "p95_us", "p99": "p99_us"}
# Names of the text header, and of the file.
_HEADER: Final = {
    "threads": "nthreads",
    "gpus": "ngpus",
    "min_bytes": "minimum_bytes",
    "max_bytes": "maximum_bytes",
    "warmup_iters": "warmup_iters",
    "iters": "iterations",
    "agg_iters": "aggregated_iterations",
    "validation": "validation",
    "graph": "graph",
}
_Rows = list[tuple[int, dict[str, Any]]]


def is_nccl_tests(content: dict[str, Any]) -> bool:
    """Whether a JSON document is one of nccl-tests. A file of nccom-test has results beside a config too."""
    if any(isinstance(row, dict) and "size(B)" in row for row in sequence(content.get("results"))):
        return False
    return isinstance(content.get("results"), list) and any(
        key in content for key in ("config", "nccl_version", "average_bus_bandwidth")
    )


def tables(document: Document) -> list[Table]:
    """The one table of a document, maybe without rows."""
    content = document.content
    results = sequence(content.get("results"))
    known = {side for _, side in _SIDES if any(side in mapping(row) for row in results)}
    rows: _Rows = [(index, row) for index, row in enumerate(results, 1) if _is_row(row) and known <= set(row)]
    good = {index for index, _ in rows}
    findings = [
        ImportFinding("damaged", "an entry of results is not a whole row", index)
        for index in range(1, len(results) + 1)
        if index not in good
    ]
    config = mapping(content.get("config"))
    name = _program(content)
    time = text_of(mapping(content.get("busbw")).get("time_is")).removesuffix("; of one call, in us")
    table = Table(
        tool=NAME,
        backend="nccl",
        library="NCCL",
        stream="",
        time=time or TIME,
        lines=np.array([index for index, _ in rows], np.int64),
        widths=np.zeros(len(rows), np.int64),
        sizes=np.array([row["size"] for _, row in rows], np.int64),
        counts=np.array([row["count"] for _, row in rows], np.int64),
        types=[text_of(row.get("type")) for _, row in rows],
        redops=[text_of(row.get("redop"), "none") for _, row in rows],
        roots=np.array([_root(row) for _, row in rows], np.int64),
        timings=tuple(_timing(rows, placement, side) for placement, side in _SIDES),
        operation=name,
        operation_from="header" if name else "",
        trusted_time=not any("cpu_time" in mapping(row.get(side)) for _, row in rows for _, side in _SIDES),
        formulas="today's",
        last_line=len(results),
        ranks=tuple(_ranks(config.get("devices"))),
        header=_header(content, config),
        average=_average(content),
        out_of_bounds=count(mapping(content.get("out_of_bounds")).get("count")),
        ended="end_time" in content or "average_bus_bandwidth" in content,
        end_line="end_time and average_bus_bandwidth are",
        findings=(*findings, *_lost_sides(rows), *cut(document, len(results))),
        outcomes=dict(_outcomes(rows)),
        decided=with_wrong_rows,
    )
    return [table]


def _lost_sides(rows: _Rows) -> list[ImportFinding]:
    """Placements that a row of nccl-tests leaves out and others have; our own rows say why they do."""
    return [
        ImportFinding("damaged", f"an entry of results has no {side}, and others have", index)
        for _, side in _SIDES
        if any(isinstance(row.get(side), dict) for _, row in rows)
        for index, row in rows
        if row.get(side) is None and not isinstance(row.get("busbw"), dict)
    ]


def _program(content: dict[str, Any]) -> str:
    words = (text_of(word) for word in sequence(content.get("args")))
    return operation(next((word for word in words if word.endswith("_perf")), "").rpartition("/")[2])


def _is_row(row: Any) -> bool:  # noqa: ANN401 (JSON)
    if not isinstance(row, dict) or any(count(row.get(key)) is None for key in ("size", "count")):
        return False
    sides = [row.get(side) for _, side in _SIDES]
    if _root(row) is None or not all(isinstance(row.get(key, ""), str) for key in ("type", "redop")):
        return False
    if not any(isinstance(side, dict) for side in sides):
        return "busbw" in row  # ours: a row of cases that were not timed
    return all(side is None or _is_side(side) for side in sides)


def _is_side(side: Any) -> bool:  # noqa: ANN401 (JSON)
    return (
        isinstance(side, dict)
        and all(is_number(side.get(key)) for key in (_time_key(side), "alg_bw", "bus_bw"))
        and (side.get("nwrong") is None or is_number(side.get("nwrong")))
    )


def _root(row: dict[str, Any]) -> int | None:
    """The root, which is text in the file; None where it is no rank."""
    value = row.get("root", -1)
    plain = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(plain) if plain.removeprefix("-").isdecimal() and len(plain) < 10 else None


def _time_key(side: dict[str, Any]) -> str:
    return "cpu_time" if "cpu_time" in side else "time"


def _timing(rows: _Rows, placement: Placement, side: str) -> Timing:
    cells = [mapping(row.get(side)) for _, row in rows]
    spread = [mapping(row.get(f"{side}_per_iter")) for _, row in rows]

    def column(key: str, source: list[dict[str, Any]] = cells) -> FloatArray:
        return np.array([number(cell.get(key)) for cell in source], np.float64)

    times = np.array([number(cell.get(_time_key(cell))) for cell in cells], np.float64)

    def as_printed(values: FloatArray) -> Printed:
        return own_numbers(values, _HALF) if is_own else Printed(values, np.full(len(rows), _HALF))

    is_own = any("busbw" in row for _, row in rows)
    stats = {
        name: column(key, spread) * NS_PER_US for name, key in _STATS.items() if any(key in c for c in spread)
    }
    wrong = column("nwrong")
    return Timing(
        placement,
        as_printed(times),
        as_printed(column("alg_bw")),
        as_printed(column("bus_bw")),
        np.where(wrong >= 0, wrong, np.nan),
        stats,
    )


def _outcomes(rows: _Rows) -> list[tuple[tuple[int, Placement], Outcome]]:
    """What our own files have under ``busbw`` in a row; of others, which placements are left out."""
    found = []
    for index, row in rows:
        own = row.get("busbw")
        if not isinstance(own, dict):
            found += [((index, place), _LEFT_OUT) for place, side in _SIDES if row.get(side) is None]
            continue
        for placement, side in _SIDES:
            is_absent = own.get(side) is None and row.get(side) is None
            outcome = Outcome(None) if is_absent else outcome_of(mapping(own.get(side)))
            if outcome is not None:
                found.append(((index, placement), outcome))
    return found


def _ranks(devices: Any) -> list[RankLine]:  # noqa: ANN401 (JSON)
    found = []
    for device in map(mapping, sequence(devices)):
        rank = count(device.get("rank"))
        if rank is None:
            continue
        index = count(device.get("device"))
        found.append(
            RankLine(
                rank,
                count(device.get("group")) or 0,
                count(device.get("pid")) or 0,
                text_of(device.get("hostname")),
                -1 if index is None else index,
                text_of(device.get("device_hex")),
                text_of(device.get("device_info")),
            )
        )
    return found


def _header(content: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """The words of the text header under the text's names; the environment is not among them."""
    found: dict[str, Any] = {
        ours: config[theirs] for ours, theirs in _HEADER.items() if count(config.get(theirs)) is not None
    }
    if count(content.get("nccl_version")) is not None:
        found["library_version"] = content["nccl_version"]
    for key in ("start_time", "end_time"):
        if text_of(content.get(key)):
            found[key] = content[key]
    words = [text_of(word) for word in sequence(content.get("args"))]
    if words:
        found["command"] = " ".join(words)
    return found


def environment(content: dict[str, Any]) -> dict[str, str]:
    """The variables that nccl-tests saw, all of them: whoever keeps them has to leave secrets out."""
    pairs = (text_of(entry).partition("=") for entry in sequence(content.get("env")))
    return {name: value for name, sign, value in pairs if sign}


def _average(content: dict[str, Any]) -> OnePrinted | None:
    value = mapping(content.get("average_bus_bandwidth")).get("bandwidth")
    if not is_number(value) or isinstance(value, str):
        return None
    return OnePrinted(number(value), _HALF)
