"""--streams-json of nccom-test: operations at once, each entry of the file a command line of its own.

An entry has the long names of flags with ``_`` for ``-``, its ``operation`` and ``ops_per_iter`` (1 by
default); what it leaves out is as the command line says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from busbw.errors import UsageError
from busbw.frontdoors.nccom_flags import CHECK_MODES, FLAGS, OPERANDS, Flag, Side, Takes
from busbw.frontdoors.nccom_options import Options, read
from busbw.frontdoors.nccom_words import Words
from busbw.planning.json_file import INLINE, read_entries, shown
from busbw.planning.streams import CALLS, KEY, MOST_CALLS, MOST_STREAMS, OPERATION

FLAG: Final = "--streams-json"
# What may differ between streams; everything else holds for the run.
OF_A_STREAM: Final = (
    *("minbytes", "maxbytes", "stepbytes", "stepfactor", "datatype", "variable_size_op_metadata"),
    *("data_parallel_dimension", "custom_replica_groups", "custom_src_target_pairs"),
    *("iters", "warmup_iters", "check", "seed", "unique_buff"),
)
# Files that are of some operations only.
FILE_OF: Final = {
    "variable_size_op_metadata": ("alltoallv", "all_gatherv"),
    "custom_src_target_pairs": ("permute",),
}
# Why the others may not; flags of one side have one reason.
_PROGRAM: Final = (
    "one compiled program holds all streams, and these are its executions; iters is of one stream"
)
_LAUNCH: Final = "the ranks of all streams are the same processes"
_SHOWN: Final = "tables and files of all streams have the same columns"
WHY_NOT: Final = {
    **dict.fromkeys(("neff_iters", "neff_warmup_iters"), _PROGRAM),
    "shared_output_buff": "it is of Neuron devices, where two cores share one memory",
    "coalesced_cc_size_ratio": "parts of a call and streams exclude each other",
    **dict.fromkeys(("stats", "show_algorithm", "show_input_output_size", "report_to_json_file"), _SHOWN),
    **dict.fromkeys(("non_interactive", "debug"), _SHOWN),
    **dict.fromkeys(("nworkers", "nnodes", "vcpu_pin_mode"), _LAUNCH),
    **{flag.key: _LAUNCH for flag in FLAGS if flag.side is Side.LAUNCH},
    **{flag.key: "it is of the vendor's tool alone" for flag in FLAGS if flag.side is Side.NEURON},
}
_EITHER: Final = (("stepfactor", "stepbytes"), ("custom_replica_groups", "data_parallel_dimension"))
_OWN_KEY: Final = "streams_json"
_BY_KEY: Final = {
    name.replace("-", "_"): flag
    for flag in FLAGS
    for name in (flag.name, *flag.aliases)
    if flag.key != _OWN_KEY
}


@dataclass(frozen=True)
class StreamOptions:
    """One stream: its own command line, and how many of its operations an iteration has."""

    options: Options
    calls: int


def stream_options(options: Options) -> tuple[StreamOptions, ...]:
    """The streams of a command line; none without --streams-json. Raises UsageError naming the stream."""
    if not options.streams_json:
        return ()
    entries = read_entries(options.streams_json, FLAG, (KEY,), alone=True)
    if len(entries) > MOST_STREAMS:
        raise UsageError(f"{FLAG}: {len(entries)} streams", hint=f"{MOST_STREAMS} at most")
    return tuple(
        _one(entry, f"{FLAG} {options.streams_json}: stream {number}", options)
        for number, entry in enumerate(entries)
    )


def native_text(streams: tuple[StreamOptions, ...], settings: list[dict[str, Any]]) -> str:
    """The streams as --streams of ``busbw run`` takes them; ``settings`` has each one's in busbw's words."""
    entries = [
        {
            OPERATION: stream.options.collective,
            CALLS: stream.calls,
            "datatype": stream.options.datatype,
            **own,
        }
        for stream, own in zip(streams, settings, strict=True)
    ]
    return INLINE + json.dumps({KEY: entries}, separators=(",", ":"))


def _one(entry: Any, place: str, options: Options) -> StreamOptions:  # noqa: ANN401 (JSON)
    if not isinstance(entry, dict):
        raise UsageError(f"{place} is {shown(entry)}, not an object", hint='write {"operation": "allr"}')
    own = dict(entry)
    operand, calls = own.pop(OPERATION, options.operand), own.pop(CALLS, 1)
    if operand == "":
        raise UsageError(
            f"{place} names no operation, nor does the command line", hint='write "operation": "allr"'
        )
    if not isinstance(operand, str) or operand not in OPERANDS:
        raise UsageError(
            f"{place}: unknown operation {shown(operand)}", hint=f"name one of: {', '.join(OPERANDS)}"
        )
    if type(calls) is not int or not 1 <= calls <= MOST_CALLS:
        raise UsageError(f"{place}: {CALLS} is {shown(calls)}", hint=f"give 1 to {MOST_CALLS}")
    try:
        return StreamOptions(_read(own, operand, options), calls)
    except UsageError as error:
        error.message = f"{place}: {error.message}"
        raise


def _read(own: Mapping[str, Any], operand: str, options: Options) -> Options:
    given: dict[str, tuple[str, ...]] = {}
    off: set[str] = set()
    for key, value in own.items():
        flag = _BY_KEY.get(key)
        if flag is None:
            raise UsageError(f"unknown key {shown(key)}", hint="keys are long flag names with _ for -")
        words = _words(flag, value)
        if words is None:
            off.add(flag.key)
        else:
            given[flag.key] = words
    unfit = {key for key, wanted in FILE_OF.items() if OPERANDS[operand] not in wanted}
    default = {
        key: words for key, words in (options.values or {}).items() if key not in (_OWN_KEY, *unfit, *off)
    }
    for names in _EITHER:
        if any(name in given for name in names):
            default = {key: words for key, words in default.items() if key not in names}
    read_back = read(Words((operand,), {**default, **given}))
    for key in (*given, *off):
        if key not in OF_A_STREAM and getattr(read_back, key) != getattr(options, key):
            name = key.replace("_", "-")
            raise UsageError(
                f"{key} differs from --{name} of the command line, but {WHY_NOT[key]}",
                hint=f"take {key} out of the file, or give --{name} the same value",
            )
    return read_back


def _words(flag: Flag, value: Any) -> tuple[str, ...] | None:  # noqa: ANN401 (JSON)
    """A value of the file as the words of a flag; None for a switch that is off."""
    is_switch = flag.takes in (Takes.NOTHING, Takes.CHECK_MODE)
    if is_switch and isinstance(value, bool):
        return () if value else None
    if flag.takes is Takes.CHECK_MODE and value in CHECK_MODES:
        return (str(value),)
    if flag.takes in (Takes.STATISTICS, Takes.HOSTS) and isinstance(value, list) and value:
        return tuple(map(str, value))
    if flag.takes is Takes.RATIOS and isinstance(value, list) and value:
        return (",".join(map(str, value)),)
    if not is_switch and isinstance(value, str | int | float) and not isinstance(value, bool):
        return (str(value),)
    raise UsageError(
        f"{flag.key} is {shown(value)}", hint="give what the flag takes; a switch is true or false"
    )
