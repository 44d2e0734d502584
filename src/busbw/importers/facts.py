"""What a log says beside its rows: options, versions, who ran where, averages.

One table row a kind of line. A *launch* fact begins the words of a new launch of a test; a *footer* fact
belongs to the table above it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from busbw.importers.devices import DeviceText
from busbw.importers.headings import IMB, NCCL_TESTS, NCCOM_TEST, OSU


@dataclass
class Facts:
    """Words of one launch, as written: numbers stay numbers, nothing is corrected."""

    header: dict[str, Any] = field(default_factory=dict)
    devices: list[DeviceText] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Fact:
    """A kind of line."""

    scope: str  # launch, header, footer
    tool: str
    mark: str  # stands in every such line: quicker to look for than the pattern
    pattern: re.Pattern[str]


def _fact(scope: str, tool: str, mark: str, pattern: str) -> Fact:
    return Fact(scope, tool, mark, re.compile(pattern))


# Group names are the keys of the header; all digits become a number.
_FACTS: Final = (
    # busbw's own exports say what their times are; other lines of theirs are read by ``own``.
    _fact("own-time", "busbw", "busbw: time", r"# *busbw: time = (?P<time_is>.+?)(?:; of one call.*)?$"),
    _fact(
        "launch",
        NCCL_TESTS,
        "-tests version ",
        r"# *(?P<tests>nccl|rccl)-tests version (?P<tests_version>\S+) \w+-headers=(?P<headers_version>\d+)"
        r" \w+-library=(?P<library_version>\d+)",
    ),
    _fact(
        "launch", NCCL_TESTS, "rccl-tests: Version", r"(?P<tests>rccl)-tests: Version (?P<tests_version>\S+)"
    ),
    _fact(
        "launch",
        NCCL_TESTS,
        "Collective test starting",
        r"# *Collective test starting: (?:\S*/)?(?P<program>\w+)",
    ),
    _fact(
        "launch",
        NCCL_TESTS,
        "nThread ",
        r"# *nThread (?P<threads>\d+) nGpus (?P<gpus>\d+) minBytes (?P<min_bytes>\d+) "
        r"maxBytes (?P<max_bytes>\d+) step: (?P<step>\d+)\((?P<step_kind>\w+)\)"
        r" warmup iters: (?P<warmup_iters>\d+) iters: (?P<iters>\d+)"
        r"(?: agg iters: (?P<agg_iters>\d+))?(?: validation: (?P<validation>\d+))?(?: graph: (?P<graph>\d+))?"
        r"(?: unalign: (?P<unalign>\d+))?",
    ),
    _fact(
        "launch", NCCL_TESTS, "compiled with NCCL", r"# *NCCL Tests compiled with NCCL (?P<compiled_with>\S+)"
    ),
    _fact("groups", NCCL_TESTS, "-place", r"#\s*(?P<placements>(?:out-of|in)-place\b.*)"),
    _fact("header", NCCL_TESTS, "Blocking Enabled", r"# *Blocking Enabled: (?P<blocking>.*\S)"),
    _fact("header", NCCL_TESTS, "Reducing maxBytes", r"# *Reducing maxBytes to (?P<reduced_max_bytes>\d+)"),
    _fact("header", NCCL_TESTS, "Parallel Init", r"# *(?P<parallel_init>Parallel Init Enabled)"),
    _fact(
        "footer",
        NCCL_TESTS,
        "Out of bounds",
        r"# *Out of bounds values *: (?P<out_of_bounds>\d+) *(?:OK|FAILED)",
    ),
    _fact("footer", NCCL_TESTS, "Avg bus bandwidth", r"# *Avg bus bandwidth *: *(?P<average>\S+)"),
    _fact(
        "footer", NCCL_TESTS, "Collective test concluded", r"# *Collective test concluded: (?P<concluded>\S+)"
    ),
    _fact("footer", NCCOM_TEST, "GB/s", r"\s*(?:Avg bus bandwidth:|# avg)\s*(?P<average>[\d.]+) ?GB/s"),
    _fact(
        "footer", NCCOM_TEST, "found - test failed", r"\s*(?P<errors_found>\d+) errors? found - test failed"
    ),
    _fact(
        "launch",
        OSU,
        "OSU ",
        r"#? *OSU (?P<kind>MPI|NCCL|RCCL|\w+)(?:-(?P<memory>\w+(?: MANAGED)?))? (?P<title>.*?) Test"
        r" v(?P<tests_version>\S+)",
    ),
    _fact("header", OSU, "# Datatype", r"# Datatype: (?P<datatype>\w+)"),
    _fact(
        "launch",
        IMB,
        "MPI Benchmark",
        r"#\s+Intel\(R\) MPI Benchmarks? (?:Suite )?(?P<tests_version>[^\s,]+)",
    ),
    _fact("header", IMB, "Date", r"# *Date *: (?P<date>.*\S)"),
    _fact("header", IMB, "MPI Version", r"# *MPI Version *: (?P<mpi_version>.*\S)"),
    _fact("header", IMB, "MPI_Datatype", r"# *MPI_Datatype +: *(?P<datatype>\w+)"),
    _fact(
        "header",
        IMB,
        "MPI_Datatype for reductions",
        r"# *MPI_Datatype for reductions *: *(?P<reduction_datatype>\w+)",
    ),
    _fact("header", IMB, "MPI_Op", r"# *MPI_Op *: *(?P<reduction>\w+)"),
    _fact("header", IMB, "Benchmarking", r"#? *Benchmarking +(?P<benchmark>[A-Za-z_-]+)"),
    _fact("header", IMB, "#processes", r"#? *\(? *#processes *= *(?P<processes>\d+)"),
    _fact("header", IMB, "group", r"#? *\( *(?P<groups>\d+) groups? of (?P<processes>\d+) process"),
    _fact("header", IMB, "additional processes", r"#? *\( *(?P<waiting>\d+) additional processes waiting"),
)


def fact_form(line: str) -> Fact | None:
    """What kind of fact a line says."""
    for form in _FACTS:
        if form.mark in line and form.pattern.match(line) is not None:
            return form
    return None


@lru_cache(1024)  # the launches of a log repeat each other
def fact_words(form: Fact, line: bytes) -> Mapping[str, Any]:
    """The words of a line that says such a fact. They are shared: take them over, do not change them."""
    match = form.pattern.match(line.decode().strip())
    assert match is not None
    return {name: _value(text) for name, text in match.groupdict().items() if text is not None}


def fact(line: str) -> tuple[str, Mapping[str, Any]] | None:
    """Scope and words of a line that says something about a launch or a table."""
    form = fact_form(line)
    return (form.scope, fact_words(form, line.encode())) if form is not None else None


def _value(text: str) -> Any:  # noqa: ANN401 (a word or a number)
    return int(text) if text.isdigit() and text.isascii() and len(text) < 19 else text
