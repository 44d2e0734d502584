"""Options of nccom-test as settings of a run that busbw measures, on GPUs or CPU ranks, and of its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, cast, get_args

from busbw.errors import UsageError
from busbw.foreign.nccom.options import ALLOCATE, FLAGS, NEURON, Options, flag_name
from busbw.foreign.nccom.streams import FILE_OF, StreamOptions, stream_options
from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.plan.flags.launch import LaunchSettings, MpiName
from busbw.plan.flags.ranks import BackendName, WorldName
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import DataTypes, Ratios, Size
from busbw.plan.json_file import INLINE
from busbw.plan.streams import CALLS, KEY, OPERATION

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
ROOT_VARIABLE: Final = "NEURON_RT_ROOT_COMM_ID"
_SETUP_DEFAULT: Final = "default"
_OF_SLURM: Final = ("slurm_vcpus_per_node", "slurm_setup_script", "slurm_job_id")


def run_settings(options: Options, environ: Mapping[str, str]) -> RunSettings:
    """The same run in busbw's words; variables say where and with what to measure, as there are no flags for
    it. Raises UsageError for flags that only Trainium can follow.

    The time of a sample is the mean over ranks, and that of a row the mean over samples: nccom-test's time is
    the mean of all durations. Over groups it is that of the slowest group instead, as no mean over groups is
    the time of one. Buffers stay in one place, as in nccom-test without --unique-buff.
    """
    _refuse_neuron_flags(options)
    streams = stream_options(options)
    rounds, warmup_rounds = options.rounds
    return RunSettings(
        **(_streams(streams, options) if streams else {**_sweep(options, Size), **_pattern(options)}),
        datatype=DataTypes(options.datatype),
        **_calls(options),
        outer_iters=rounds,
        outer_warmup_iters=warmup_rounds,
        time="max" if any(map(has_groups, (options, *(s.options for s in streams)))) else "avg",
        coalesce=Ratios(options.coalesced_cc_size_ratio),
        pin=options.vcpu_pin_mode,
        ranks=options.nworkers,
        backend=cast("BackendName", known("BUSBW_BACKEND", environ, BackendName)),
        world=cast("WorldName", known("BUSBW_WORLD", environ, WorldName)),
        nccl=environ.get("BUSBW_NCCL", ""),
        stats=(
            *options.stats,
            *(("algorithm",) if options.show_algorithm else ()),
            *(("in", "out") if options.show_input_output_size else ()),
        ),
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
    apart = {case.collective for case in plan.cases if case.applicable and not case.in_place}

    def alone(case: Case) -> Case:
        if not (case.in_place and case.applicable and case.collective in apart):
            return case
        return replace(case, applicable=False, reason=_NOT_IN_PLACE)

    return replace(plan, cases=tuple(map(alone, plan.cases)))


def is_empty(case: Case) -> bool:
    """Whether so few bytes were asked for that no rank gets any: no size of that operation."""
    return case.row.sized and case.requested_bytes > 0 and case.size_bytes == 0


def _refuse_neuron_flags(options: Options) -> None:
    for field in fields(options):
        flag = FLAGS.get(field.name)
        if flag is not None and flag.group == NEURON and getattr(options, field.name) != field.default:
            raise UsageError(
                f"{flag_name(field.name)} needs a Neuron device, and there is none here",
                hint=f"leave {flag_name(field.name)} out, or run this on Trainium",
            )


def _sweep(options: Options, size: Callable[[int], Any]) -> dict[str, Any]:
    """``size`` makes bytes what settings have, or the text that they are in a file of streams."""
    most, step, factor = options.sweep
    steps = {"stepfactor": factor} if factor > 1 else {"stepfactor": 1.0, "stepbytes": size(max(1, step))}
    return {"minbytes": size(options.minbytes), "maxbytes": size(most), **steps}


def _pattern(options: Options) -> dict[str, Any]:
    """Who exchanges what with whom."""
    if options.custom_replica_groups and options.data_parallel_dimension is not None:
        raise UsageError(
            "--custom-replica-groups and --data-parallel-dimension exclude each other",
            hint="give one of them",
        )
    for key, collectives in FILE_OF.items():
        if getattr(options, key) and options.collective not in collectives:
            raise UsageError(
                f"{flag_name(key)} means nothing for {options.operand}",
                hint=f"leave it out; it is for {' and '.join(collectives)}",
            )
    return {
        "groups": options.custom_replica_groups,
        "group_size": options.data_parallel_dimension,
        "counts": options.variable_size_op_metadata,
        "pairs": options.custom_src_target_pairs,
    }


def _calls(options: Options) -> dict[str, Any]:
    """How often an operation runs, with what data, and where its buffers lie from call to call."""
    check = options.check
    return {
        "iters": options.iters,
        "warmup_iters": options.warmup_iters,
        "seed": options.seed,
        "check": 1 if check else 0,
        "data": "all_ones" if check == "all_ones" else "random" if check else "exact",
        "save_wrong": check == "random",
        "hot": not options.unique_buff,
        "unique_buffers": options.unique_buff,
    }


def _streams(streams: tuple[StreamOptions, ...], options: Options) -> dict[str, Any]:
    """The streams as --streams of ``busbw run`` takes them: each one's own sweep and pattern, and its calls
    where they are not as the run's.
    """
    of_the_run, entries = _calls(options), []
    for stream in streams:
        calls = {name: own for name, own in _calls(stream.options).items() if own != of_the_run[name]}
        own = {**_sweep(stream.options, str), **_pattern(stream.options), **calls}
        entry = {
            OPERATION: stream.options.collective,
            CALLS: stream.calls,
            "datatype": stream.options.datatype,
        }
        entries.append(entry | {name: value for name, value in own.items() if value not in ("", None)})
    return {"streams": INLINE + json.dumps({KEY: entries}, separators=(",", ":"))}


def known(variable: str, environ: Mapping[str, str], names: Any) -> str:  # noqa: ANN401 (a Literal)
    """The value of a variable, ``auto`` by default. Raises UsageError if it is not one of ``names``."""
    value = environ.get(variable) or "auto"
    if value not in get_args(names):
        raise UsageError(
            f"{variable}={value} is unknown", hint=f"set it to one of: {', '.join(get_args(names))}"
        )
    return value


# ---- where --------------------------------------------------------------------------------------------


def where(options: Options, environ: Mapping[str, str], home: Path) -> LaunchSettings | None:
    """Where the ranks of a command line run, None for this host. Raises UsageError for flags that contradict
    each other, and for several nodes without a way to reach them.
    """
    mpi = cast("MpiName", known("BUSBW_MPI", environ, MpiName))
    if options.slurm_mode:
        if options.hosts or options.hosts_file:
            raise UsageError("--hosts and --slurm-mode exclude each other", hint="give one of them")
        return replace(_slurm(options), mpi=mpi)
    plain = Options(options.operand, options.nworkers)
    stray = next((name for name in _OF_SLURM if getattr(options, name) != getattr(plain, name)), None)
    if stray is not None:
        raise UsageError(f"{flag_name(stray)} means nothing without --slurm-mode", hint="add -S")
    hosts_file = _hosts_file(options, home)
    if not options.hosts and hosts_file is None:
        return None
    return LaunchSettings(
        on="hosts",
        nodes=str(options.nnodes),
        ranks_per_node=options.nworkers // options.nnodes,
        hosts=",".join(options.hosts[: options.nnodes]),
        hostfile=hosts_file,
        mpi=mpi,
    )


def _hosts_file(options: Options, home: Path) -> Path | None:
    """The file that names the hosts: where none are given, ``~/hosts``, as nccom-test."""
    nodes, hosts = options.nnodes, options.hosts
    if hosts and options.hosts_file:
        raise UsageError("--hosts and --hosts-file exclude each other", hint="give one of them")
    if hosts and len(hosts) < nodes:
        raise UsageError(
            f"-N {nodes} nodes, and hosts for {len(hosts)}: {' '.join(hosts)}",
            hint="name a host for every node, or give -N fewer",
        )
    if hosts or (nodes == 1 and not options.hosts_file):
        return None
    path = Path(options.hosts_file).expanduser() if options.hosts_file else home / "hosts"
    if path.is_file():
        return path
    if options.hosts_file:
        raise UsageError(f"no hosts file {path}", hint="give a file with one host a line")
    raise UsageError(
        f"-N {nodes} nodes, and no hosts: neither --hosts, --hosts-file nor {path}",
        hint="name them with --hosts, or use Slurm with -S",
    )


def _slurm(options: Options) -> LaunchSettings:
    ranks_per_node = options.nworkers // options.nnodes
    script = options.slurm_setup_script
    if script and script != _SETUP_DEFAULT and not Path(script).expanduser().is_file():
        raise UsageError(f"no set-up script {script}", hint="give a file, or `default`")
    cpus = options.slurm_vcpus_per_node
    if cpus is not None and cpus < ranks_per_node:
        raise UsageError(
            f"-u {cpus} CPUs of a node for {ranks_per_node} ranks", hint=f"give -u {ranks_per_node} or more"
        )
    return LaunchSettings(
        on="slurm",
        nodes=str(options.nnodes),
        ranks_per_node=ranks_per_node,
        srun_args="" if cpus is None else f"--cpus-per-task={cpus // ranks_per_node}",
        # The vendor's `default` installs its software on every node; what is needed there now is busbw.
        bring=script == _SETUP_DEFAULT,
        setup_script=Path(script).expanduser() if script not in ("", _SETUP_DEFAULT) else None,
        job_id="" if options.slurm_job_id == ALLOCATE else options.slurm_job_id,
    )


def notes(options: Options, environ: Mapping[str, str]) -> list[str]:
    """What is said of hosts and steps that do not count, and of addresses that nccom-test must be given, and
    busbw's ranks find by themselves.
    """
    said = []
    if environ.get(ROOT_VARIABLE):
        said.append(f"{ROOT_VARIABLE} is not needed: the launcher gives the ranks the address of rank 0")
    if options.data_collector_host or options.data_collector_port is not None:
        said.append("--data-collector-host and -port are not needed: times come with rank 0's events")
    if len(options.hosts) > options.nnodes:
        said.append(f"the first {options.nnodes} of {len(options.hosts)} hosts are used")
    if options.stepfactor is not None and options.stepbytes is not None:
        said.append("-f and -i are both given: sizes grow by the factor")
    if options.stepfactor == 1 and options.minbytes < options.maxbytes:
        said.append(f"-f 1 never leaves the first size: only {options.minbytes} B is measured")
    return said
