"""The file of ``nccl-tests -J``, version 3 of its shape (src/util.cu of 2.19.6).

The front door fills it as a run goes, with six decimals, as there. ``write`` makes it from a
record, with all digits: where a placement has no time it is null, and what the shape has no place for stands
under ``busbw``, which readers of the original do not look at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from busbw.files import store
from busbw.foreign.forms.remarks import BANDWIDTH, notes, remarks, time_words
from busbw.foreign.forms.rows import Row, Table, average_busbw_gb_per_s, first_rank
from busbw.foreign.nccl_tests import write as text
from busbw.foreign.nccl_tests.figures import Figures
from busbw.foreign.nccl_tests.flags import Options
from busbw.machine.environment import read_environment
from busbw.model.case import Case
from busbw.model.record import RunRecord

SHAPE_VERSION: Final = 3
_DECIMALS: Final = 6


# ---- the parts of a file ------------------------------------------------------------------------------


def config(o: Options, devices: Iterable[text.Device]) -> dict[str, Any]:
    """What was asked for, and the ranks."""
    step, kind = o.step
    return {
        "nthreads": o.nthreads,
        "ngpus": o.ngpus,
        "minimum_bytes": o.minbytes,
        "maximum_bytes": o.maxbytes,
        f"step_{kind}": step,
        "warmup_iters": o.warmup_iters,
        "iterations": o.iters,
        "aggregated_iterations": o.agg_iters,
        "validation": o.check,
        "graph": o.cudagraph,
        "blocking_collectives": _bool(o.blocking != 0),
        "per_iter_timing": _bool(o.per_iter_timing != 0),
        "per_iter_skip": o.per_iter_skip,
        "parallel_init": _bool(o.parallel_init != 0),
        "devices": list(devices),
    }


def row(case: Case, redop: str, count: int, sides: Sequence[Figures | None], calls: int) -> dict[str, Any]:
    """One size; null for a placement without figures."""
    out_of_place, in_place = sides
    return {
        "size": case.size_bytes,
        "count": count,
        "type": case.dtype,
        "redop": redop,
        "root": f"{case.root:6d}",  # text of this width, as nccl-tests has it
        "out_of_place": _side(out_of_place),
        **_iterations("out_of_place_per_iter", out_of_place),
        "in_place": _side(in_place),
        **_iterations("in_place_per_iter", in_place),
        "actual_iterations": calls,
        "experiment_name": "",
    }


def _side(side: Figures | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "time": _number(side.time_us),
        "alg_bw": _number(side.algbw_gb_per_s),
        "bus_bw": _number(side.busbw_gb_per_s),
        "nwrong": None if side.wrong is None else float(side.wrong),
    }


def _iterations(key: str, side: Figures | None) -> dict[str, Any]:
    found = side.iterations if side is not None else None
    if found is None:
        return {}
    body = {"skipped_iterations": found.skipped, **found.summary(), "times_us": found.times_us.tolist()}
    if len(found.by_rank_us) > 1:
        body["per_process_max_times_us"] = [times.tolist() for times in found.by_rank_us]
    return {key: body}


def summary(wrong: int, average: float | None, minimum: float | None = None) -> dict[str, Any]:
    """What the footer of the text says."""
    okay = "unchecked" if minimum is None else _bool(not text.is_below(average, minimum))
    return {
        "out_of_bounds": {"count": wrong, "okay": _bool(not wrong)},
        "average_bus_bandwidth": {"bandwidth": _number(average), "okay": okay},
    }


def _number(value: float | None) -> float | str:
    return text.NO_NUMBER if value is None or math.isnan(value) else value


def _bool(value: bool) -> str:
    return "true" if value else "false"  # nccl-tests writes its booleans as text


# ---- the front door's file ----------------------------------------------------------------------------


def begun(argv: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """A document before its run. ``env`` has only variables that matter to a collective, secrets replaced,
    where nccl-tests writes the whole environment.
    """
    variables = read_environment(environ).variables
    return {
        "version": SHAPE_VERSION,
        "start_time": _now(),
        "args": list(argv),
        "env": [f"{name}={value}" for name, value in variables.items()],
    }


def new_file(name: str) -> tuple[Path | None, tuple[str, ...]]:
    """The file of ``-J``, made at once, so that a place that cannot be written is known before anything is
    measured; and what nccl-tests says about it. An existing file stays: the next free of ``NAME.0``,
    ``NAME.1``, ... is taken. A name that does not end in .json writes nothing, and nccl-tests does not say so
    (``remarks`` does, on stderr).
    """
    if Path(name).suffix.lower() != ".json":
        return None, ()
    for place in chain([name], (f"{name}.{number}" for number in count())):
        try:
            with Path(place).open("x"):
                return Path(place), (f"# Writing JSON output to {place}",)
        except FileExistsError:
            continue
        except OSError:
            break
    return None, (f"# skipping json output; {place} not accessible",)


def close(path: Path, document: Mapping[str, Any], errors: Sequence[str]) -> None:
    """Write a document, whatever it has by then, with six decimals."""
    whole = json.dumps({**document, "errors": list(errors), "end_time": _now()})
    rounded = json.loads(whole, parse_float=lambda digits: round(float(digits), _DECIMALS))
    store(path, f"{json.dumps(rounded)}\n".encode())


def _now() -> str:
    return datetime.now().astimezone().strftime(text.STAMP_FORMAT)


# ---- a record -----------------------------------------------------------------------------------------


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """The only table as one document."""
    (table,) = tables
    average, _ = average_busbw_gb_per_s(table.results)
    document = {
        "version": SHAPE_VERSION,
        "start_time": None if record.created_by_file else _local_form(record.created),
        "args": [table.collective + text.PROGRAM],
        "env": [f"{name}={value}" for name, value in record.environment.get("variables", {}).items()],
        "nccl_version": text.nccl_version_code(first_rank(record)),
        "config": {
            **config(text.options_of(record, table), text.devices_of(record)),
            "blocking_collectives": _bool(record.plan.timing.mode == "latency"),
        },
        "results": [_row_of(each) for each in table.rows],
        **summary(text.wrong_cases(table), average),
        "errors": [record.error] if record.error else [],
        "end_time": _local_form(record.ended),
        "busbw": {
            "collective": table.collective,
            "run_id": record.run_id,
            "status": record.status.value,
            "argv": record.argv,
            "time_is": f"{time_words(record)}; of one call, in us",
            "bandwidth_is": BANDWIDTH,
            "notes": [*notes(record, f"{text.LAYOUT} -J"), text.VARIES_NOTE, *remarks(table.rows)],
        },
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _row_of(each: Row) -> dict[str, Any]:
    case = each.case
    sides = [None if side is None or side.time_ns is None else text.figures_of(side) for side in each.sides]
    calls = max((result.samples * result.calls_per_sample for result in each.found.values()), default=0)
    return row(case, case.op or text.NO_OPERATION, case.count, sides, calls)


def _local_form(stamp: str) -> str | None:
    """2026-11-21 18:15:02 of an ISO 8601 time, in UTC; the text itself if it is not a time."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp or None
    return (moment.astimezone(UTC) if moment.tzinfo else moment).strftime(text.STAMP_FORMAT)
