"""Options of nccom-test as settings of a run, where busbw measures: on GPUs or CPU ranks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from busbw.errors import UsageError
from busbw.frontdoors.nccom_flags import FLAGS, Side
from busbw.frontdoors.nccom_streams import FILE_OF, StreamOptions, native_text, stream_options
from busbw.frontdoors.renamed import in_words_of
from busbw.model.collective import Placement
from busbw.settings.run import BackendName, RunSettings, WorldName

if TYPE_CHECKING:
    from busbw.frontdoors.nccom_options import Options
    from busbw.model.plan import Plan

_REASONS: Final = {
    "sb2sb": "SBUF is on-chip memory of Trainium",
    "input_shape": "the shape is that of a tensor in SBUF, on-chip memory of Trainium",
    "output_shape": "the shape is that of a tensor in SBUF, on-chip memory of Trainium",
    "cc_dim": "the dimensions are those of SBUF, on-chip memory of Trainium",
    "slurm_use_head_node_neuron_bench": "neuron-bench belongs to the vendor's tool, which does not run here",
}
# Native flags, as errors about settings name them.
THEIR_FLAGS: Final = {
    "--ranks": "--nworkers",
    "--nccl": "BUSBW_NCCL",
    "--groups": "--custom-replica-groups",
    "--group-size": "--data-parallel-dimension",
    "--counts": "--variable-size-op-metadata",
    "--pairs": "--custom-src-target-pairs",
    "--coalesce": "--coalesced-cc-size-ratio",
    "--unique-buffers": "--unique-buff",
    "--shared-output": "--shared-output-buff",
    "--pin": "--vcpu-pin-mode",
    "--streams": "--streams-json",
    "--outer-iters": "--neff-iters",
    "--outer-warmup-iters": "--neff-warmup-iters",
    "--on": "--hosts or -S",
    "--nodes": "-N",
    "--hostfile": "--hosts-file",
    "--job-id": "--slurm-job-id",
    "--setup-script": "--slurm-setup-script",
    "--bring": "--slurm-setup-script default",
}
_NOT_IN_PLACE: Final = "nccom-test measures out-of-place only"
# Variables of `busbw run` that say where and with what to measure: nccom-test has no flags for it.
_VARIABLES: Final = {"backend": "BUSBW_BACKEND", "world": "BUSBW_WORLD", "nccl": "BUSBW_NCCL"}


def run_settings(options: Options, environ: Mapping[str, str]) -> RunSettings:
    """The same run in busbw's words. Raises UsageError for flags that only Trainium can follow.

    The time of a sample is the mean over ranks, and that of a row the mean over samples: nccom-test's time is
    the mean of all durations. Over groups it is that of the slowest group instead, as no mean over groups is
    the time of one. Buffers stay in one place, as in nccom-test without --unique-buff.
    """
    _refuse_neuron_flags(options)
    streams = stream_options(options)
    where = {name: environ[variable] for name, variable in _VARIABLES.items() if environ.get(variable)}
    rounds = options.rounds or (None, None)
    return RunSettings(
        **(_streams(streams, options) if streams else {**_sweep(options), **_pattern(options)}),
        datatype=options.datatype,
        iters=options.iters,
        warmup_iters=options.warmup_iters,
        outer_iters=rounds[0],
        outer_warmup_iters=rounds[1],
        **_data(options),
        seed=options.seed,
        time="max" if any(map(has_groups, (options, *(s.options for s in streams)))) else "avg",
        **_places(options),
        coalesce=",".join(map(str, options.coalesced_cc_size_ratio)),
        shared_output=options.shared_output_buff,
        pin=options.vcpu_pin_mode,
        ranks=options.nworkers,
        backend=cast("BackendName", known("BUSBW_BACKEND", where.get("backend", "auto"), BackendName)),
        world=cast("WorldName", known("BUSBW_WORLD", where.get("world", "auto"), WorldName)),
        nccl=where.get("nccl", ""),
        stats=(*options.stats, *(("algorithm",) if options.show_algorithm else ())),
    )


def operations_of(options: Options) -> tuple[str, ...]:
    """The operations that ``busbw run`` is to be given: the streams name their own."""
    return () if options.streams_json else (options.collective,)


def has_groups(options: Options) -> bool:
    """Whether the ranks are divided into groups that run at once."""
    return options.data_parallel_dimension is not None or bool(options.custom_replica_groups)


def one_placement(plan: Plan) -> Plan:
    """The plan with nothing timed in place: nccom-test has no such form. What has no other form keeps it."""
    if plan.streams:
        return plan  # it has one placement a stream
    apart = {
        case.collective for case in plan.cases if case.applicable and case.placement is Placement.OUT_OF_PLACE
    }
    return replace(
        plan,
        cases=tuple(
            replace(case, applicable=False, reason=_NOT_IN_PLACE)
            if case.in_place and case.applicable and case.collective in apart
            else case
            for case in plan.cases
        ),
    )


def in_their_words() -> AbstractContextManager[None]:
    """Errors about settings name nccom-test's flags, which the user wrote, instead of ours."""
    return in_words_of(THEIR_FLAGS)


def _refuse_neuron_flags(options: Options) -> None:
    for flag in FLAGS:
        if flag.side is Side.NEURON and flag.key in (options.values or {}):
            raise UsageError(
                f"--{flag.name} needs a Neuron device, and there is none here: {_REASONS[flag.key]}",
                hint=f"leave --{flag.name} out, or run this on Trainium",
            )


def _sweep(options: Options) -> dict[str, Any]:
    sweep: dict[str, Any] = {"minbytes": str(options.minbytes), "maxbytes": str(options.maxbytes)}
    if options.stepfactor is not None and options.stepfactor > 1:
        return {**sweep, "stepfactor": options.stepfactor}
    if options.stepfactor is not None:  # a factor of 1 never leaves the first size
        return {**sweep, "maxbytes": sweep["minbytes"]}
    return {**sweep, "stepfactor": 1.0, "stepbytes": str(max(1, options.step_bytes))}


def _pattern(options: Options) -> dict[str, Any]:
    """Who exchanges what with whom."""
    if has_groups(options) and options.custom_replica_groups and options.data_parallel_dimension:
        raise UsageError(
            "--custom-replica-groups and --data-parallel-dimension exclude each other",
            hint="give one of them",
        )
    for key, collectives in FILE_OF.items():
        if getattr(options, key) and options.collective not in collectives:
            raise UsageError(
                f"--{key.replace('_', '-')} means nothing for {options.operand}",
                hint=f"leave it out; it is for {' and '.join(collectives)}",
            )
    return {
        "groups": options.custom_replica_groups,
        "group_size": options.data_parallel_dimension,
        "counts": options.variable_size_op_metadata,
        "pairs": options.custom_src_target_pairs,
    }


def _data(options: Options) -> dict[str, Any]:
    """What is checked."""
    return {
        "check": 1 if options.check else 0,
        "data": "all_ones" if options.check == "all_ones" else "random" if options.check else "exact",
        "save_wrong": options.check == "random",
    }


def _places(options: Options) -> dict[str, Any]:
    """Where buffers lie from call to call."""
    return {"hot": not options.unique_buff, "unique_buffers": options.unique_buff}


def _of_a_stream(own: Options, options: Options) -> dict[str, Any]:
    """How often a stream's operation runs, with what data and buffers, where that is not as for all."""
    said: dict[str, Any] = {"iters": own.iters, "warmup_iters": own.warmup_iters, "seed": own.seed}
    run: dict[str, Any] = {"iters": options.iters, "warmup_iters": options.warmup_iters, "seed": options.seed}
    said |= _data(own) | _places(own)
    run |= _data(options) | _places(options)
    return {name: value for name, value in said.items() if value != run[name]}


def _streams(streams: tuple[StreamOptions, ...], options: Options) -> dict[str, Any]:
    """Each stream's own sweep and pattern, less what it does not say."""
    settings = []
    for stream in streams:
        _refuse_neuron_flags(stream.options)
        own = {
            **_sweep(stream.options),
            **_pattern(stream.options),
            **_of_a_stream(stream.options, options),
        }
        settings.append({name: value for name, value in own.items() if value not in ("", None)})
    return {"streams": native_text(streams, settings)}


def known(variable: str, value: str, names: Any) -> str:  # noqa: ANN401 (a Literal)
    """The value of a variable, which is one of ``names``. Raises UsageError."""
    if value not in get_args(names):
        raise UsageError(
            f"{variable}={value} is unknown", hint=f"set it to one of: {', '.join(get_args(names))}"
        )
    return value
