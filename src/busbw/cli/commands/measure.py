"""Commands that start ranks, here or on an engine: those with the flags of `run`, and other tools'."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

from busbw.cli.app import OF_A_HUNT, OF_A_RUN, RunCommand, command, command_line, flag, whole_numbers, word
from busbw.cli.preset_values import PresetValues
from busbw.errors import ExitCode
from busbw.model.collective import COLLECTIVES
from busbw.plan.flags.check import CheckRanks, CheckSettings
from busbw.plan.flags.hunt import HuntRanks, HuntSettings, IsolateFlags, IsolateRanks, PairsFlags, RailsFlags
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.soak import SoakRanks, SoakSettings
from busbw.plan.flags.tune import TuneSettings


def _words(texts: Sequence[str]) -> tuple[str, ...]:
    """``all_reduce,all_gather`` is two."""
    return tuple(word for text in texts for word in text.split(",") if word)


def _command(operations: Sequence[str], settings: RunSettings, launch: LaunchSettings) -> RunCommand:
    return RunCommand(_words(operations), settings, launch, command_line())


@command(
    "busbw run all_reduce -b 8 -e 64M -f 2",
    "mpirun -np 64 busbw run all_reduce -b 8 -e 8G -f 2",
    "busbw run all_reduce -b 8 -e 8G --on slurm -N 8 --dry-run",
    config=OF_A_RUN,
    note="Each flag can also be set by a variable: --minbytes by BUSBW_MINBYTES.",
)
def run(
    *operations: Annotated[
        str,
        word(
            f"What to measure: {', '.join(row.name for row in COLLECTIVES)}.",
            completer=lambda context: [row.name for row in COLLECTIVES],
        ),
    ],
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Measure one or more collectives.

    Under mpirun, srun, torchrun or a Kubernetes index, busbw joins the ranks that were started. Otherwise
    it starts its own on this host: one for each visible GPU, or CPU ranks over the bundled MPI.
    """
    from busbw.cli.run import run as run_command

    return run_command(_command(operations, settings, launch))


@command(
    "busbw preflight",
    "busbw preflight --on hosts --hosts a,b,c,d --strict",
    "busbw preflight --on slurm -N 8 --preset aws/p5.48xlarge --deep",
    config=OF_A_RUN,
)
def preflight(
    *operations: Annotated[str, word("What the run would measure. [default: all_reduce]")],
    deep: Annotated[
        bool,
        flag(
            "Also copy between host and GPUs and between ranks, and run dcgmi, nvbandwidth and ib_write_bw"
            " where they are installed."
        ),
    ] = False,
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Check everything that a run needs, and measure nothing.

    It takes the flags of `busbw run`, starts the same ranks, and reports what is wrong: versions,
    variables, GPUs, NICs, limits, and whether NCCL uses what was asked for. The exit code is 4 after an
    error, with --strict also after a warning.
    """
    from busbw.cli.run import preflight as preflight_command

    return preflight_command(_command(operations, settings, launch), deep=deep)


@command(
    "busbw tune all_reduce,all_gather -b 8 -e 2G",
    "busbw tune all_reduce -b 1M -e 1G -f 4 --on slurm -N 8",
    "busbw tune all_reduce --knobs knobs.yaml -b 1K -e 1M -f 8",
    "busbw tune last --emit nccl-csv --output table.csv",
    "NCCL_TUNER_PLUGIN=$(busbw tune --plugin) BUSBW_TUNER_FILE=table.csv python3 train.py",
    config=OF_A_RUN,
)
def tune(
    *words: Annotated[
        str, word("Operations to tune; with --emit the run of an earlier tuning. [default: last]")
    ],
    own: TuneSettings = TuneSettings(),
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Find the algorithm, protocol and channels that NCCL should take, size by size.

    One launch races everything that NCCL can do against its own choice, each checked before it is timed;
    fresh launches then confirm the winners. The table works in any NCCL job, by a tuner that comes with
    busbw. It is right for one job alone on the fabric; what the job computes meanwhile is not measured.
    """
    from busbw.cli.tune import tune as tune_command

    return tune_command(own, _command(words, settings, launch))


@command(
    "busbw check",
    "busbw check --least 1G=340 --prometheus /var/lib/node_exporter/busbw.prom",
    "busbw check --plan check.yaml --on slurm -N 2",
    config=OF_A_HUNT,
)
def check(
    *operations: Annotated[str, word("What to measure. [default: all_reduce]")],
    own: CheckSettings = CheckSettings(),
    ranks: CheckRanks = CheckRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Say in one line, within seconds, whether this machine is as before.

    For NHC, Slurm's HealthCheckProgram, cron and Kubernetes. The sizes are held against references, else
    against earlier runs of this machine; an alarm is confirmed by a second launch. Exit code 0: OK; 1:
    slow or wrong; 3: undecided; 4, 5: the ranks could not measure.
    """
    from busbw.cli.check import check_command

    return check_command(_words(operations), own, ranks, launch, command_line())


@command(
    "busbw soak all_reduce -b 1G --time 8h",
    "busbw soak all_reduce --time 30min --on slurm -N 4",
    config=OF_A_HUNT,
)
def soak(
    *operations: Annotated[str, word("What to repeat; several in turn. [default: all_reduce]")],
    own: SoakSettings = SoakSettings(),
    ranks: SoakRanks = SoakRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Repeat a collective for hours: wrong data, slow calls, changes of level.

    Every window of 10 s checks every element. The first wrong element ends the soak. At the end, or after
    Ctrl-C, busbw says which loss it would have seen. Exit code 1: wrong data or a loss of level.
    """
    from busbw.cli.run import run as run_command

    settings = RunSettings(soak=own, **vars(ranks))
    return run_command(_command(operations or ("all_reduce",), settings, launch))


@command(
    "busbw isolate",
    "busbw isolate --on hosts --hosts a,b,c,d,e,f,g,h -b 64M",
    "busbw isolate --on slurm -N 64 --format json",
    config=OF_A_HUNT,
)
def isolate(
    *,
    own: IsolateFlags = IsolateFlags(),
    ranks: IsolateRanks = IsolateRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Find the slow host, GPU or path by rounds of pair tests in one launch.

    Hosts (on one host, its ranks) are tested in pairs: every pair of up to 32 parts, a share of the pairs
    of more. Tests are repeated until a loss of --loss would show. Exit code 0: healthy; 1: slow parts or
    paths; 3: undecided.
    """
    from busbw.cli.isolate import hunt

    settings = HuntSettings(kind="isolate", **vars(own))
    if settings.each_nic:
        from busbw.cli.each_nic import hunt_each

        return hunt_each(settings, ranks, launch, command_line())
    return hunt(settings, ranks, launch, command_line())


@command(
    "busbw pairs -b 64M",
    "busbw pairs -b 64M --on slurm -N 16 --format csv",
    "busbw pairs -b 64M --on slurm -N 1024 --halves",
    config=OF_A_HUNT,
)
def pairs(
    *,
    own: PairsFlags = PairsFlags(),
    ranks: HuntRanks = HuntRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Measure all pairs: bandwidth one way and both ways, and latency.

    Pairs are pairs of hosts, or of ranks on a single host.
    """
    from busbw.cli.isolate import hunt

    return hunt(HuntSettings(kind="pairs", **vars(own)), ranks, launch, command_line())


@command(
    "busbw rails --on slurm -N 8 --ranks-per-node 8 -b 64M", "mpirun -np 16 busbw rails", config=OF_A_HUNT
)
def rails(
    *,
    own: RailsFlags = RailsFlags(),
    ranks: IsolateRanks = IsolateRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Compare rails with each other, and hosts with each other.

    A rail is the ranks with the same number on their hosts. All rails run an alltoall at once, each on
    its own communicator; then all hosts do; then the steps of rings are timed in each rail and in each
    host.
    """
    from busbw.cli.isolate import hunt

    return hunt(HuntSettings(kind="rails", **vars(own)), ranks, launch, command_line())


@command(
    "busbw exec --on slurm -N 8 -- hostname",
    "busbw exec --on hosts --hosts a,b --env NCCL_DEBUG=INFO -- python3 train.py",
    name="exec",
    config=(PresetValues(), whole_numbers),
)
def execute(
    *command: Annotated[str, word("The command and its words, after --.", allow_leading_hyphen=True)],
    launch: LaunchSettings = LaunchSettings(),
    ranks: Annotated[int | None, flag("How many times to start it, on all nodes together.")] = None,
    dry_run: Annotated[bool, flag("Print what would be submitted.")] = False,
    show_secrets: Annotated[bool, flag("Do not hide secrets in a dry run.")] = False,
    overridden: Annotated[tuple[str, ...], word("Written by busbw, as in `run`.", show=False)] = (),
) -> int:
    """Run any command with the environment, container and hosts that a run would get."""
    from busbw.cli.on import execute as exec_command

    for line in overridden:
        print(f"note: {line}", file=sys.stderr)
    return exec_command(
        command, launch, command_line(), ranks=ranks, dry_run=dry_run, show_secrets=show_secrets
    )


# ---- command lines of other tools, word by word -------------------------------------------------------


NCCL_TESTS: Final = "nccl-tests"


@command(
    "busbw nccl-tests all_reduce_perf -b 8 -e 8G -f 2 -g 8",
    "mpirun -np 64 busbw nccl-tests alltoall_perf -b 8 -e 1G -f 2 -g 1",
    "NCCL_TESTS_MIN_BW=400 busbw nccl-tests all_reduce_perf -b 8G -e 8G -g 8",
    name=NCCL_TESTS,
)
def nccl_tests(
    *words: Annotated[str, word("The test (all_reduce_perf, ...) and its flags.", allow_leading_hyphen=True)],
) -> int:
    """Run a command line of nccl-tests: its flags, its table, its exit status.

    Every rank is a process of its own: processes x threads x GPUs. `busbw nccl-tests all_reduce_perf -h`
    lists the flags.
    """
    from busbw.foreign.nccl_tests.command import nccl_tests as front_door

    return front_door(words, command_line())


@command(
    "busbw nccom-test -r 2 allr",
    "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
    name="nccom-test",
    help_flags=[],  # the whole command line is nccom-test's, its help too
    version_flags=[],
)
def nccom_test(
    *words: Annotated[str, word("An operation and flags of nccom-test.", allow_leading_hyphen=True)],
) -> ExitCode:
    """Run a command line of nccom-test (AWS Neuron): its flags, its table, its JSON file."""
    from busbw.foreign.nccom.command import nccom_test as front_door

    return front_door(words, command_line(), sys.stdout, sys.stderr)
