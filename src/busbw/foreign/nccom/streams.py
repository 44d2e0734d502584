"""--streams-json of nccom-test: operations at once, each entry of the file a command line of its own.

An entry has the long names of flags with ``_`` for ``-``, its ``operation`` and ``ops_per_iter`` (1 by
default); what it leaves out is as the command line says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from busbw.errors import UsageError
from busbw.foreign.nccom.columns import OPERANDS
from busbw.foreign.nccom.options import FLAGS, Options, flag_name, options_of, split
from busbw.plan.json_file import read_entries, shown
from busbw.plan.streams import CALLS, KEY, MOST_CALLS, MOST_STREAMS, OPERATION

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
# Of these a stream's own replaces what the command line says.
_EITHER: Final = (("stepfactor", "stepbytes"), ("custom_replica_groups", "data_parallel_dimension"))
_OWN_KEY: Final = "streams_json"
_FIELDS: Final = {
    key.replace("-", "_"): name
    for name, flag in FLAGS.items()
    for key in (name, *flag.aliases)
    if name != _OWN_KEY
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
        raise UsageError(f"{FLAG}: {len(entries)} streams", hint=f"give {MOST_STREAMS} at most")
    streams = []
    for number, entry in enumerate(entries):
        try:
            streams.append(_stream(entry, options))
        except UsageError as error:
            place = f"{FLAG} {options.streams_json}: stream {number}"
            raise UsageError(f"{place}: {error.message}", hint=error.hint) from error
    return tuple(streams)


def _stream(entry: Any, options: Options) -> StreamOptions:  # noqa: ANN401 (JSON)
    if not isinstance(entry, dict):
        raise UsageError(f"{shown(entry)} is not an object", hint='write {"operation": "allr"}')
    own = dict(entry)
    operand, calls = own.pop(OPERATION, options.operand), own.pop(CALLS, 1)
    if not isinstance(operand, str) or operand not in OPERANDS:
        raise UsageError(f"unknown operation {shown(operand)}", hint=f"name one of: {', '.join(OPERANDS)}")
    if type(calls) is not int or not 1 <= calls <= MOST_CALLS:
        raise UsageError(f"{CALLS} is {shown(calls)}", hint=f"give 1 to {MOST_CALLS}")
    return StreamOptions(_merged(_values(own), operand, options), calls)


def _values(own: Mapping[str, Any]) -> dict[str, Any]:
    """The entry's values by field, each read as its flag reads it; a switch that is off has its default."""
    words, off = [], []
    for key, value in own.items():
        if key not in _FIELDS:
            raise UsageError(f"unknown key {shown(key)}", hint="use long flag names with _ for -")
        if value is True:
            words.append(f"--{key}")
        elif value is False:
            off.append(_FIELDS[key])
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else value
            words.append(f"--{key}={text}")
    defaults = {field.name: field.default for field in fields(Options)}
    values, unread = split(words)
    if unread:  # a check of no mode that is known
        raise UsageError(f"{shown(unread[0])} is unknown", hint="give what the flag takes")
    return {**values, **{name: defaults[name] for name in off}}


def _merged(own: Mapping[str, Any], operand: str, options: Options) -> Options:
    unfit = {name for name, wanted in FILE_OF.items() if OPERANDS[operand] not in wanted}
    replaced = {name for names in _EITHER if any(name in own for name in names) for name in names}
    left_out = {_OWN_KEY, *unfit, *replaced}
    default = {name: getattr(options, name) for name in FLAGS if name not in left_out}
    merged = options_of(operand, {**default, **own})
    for name in own:
        if name not in OF_A_STREAM and getattr(merged, name) != getattr(options, name):
            raise UsageError(
                f"{name} differs from {flag_name(name)} of the command line: one value holds for all",
                hint=f"take {name} out of the file, or give {flag_name(name)} the same value",
            )
    return merged
