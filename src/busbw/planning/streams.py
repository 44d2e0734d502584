"""Operations that run at once, each on a stream of its own: a JSON file of nccom-test's format.

``{"streams": [{"operation": "all_reduce", "maxbytes": "1M"}, {"operation": "all_gather", ...}]}``. An entry
has the long names of flags about what is exchanged, with ``_`` for ``-``; the command line says what it
leaves out. Each step of the run takes one size of every stream; one at its last size repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.plan import Stream
from busbw.planning.json_file import INLINE, LARGEST_COUNT, read_entries, read_text, shown
from busbw.planning.pattern import Pattern
from busbw.planning.swept import Swept, swept
from busbw.planning.values import MOST, MOST_SEED, at_least
from busbw.settings.pattern import DataName
from busbw.settings.run import RunSettings

KEY: Final = "streams"
OPERATION: Final = "operation"
CALLS: Final = "ops_per_iter"
BALANCED: Final = "balanced"
MOST_STREAMS: Final = 16  # each has a communicator and buffers of its own
MOST_CALLS: Final = 100_000  # of one stream in an iteration
# What may differ between streams: the setting of each key, nccom-test's names among them.
TEXTS: Final = {
    **{name: name for name in ("minbytes", "maxbytes", "stepbytes", "datatype", "op", "root")},
    **{name: name for name in ("groups", "split", "counts", "matrix", "pairs")},
    "custom_replica_groups": "groups",
    "custom_replica_group": "groups",
    "variable_size_op_metadata": "counts",
    "alltoallv_metadata": "counts",
    "custom_src_target_pairs": "pairs",
    "data": "data",
}
NUMBERS: Final = {name: name for name in ("stepfactor", "matrix_scale", "spread", "skew")}
WHOLE: Final = {
    **{name: name for name in ("group_size", "iters", "warmup_iters", "seed")},
    "data_parallel_dimension": "group_size",
}
SWITCHES: Final = {
    **{name: name for name in ("unique_buffers", "hot", "save_wrong")},
    "unique_buff": "unique_buffers",
}
# How often, as -c, or nccom-test's word for the data that are checked.
CHECK: Final = "check"
CHECKED_DATA: Final = ("random", "all_ones")
SETTINGS: Final = {**TEXTS, **NUMBERS, **WHOLE, **SWITCHES, CHECK: "check"}
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
# Settings that name a file, and those that depend on the number of ranks.
FILES: Final = ("groups", "counts", "matrix", "pairs")
OF_RANKS: Final = (*FILES, "group_size", "split", "matrix_scale", "spread", "skew")
_EITHER: Final = (("stepfactor", "stepbytes"), ("groups", "group_size", "split"))


@dataclass(frozen=True)
class Streams:
    """The streams of a run, and its cases, step by step."""

    streams: tuple[Stream, ...]
    swept: Swept


def make_streams(operations: tuple[str, ...], settings: RunSettings, backend: str, ranks: int) -> Streams:
    """Streams and cases of a command line with --streams. Raises UsageError, with the stream where one is the
    cause.
    """
    _refuse_together(settings)
    if len(operations) > 1:
        raise UsageError(
            f"{len(operations)} operations and --streams", hint="name one, for streams that do not, or none"
        )
    streams, sweeps = [], []
    for number, entry in enumerate(read_streams(settings.streams)):
        try:
            stream, cases = _stream(entry, number, operations, settings, backend, ranks)
        except UsageError as error:
            if not error.message.startswith("--streams"):
                error.message = f"--streams: stream {number}: {error.message}"
            raise
        streams.append(stream)
        sweeps.append(cases)
    _require_counted(streams, settings)
    cases = _steps(streams, sweeps, settings.iters, at_least("--cycles", settings.cycles, 1))
    whole = Swept(Pattern((), (ranks,), (), ()), cases, sum(stream.buffer_bytes for stream in streams))
    return Streams(tuple(streams), whole)


def read_streams(path: str) -> list[dict[str, Any]]:
    """The entries of the file, their keys known and their values of the right kind. Raises UsageError."""
    entries = read_entries(path, "--streams", (KEY,), alone=True)
    if len(entries) > MOST_STREAMS:
        raise UsageError(f"--streams: {len(entries)} streams", hint=f"{MOST_STREAMS} at most")
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


def without_ranks(path: str) -> str:
    """The streams less what depends on the number of ranks: for a first look at a command line."""
    entries = [
        {key: value for key, value in entry.items() if SETTINGS.get(key) not in OF_RANKS}
        for entry in read_streams(path)
    ]
    return INLINE + json.dumps({KEY: entries}, separators=(",", ":"))


def _require_entry(entry: Any, place: str) -> None:  # noqa: ANN401 (JSON)
    if not isinstance(entry, dict):
        raise UsageError(f"{place} is {shown(entry)}, not an object", hint='write {"operation": ...}')
    for key, value in entry.items():
        if key in OF_THE_RUN:
            raise UsageError(
                f"{place}: {key} holds for all streams, which are sampled together",
                hint=f"take it out of the file and give {OF_THE_RUN[key]}",
            )
        if key not in (OPERATION, CALLS, *SETTINGS):
            raise UsageError(
                f"{place} has the unknown key {shown(key)}",
                hint=f"known are {OPERATION}, {CALLS}, {', '.join(SETTINGS)}; what holds for all streams is a"
                " flag of the command line",
            )
        is_number = type(value) in (int, float) and abs(value) <= LARGEST_COUNT  # no infinity, no NaN
        is_whole = type(value) is int and abs(value) <= LARGEST_COUNT
        right = {
            **dict.fromkeys(NUMBERS, is_number),
            **dict.fromkeys(WHOLE, is_whole),
            **dict.fromkeys(SWITCHES, isinstance(value, bool)),
            CALLS: value == BALANCED or (is_whole and 1 <= value <= MOST_CALLS),
            CHECK: isinstance(value, bool) or is_whole or value in CHECKED_DATA,
            "data": value in get_args(DataName),
        }
        if not right.get(key, isinstance(value, str) or is_whole):
            raise UsageError(f"{place}: {key} is {shown(value)}", hint=_kinds(key))


def _kinds(key: str) -> str:
    if key == CALLS:
        return f'give a whole number from 1 to {MOST_CALLS}, or "{BALANCED}"'
    if key == CHECK:
        return "give how often, or true, false, " + " or ".join(f'"{word}"' for word in CHECKED_DATA)
    if key == "data":
        return f"give one of: {', '.join(get_args(DataName))}"
    if key in SWITCHES:
        return "give true or false"
    return "give a number" if key in {**NUMBERS, **WHOLE} else "give a text, or a whole number"


def _stream(
    entry: Mapping[str, Any],
    number: int,
    operations: tuple[str, ...],
    settings: RunSettings,
    backend: str,
    ranks: int,
) -> tuple[Stream, tuple[Case, ...]]:
    names = (str(entry[OPERATION]),) if OPERATION in entry else operations
    if not names:
        raise UsageError("no operation given", hint=f'write "{OPERATION}": "all_reduce"')
    own = _settings(entry, settings)
    once = swept(names, own, backend, ranks)
    if not once.cases[0].row.sized:
        raise UsageError(f"{names[0]} moves nothing", hint="give an operation that has a size")
    calls = entry.get(CALLS, BALANCED)
    pattern = once.pattern
    stream = Stream(
        collective=names[0],
        buffer_bytes=once.buffer_bytes * _copies(calls, own),
        calls=0 if calls == BALANCED else calls,
        groups=pattern.groups,
        counts=pattern.counts,
        pairs=pattern.pairs,
        **_differing(own, settings, backend),
    )
    return stream, tuple(replace(case, stream=number) for case in _one_placement(once.cases))


def _settings(entry: Mapping[str, Any], settings: RunSettings) -> RunSettings:
    """The run's settings with those of one stream, which replaces what says the same in another way."""
    own: dict[str, Any] = {}
    for key, value in entry.items():
        if key in SETTINGS:
            own[SETTINGS[key]] = str(value) if key in TEXTS else float(value) if key in NUMBERS else value
    if CHECK in entry:
        own = {**_checked(entry[CHECK]), **{name: value for name, value in own.items() if name != CHECK}}
    if own.get("unique_buffers"):
        own.setdefault("hot", False)
    default = RunSettings()
    for names in _EITHER:
        if any(name in own for name in names):
            own = {**{name: getattr(default, name) for name in names}, **own}
    return replace(settings, **own, streams="", cycles=1)


def _checked(said: bool | int | str) -> dict[str, Any]:
    """nccom-test's word for a check has its data; a number is how often, of the run's data."""
    if isinstance(said, bool):
        said = "random" if said else 0
    if isinstance(said, int):
        return {"check": said}
    return {"check": 1, "data": said, "save_wrong": said == "random"}


def _differing(own: RunSettings, settings: RunSettings, backend: str) -> dict[str, Any]:
    """The fields of Stream that the run's settings do not say already. Raises UsageError."""
    found: dict[str, Any] = {
        name: getattr(own, name) if getattr(own, name) != getattr(settings, name) else None
        for name in ("iters", "warmup_iters", "seed", "save_wrong", "unique_buffers")
    }
    for name, least, most in (("iters", 1, MOST), ("warmup_iters", 0, MOST), ("seed", 0, MOST_SEED)):
        if found[name] is not None:
            at_least(name, found[name], least, most)
    return found | {
        "checks": None if own.check == settings.check or backend == "null" else at_least(CHECK, own.check, 0),
        "data": "" if own.data == settings.data else own.data,
        "rotate": None if own.hot == settings.hot else not own.hot,
    }


def _require_counted(streams: Sequence[Stream], settings: RunSettings) -> None:
    """A stream with other iterations than the rest stops by itself: theirs must be known too."""
    own = [
        (number, name)
        for number, stream in enumerate(streams)
        for name in ("iters", "warmup_iters")
        if getattr(stream, name) is not None
    ]
    if not own:
        return
    number, name = own[0]
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


def _copies(calls: int | str, settings: RunSettings) -> int:
    """With --unique-buffers ``swept`` has made room for every iteration; here for the calls of one."""
    if not settings.unique_buffers:
        return 1
    if calls == BALANCED:
        raise UsageError(
            "--unique-buffers makes a buffer for every call: their number must be known",
            hint=f"give {CALLS}",
        )
    return int(calls)


def _one_placement(cases: Sequence[Case]) -> list[Case]:
    """Of every size the out-of-place form, or the in-place one where there is no other."""
    pairs = zip(cases[::2], cases[1::2], strict=True)  # as ``expand`` orders them
    return [apart if apart.applicable or not within.applicable else within for apart, within in pairs]


def _steps(
    streams: Sequence[Stream], sweeps: Sequence[Sequence[Case]], iters: int | None, cycles: int
) -> tuple[Case, ...]:
    """The cases, one of every stream a step, until the longest sweep is through."""
    steps = max(map(len, sweeps))
    cases: list[Case] = []
    for cycle in range(cycles):
        for step in range(steps):
            together = [sweep[min(step, len(sweep) - 1)] for sweep in sweeps]
            for case in together:
                beside = tuple(
                    _words(other, streams[other.stream], streams[case.stream], iters)
                    for other in together
                    if other is not case
                )
                cases.append(replace(case, index=len(cases), cycle=cycle, beside=beside))
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
        ("--coalesce", settings.coalesce, "parts of a call are of one operation"),
        ("-m", settings.agg_iters > 1, f"a group is of one operation; {CALLS} in the file repeats calls"),
        ("-G", settings.cudagraph, "a CUDA graph is of one operation"),
        (
            "--mode latency",
            settings.mode == "latency" or settings.blocking,
            "single calls do not run at once",
        ),
        ("--time loop", settings.time == "loop", "a loop is of one operation"),
    ):
        if given:
            raise UsageError(f"--streams and {flag} exclude each other: {why}", hint=f"leave {flag} out")
