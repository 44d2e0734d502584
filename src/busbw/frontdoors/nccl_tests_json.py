"""The file of ``-J``: version 3 of nccl-tests' shape (src/util.cu of 2.19.6).

``env`` holds only variables that matter to a collective, secrets replaced, where nccl-tests writes the whole
environment. Numbers have six decimals, as there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from busbw.frontdoors.nccl_tests_figures import Figures
from busbw.frontdoors.nccl_tests_flags import Line
from busbw.frontdoors.nccl_tests_table import STAMP_FORMAT, is_below
from busbw.model.case import Case
from busbw.probes.environment import read_environment

SHAPE_VERSION: Final = 3
_DECIMALS: Final = 6
_PLACES_TRIED: Final = 1000


class JsonFile:
    """The file and what is to be in it. It is made at once, so that a place that cannot be written is known
    before anything is measured, and filled when it is closed.
    """

    def __init__(self, path: Path, line: Line, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self._path, self._line = path, line
        variables = read_environment(environ).variables
        self._document: dict[str, Any] = {
            "version": SHAPE_VERSION,
            "start_time": _now(),
            "args": list(argv),
            "env": [f"{name}={value}" for name, value in variables.items()],
        }
        self._results: list[dict[str, Any]] = []

    def start(self, nccl_version: int, devices: Sequence[Mapping[str, object]]) -> None:
        """The ranks are known."""
        self._document["nccl_version"] = nccl_version
        self._document["config"] = {**_config(self._line), "devices": list(devices)}
        self._document["results"] = self._results

    def row(self, case: Case, redop: str, sides: Sequence[Figures], count: int) -> None:
        """One size is done."""
        out_of_place, in_place = sides
        has_cpu_time = bool(self._line.options.report_cputime)
        self._results.append(
            {
                "size": case.size_bytes,
                "count": count,
                "type": case.dtype,
                "redop": redop,
                "root": f"{case.root:6d}",
                "out_of_place": _side(out_of_place, has_cpu_time),
                **_iterations("out_of_place_per_iter", out_of_place),
                "in_place": _side(in_place, has_cpu_time),
                **_iterations("in_place_per_iter", in_place),
                "actual_iterations": self._line.options.iters,
                "experiment_name": "",
            }
        )

    def end(self, wrong: int, average: float | None, minimum: float | None) -> None:
        """All sizes are done."""
        okay = "unchecked" if minimum is None else _bool(not is_below(average, minimum))
        self._document["out_of_bounds"] = {"count": wrong, "okay": _bool(not wrong)}
        self._document["average_bus_bandwidth"] = {"bandwidth": _number(average), "okay": okay}

    def close(self, errors: Sequence[str]) -> None:
        """Write it, whatever there is by then."""
        self._document["errors"] = list(errors)
        self._document["end_time"] = _now()
        self._path.write_text(json.dumps(self._document) + "\n")


def open_new(
    line: Line, argv: Sequence[str], environ: Mapping[str, str]
) -> tuple[JsonFile | None, tuple[str, ...]]:
    """The file of ``-J``, and what nccl-tests says about it. An existing file stays: the next free of
    ``NAME.0``, ``NAME.1``, ... is taken. A name that does not end in .json writes nothing, and nccl-tests
    does not say so (``remarks`` does, on stderr).
    """
    name = line.options.output_file
    if Path(name).suffix.lower() != ".json":
        return None, ()
    for place in (name, *(f"{name}.{number}" for number in range(_PLACES_TRIED))):
        try:
            with Path(place).open("x"):
                pass
        except FileExistsError:
            continue
        except OSError:
            return None, (f"# skipping json output; {place} not accessible",)
        return JsonFile(Path(place), line, argv, environ), (f"# Writing JSON output to {place}",)
    return None, ("# skipping json output; failed to probe destination",)


def _config(line: Line) -> dict[str, Any]:
    o = line.options
    step = {"step_factor": o.stepfactor} if o.stepfactor > 1 else {"step_bytes": o.stepbytes}
    return {
        "nthreads": o.nthreads,
        "ngpus": o.ngpus,
        "minimum_bytes": o.minbytes,
        "maximum_bytes": o.maxbytes,
        **step,
        "warmup_iters": o.warmup_iters,
        "iterations": o.iters,
        "aggregated_iterations": o.agg_iters,
        "validation": o.check,
        "graph": o.cudagraph,
        "blocking_collectives": _bool(o.blocking != 0),
        "per_iter_timing": _bool(o.per_iter_timing != 0),
        "per_iter_skip": o.per_iter_skip,
        "parallel_init": _bool(o.parallel_init != 0),
    }


def _side(side: Figures, has_cpu_time: bool) -> dict[str, Any]:
    name, time = ("cpu_time", side.cpu_time_us) if has_cpu_time else ("time", side.time_us)
    return {
        name: _number(time),
        "alg_bw": _number(side.algbw_gb_per_s),
        "bus_bw": _number(side.busbw_gb_per_s),
        "nwrong": None if side.wrong is None else float(side.wrong),
    }


def _iterations(key: str, side: Figures) -> dict[str, Any]:
    found = side.iterations
    if found is None:
        return {}
    body: dict[str, Any] = {"skipped_iterations": found.skipped}
    body |= {name: _number(value) for name, value in found.summary().items()}
    body["times_us"] = [_number(value) for value in found.times_us.tolist()]
    if len(found.by_rank_us) > 1:
        body["per_process_max_times_us"] = [
            [_number(value) for value in times.tolist()] for times in found.by_rank_us
        ]
    return {key: body}


def _number(value: float | None) -> float | str:
    return "nan" if value is None or math.isnan(value) else round(value, _DECIMALS)


def _bool(value: bool) -> str:
    return "true" if value else "false"  # nccl-tests writes its booleans as text


def _now() -> str:
    return datetime.now().astimezone().strftime(STAMP_FORMAT)
