"""OSU micro-benchmarks (also of NCCL) and Intel MPI Benchmarks: text of collectives and of ping-pongs.

Neither prints type, reduction or root in a row, and their size is that of one block for operations with
blocks, so a table gets these once its operation is decided, by its title or by the user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from busbw.foreign.logs.check import foreign
from busbw.foreign.logs.operations import REDUCING, ROOTED, operation
from busbw.foreign.logs.row_words import Column, Kind, Layout
from busbw.foreign.logs.table import Cells, Fact, Side, Table, Tool, fact, number
from busbw.model.collective import Placement
from busbw.units import NS_PER_US

OSU_NAME: Final = "osu"
IMB_NAME: Final = "imb"
# Their size is what a rank gives to, or gets from, each other rank: osu_allgather and its kin allocate it
# once for every rank; IMB's user guide says so of X. For reduce_scatter it is the whole vector in both.
SHARES: Final = frozenset(
    {"all_gather", "alltoall", "gather", "scatter", "all_gatherv", "alltoallv", "gatherv", "scatterv"}
)
# Columns of other times.
_STATISTIC: Final = re.compile(r"min|max|avg|p\d+(?:\.\d+)?")
_ASSUMED_PLACEMENT: Final = "assumed: separate buffers, the tool's default"
_PING_PONG: Final = "sendrecv"
# Those beside the collectives that combine data.
_COMBINING: Final = ("reduce", "accumulate", "fetch_and_op", "scan")


def _table(found: Table, name: str, time: str, **own: Any) -> Table:  # noqa: ANN401 (fields of Table)
    """What tables of both have in common: rows of a size and of times."""
    if time.startswith(_HALF_ROUND_TRIP):
        text = "two ranks take turns (ping-pong), one message at a time: its time is half a round trip"
        found.note("point-to-point", text, found.first_line)
    shared: dict[str, Any] = {
        "time": time,
        "operation": name,
        "operation_from": "header" if name else "",
        # OSU prints nothing below its tables, and one of IMB ends with the next: it cannot be missed.
        "ended": True,
    }
    return found.read(_side, {0: Placement.OUT_OF_PLACE}, **shared | own)


def _side(cells: Cells, index: int) -> Side:
    """The times of a row, and what OSU's check or IMB's says of it."""
    wrong = {"Pass": 0.0, "Fail": math.inf}.get(cells.get(("validation", index), ""), math.nan)
    if ("defects", index) in cells:
        wrong = math.inf if number(cells, "defects").value > _MOST_DEFECT else 0.0
    stats = {name: number(cells, name).value * NS_PER_US for name, _ in cells if _STATISTIC.fullmatch(name)}
    return Side(number(cells, "time"), wrong=wrong, stats=stats)


def _rank_labels(header: Mapping[str, Any], job: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Ranks by the header's word, and by the command line."""
    by_header = (("header", int(header["processes"])),) if "processes" in header else ()
    return (*by_header, *((("command", int(job["command_ranks"])),) if "command_ranks" in job else ()))


# ---- OSU ---------------------------------------------------------------------------------------------------

_HALF_ROUND_TRIP: Final = "half a round trip"
_OSU_BACKENDS: Final = {"MPI": "mpi", "NCCL": "nccl", "RCCL": "rccl"}
# Titles of point-to-point tests, whose first is that of two ranks; all others are of collectives.
_OSU_PAIRS: Final = ("", "multi", "persistent", "partitioned", "multi-threaded", "multi-process")
_OSU_PAIR_TIME: Final = f"{_HALF_ROUND_TRIP}, mean over the iterations (OSU: Latency of a ping-pong)"
_OSU_ONE_SIDED_TIME: Final = "mean over the iterations, with what completes the call (OSU: one-sided latency)"
_OSU_TIME: Final = (
    "mean over the iterations of the mean over ranks, a barrier between calls (OSU: Avg Latency)"
)
_OSU_COLUMNS: Final = re.compile(
    r"(?P<size>Size)|(?P<time>Avg Latency\s?\(us\)|Latency\s?\(us\))|(?P<min>Min Latency\s?\(us\))"
    r"|(?P<max>Max Latency\s?\(us\))|(?P<iterations>Iterations)|P(?P<tail>\d+(?:\.\d+)?) Tail Lat\s?\(us\)"
    r"|(?P<validation>Validation)|(?P<transmit>Transmit Size)"
)
_OSU_KINDS: Final = {
    "size": Kind.INTEGER,
    "iterations": Kind.INTEGER,
    "transmit": Kind.INTEGER,
    "validation": Kind.WORD,
}


def osu_heading(line: str) -> Layout | None:
    """The layout that a line announces; None where it is no heading of OSU."""
    text = line.lstrip("# \t")
    if not text.startswith(("Size", "Avg Latency", "Latency")):
        return None
    columns: list[Column] = []
    end = 0
    for match in _OSU_COLUMNS.finditer(text):
        if text[end : match.start()].strip():
            return None
        end = match.end()
        found = str(match.lastgroup)
        name = f"p{match['tail']}" if match["tail"] else found
        columns.append(Column(name, _OSU_KINDS.get(found, Kind.MEASURE)))
    return None if text[end:].strip() or not columns else Layout(tuple(columns))


def interpret_osu(found: Table) -> Table:
    """What a table of an OSU collective says."""
    header = found.facts.header
    kind, (name, time) = str(header.get("kind", "MPI")), _osu_test(header)
    labels = _rank_labels(header, found.job)
    if time == _OSU_ONE_SIDED_TIME or (name, time) == (_PING_PONG, _OSU_PAIR_TIME):
        labels = (("format", 2),)
    backend = _OSU_BACKENDS.get(kind, "mpi" if kind.startswith("MPI") else kind.lower())
    tool = replace(OSU, backend=backend, library="" if backend == "mpi" else kind)
    return _table(found, name, time, tool=tool, rank_labels=labels, failures=[])


def _osu_test(header: Mapping[str, Any]) -> tuple[str, str]:
    """The operation that the title names, and what its time is."""
    title = " ".join(word for word in str(header.get("title", "")).lower().split() if word != "latency")
    one_sided = str(header.get("kind", "")).partition("MPI_")[2]
    if one_sided:
        return one_sided.lower(), _OSU_ONE_SIDED_TIME
    if "title" in header and title in _OSU_PAIRS:
        return f"{title}_latency" if title else _PING_PONG, _OSU_PAIR_TIME
    # One that we do not have, such as a persistent collective, is not the plain one.
    return operation(title) or "_".join(title.split()), _OSU_TIME


# ---- IMB ---------------------------------------------------------------------------------------------------

_IMB_TIME: Final = (
    "maximum over ranks of the mean over the repetitions (IMB: t_max, from which its own Mbytes/sec is made)"
)
_IMB_PAIR_TIME: Final = f"{_HALF_ROUND_TRIP}, mean over the repetitions (IMB: t of PingPong)"
_IMB_ONE_TIME: Final = "mean over the repetitions (IMB: t, its one time a size)"
_MOST_DEFECT: Final = 1e-2  # TOL in IMB_declare.h: beyond it, IMB counts a sample as wrong
_IMB_FIRST: Final = ("bytes", "repetitions")
_IMB_COLUMNS: Final = {
    "bytes": ("size", Kind.INTEGER),
    "repetitions": ("repetitions", Kind.INTEGER),
    "t_min[usec]": ("min", Kind.MEASURE),
    "t_max[usec]": ("time", Kind.MEASURE),
    "t_avg[usec]": ("avg", Kind.MEASURE),
    "t[usec]": ("time", Kind.MEASURE),
    "Mbytes/sec": ("mbytes_per_s", Kind.MEASURE),
    "Msg/sec": ("messages_per_s", Kind.MEASURE),
    "defects": ("defects", Kind.MEASURE),
}


def imb_heading(line: str) -> Layout | None:
    """The layout that a line announces; None where it is no heading of IMB."""
    names = [name for word in line.split() if (name := word.lstrip("#\\"))]  # pages want the backslash
    if not names or names[0] not in _IMB_FIRST or any(name not in _IMB_COLUMNS for name in names):
        return None
    return Layout(tuple(Column(*_IMB_COLUMNS[name]) for name in names))


def interpret_imb(found: Table) -> Table:
    """What a table of IMB says."""
    header = found.facts.header
    name, time = _imb_test(header, "min" in found.layout.names)
    largest = int(header.get("max_bytes", 0)) if "size" in found.layout.names else 0
    labels = _rank_labels(header, found.job)[:1]
    return _table(found, name, time, rank_labels=labels, largest=largest)


def _imb_test(header: Mapping[str, Any], has_spread: bool) -> tuple[str, str]:
    """The operation that the header names, and what its time is. Modes (IMB-EXT, RMA, IO) are tests apart."""
    benchmark, mode = str(header.get("benchmark", "")), str(header.get("mode", ""))
    if benchmark.lower().startswith("pingpong") and not has_spread:
        return _PING_PONG, _IMB_PAIR_TIME
    name = operation(benchmark) or benchmark.lower()
    time = _IMB_ONE_TIME if benchmark and not has_spread else _IMB_TIME
    return "_".join([name, *filter(None, mode.lower().split("-"))]), time


def _stated(title: str, name: str, value: str = r"\w+") -> Fact:
    """A line of the header: a title, a colon, and a word of it."""
    return fact("header", title, rf"{title} *: *(?P<{name}>{value})")


# ---- once the operation is decided -------------------------------------------------------------------------

_TYPES: Final = {
    "MPI_CHAR": "int8",
    "MPI_SIGNED_CHAR": "int8",
    "MPI_BYTE": "uint8",
    "MPI_INT": "int32",
    "MPI_FLOAT": "float",
    "MPI_DOUBLE": "double",
}
_SIZED_TYPE: Final = re.compile(r"MPI_(U?INT\d+)_T")


def _with_operation(table: Table) -> Table:
    """The table as one of this operation: sizes, type, reduction and root, and where these come from."""
    name = table.operation
    combines = name in REDUCING or any(word in name for word in _COMBINING)
    op, op_from = "none", "none: the operation reduces nothing"
    if combines and "reduction" in table.header:
        op, op_from = str(table.header["reduction"]).removeprefix("MPI_").lower(), "header"
    elif combines:
        op, op_from = "sum", f"assumed: {table.tool.name}'s default"
    root, root_from = -1, "none: the operation has no root"
    if name in ROOTED and table.tool.name == IMB_NAME:
        root_from = "none: IMB takes every rank in turn"
    elif name in ROOTED:
        root, root_from = 0, "assumed: OSU's default"
    dtype, dtype_from = _element_type(table, combines)
    said = {"op": op_from, "root": root_from, "dtype": dtype_from, "placement": _ASSUMED_PLACEMENT}
    shares = 1
    if name in SHARES:
        shares, said["size_bytes"] = table.world_size, "rows: share of one rank times ranks"
    rows = (replace(row, size=row.size * shares, dtype=dtype, redop=op, root=root) for row in table.rows)
    table = replace(table, rows=tuple(rows), words_from=said)
    return table.with_findings(*foreign(table))


def _element_type(table: Table, reducing: bool) -> tuple[str, str]:
    """The type that the header names; before OSU 7.1 it names none, and it is MPI_FLOAT for reductions and
    MPI_CHAR for all others. IMB names two, MPI_BYTE and MPI_FLOAT.
    """
    header = table.header
    named = str(header.get("reduction_datatype" if reducing else "datatype", header.get("datatype", "")))
    if named:
        sized = _SIZED_TYPE.fullmatch(named)
        return _TYPES.get(named, sized[1].lower() if sized else named), "header"
    if reducing:
        return "float", f"assumed: MPI_FLOAT, {table.tool.name}'s default for reductions"
    default = ("uint8", "MPI_BYTE") if table.tool.name == IMB_NAME else ("int8", "MPI_CHAR")
    return default[0], f"assumed: {default[1]}, {table.tool.name}'s default"


# ---- the tools ---------------------------------------------------------------------------------------------

OSU: Final = Tool(
    OSU_NAME,
    backend="mpi",
    heading_marks=("Latency",),
    heading=osu_heading,
    facts=(
        fact(
            "launch",
            "OSU ",
            r"OSU (?P<kind>\w+)(?:-(?P<memory>\w+(?: MANAGED)?))? (?P<title>.*?) Test"
            r" v(?P<tests_version>\S+)",
        ),
        fact("test", "Datatype", r"Datatype: (?P<datatype>\w+)"),
    ),
    interpret=interpret_osu,
    decided=_with_operation,
)

IMB: Final = Tool(
    IMB_NAME,
    backend="mpi",
    heading_marks=("usec",),
    heading=imb_heading,
    facts=(
        fact(
            "launch",
            "MPI Benchmark",
            r"Intel *\(R\) MPI Benchmarks? (?:Suite )?V?(?P<tests_version>[^\s,]+(?: Update \d+)?)",
        ),
        _stated("Date", "date", r".*\S"),
        _stated("MPI Version", "mpi_version", r".*\S"),
        _stated("MPI_Datatype", "datatype"),
        _stated("MPI_Datatype for reductions", "reduction_datatype"),
        _stated("MPI_Op", "reduction"),
        fact(
            "test",
            "Benchmarking",
            r"Benchmarking +(?P<benchmark>[A-Za-z_-]+)",
            forgets=("waiting", "processes", "mode", "groups"),
        ),
        fact("test", "MODE:", r"MODE: *(?P<mode>[A-Z-]+)"),
        fact("header", "Maximum message", r"Maximum message length in bytes: *(?P<max_bytes>\d+)"),
        fact("test", "processes", r"\(? *[#\\]*processes *= *(?P<processes>\d+)"),
        fact("test", "groups of", r"\( *(?P<groups>\d+) groups of (?P<processes>\d+) processes"),
        fact("header", "additional processes", r"\( *(?P<waiting>\d+) additional processes waiting"),
    ),
    interpret=interpret_imb,
    decided=_with_operation,
)
