"""Operations that run at once, each on a stream of its own: a JSON file of nccom-test's format.

``{"streams": [{"operation": "all_reduce", "maxbytes": "1M"}, {"operation": "all_gather", ...}]}``. An entry
has the long names of flags about what is exchanged, with ``_`` for ``-``; the command line says what it
leaves out. Each step of the run takes one size of every stream; one at its last size repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from busbw.errors import UsageError, refused_in
from busbw.model.case import Case
from busbw.model.counts import most_tables
from busbw.model.plan import Stream
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Between, read_settings
from busbw.plan.json_file import INLINE, read_entries, read_text, shown
from busbw.plan.pattern import Pattern
from busbw.plan.swept import Swept, check_sweep, in_one_placement, swept

KEY: Final = "streams"
OPERATION: Final = "operation"
CALLS: Final = "ops_per_iter"
BALANCED: Final = "balanced"
MOST_STREAMS: Final = 16  # each has a communicator and buffers of its own
MOST_CALLS: Final = 100_000  # of one stream in an iteration
# What may differ between streams, with nccom-test's names: key -> setting.
SETTINGS: Final = {
    **{name: name for name in ("minbytes", "maxbytes", "stepbytes", "stepfactor", "datatype", "op", "root")},
    **{name: name for name in ("groups", "split", "group_size", "counts", "matrix", "matrix_scale", "pairs")},
    **{name: name for name in ("spread", "skew", "data", "seed", "iters", "warmup_iters", "check")},
    **{name: name for name in ("hot", "unique_buffers", "save_wrong")},
    "custom_replica_groups": "groups",
    "custom_replica_group": "groups",
    "data_parallel_dimension": "group_size",
    "variable_size_op_metadata": "counts",
    "alltoallv_metadata": "counts",
    "custom_src_target_pairs": "pairs",
    "unique_buff": "unique_buffers",
}
# Settings that are read from text; a file may have a number there.
_TEXTS: Final = ("minbytes", "maxbytes", "stepbytes", "datatype", "op", "root")
# How often, as -c, or nccom-test's word for the data that are checked.
CHECK: Final = "check"
CHECKED_DATA: Final = ("random", "all_ones")
# nccom-test's keys of what holds for the run, and the flags that say it here.
OF_THE_RUN: Final = {
    "neff_iters": "--outer-iters",
    "neff_warmup_iters": "--outer-warmup-iters",
    "vcpu_pin_mode": "--pin",
    "stats": "--stats",
    "show_input_output_size": "--stats in,out",
    "show_algorithm": "--stats algorithm",
    "nworkers": "--ranks",
    "nnodes": "-N",
}
# Settings that name a file.
FILES: Final = ("groups", "counts", "matrix", "pairs")
_EITHER: Final = (("stepfactor", "stepbytes"), ("groups", "group_size", "split"))


def make_streams(
    operations: tuple[str, ...], settings: RunSettings, backend: str, ranks: int
) -> tuple[tuple[Stream, ...], Swept]:
    """Streams of a command line with --streams, and its cases, step by step. Raises UsageError, with the
    stream where one is the cause.
    """
    streams, sweeps = [], []
    for number, entry in enumerate(_entries(operations, settings)):
        with refused_in(f"--streams: stream {number}"):
            stream, cases = _stream(entry, number, operations, settings, backend, ranks)
        streams.append(stream)
        sweeps.append(cases)
    _require_counted(streams, settings)
    cases = _steps(streams, sweeps, settings.iters)
    whole = Swept(Pattern((), (ranks,), (), ()), cases, sum(stream.buffer_bytes for stream in streams))
    return tuple(streams), whole


def check_streams(operations: tuple[str, ...], settings: RunSettings) -> None:
    """Raises UsageError for what can be refused before machine and ranks are known."""
    for number, entry in enumerate(_entries(operations, settings)):
        with refused_in(f"--streams: stream {number}"):
            check_sweep(_operation(entry, operations), _settings(entry, settings))


def _entries(operations: tuple[str, ...], settings: RunSettings) -> list[dict[str, Any]]:
    _refuse_together(settings)
    if len(operations) > 1:
        raise UsageError(
            f"--streams cannot be combined with {len(operations)} operations",
            hint="name one operation (the default of the streams) or none",
        )
    return read_streams(settings.streams)


def _operation(entry: Mapping[str, Any], operations: tuple[str, ...]) -> tuple[str, ...]:
    names = (str(entry[OPERATION]),) if OPERATION in entry else operations
    if not names:
        raise UsageError("no operation given", hint=f'write "{OPERATION}": "all_reduce"')
    return names


def read_streams(path: str) -> list[dict[str, Any]]:
    """The entries of the file, their keys known and their values of the right kind. Raises UsageError."""
    entries = read_entries(path, "--streams", (KEY,), alone=True)
    if len(entries) > MOST_STREAMS:
        raise UsageError(f"--streams: {len(entries)} streams", hint=f"give at most {MOST_STREAMS}")
    for number, entry in enumerate(entries):
        _require_entry(entry, f"--streams: stream {number}")
    return entries


def with_files(path: str) -> str:
    """The streams as text, with the files that they name in it: for nodes that do not have them."""
    entries = [dict(entry) for entry in read_streams(path)]
    for entry in entries:
        for key in entry:
            if SETTINGS.get(key) in FILES and entry[key]:
                entry[key] = INLINE + read_text(entry[key], f"--{SETTINGS[key]}")
    return INLINE + json.dumps({KEY: entries}, separators=(",", ":"))


def _require_entry(entry: Any, place: str) -> None:  # noqa: ANN401 (JSON)
    if not isinstance(entry, dict):
        raise UsageError(f"{place} is {shown(entry)}, not an object", hint='write {"operation": ...}')
    for key, value in entry.items():
        if key in OF_THE_RUN:
            raise UsageError(
                f"{place}: {key} is one value for all streams",
                hint=f"take it out of the file and give {OF_THE_RUN[key]}",
            )
        if key not in (OPERATION, CALLS, *SETTINGS):
            raise UsageError(
                f"{place} has the unknown key {shown(key)}",
                hint=f"use {OPERATION}, {CALLS}, {', '.join(SETTINGS)}; set the rest by flags",
            )
        is_calls = value == BALANCED or (type(value) is int and 1 <= value <= MOST_CALLS)
        if key == CALLS and not is_calls:
            hint = f'give a whole number from 1 to {MOST_CALLS}, or "{BALANCED}"'
            raise UsageError(f"{place}: {key} is {shown(value)}", hint=hint)


def _stream(
    entry: Mapping[str, Any],
    number: int,
    operations: tuple[str, ...],
    settings: RunSettings,
    backend: str,
    ranks: int,
) -> tuple[Stream, tuple[Case, ...]]:
    names = _operation(entry, operations)
    own = _settings(entry, settings)
    once = swept(names, own, backend, ranks)
    if most_tables(once.pattern.counts) > 1:
        raise UsageError(f"skew {own.skew} has several matrices", hint="give a stream one")
    if not once.cases[0].row.sized:
        raise UsageError(f"{names[0]} moves nothing", hint="give an operation that has a size")
    calls, copies, pattern = entry.get(CALLS, BALANCED), 1, once.pattern
    if own.unique_buffers:  # ``swept`` has made room for every iteration; here for the calls of one
        if calls == BALANCED:
            raise UsageError(
                "--unique-buffers makes a buffer for every call: their number must be known",
                hint=f"give {CALLS}",
            )
        copies = int(calls)
    stream = Stream(
        collective=names[0],
        buffer_bytes=once.buffer_bytes * copies,
        calls=0 if calls == BALANCED else calls,
        groups=pattern.groups,
        counts=pattern.counts,
        pairs=pattern.pairs,
        **_differing(own, settings, backend),
    )
    uneven = (case for case in once.cases if not case.even)  # other traffic is beside these anyway
    return stream, tuple(replace(case, stream=number) for case in in_one_placement(uneven))


def _settings(entry: Mapping[str, Any], settings: RunSettings) -> RunSettings:
    """The run's settings with those of one stream, which replaces what says the same in another way."""
    said = {SETTINGS[key]: value for key, value in entry.items() if key in SETTINGS}
    if CHECK in entry:
        said = {**_checked(entry[CHECK]), **{name: value for name, value in said.items() if name != CHECK}}
    read = read_settings(
        RunSettings, {name: str(value) if name in _TEXTS else value for name, value in said.items()}
    )
    own = {name: getattr(read, name) for name in said}
    if own.get("unique_buffers"):
        own.setdefault("hot", False)
    default = RunSettings()
    for names in _EITHER:
        if any(name in own for name in names):
            own = {**{name: getattr(default, name) for name in names}, **own}
    return replace(settings, **own, streams="")


def _checked(said: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    """nccom-test's word for a check has its data; a number is how often, of the run's data."""
    if isinstance(said, bool):
        said = "random" if said else 0
    if said in CHECKED_DATA:
        return {"check": 1, "data": said, "save_wrong": said == "random"}
    return {"check": said}


def _differing(own: RunSettings, settings: RunSettings, backend: str) -> dict[str, Any]:
    """The fields of Stream that the run's settings do not say already. Raises UsageError."""
    found: dict[str, Any] = {
        name: getattr(own, name) if getattr(own, name) != getattr(settings, name) else None
        for name in ("iters", "warmup_iters", "seed", "save_wrong", "unique_buffers")
    }
    if found["iters"] is not None:
        Between(1).check("iters", found["iters"])
    return found | {
        "checks": None if own.check == settings.check or backend == "null" else own.check,
        "data": "" if own.data == settings.data else own.data,
        "rotate": None if own.hot == settings.hot else not own.hot,
    }


def _require_counted(streams: Sequence[Stream], settings: RunSettings) -> None:
    """A stream with other iterations than the rest stops by itself: theirs must be known too."""
    names = ((number, name) for number in range(len(streams)) for name in ("iters", "warmup_iters"))
    own = next((each for each in names if getattr(streams[each[0]], each[1]) is not None), None)
    if own is None:
        return
    number, name = own
    if not settings.iters:
        raise UsageError(
            f"--streams: stream {number} has {name} of its own, and the others are sampled until they are"
            " known well enough",
            hint="give -n, for streams that do not say how often",
        )
    for other, stream in enumerate(streams):
        if not stream.calls:
            raise UsageError(
                f"--streams: stream {number} has {name} of its own, and stream {other} has as many calls as"
                " last as long as the slowest",
                hint=f"give {CALLS}",
            )


def _steps(
    streams: Sequence[Stream], sweeps: Sequence[Sequence[Case]], iters: int | None
) -> tuple[Case, ...]:
    """The cases, one of every stream a step, until the longest sweep is through."""
    steps = max(map(len, sweeps))
    cases: list[Case] = []
    for step in range(steps):
        together = [sweep[min(step, len(sweep) - 1)] for sweep in sweeps]
        for case in together:
            beside = tuple(
                _words(other, streams[other.stream], streams[case.stream], iters)
                for other in together
                if other is not case
            )
            cases.append(replace(case, index=len(cases), beside=beside))
    return tuple(cases)


def _words(other: Case, its: Stream, own: Stream, iters: int | None) -> str:
    """A neighbour, how many of its calls come to this stream's, and of its iterations where they differ."""
    ratio = f"calls {its.calls}:{own.calls}" if its.calls and own.calls else BALANCED
    theirs, ours = (stream.iters or iters for stream in (its, own))
    ratio += f", iterations {theirs}:{ours}" if theirs != ours else ""
    op = f" {other.op}" if other.op else ""
    return f"{other.collective}{op} {other.dtype} {other.size_bytes} B, {ratio}"


def _refuse_together(settings: RunSettings) -> None:
    """What a run of streams cannot be asked for besides."""
    for flag, given, why in (
        ("--coalesce", settings.coalesce, "a call's parts share one operation"),
        ("-m", settings.agg_iters > 1, f"a group holds one operation; {CALLS} in the file repeats calls"),
        ("-G", settings.cudagraph, "a CUDA graph holds one operation"),
        ("--mode latency", settings.mode == "latency" or settings.blocking, "single calls do not overlap"),
        ("--time loop", settings.time == "loop", "a loop holds one operation"),
    ):
        if given:
            raise UsageError(f"--streams cannot be combined with {flag}: {why}", hint=f"leave {flag} out")
